/* SPDX-License-Identifier: MIT */
/* Groups of the device back end: opened, closed; see comm_device.h. */
#include "common/comm/comm_device.h"
#include "common/comm/comm_sums.h"
#include "common/device/link.h"

#include <stdlib.h>

static size_t get_memory(const ls_comm *base)
{
    return ((const device_comm *)base)->scratch_elements * sizeof(float);
}

static ls_traffic get_traffic(const ls_comm *base)
{
    return ((const device_comm *)base)->sent;
}

/* Nobody waits in a call, and queues hear of a failure by their events. */
static void abandon(ls_comm *base)
{
    (void)base;
}

static void close_group(device_group *group)
{
    free(group->ranks);
    free(group->message);
    free(group);
}

static void close_comm(ls_comm *base)
{
    device_comm *comm = (device_comm *)base;
    ls_device_release(base->device, comm->scratch);
    if (--comm->group->members == 0)
        close_group(comm->group);
    free(comm);
}

static ls_status open_group(int ranks, device_group **out)
{
    const size_t n = (size_t)ranks;
    device_group *group = calloc(1, sizeof *group);
    if (!group)
        return ls_fail_memory("communicator", sizeof *group);
    group->size = ranks;
    group->ranks = calloc(n, sizeof(device_comm *));
    group->message = calloc(n * n, sizeof(device_op *));
    if (!group->ranks || !group->message) {
        close_group(group);
        return ls_fail_memory("communicator", n * n * sizeof(device_op *));
    }
    *out = group;
    return LS_OK;
}

static ls_status check_devices(ls_device *const *devices, int ranks)
{
    const ls_device_info *first = ls_device_describe(devices[0]);
    for (int r = 1; r < ranks; r++) {
        const ls_device_info *other = ls_device_describe(devices[r]);
        if (other->name.kind != first->name.kind)
            return ls_fail(LS_CODE_USAGE, "comm: device", other->text,
                           "is of another kind than %s; CPU devices or GPUs alone exchange",
                           first->text);
    }
    return LS_OK;
}

static ls_status open_end(device_group *group, int rank, ls_device *device, ls_comm **out)
{
    LS_TRY(ls_sums_load(device));
    device_comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return ls_fail_memory("communicator", sizeof *comm);
    comm->base =
        (ls_comm){.backend = &ls_comm_device, .rank = rank, .size = group->size, .device = device};
    comm->group = group;
    group->ranks[rank] = comm;
    group->members++;
    *out = &comm->base;
    return LS_OK;
}

/* Ranks share memory where they are processors, or one GPU, and no link is between them. */
static void join_memory(ls_comm *const *comms, int ranks)
{
    bool shared = true, linked = false;
    for (int r = 1; r < ranks; r++) {
        const ls_device *first = comms[0]->device, *other = comms[r]->device;
        const ls_device_name names[] = {ls_device_describe(first)->name,
                                        ls_device_describe(other)->name};
        shared &= ls_comm_shares(names, 2);
        linked |= ls_device_linked(first, other);
    }
    for (int r = 0; r < ranks; r++) {
        comms[r]->shared = shared && !linked;
        comms[r]->linked = linked;
    }
}

static ls_status open_ends(ls_comm *processes, ls_device *const *devices, int ranks,
                           ls_comm **comms)
{
    device_group *group = NULL;
    if (processes)
        return ls_fail(LS_CODE_USAGE, "comm: device", NULL,
                       "has its ranks in one process; mpi has them in several");
    LS_TRY(check_devices(devices, ranks));
    LS_TRY(open_group(ranks, &group));
    ls_status status = LS_OK;
    for (int r = 0; r < ranks && !status; r++) {
        status = open_end(group, r, devices[r], &comms[r]);
        if (status && r == 0)
            close_group(group);
        for (int opened = 0; status && opened < r; opened++)
            close_comm(comms[opened]);
    }
    if (!status)
        join_memory(comms, ranks);
    return status;
}

const ls_comm_backend ls_comm_device = {
    .name = "device",
    .help = "ranks are devices of one process, whose queues are ordered by events: GPUs",
    .exchange = ls_comm_device_exchange,
    .direct = ls_comm_device_direct,
    .put = ls_comm_device_put,
    .memory = get_memory,
    .open = open_ends,
    .abandon = abandon,
    .traffic = get_traffic,
    .close = close_comm,
};
