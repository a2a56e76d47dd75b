/* SPDX-License-Identifier: MIT */
/* The engine `simgrid`: the program lockstep-simgrid, in this program's folder; see engine.h. */
#include "bench/play/engine.h"

#include "bench/train/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if LS_HAS_SIMGRID

/* The helper at work. */
typedef struct helper {
    char path[4096];
    pid_t child;
    FILE *to;       /* its standard input, until the writer has it */
    FILE *graph_to; /* the writer's */
    int from, said; /* its standard output; what it says on standard error, a file in memory */
    const ls_play *play;
    size_t plays;
    pthread_t writer;
} helper;

static ls_status fail_system(const char *what)
{
    return ls_fail(LS_CODE_MISSING, "engine simgrid", what,
                   "the simulator cannot be started: %s; raise the limits on open files and "
                   "processes (ulimit -n, -u), or use a flat --platform with --engine ports",
                   strerror(errno));
}

static ls_status find_helper(helper *h)
{
    const ssize_t length = readlink("/proc/self/exe", h->path, sizeof h->path - 32);
    if (length < 0)
        return fail_system("/proc/self/exe");
    h->path[length] = 0;
    strcpy(strrchr(h->path, '/') + 1, "lockstep-simgrid");
    if (access(h->path, X_OK) != 0)
        return ls_fail(LS_CODE_MISSING, "engine simgrid", h->path,
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

static void *write_graph(void *context)
{
    const helper *h = context;
    FILE *to = h->graph_to;
    const ls_play_graph *g = h->play->graph;
    write_platform(h->play, to);
    size_t edges = 0;
    fprintf(to, "turn %.17g\nnodes %zu\n", h->play->turn_ns, g->played);
    for (size_t n = 0; n < g->played; n++) {
        const ls_activity_node node = ls_play_activity(g, n);
        edges += node.waits;
        if (node.to < 0)
            fprintf(to, "d %.17g %zu %zu\n", node.amount, factor_of(h->play, &node),
                    core_of(h->play, &node));
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
    const size_t factors = h->play->factors ? h->play->factor_count : 0;
    fprintf(to, "plays %zu %zu\n", h->plays, factors);
    for (size_t i = 0; i < h->plays * factors; i++)
        fprintf(to, "%.17g\n", h->play->factors[i]);
    fclose(to); /* where the helper has died, its status says so */
    return NULL;
}

/* ---- Running -------------------------------------------------------------------------------- */

/* Numbers above the standard ones, so that none is overwritten before it is copied (a standard one
 * of ours may be closed, and a pipe's end have its number). */
static void be_helper(const helper *h, const int in[2], const int out[2])
{
    enum { ABOVE = STDERR_FILENO + 1 };
    const int from = fcntl(in[0], F_DUPFD_CLOEXEC, ABOVE),
              to = fcntl(out[1], F_DUPFD_CLOEXEC, ABOVE),
              said = fcntl(h->said, F_DUPFD_CLOEXEC, ABOVE);
    for (int i = 0; i < 2; i++) {
        close(in[i]);
        close(out[i]);
    }
    if (dup2(from, STDIN_FILENO) < 0 || dup2(to, STDOUT_FILENO) < 0 ||
        dup2(said, STDERR_FILENO) < 0)
        _exit(127);
    execl(h->path, h->path, (char *)NULL);
    _exit(127);
}

static ls_status start(helper *h)
{
    int in[2], out[2];
    h->said = memfd_create("lockstep-simgrid", MFD_CLOEXEC);
    if (h->said < 0)
        return fail_system("memory file");
    if (pipe(in) != 0)
        return fail_system("pipe");
    if (pipe(out) != 0) {
        close(in[0]);
        close(in[1]);
        return fail_system("pipe");
    }
    h->from = out[0];
    h->to = fdopen(in[1], "w");
    if (!h->to)
        close(in[1]);
    h->child = h->to ? fork() : -1;
    if (h->child == 0)
        be_helper(h, in, out);
    ls_status status = h->child > 0 ? LS_OK : fail_system("fork");
    close(in[0]);
    close(out[1]);
    return status;
}

/* The helper writes only when it has read all. An interrupt ends it. */
static size_t read_times(const helper *h, void *times, size_t bytes)
{
    size_t got = 0;
    while (got < bytes) {
        enum { LOOK_MS = 200 };
        struct pollfd wait = {.fd = h->from, .events = POLLIN};
        if (ls_interrupted()) {
            kill(h->child, SIGKILL);
            break;
        }
        if (poll(&wait, 1, LOOK_MS) <= 0)
            continue;
        const ssize_t n = read(h->from, (char *)times + got, bytes - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    return got;
}

/* The last line that the helper has written to standard error. */
static void last_words(const helper *h, char *out, size_t size)
{
    char text[4096];
    const off_t end = lseek(h->said, 0, SEEK_END);
    const off_t from = end > (off_t)sizeof text - 1 ? end - (off_t)sizeof text + 1 : 0;
    ssize_t got = pread(h->said, text, sizeof text - 1, from);
    while (got > 0 && text[got - 1] == '\n')
        got--;
    text[got > 0 ? got : 0] = 0;
    const char *line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    const char prefix[] = "lockstep-simgrid: ";
    if (strncmp(line, prefix, sizeof prefix - 1) == 0)
        line += sizeof prefix - 1;
    snprintf(out, size, "%.*s", (int)size - 1, *line ? line : "(none)");
}

static ls_status judge(const helper *h, int status, bool all)
{
    char words[512], how[64];
    if (ls_interrupted())
        return ls_engine_interrupted();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && all)
        return LS_OK;
    last_words(h, words, sizeof words);
    if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "died of signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "ended with status %d", WEXITSTATUS(status));
    const bool platform = WIFEXITED(status) && WEXITSTATUS(status) == 3;
    const bool file = h->play->platform->kind == LS_PLATFORM_FILE;
    const char *what = platform || file ? "platform" : "engine simgrid";
    const char *where = (platform || file) && h->play->platform->text ? h->play->platform->text
                                                                      : "lockstep-simgrid";
    if (!platform)
        return ls_fail(LS_CODE_MISSING, what, where,
                       "the simulator %s; use fewer --devices or --steps; its last message is: %s",
                       how, words);
    return ls_fail(LS_CODE_USAGE, what, where, "%s%s", words,
                   file ? "; correct this file, or name another --platform" : "");
}

static ls_status play(helper *h, double *end_ns)
{
    const size_t bytes = h->plays * h->play->graph->played * sizeof *end_ns;
    int status = 0;
    LS_TRY(start(h));
    h->graph_to = h->to;
    if (pthread_create(&h->writer, NULL, write_graph, h) != 0) {
        ls_status failed = fail_system("thread");
        kill(h->child, SIGKILL);
        while (waitpid(h->child, NULL, 0) < 0 && errno == EINTR) {
        }
        return failed;
    }
    h->to = NULL; /* the writer closes it */
    const bool all = read_times(h, end_ns, bytes) == bytes;
    close(h->from);
    h->from = -1;
    while (waitpid(h->child, &status, 0) < 0 && errno == EINTR) {
    }
    pthread_join(h->writer, NULL);
    return judge(h, status, all);
}

ls_status ls_simgrid_play(const ls_play *what, size_t plays, double *end_ns)
{
    helper h = {.from = -1, .said = -1, .play = what, .plays = plays};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    LS_TRY(find_helper(&h));
    sigaction(SIGPIPE, &ignore, &before);
    ls_status status = play(&h, end_ns);
    sigaction(SIGPIPE, &before, NULL);
    if (h.said >= 0)
        close(h.said);
    if (h.from >= 0)
        close(h.from);
    if (h.to)
        fclose(h.to);
    return status;
}

#endif
