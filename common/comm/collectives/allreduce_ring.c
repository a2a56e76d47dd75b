/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `ring`: a reduce-scatter around the ring, then an all-gather (Patarasuk and Yuan,
 * "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69, 2009). Block r
 * is part r of an even split (ls_extent). With P elements on n ranks, k = min(n, P) blocks are not
 * empty: messages 2 (n - 1) k; bytes 2 (n - 1) 4 P; one half in each phase. Sum of block b: g(b) +
 * (g(b-1) + ... (g(b+2) + g(b+1))), ranks modulo n; it ends on rank b, whose share it is.
 */
#include "common/comm/comm_network.h"
#include "common/comm/comm_parts.h"

#include <stdlib.h>

static ls_status put_half(ls_comm *comm, ls_half half, const ls_allreduce_args *a, ls_op_list *ops)
{
    size_t *offsets = NULL;
    LS_TRY(ls_comm_even_split(ls_comm_extent(a), comm->size, &offsets));
    ls_status status = (half == LS_REDUCE_SCATTER ? ls_reducescatter_build : ls_allgather_build)(
        comm, a->data, offsets, offsets + comm->size, ops);
    free(offsets);
    return status;
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    return ls_comm_add_halves(comm, &ls_allreduce_ring, a, ops);
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
    return ls_comm_halves_formula(&ls_allreduce_ring, ranks, extent, shards);
}

/* The sum of block b begins with rank b + 1 and ends with rank b. So ranks are visited twice: block
 * b adds the ranks above b in the first round, the rest in the second. */
static ls_status oracle(int ranks, ls_extent extent, const ls_layout *layout, ls_sum_order *out)
{
    (void)layout;
    for (int visit = 0; visit < 2 * ranks; visit++) {
        const int r = visit % ranks;
        const ls_range begun = ls_comm_parts(extent, (r + ranks - 1) % ranks, 1, ranks);
        const ls_range more = visit < ranks
                                  ? ls_comm_parts(extent, 0, r > 0 ? r - 1 : 0, ranks)
                                  : ls_comm_parts(extent, r, r ? ranks - r : ranks - 1, ranks);
        ls_order_step step = {.visit = (size_t)visit, .input = r, .begins = true};
        if ((visit < ranks) == (r > 0)) { /* rank 0 begins the last block, after all others */
            step.first = begun.first;
            step.count = begun.count;
            LS_TRY(ls_sum_order_add(out, &step));
        }
        step.begins = false;
        step.first = more.first;
        step.count = more.count;
        LS_TRY(ls_sum_order_add(out, &step));
    }
    return LS_OK;
}

/* All rounds are alike: each rank sends a block to the next one. */
static ls_status take_time(ls_rounds *rounds, ls_half half, ls_extent extent, double *ns)
{
    const int n = rounds->load->ranks;
    const size_t filled = (size_t)ls_comm_filled(extent, n);
    for (int r = 0; r < n; r++)
        ls_rounds_send(rounds, r, (r + 1) % n, extent.count / filled);
    *ns = (half == LS_HALVES ? 2 : 1) * (n - 1) * ls_rounds_end(rounds);
    return LS_OK;
}

const ls_allreduce ls_allreduce_ring = {
    .name = "ring",
    .help = "reduce-scatter and all-gather around a ring: least bytes, most rounds",
    .build = build,
    .formula = formula,
    .half = put_half,
    .half_formula = half_formula,
    .oracle = oracle,
    .time = take_time,
};
