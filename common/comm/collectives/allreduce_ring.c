/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `ring`: a reduce-scatter around the ring, then an all-gather (Patarasuk and Yuan,
 * "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69, 2009). Block r
 * is elements floor(r P / n) to floor((r + 1) P / n) - 1. With P elements on n ranks, k = min(n, P)
 * of whose blocks are not empty: messages 2 (n - 1) k; bytes 2 (n - 1) 4 P. Sum of block b: g(b) +
 * (g(b-1) + ... (g(b+2) + g(b+1))), ranks modulo n.
 */
#include "common/comm/comm_parts.h"

#include <stdlib.h>

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    size_t *offsets = NULL;
    LS_TRY(ls_comm_even_split(a->count, comm->size, &offsets));
    const size_t *counts = offsets + comm->size;
    ls_status status = ls_reducescatter_build(comm, a->data, offsets, counts, ops);
    if (!status)
        status = ls_allgather_build(comm, a->data, offsets, counts, ops);
    free(offsets);
    return status;
}

static ls_traffic formula(int ranks, size_t count, int64_t shards, const ls_layout *layout)
{
    (void)layout;
    uint64_t twice = 2 * ((uint64_t)ranks - 1);
    (void)shards;
    return (ls_traffic){.bytes_sent = ls_comm_bytes(twice, count),
                        .messages_sent = twice * ls_comm_filled(count, ranks)};
}

/* The sum of block b begins with rank b + 1 and ends with rank b. So ranks are visited twice: block
 * b adds the ranks above b in the first round, the rest in the second. */
static ls_status oracle(int ranks, size_t count, const ls_layout *layout, ls_sum_order *out)
{
    (void)layout;
    for (int visit = 0; visit < 2 * ranks; visit++) {
        const int r = visit % ranks;
        const ls_range begun = ls_comm_parts(count, (r + ranks - 1) % ranks, 1, ranks);
        const ls_range more = visit < ranks
                                  ? ls_comm_parts(count, 0, r > 0 ? r - 1 : 0, ranks)
                                  : ls_comm_parts(count, r, r ? ranks - r : ranks - 1, ranks);
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

const ls_allreduce ls_allreduce_ring = {
    .name = "ring",
    .help = "reduce-scatter and all-gather around a ring: least bytes, most rounds",
    .build = build,
    .formula = formula,
    .oracle = oracle,
};
