/* SPDX-License-Identifier: MIT */
/*
 * Processes of an MPI job: starts MPI with the thread level that queues need, finds who is on which
 * host and may use which cores, ends MPI; see processes.h.
 */
#include "common/comm/mpi/comm_mpi.h"
#include "common/comm/processes.h"

#include "common/base/clock.h"
#include "common/base/signal.h"
#include "common/device/affinity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ls_processes_built(void)
{
    return true;
}

/* The library says "Open MPI v4.1.4, package: ..." or "MPICH Version:      4.0.2\n..."; written are
 * its name and its number. */
static void name_library(char text[32])
{
    char full[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(full, &length);
    full[strcspn(full, ",\n")] = 0;
    const size_t number = strcspn(full, "0123456789");
    size_t name = number;
    while (name > 0 && strchr(" \t:v", full[name - 1]))
        name--;
    if (name > strlen(" Version") && strncmp(full + name - 8, " Version", 8) == 0)
        name -= 8;
    snprintf(text, 32, "%.*s%s%s", (int)name, full, full[number] ? " " : "", full + number);
}

const char *ls_processes_library_name(void)
{
#ifdef OPEN_MPI
    return "OpenMPI";
#else
    return "MPICH";
#endif
}

const char *ls_processes_library(char text[32])
{
    char full[32];
    name_library(full);
    const char *number = full + strcspn(full, "0123456789");
    snprintf(text, 32, "%s", *number ? number : full);
    return text;
}

bool ls_processes_take_pmi(void)
{
#ifdef OPEN_MPI
    return false;
#else
    return true;
#endif
}

/* What a process tells the others about itself. */
typedef struct standing {
    mpi_peer peer;
    uint64_t cores; /* digest of the cores that it may run on */
} standing;

/* Finds the host and the share of its cores, from what all processes sent. */
static void find_rank_on_host(const standing *all, ls_processes *out)
{
    const standing *self = &all[out->rank];
    out->hosts = out->neighbours = out->neighbour = out->parts = 0;
    for (int r = 0; r < out->size; r++) {
        out->hosts += all[r].peer.leader == r;
        out->host += all[r].peer.leader == r && r < self->peer.leader;
        if (all[r].peer.leader != self->peer.leader)
            continue;
        out->neighbours++;
        out->neighbour += r < out->rank;
        if (all[r].cores != self->cores)
            continue;
        out->part += r < out->rank;
        out->parts++;
    }
}

static ls_status find_host(int rank, int *leader)
{
    MPI_Comm host;
    LS_TRY(ls_comm_mpi_check(
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host),
        "MPI_Comm_split_type"));
    *leader = rank;
    ls_status status = ls_comm_mpi_check(MPI_Bcast(leader, 1, MPI_INT, 0, host), "MPI_Bcast");
    MPI_Comm_free(&host);
    return status;
}

/* Keeps what is known of the other processes, until ls_processes_end. */
static ls_status keep_peers(const standing *all, const ls_processes *processes)
{
    const size_t count = processes->size > 0 ? (size_t)processes->size : 1;
    mpi_peer *peers;
    LS_TRY(ls_allocate("processes", &peers, count, sizeof *peers));
    for (size_t r = 0; r < count; r++)
        peers[r] = all[r].peer;
    ((mpi_comm *)processes->comm)->group->life->peers = peers;
    return LS_OK;
}

/* Numbers the hosts, and records each process's. */
static ls_status keep_layout(const standing *all, ls_processes *out)
{
    mpi_life *life = ((mpi_comm *)out->comm)->group->life;
    LS_TRY(ls_allocate("processes", &life->hosts, (size_t)out->size, sizeof *life->hosts));
    for (int r = 0, hosts = 0; r < out->size; r++)
        life->hosts[r] = all[r].peer.leader == r ? hosts++ : life->hosts[all[r].peer.leader];
    life->layout = out->layout = (ls_layout){.processes = out->size, .host = life->hosts};
    return LS_OK;
}

static ls_status look_around(ls_processes *out)
{
    standing self, *all;
    LS_TRY(ls_allocate("processes", &all, (size_t)out->size, sizeof *all));
    memset(&self, 0, sizeof self);
    ls_comm_mpi_introduce(&self.peer);
    self.cores = ls_affinity_digest();
    ls_status status = find_host(out->rank, &self.peer.leader);
    if (!status)
        status = ls_comm_collect(out->comm, &self, sizeof self, all);
    if (!status)
        find_rank_on_host(all, out);
    if (!status)
        status = keep_peers(all, out);
    if (!status)
        status = keep_layout(all, out);
    free(all);
    return status;
}

static ls_status open_world(ls_processes *out)
{
    mpi_group *group;
    MPI_Comm world;
    MPI_Comm_rank(MPI_COMM_WORLD, &out->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &out->size);
    LS_TRY(ls_comm_mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup"));
    mpi_member *members = calloc((size_t)out->size, sizeof *members);
    for (int p = 0; members && p < out->size; p++)
        members[p] = (mpi_member){p, 0};
    LS_TRY(ls_comm_mpi_group(world, members, out->size, NULL, &group));
    ls_status status = ls_comm_mpi_end(group, 0, NULL, &out->comm);
    if (status)
        ls_comm_mpi_close_group(group);
    return status ? status : look_around(out);
}

static ls_status meet(ls_processes *out)
{
    int level = MPI_THREAD_SINGLE;
    LS_TRY(ls_comm_mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level),
                             "MPI_Init_thread"));
    name_library(out->version);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (level < MPI_THREAD_MULTIPLE)
        return ls_fail(LS_CODE_MISSING, "MPI", out->version,
                       "this MPI does not support MPI_THREAD_MULTIPLE, which lockstep needs; use "
                       "an MPI that supports MPI_THREAD_MULTIPLE");
    return open_world(out);
}

enum { PARTS = 8 }; /* of the timeout */

/* A thread that waits for the other processes to start. */
typedef struct vigil {
    ls_signal met;
    uint64_t timeout_ns;
    void (*late)(void);
} vigil;

static void *keep_vigil(void *argument)
{
    vigil *v = argument;
    for (int part = 0; part < PARTS;
         part++) /* counted in parts: a process that was stopped itself has time left */
        if (ls_signal_wait_for(&v->met, 1, 0, v->timeout_ns / PARTS))
            return NULL;
    v->late();
    return NULL;
}

static mpi_life *life_of(const ls_processes *processes)
{
    return processes && processes->comm ? ((mpi_comm *)processes->comm)->group->life : NULL;
}

ls_status ls_processes_start(uint64_t timeout_ns, void (*late)(void), ls_processes *out)
{
    vigil v = {.timeout_ns = timeout_ns, .late = late};
    pthread_t thread;
    *out = ls_processes_alone();
    mpi_keeper *keeper;
    LS_TRY(ls_comm_mpi_keep(&keeper));
    if (pthread_create(&thread, NULL, keep_vigil, &v)) {
        ls_comm_mpi_dismiss(keeper);
        return ls_fail(LS_CODE_MISSING, "MPI", "thread",
                       "a thread could not be started; raise the limit on threads (ulimit -u)");
    }
    ls_status status = meet(out);
    ls_signal_post(&v.met, 1);
    pthread_join(thread, NULL);
    if (status)
        ls_comm_mpi_dismiss(keeper);
    else
        life_of(out)->keeper = keeper;
    return status;
}

/* Time beyond the timeout for the remaining ranks to report which ranks are lost. */
static const uint64_t speech_ns = 30000000000;

void ls_processes_set_timeout(const ls_processes *processes, uint64_t timeout_ns)
{
    mpi_life *life = life_of(processes);
    if (!life)
        return;
    atomic_store(&life->timeout_ns, timeout_ns);
    ls_comm_mpi_keep_for(life->keeper, 2 * timeout_ns + speech_ns);
}

void ls_processes_watch(const ls_processes *processes, bool (*ending)(void),
                        void (*print)(const char *line))
{
    mpi_life *life = life_of(processes);
    if (!life)
        return;
    life->ending = ending;
    life->print = print;
    ls_comm_mpi_watch(((mpi_comm *)processes->comm)->group);
}

void ls_processes_step(const ls_processes *processes, uint64_t first, uint64_t count, bool alike)
{
    mpi_life *life = life_of(processes);
    if (!life)
        return;
    atomic_store(&life->step, first);
    atomic_store(&life->steps, count);
    atomic_store(&life->alike, alike);
    atomic_fetch_add(&life->starts, 1);
}

bool ls_processes_lost(const ls_processes *processes)
{
    return processes->comm && ls_comm_mpi_is_abandoned(((const mpi_comm *)processes->comm)->group);
}

void ls_processes_end(ls_processes *processes, bool in_order, int exit_status)
{
    int begun = 0;
    MPI_Initialized(&begun);
    if (!begun)
        return;
    if (!in_order)
        ls_comm_mpi_end_all(processes->comm ? ((mpi_comm *)processes->comm)->group : NULL,
                            exit_status);
    mpi_keeper *keeper = NULL;
    if (processes->comm) {
        keeper = life_of(processes)->keeper;
        ls_comm_mpi_end_watch(((mpi_comm *)processes->comm)->group);
    }
    ls_comm_close(processes->comm);
    processes->comm = NULL;
    MPI_Finalize();
    ls_comm_mpi_dismiss(keeper);
}
