/* SPDX-License-Identifier: MIT */
/*
 * Autopsy: what is said when processes have lost each other, by timeout or because the launcher
 * ends them all.
 *
 * Who gives up a wait sends a report to the lowest ranks at once: how long ago it heard of each
 * other process. Of these ranks the lowest that is left waits a while for reports, names those
 * that sent none, a line each, and bids the others speak. Of its own host a process reads what
 * became of the others in /proc. What a process waited for it says itself, once: when it is bidden,
 * when the launcher tells it to end, or when nothing comes.
 *
 * Leaves out: processes of other hosts are silent, whatever it was; where the lowest SCRIBES ranks
 * all go at once, nobody names them.
 */
#include "common/comm/mpi/comm_mpi.h"
#include "common/comm/processes.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCRIBES = 4, LINE = 640 };

/* How long reports are waited for, and to be bidden; how long the others have to speak before they
 * are all ended by who bade them, and by who was not. */
static const uint64_t collect_ns = 1500000000, bid_ns = 2200000000, nap_ns = 1000000;
static const uint64_t grace_ns = 300000000, linger_ns = 1500000000;

/* What a message of these says. The last two are to who has reported, and who was named. */
enum { REPORT, SPEAK, NAMED };

/* Ages have a place for each process: bytes, and what a message has room for. */
struct mpi_report {
    uint32_t kind;
    uint32_t age_ms[]; /* of a REPORT; UINT32_MAX: never heard of */
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

/* reports[p] becomes that of process p, with its ages as of now, where one has come. False: this
 * process is to say its part, or (it has none any more) was named. */
static bool take_reports(const mpi_group *world, struct mpi_report **reports)
{
    const int bytes = (int)report_bytes(world);
    bool bidden = false;
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
            break;
        }
        if (report->kind == REPORT) {
            free(reports[from.MPI_SOURCE]);
            reports[from.MPI_SOURCE] = report;
            continue;
        }
        bidden = true;
        if (report->kind == NAMED)
            atomic_store(&world->life->said, true);
        free(report);
    }
    return !bidden;
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

static void name_silent(const mpi_group *world, struct mpi_report *const *reports, int process)
{
    const mpi_peer *peer = &world->life->peers[process];
    const uint32_t age_ms = age_of(world, reports, process);
    const char *fate = ls_comm_mpi_fate(world, process);
    const bool here = peer->leader == world->life->peers[world->process].leader;
    char heard[64] = "never heard of", line[LINE];
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
    world->life->say(line);
}

/* Names who sent no report, then bids the others speak. */
static void speak_for_all(const mpi_group *world, struct mpi_report *const *reports)
{
    static const uint32_t bidding[] = {SPEAK, NAMED};
    for (int p = 0; p < world->processes; p++)
        if (!reports[p])
            name_silent(world, reports, p);
    for (int p = 0; p < world->processes; p++) {
        MPI_Request request;
        if (p != world->process &&
            MPI_Isend(&bidding[!reports[p]], sizeof *bidding, MPI_BYTE, p,
                      ls_comm_mpi_report_tag(world), world->comm, &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
    }
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

/* Until it is clear who speaks. True: this process does, for all. */
static bool await_bidding(mpi_group *world, struct mpi_report **reports)
{
    const mpi_life *life = world->life;
    const uint64_t begin_ns = ls_clock_ns();
    for (;;) {
        const bool waits = take_reports(world, reports);
        const uint64_t waited_ns = ls_clock_ns() - begin_ns;
        if (!waits || (life->ending && life->ending()) || waited_ns > bid_ns)
            return false;
        if (world->process < SCRIBES && is_speaker(world, reports) &&
            (waited_ns > collect_ns || !is_open(world, reports)))
            return true;
        ls_clock_sleep(nap_ns);
    }
}

void ls_processes_autopsy(const ls_processes *processes)
{
    mpi_group *world = processes->comm ? ((mpi_comm *)processes->comm)->group : NULL;
    mpi_life *life = world ? world->life : NULL;
    if (!life || !life->peers || !life->say || atomic_load(&life->said))
        return;
    ls_comm_mpi_report(world);
    struct mpi_report **reports = calloc((size_t)world->processes, sizeof *reports);
    if (reports) {
        reports[world->process] = life->report;
        life->speaks = await_bidding(world, reports);
        if (life->speaks)
            speak_for_all(world, reports);
    }
    for (int p = 0; reports && p < world->processes; p++)
        if (p != world->process)
            free(reports[p]);
    free(reports);
    ls_comm_mpi_last_words(world, *life->waited ? life->waited : "waited for nobody");
}

/* Ends all, once they have had time to speak. */
void ls_comm_mpi_end_all(const mpi_group *world, int exit_status)
{
    if (world && ls_comm_mpi_is_abandoned(world))
        ls_clock_sleep(world->life->speaks ? grace_ns : linger_ns);
    MPI_Abort(MPI_COMM_WORLD, exit_status);
}
