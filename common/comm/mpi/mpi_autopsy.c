/* SPDX-License-Identifier: MIT */
/*
 * Autopsy: what is said when processes have lost each other, by timeout or because the launcher
 * ends them all.
 *
 * Who gives up a wait sends a report to the lowest ranks at once: what it waited for, and how long
 * ago it heard of each other process. Of these ranks the lowest that is left waits a while for
 * reports, and words all: a line for each process, those first that sent none. Of its own host a
 * process reads what became of the others in /proc.
 *
 * Leaves out: processes of other hosts are silent, whatever it was; more ranks than SCRIBES that go
 * at once, the lowest ones all among them, go unsaid.
 */
#include "common/comm/mpi/comm_mpi.h"
#include "common/comm/processes.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCRIBES = 4, LINE = 640 };

/* How long reports are waited for, and how long the others wait to be ended by who words them. */
static const uint64_t collect_ns = 1500000000, linger_ns = 2200000000, nap_ns = 1000000;

/* Ages have a place for each process: bytes, and what a message has room for. */
struct mpi_report {
    char waited[sizeof((mpi_life *)0)->waited];
    uint32_t age_ms[]; /* UINT32_MAX: never heard of */
};

/* ---- Processes of this host ----------------------------------------------------------------- */

/* State and start of a process, of /proc/PID/stat: fields 3 and 22. False: there is none. */
static bool read_stat(int pid, char *state, uint64_t *start_ticks)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = 0;
    char *at = strrchr(text, ')'); /* the name before may hold anything */
    if (!at || !at[1])
        return false;
    *state = at[2];
    at += 2;
    for (int field = 3; field < 22 && at; field++)
        at = strchr(at + 1, ' ');
    *start_ticks = at ? strtoull(at, NULL, 10) : 0;
    return at != NULL;
}

void ls_comm_mpi_introduce(mpi_peer *out)
{
    char state;
    memset(out, 0, sizeof *out);
    if (gethostname(out->host, sizeof out->host - 1))
        memcpy(out->host, "unknown", sizeof "unknown");
    out->pid = (int)getpid();
    if (!read_stat(out->pid, &state, &out->start_ticks))
        out->pid = 0;
}

const char *ls_comm_mpi_fate(const mpi_group *world, int process)
{
    const mpi_peer *peers = world->life->peers;
    char state = 0;
    uint64_t start_ticks = 0;
    if (!peers || peers[process].leader != peers[world->process].leader || !peers[process].pid)
        return NULL;
    if (!read_stat(peers[process].pid, &state, &start_ticks) ||
        start_ticks != peers[process].start_ticks || state == 'Z' || state == 'X')
        return "is gone";
    return state == 'T' || state == 't' ? "is stopped" : NULL;
}

/* ---- Reports -------------------------------------------------------------------------------- */

static size_t report_bytes(const mpi_group *world)
{
    return sizeof(struct mpi_report) + (size_t)world->processes * sizeof(uint32_t);
}

static struct mpi_report *make_report(const mpi_group *world)
{
    const uint64_t now_ns = ls_clock_ns();
    struct mpi_report *report = calloc(1, report_bytes(world));
    for (int p = 0; p < world->processes && report; p++) {
        const uint64_t heard_ns = atomic_load(&world->life->heard_ns[p]);
        report->age_ms[p] = heard_ns ? (uint32_t)((now_ns - heard_ns) / 1000000) : UINT32_MAX;
    }
    if (report)
        memcpy(report->waited, world->life->waited, sizeof report->waited);
    return report;
}

void ls_comm_mpi_report(mpi_group *world)
{
    pthread_mutex_lock(&world->mutex);
    struct mpi_report *report = world->life->report ? NULL : make_report(world);
    if (report)
        world->life->report = report;
    pthread_mutex_unlock(&world->mutex);
    for (int p = 0; report && p < SCRIBES && p < world->processes; p++) {
        MPI_Request request;
        if (p != world->process &&
            MPI_Isend(report, (int)report_bytes(world), MPI_BYTE, p, ls_comm_mpi_report_tag(world),
                      world->comm, &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
    }
}

/* reports[p] becomes that of process p, with its ages as of now, where one has come. */
static void take_reports(const mpi_group *world, struct mpi_report **reports)
{
    const int bytes = (int)report_bytes(world);
    for (int flag = 1; flag;) {
        MPI_Message message;
        MPI_Status from;
        struct mpi_report *report = malloc((size_t)bytes);
        if (!report ||
            MPI_Improbe(MPI_ANY_SOURCE, ls_comm_mpi_report_tag(world), world->comm, &flag, &message,
                        &from) != MPI_SUCCESS ||
            !flag ||
            MPI_Mrecv(report, bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            free(report);
            return;
        }
        free(reports[from.MPI_SOURCE]);
        reports[from.MPI_SOURCE] = report;
    }
}

/* Whether more can be learnt: a process has sent nothing, and nothing is known of it. */
static bool is_open(const mpi_group *world, struct mpi_report *const *reports)
{
    for (int p = 0; p < world->processes; p++)
        if (!reports[p] && !ls_comm_mpi_fate(world, p))
            return true;
    return false;
}

/* ---- Wording -------------------------------------------------------------------------------- */

/* Milliseconds since anybody heard of the process; UINT32_MAX: nobody did. */
static uint32_t age_of(const mpi_group *world, struct mpi_report *const *reports, int process)
{
    uint32_t age_ms = UINT32_MAX;
    for (int p = 0; p < world->processes; p++)
        if (reports[p] && reports[p]->age_ms[process] < age_ms)
            age_ms = reports[p]->age_ms[process];
    return age_ms;
}

static void word_silent(const mpi_group *world, struct mpi_report *const *reports, int process,
                        char line[LINE])
{
    const mpi_peer *peer = &world->life->peers[process];
    const uint32_t age_ms = age_of(world, reports, process);
    const char *fate = ls_comm_mpi_fate(world, process);
    const bool here = peer->leader == world->life->peers[world->process].leader;
    char heard[64] = "never heard of";
    if (age_ms != UINT32_MAX)
        snprintf(heard, sizeof heard, "last sign of life %.1f s ago", (double)age_ms * 1e-3);
    snprintf(line, LINE,
             "rank %d on %.64s: silent: pid %d %s, %s; see what ended it, or raise "
             "--timeout, and start again\n",
             process, peer->host, peer->pid,
             fate   ? fate
             : here ? "runs without progress"
                    : "does not answer",
             heard);
}

static char *word_all(const mpi_group *world, struct mpi_report *const *reports)
{
    char *text = calloc((size_t)world->processes + 1, LINE), *at = text;
    for (int silent = 1; silent >= 0 && text; silent--)
        for (int p = 0; p < world->processes; p++) {
            if (silent == (reports[p] != NULL))
                continue;
            if (silent)
                word_silent(world, reports, p, at);
            else
                snprintf(at, LINE, "rank %d on %.64s: %s\n", p, world->life->peers[p].host,
                         *reports[p]->waited ? reports[p]->waited : "waited for nobody");
            at += strlen(at);
        }
    return text;
}

void ls_comm_mpi_last_words(mpi_group *world, const char *line)
{
    char text[LINE];
    mpi_life *life = world->life;
    if (atomic_exchange(&life->said, true) || !life->say)
        return;
    snprintf(text, sizeof text, "rank %d on %.64s: %s\n", world->process,
             life->peers ? life->peers[world->process].host : "this host", line);
    life->say(text);
}

/* Whether this process is the lowest that is left. */
static bool is_speaker(const mpi_group *world, struct mpi_report *const *reports)
{
    for (int p = 0; p < world->process; p++)
        if (reports[p])
            return false;
    return true;
}

char *ls_processes_autopsy(const ls_processes *processes)
{
    mpi_group *world = processes->comm ? ((mpi_comm *)processes->comm)->group : NULL;
    if (!world || !world->life->peers || (world->life->ending && world->life->ending()))
        return NULL; /* told to end: it has said its part, or another has worded all */
    ls_comm_mpi_report(world);
    struct mpi_report **reports = calloc((size_t)world->processes, sizeof *reports);
    if (!reports || world->process >= SCRIBES) {
        free(reports);
        return NULL;
    }
    reports[world->process] = world->life->report;
    const uint64_t end_ns = ls_clock_ns() + collect_ns;
    do {
        take_reports(world, reports);
        ls_clock_sleep(nap_ns);
    } while (is_open(world, reports) && ls_clock_ns() < end_ns);
    world->life->speaks = is_speaker(world, reports);
    char *text = world->life->speaks ? word_all(world, reports) : NULL;
    for (int p = 0; p < world->processes; p++)
        if (p != world->process)
            free(reports[p]);
    free(reports);
    return text;
}

/* Ends all; who has nothing to say gives the one that has time to do so. */
void ls_comm_mpi_end_all(const mpi_group *world, int exit_status)
{
    if (world && ls_comm_mpi_is_abandoned(world) && !world->life->speaks)
        ls_clock_sleep(linger_ns);
    MPI_Abort(MPI_COMM_WORLD, exit_status);
}
