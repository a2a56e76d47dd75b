/* SPDX-License-Identifier: MIT */
/*
 * Autopsy: the report when processes have lost each other, by timeout or because the launcher ends
 * them all. A process whose wait failed notifies all others. The lowest rank that has given notice
 * waits a while for the rest, then names each process that stayed silent, on a line each. For its
 * own host it reads in /proc what became of the processes. Each process reports once what it waited
 * for. Leaves out the state of silent processes on other hosts.
 */
#include "common/comm/mpi/comm_mpi.h"
#include "common/comm/processes.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 640 };

/* How long to wait for the others; how long they may write their lines before the naming rank ends
 * all, and before any other rank does. */
static const uint64_t collect_ns = 1500000000, nap_ns = 1000000;
static const uint64_t grace_ns = 300000000, linger_ns = 8000000000;

/* ---- Processes of this host ----------------------------------------------------------------- */

/* Reads state and start time of a process, fields 3 and 22 of /proc/PID/stat. False: none such. */
static bool read_stat(int pid, char *state, uint64_t *start_ticks)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = 0;
    char *at = strrchr(text, ')'); /* the name before it may contain anything */
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
        return "has ended";
    return state == 'T' || state == 't' ? "is stopped" : NULL;
}

/* ---- Naming --------------------------------------------------------------------------------- */

static void name_silent(const mpi_group *world, int process)
{
    static const int named = LS_COMM_MPI_NAMED;
    const mpi_peer *peer = &world->life->peers[process];
    const uint64_t heard_ns = atomic_load(&world->life->heard_ns[process]);
    const char *fate = ls_comm_mpi_fate(world, process);
    const bool same_host = peer->leader == world->life->peers[world->process].leader;
    char heard[64] = "no sign of life so far", line[LINE];
    MPI_Request request;
    if (heard_ns)
        snprintf(heard, sizeof heard, "last sign of life %.1f s ago",
                 (double)(ls_clock_ns() - heard_ns) * 1e-9);
    snprintf(line, LINE,
             "rank %d on %.64s: silent: pid %d %s, %s; see this rank's own messages for the "
             "cause%s, and start again\n",
             process, peer->host, peer->pid,
             fate        ? fate
             : same_host ? "runs without progress"
                         : "does not answer",
             heard, fate ? "" : ", or raise --timeout");
    world->life->print(line);
    if (MPI_Isend(&named, 1, MPI_INT, process, ls_comm_mpi_control_tag(world), world->comm,
                  &request) == MPI_SUCCESS)
        MPI_Request_free(&request);
}

void ls_comm_mpi_last_words(mpi_group *world, const char *line)
{
    char text[LINE];
    mpi_life *life = world->life;
    if (atomic_exchange(&life->said, true) || !life->print)
        return;
    snprintf(text, sizeof text, "rank %d on %.64s: %s\n", world->process,
             life->peers ? life->peers[world->process].host : "this host", line);
    life->print(text);
}

/* Whether a process has not notified yet, and is not known to be dead. */
static bool is_open(const mpi_group *world)
{
    for (int p = 0; p < world->processes; p++)
        if (!atomic_load(&world->life->gave_up[p]) && !ls_comm_mpi_fate(world, p))
            return true;
    return false;
}

/* Whether no lower process has given notice, and this one was not named itself. */
static bool is_speaker(const mpi_group *world)
{
    for (int p = 0; p < world->process; p++)
        if (atomic_load(&world->life->gave_up[p]))
            return false;
    return !atomic_load(&world->life->said);
}

/* Waits until it is known which processes are silent. True: this process names them; false if a
 * launcher ends all. */
static bool await_others(mpi_group *world)
{
    const mpi_life *life = world->life;
    const uint64_t end_ns = ls_clock_ns() + collect_ns;
    ls_comm_mpi_read_control(world);
    while (is_speaker(world) && is_open(world) && ls_clock_ns() < end_ns) {
        if (life->ending && life->ending())
            return false;
        ls_clock_sleep(nap_ns);
        ls_comm_mpi_read_control(world);
    }
    return is_speaker(world);
}

void ls_processes_autopsy(const ls_processes *processes)
{
    mpi_group *world = processes->comm ? ((mpi_comm *)processes->comm)->group : NULL;
    mpi_life *life = world ? world->life : NULL;
    if (!life || !life->peers || !life->print || atomic_load(&life->said))
        return;
    ls_comm_mpi_abandon(processes->comm);
    life->speaks = await_others(world);
    for (int p = 0; p < world->processes && life->speaks; p++)
        if (!atomic_load(&life->gave_up[p]))
            name_silent(world, p);
    ls_comm_mpi_last_words(world, *life->waited ? life->waited : "waited for nobody");
}

/* Ends all processes after giving them time to write their reports. */
void ls_comm_mpi_end_all(const mpi_group *world, int exit_status)
{
    if (world && ls_comm_mpi_is_abandoned(world))
        ls_clock_sleep(world->life->speaks ? grace_ns : linger_ns);
    MPI_Abort(MPI_COMM_WORLD, exit_status);
}
