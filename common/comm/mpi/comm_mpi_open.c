/* SPDX-License-Identifier: MIT */
/* Groups of the MPI back end: opened, joined, closed; see comm_mpi.h. */
#include "common/comm/mpi/comm_mpi.h"

#include "common/base/clock.h"
#include "common/device/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Used until the command's own timeout is known. */
static const uint64_t first_timeout_ns = 60000000000;

/* Small messages of servers that may be pending per member; more are allocated as needed. */
enum { SPARES = 4 };

static void free_group(mpi_group *group)
{
    ls_mailbox_close(&group->mail);
    pthread_mutex_destroy(&group->mutex);
    pthread_mutex_destroy(&group->pulling);
    pthread_mutex_destroy(&group->sending);
    if (group->world == group && group->life) {
        free(group->life->peers);
        free(group->life->hosts);
        free(group->life->heard_ns);
        free(group->life->gave_up);
        free(group->life);
    }
    free(group->members);
    free(group->devices);
    ls_comm_mpi_part(group);
    free(group);
}

/* An abandoned communicator is not freed: its pending messages would reach the next communicator
 * that gets its number. */
void ls_comm_mpi_close_group(mpi_group *group)
{
    if (!ls_comm_mpi_is_abandoned(group))
        MPI_Comm_free(&group->comm);
    free_group(group);
}

static ls_status open_life(size_t processes, mpi_life **out)
{
    LS_TRY(ls_allocate("communicator", out, 1, sizeof **out));
    mpi_life *life = *out;
    LS_TRY(ls_allocate("communicator", &life->heard_ns, processes, sizeof *life->heard_ns));
    LS_TRY(ls_allocate("communicator", &life->gave_up, processes, sizeof *life->gave_up));
    atomic_init(&life->timeout_ns, first_timeout_ns);
    pthread_mutex_init(&life->pulse_mutex, NULL);
    pthread_cond_init(&life->pulse_changed, NULL);
    return LS_OK;
}

static ls_status open_parts(mpi_group *group)
{
    if (!group->members)
        return ls_fail_memory("communicator", sizeof *group->members);
    LS_TRY(ls_comm_mpi_check(MPI_Comm_rank(group->comm, &group->process), "MPI_Comm_rank"));
    LS_TRY(ls_comm_mpi_check(MPI_Comm_size(group->comm, &group->processes), "MPI_Comm_size"));
    LS_TRY(ls_comm_mpi_check(MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN),
                             "MPI_Comm_set_errhandler"));
    if (group->world == group)
        LS_TRY(open_life((size_t)group->processes, &group->life));
    else
        group->life = group->world->life;
    for (int m = 0; m < group->size; m++) {
        const mpi_member *member = &group->members[m];
        if (member->local + 1 > group->most_locals)
            group->most_locals = member->local + 1;
        if (member->process == group->process && member->local + 1 > group->locals)
            group->locals = member->local + 1;
    }
    LS_TRY(ls_allocate("communicator", &group->devices, (size_t)group->locals,
                       sizeof *group->devices));
    /* every pair of members has a separate tag */
    int *most = NULL, found = 0;
    LS_TRY(ls_comm_mpi_check(MPI_Comm_get_attr(group->comm, MPI_TAG_UB, &most, &found),
                             "MPI_Comm_get_attr"));
    if (!found || group->most_locals > 1000 || ls_comm_mpi_control_tag(group) > *most)
        return ls_fail(
            LS_CODE_USAGE, "communicator", "mpi",
            "%d devices in one rank are too many; use more ranks, each with fewer --devices",
            group->most_locals);
    return LS_OK;
}

ls_status ls_comm_mpi_group(MPI_Comm comm, mpi_member *members, int size, mpi_group *world,
                            mpi_group **out)
{
    mpi_group *group = calloc(1, sizeof *group);
    if (!group) {
        free(members);
        MPI_Comm_free(&comm);
        return ls_fail_memory("communicator", sizeof *group);
    }
    group->comm = comm;
    group->members = members;
    group->size = size;
    group->world = world ? world : group;
    ls_mailbox_open(&group->mail, SPARES * size);
    pthread_mutex_init(&group->mutex, NULL);
    pthread_mutex_init(&group->pulling, NULL);
    pthread_mutex_init(&group->sending, NULL);
    ls_status status = open_parts(group);
    if (status)
        ls_comm_mpi_close_group(group);
    else
        *out = group;
    return status;
}

/* Number of this process's member `local` among all members. */
static int member_of(const mpi_group *group, int local)
{
    int m = 0;
    while (group->members[m].process != group->process || group->members[m].local != local)
        m++;
    return m;
}

ls_status ls_comm_mpi_end(mpi_group *group, int local, ls_device *device, ls_comm **out)
{
    mpi_comm *comm;
    LS_TRY(ls_allocate("communicator", &comm, 1, sizeof *comm));
    comm->base = (ls_comm){.backend = &ls_comm_mpi,
                           .rank = member_of(group, local),
                           .size = group->size,
                           .device = device,
                           .linked = device && ls_device_plugged(device)};
    comm->base.shared = group->shared && !comm->base.linked;
    comm->base.unshared = *group->unshared ? group->unshared : NULL;
    comm->group = group;
    const ls_layout *layout = &group->life->layout; /* of all processes, each with equally many */
    if (layout->processes == group->processes && group->locals * group->processes == group->size)
        comm->base.layout = layout;
    group->devices[local] = device;
    group->open++;
    *out = &comm->base;
    return LS_OK;
}

/* Refuses on all ranks what one rank cannot do. */
static ls_status refuse_gpus(const mpi_offer *offers, int processes)
{
    char rank[32];
    int p = 0;
    while (p < processes && offers[p].members >= 0)
        p++;
    if (p == processes)
        return LS_OK;
    snprintf(rank, sizeof rank, "rank %d", p);
    return ls_fail(LS_CODE_MISSING, "comm: mpi", rank,
                   "--comm mpi connects CPU devices only; for GPUs, use --comm nccl --reduce fast "
                   "(one GPU for each rank), or one process for all GPUs of a host");
}

/* Duplicates without blocking, so that a lost rank is noticed: MPI_Comm_dup might never return. */
static ls_status duplicate(mpi_comm *processes, MPI_Comm *out)
{
    mpi_wait wait = {
        .comm = processes, .what = "MPI_Comm_idup", .peer = -1, .since_ns = ls_clock_ns()};
    MPI_Request request;
    int flag = 0;
    ls_status status =
        ls_comm_mpi_check(MPI_Comm_idup(processes->group->comm, out, &request), "MPI_Comm_idup");
    while (!status && !flag) {
        status = ls_comm_mpi_check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), "MPI_Comm_idup");
        if (!status && !flag)
            status = ls_comm_mpi_pause(&wait);
    }
    ls_comm_mpi_end_wait(processes->group);
    return status;
}

static ls_status meet_all(ls_comm *processes, const mpi_offer *offer, mpi_offer *offers,
                          MPI_Comm *out)
{
    const mpi_group *world = ((mpi_comm *)processes)->group;
    LS_TRY(ls_comm_collect(processes, offer, sizeof *offer, offers));
    LS_TRY(refuse_gpus(offers, world->processes));
    return duplicate((mpi_comm *)processes, out);
}

/* MPI accesses device memory with the processor, which cannot access a GPU's. */
static bool any_gpu(ls_device *const *devices, int count)
{
    for (int i = 0; i < count; i++)
        if (ls_device_describe(devices[i])->name.kind == LS_DEVICE_GPU)
            return true;
    return false;
}

/* The group of all members; takes ownership of the board. */
static ls_status open_group(ls_comm *processes, const mpi_offer *offer, struct mpi_board *board,
                            mpi_group **out)
{
    mpi_group *world = ((mpi_comm *)processes)->group, *group = NULL;
    const size_t n = (size_t)world->processes;
    mpi_offer *offers = calloc(n, sizeof *offers);
    int size = 0;
    MPI_Comm made;
    ls_status status = offers ? meet_all(processes, offer, offers, &made)
                              : ls_fail_memory("communicator", n * sizeof *offers);
    if (!status) {
        /* Members in the order of processes, then of their devices. */
        size = 0;
        for (int p = 0; p < world->processes; p++)
            size += offers[p].members;
        mpi_member *members = calloc((size_t)size + 1, sizeof *members), *at = members;
        for (int p = 0; p < world->processes && members; p++)
            for (int i = 0; i < offers[p].members; i++)
                *at++ = (mpi_member){p, i};
        status = ls_comm_mpi_group(made, members, size, world, &group);
    }
    if (status)
        ls_comm_mpi_withdraw(offer, board);
    else
        status = ls_comm_mpi_join(processes, group, offers, board);
    free(offers);
    if (status && group)
        ls_comm_mpi_close_group(group);
    *out = group;
    return status;
}

ls_status ls_comm_mpi_open(ls_comm *processes, ls_device *const *devices, int count,
                           ls_comm **comms)
{
    mpi_group *group = NULL;
    mpi_offer offer;
    struct mpi_board *board;
    ls_comm_mpi_offer(processes->rank, any_gpu(devices, count) ? -1 : count, &offer, &board);
    LS_TRY(open_group(processes, &offer, board, &group));
    if (!count) /* only other processes have devices */
        ls_comm_mpi_close_group(group);
    ls_status status = LS_OK;
    for (int i = 0; i < count && !status; i++) {
        status = ls_comm_mpi_end(group, i, devices[i], &comms[i]);
        for (int opened = 0; status && opened < i; opened++)
            ls_comm_close(comms[opened]);
        if (status && i == 0)
            ls_comm_mpi_close_group(group);
    }
    return status;
}
