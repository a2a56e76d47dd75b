/* SPDX-License-Identifier: MIT */
/* The engine `simgrid`: the program lockstep-simgrid, in this program's folder; see engine.h. */
#include "bench/play/engine.h"

#include "bench/report/child.h"
#include "bench/train/interrupt.h"
#include "common/base/grow.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if LS_HAS_SIMGRID

enum { PATH_MOST = 4096 };

static ls_status fail_system(const char *what, int error)
{
    return ls_fail(
        LS_CODE_MISSING, "engine simgrid", what,
        "the simulator cannot be started: %s; raise the limits on open files and "
        "processes (ulimit -n, -u), or simulate a network where all devices have the same latency "
        "and bandwidth, which needs no other program: --engine ports --platform "
        "flat:latency=10us,bandwidth=1GB/s",
        strerror(error));
}

static ls_status find_helper(char path[PATH_MOST])
{
    const ssize_t length = readlink("/proc/self/exe", path, PATH_MOST - 32);
    if (length < 0)
        return fail_system("/proc/self/exe", errno);
    path[length] = 0;
    strcpy(strrchr(path, '/') + 1, "lockstep-simgrid");
    if (access(path, X_OK) != 0)
        return ls_fail(LS_CODE_MISSING, "engine simgrid", path,
                       "this program cannot be run: %s; build the target lockstep-simgrid, which "
                       "belongs in the folder of lockstep",
                       strerror(errno));
    return LS_OK;
}

/* ---- The graph, as text ---------------------------------------------------------------------- */

static void write_platform(const ls_play *play, FILE *to)
{
    const ls_platform *p = play->platform;
    fprintf(to, "lockstep-simgrid 2\n");
    if (p->kind == LS_PLATFORM_FILE)
        fprintf(to, "file %d %d %s\n", play->devices, play->devices_per_host, p->text);
    else if (p->kind == LS_PLATFORM_TWO_LEVEL)
        fprintf(to, "two-level %.17g %.17g %.17g %.17g %d %d\n", p->device.latency_ns,
                p->device.bytes_per_s, p->net.latency_ns, p->net.bytes_per_s, play->devices,
                play->devices_per_host);
    else
        fprintf(to, "flat %.17g %.17g %d\n", p->device.latency_ns, p->device.bytes_per_s,
                play->devices);
}

/* The number of a delay's factor, from 1; 0 if there is none. */
static size_t factor_of(const ls_play *play, const ls_activity_node *node)
{
    return !play->factors || node->rounds
               ? 0
               : (size_t)node->step * (size_t)play->devices + (size_t)node->from + 1;
}

/* The number of a delay's core, from 1; 0 if it takes none. */
static size_t core_of(const ls_play *play, const ls_activity_node *node)
{
    return play->cores && ls_play_computes(node)
               ? 1 + ls_core_of(node->from, play->devices_per_host, play->cores)
               : 0;
}

static void write_graph(const ls_play *play, size_t plays, FILE *to)
{
    const ls_play_graph *g = play->graph;
    write_platform(play, to);
    size_t edges = 0;
    fprintf(to, "turn %.17g\nnodes %zu\n", play->turn_ns, g->played);
    for (size_t n = 0; n < g->played; n++) {
        const ls_activity_node node = ls_play_activity(g, n);
        edges += node.waits;
        if (node.to < 0)
            fprintf(to, "d %.17g %zu %zu\n", node.amount, factor_of(play, &node),
                    core_of(play, &node));
        else
            fprintf(to, "m %d %d %.17g %u\n", node.from, node.to, node.amount, node.rounds);
    }
    fprintf(to, "edges %zu\n", edges);
    for (size_t n = 0; n < g->played; n++) {
        const size_t behind = ls_play_again(g, n) * g->repeated;
        for (size_t e = g->first[n - behind]; e < g->first[n - behind + 1]; e++)
            if (g->next[e] + behind < g->played)
                fprintf(to, "%zu %zu\n", n, g->next[e] + behind);
    }
    const size_t factors = play->factors ? play->factor_count : 0;
    fprintf(to, "plays %zu %zu\n", plays, factors);
    for (size_t i = 0; i < plays * factors; i++)
        fprintf(to, "%.17g\n", play->factors[i]);
}

/* ---- Running -------------------------------------------------------------------------------- */

static ls_status judge(const ls_child *child, const ls_platform *p)
{
    static const char prefix[] = "lockstep-simgrid: ";
    char said[512], how[64];
    ls_child_says(child, said, sizeof said);
    const bool named = strncmp(said, prefix, sizeof prefix - 1) == 0;
    const char *words = named ? said + sizeof prefix - 1 : *said ? said : "(none)";
    const bool platform = child->code == 3, file = p->kind == LS_PLATFORM_FILE;
    const char *what = platform || file ? "platform" : "engine simgrid";
    const char *where = (platform || file) && p->text ? p->text : "lockstep-simgrid";
    if (platform)
        return ls_fail(LS_CODE_USAGE, what, where, "%s%s", words,
                       file ? "; correct this file, or name another --platform" : "");
    snprintf(how, sizeof how, child->signal ? "died of signal %d" : "ended with status %d",
             child->signal ? child->signal : child->code);
    return ls_fail(LS_CODE_MISSING, what, where,
                   "the simulator %s; use fewer --devices or --steps; its last message is: %s", how,
                   words);
}

static ls_status run(char *path, const ls_play *play, size_t plays, ls_child *child)
{
    write_graph(play, plays, child->input);
    if (fflush(child->input) != 0 || ferror(child->input))
        return fail_system("memory file", errno);
    ls_status status = ls_child_run((char *const[]){path, NULL}, UINT64_MAX / 4, child);
    if (!ls_interrupted() && !child->error)
        return status;
    ls_status_free(status);
    return child->error ? fail_system(path, child->error) : ls_engine_interrupted();
}

ls_status ls_simgrid_play(const ls_play *play, size_t plays, double *end_ns)
{
    const size_t bytes = plays * play->graph->played * sizeof *end_ns;
    ls_closing(ls_child_free) ls_child child = {.most = bytes};
    char path[PATH_MOST];
    LS_TRY(find_helper(path));
    const int file = memfd_create("graph", MFD_CLOEXEC);
    child.input = file >= 0 ? fdopen(file, "w+") : NULL;
    if (!child.input) {
        const int error = errno;
        if (file >= 0)
            close(file);
        return fail_system("memory file", error);
    }
    ls_status status = run(path, play, plays, &child);
    fclose(child.input);
    LS_TRY(status);
    if (child.code || child.out_bytes != bytes)
        return judge(&child, play->platform);
    memcpy(end_ns, child.out, bytes);
    return LS_OK;
}

#endif
