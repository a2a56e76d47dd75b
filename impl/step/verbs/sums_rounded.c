/* SPDX-License-Identifier: MIT */
/*
 * Sums of places' values in bfloat16, in the way of the all-reduce `owners`: each place sends each
 * owner its stored part, two bytes an element. The owner widens all parts, its own too, adds them
 * in float32 in the order of places, and rounds the sum once; so it is sent.
 */
#include "common/comm/comm.h"
#include "impl/step/verbs/build.h"

static ls_range share_of(const ls_rounded *a, int rank, int ranks)
{
    const size_t first = ls_comm_cut(a->extent, rank, ranks);
    return (ls_range){first, ls_comm_cut(a->extent, rank + 1, ranks) - first};
}

/* Scratch: the sum, an addend, then what arrives from each other place. */
static uint16_t *arrived_at(const ls_rounded *a, ls_range own, int from, int rank)
{
    return (uint16_t *)(void *)(a->scratch + 2 * own.count) +
           (size_t)(from < rank ? from : from - 1) * own.count;
}

size_t ls_rounded_scratch(const ls_comm *comm, ls_extent extent)
{
    const ls_range own = share_of(&(ls_rounded){.extent = extent}, comm->rank, comm->size);
    return 2 * own.count + ((size_t)(comm->size - 1) * own.count + 1) / 2;
}

static ls_status add_op(ls_op *op, ls_op_list *ops)
{
    op->use = LS_TIME_COMMUNICATION;
    return ls_op_list_add(ops, op);
}

ls_status ls_rounded_widen(ls_kernels *k, size_t count, const void *x, float *y, ls_op_list *ops)
{
    const ls_widen_args args = {.count = (int64_t)count, .x = x, .y = y};
    ls_op *op;
    LS_TRY(k->table->widen(k, &args, &op));
    return add_op(op, ops);
}

ls_status ls_rounded_narrow(ls_kernels *k, size_t count, const float *x, void *y, ls_op_list *ops)
{
    const ls_narrow_args args = {.count = (int64_t)count, .x = x, .y = y};
    ls_op *op;
    LS_TRY(k->table->narrow(k, &args, &op));
    return add_op(op, ops);
}

/* Every part to its owner, or an owner's sum to every place. */
static ls_status add_messages(ls_comm *comm, const ls_rounded *a, bool gathers, ls_op_list *ops)
{
    const int n = comm->size, me = comm->rank;
    const ls_range own = share_of(a, me, n);
    for (int k = 1; k < n; k++) {
        const int to = (me + k) % n, from = (me - k + n) % n;
        const ls_range sent = gathers ? own : share_of(a, to, n);
        const ls_range got = gathers ? share_of(a, from, n) : own;
        uint16_t *into = gathers ? a->data + got.first : arrived_at(a, own, from, me);
        const ls_exchange exchange = {.bytes = true,
                                      .to = sent.count ? to : -1,
                                      .send = (const float *)(void *)(a->data + sent.first),
                                      .send_count = sent.count * sizeof *a->data,
                                      .from = got.count ? from : -1,
                                      .receive = (float *)(void *)into,
                                      .receive_count = got.count * sizeof *a->data};
        ls_op *op;
        if (!sent.count && !got.count)
            continue;
        LS_TRY(ls_comm_exchange(comm, &exchange, &op));
        LS_TRY(add_op(op, ops));
    }
    return LS_OK;
}

static ls_status add_sum(const ls_comm *comm, ls_kernels *k, const ls_rounded *a, ls_op_list *ops)
{
    const ls_range own = share_of(a, comm->rank, comm->size);
    float *sum = a->scratch, *addend = a->scratch + own.count;
    const ls_add_args add = {.count = (int64_t)own.count, .a = sum, .b = addend, .y = sum};
    uint16_t *result = a->data + own.first;
    ls_op *op;
    for (int d = 0; d < comm->size && own.count; d++) {
        const uint16_t *part = d == comm->rank ? result : arrived_at(a, own, d, comm->rank);
        LS_TRY(ls_rounded_widen(k, own.count, part, d ? addend : sum, ops));
        if (!d)
            continue;
        LS_TRY(k->table->add(k, &add, &op));
        LS_TRY(add_op(op, ops));
    }
    return own.count ? ls_rounded_narrow(k, own.count, sum, result, ops) : LS_OK;
}

ls_status ls_rounded_sum(ls_comm *comm, ls_kernels *kernels, ls_half half, const ls_rounded *a,
                         ls_op_list *ops)
{
    if (half != LS_ALL_GATHER) {
        LS_TRY(add_messages(comm, a, false, ops));
        LS_TRY(add_sum(comm, kernels, a, ops));
    }
    return half == LS_REDUCE_SCATTER ? LS_OK : add_messages(comm, a, true, ops);
}
