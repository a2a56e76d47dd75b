/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `owners`: rank d owns elements floor(d P / n) to floor((d + 1) P / n) - 1. Every rank
 * sends each owner its values of the owner's elements; the owner adds in the order of ranks, and
 * sends the sum to all. So an element is added at one place: what is added may be rounded for the
 * wire (comm_wire.h), where a ring would round at every hop. With P elements on n ranks, where k =
 * min(n, P) ranks own some: messages 2 (n - 1) k; bytes 2 (n - 1) 4 P. Sum: ((g0 + g1) + g2) + ...
 */
#include "common/comm/comm_parts.h"
#include "common/comm/comm_sums.h"

#include <stdlib.h>

/* Memory for what the other ranks send to a rank. */
static size_t scratch(int rank, int ranks, ls_extent extent, int64_t shards)
{
    (void)shards;
    return (size_t)(ranks - 1) * ls_comm_parts(extent, rank, 1, ranks).count;
}

/* The sum of a rank's own elements: `others` has the other ranks' values, in their order. */
static ls_status add_own(const ls_comm *comm, float *own, float *others, size_t count,
                         ls_op_list *ops)
{
    const int n = comm->size, me = comm->rank;
    ls_sum_step *steps;
    ls_op *op;
    LS_TRY(ls_allocate("all-reduce", &steps, (size_t)n, sizeof *steps));
    float *sum = me ? others : own;
    for (int r = 1; r < n; r++) {
        float *next = r == me ? own : others + (size_t)(r < me ? r : r - 1) * count;
        const bool last = r == n - 1;
        steps[r - 1] = last && next == own ? (ls_sum_step){own, own, sum}
                                           : (ls_sum_step){last ? own : sum, sum, next};
    }
    ls_status status =
        ls_sums_make(comm->device, "allreduce.owners", steps, (size_t)n - 1, count, &op);
    free(steps);
    return status ? status : ls_op_list_add(ops, op);
}

static ls_status put_half(ls_comm *comm, ls_half half, const ls_allreduce_args *a, ls_op_list *ops)
{
    const ls_extent extent = ls_comm_extent(a);
    const int n = comm->size, me = comm->rank;
    const ls_range own = ls_comm_parts(extent, me, 1, n);
    const bool gathers = half == LS_ALL_GATHER;
    for (int k = 1; k < n; k++) {
        const int to = (me + k) % n, from = (me - k + n) % n;
        const ls_range theirs = ls_comm_parts(extent, gathers ? from : to, 1, n);
        float *others = a->scratch + (size_t)(from < me ? from : from - 1) * own.count;
        LS_TRY(ls_comm_add_exchange(
            comm, ops,
            &(ls_exchange){.to = to,
                           .send = a->data + (gathers ? own.first : theirs.first),
                           .send_count = gathers ? own.count : theirs.count,
                           .from = from,
                           .receive = gathers ? a->data + theirs.first : others,
                           .receive_count = gathers ? theirs.count : own.count}));
    }
    return !gathers && own.count && n > 1
               ? add_own(comm, a->data + own.first, a->scratch, own.count, ops)
               : LS_OK;
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    return ls_comm_add_halves(comm, &ls_allreduce_owners, a, ops);
}

static ls_traffic half_formula(ls_half half, int ranks, ls_extent extent, int64_t shards)
{
    (void)half;
    (void)shards;
    return ls_comm_shares_formula(ranks, extent);
}

static ls_traffic formula(int ranks, ls_extent extent, int64_t shards, const ls_layout *layout)
{
    (void)layout;
    return ls_comm_halves_formula(&ls_allreduce_owners, ranks, extent, shards);
}

const ls_allreduce ls_allreduce_owners = {
    .name = "owners",
    .help = "each element is added by one rank, in the order of ranks, and sent to all",
    .scratch = scratch,
    .build = build,
    .formula = formula,
    .half = put_half,
    .half_formula = half_formula,
    .oracle = ls_comm_rank_order,
};
