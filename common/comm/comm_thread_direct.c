/* SPDX-License-Identifier: MIT */
/*
 * Back end `thread`, the direct all-reduce: all ranks publish their buffers and pass a barrier;
 * each sums its slice of all buffers in rank order and writes it to all; a second barrier ends it.
 * Up to 8 elements are published as values, with a single barrier. A half of it only sums, or only
 * writes, between the same two barriers.
 */
#include "common/comm/comm_thread.h"

#include <stdio.h>
#include <string.h>

/* A barrier of all ranks' queues. With a core each, ranks poll each other's counters, which moves
 * the fewest cache lines; if cores are shared, each sleeps and wakes at most once. */
static bool meet(thread_comm *comm)
{
    thread_group *group = comm->group;
    uint64_t meeting = ++comm->meetings;
    if (group->crowded) {
        uint64_t all = (uint64_t)group->size * meeting;
        if (atomic_fetch_add(&group->arrived, 1) + 1 == all)
            ls_comm_thread_post(comm, &group->released, meeting);
        return ls_comm_thread_await(comm, &group->released, meeting);
    }
    ls_comm_thread_post(comm, &group->slots[comm->base.rank].met, meeting);
    for (int r = 0; r < group->size; r++)
        if (!ls_comm_thread_await(comm, &group->slots[r].met, meeting))
            return false;
    return true;
}

typedef struct direct_op {
    ls_op op;
    thread_comm *comm;
    float *data;
    size_t count;
    ls_direct_part part;
    float *all[]; /* [size] each rank's buffer in this run */
} direct_op;

static void sum_few(const thread_group *group, unsigned slot, direct_op *d)
{
    for (size_t i = 0; i < d->count; i++) {
        float sum = group->slots[0].shown[slot].few[i];
        for (int r = 1; r < group->size; r++)
            sum = sum + group->slots[r].shown[slot].few[i];
        d->data[i] = sum;
    }
}

static ls_status run_direct(ls_op *op, ls_queue *queue)
{
    direct_op *d = (direct_op *)op;
    thread_comm *comm = d->comm;
    thread_group *group = comm->group;
    const unsigned slot = comm->directs++ % 2;
    thread_shown *entry = &group->slots[comm->base.rank].shown[slot];
    if (ls_comm_thread_is_abandoned(comm))
        return ls_comm_thread_abandoned(comm);
    entry->data = d->data;
    entry->count = d->count;
    if (d->part.few)
        memcpy(entry->few, d->data, d->count * sizeof(float));
    uint64_t begin = ls_queue_wait_begin(queue);
    if (!meet(comm))
        return ls_comm_thread_abandoned(comm);
    ls_queue_wait_end(queue, begin);
    for (int r = 0; r < group->size; r++) {
        d->all[r] = group->slots[r].shown[slot].data;
        if (group->slots[r].shown[slot].count != d->count)
            return ls_comm_mismatch(&comm->base, d->count, group->slots[r].shown[slot].count, r,
                                    false);
    }
    ls_comm_sent(&comm->base, d->part.messages, d->part.bytes);
    if (d->part.few) {
        sum_few(group, slot, d);
        return LS_OK;
    }
    if (d->part.slice.count)
        ls_comm_direct_do(&d->part, d->all, comm->base.rank, group->size);
    return meet(comm) ? LS_OK : ls_comm_thread_abandoned(comm);
}

static void describe_direct(const ls_op *op, char *text, size_t size)
{
    snprintf(text, size, "%s of %zu bytes, all", op->name,
             ((const direct_op *)op)->count * sizeof(float));
}

static void abandon_direct(ls_op *op)
{
    ls_comm_thread_abandon(&((direct_op *)op)->comm->base);
}

ls_status ls_comm_thread_make_direct(ls_comm *base, ls_half half, float *data, ls_extent extent,
                                     ls_op **out)
{
    size_t bytes = sizeof(direct_op) + (size_t)base->size * sizeof(float *);
    direct_op *d;
    LS_TRY(ls_allocate("communicator", &d, 1, bytes));
    d->part = ls_comm_direct_part(half, base->rank, base->size, extent);
    d->op = (ls_op){.name = d->part.name,
                    .run = run_direct,
                    .abandon = abandon_direct,
                    .awaits = describe_direct,
                    .use = LS_TIME_COMMUNICATION,
                    .flops = d->part.flops,
                    .bytes = d->part.moved};
    d->comm = (thread_comm *)base;
    d->data = data;
    d->count = extent.count;
    *out = &d->op;
    return LS_OK;
}
