/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `ring`: a reduce-scatter around the ring, then an all-gather around it (Patarasuk and
 * Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69, 2009).
 * Block r is elements floor(r P / n) to floor((r + 1) P / n) - 1.
 *
 * With P elements on n ranks, k = min(n, P) of whose blocks have elements: messages 2 (n - 1) k;
 * bytes 2 (n - 1) 4 P. Sum of block b: g(b) + (g(b-1) + ... (g(b+2) + g(b+1))), ranks modulo n.
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

static void oracle(const float *const *inputs, int ranks, size_t count, float *out,
                   const ls_layout *layout)
{
    (void)layout;
    for (size_t i = 0; i < count; i++) {
        int b = 0; /* the block that has element i */
        while (ls_comm_share(count, b + 1, ranks) <= i)
            b++;
        float sum = inputs[(b + 1) % ranks][i];
        for (int k = 2; k <= ranks; k++)
            sum = inputs[(b + k) % ranks][i] + sum;
        out[i] = sum;
    }
}

const ls_allreduce ls_allreduce_ring = {
    .name = "ring",
    .help = "reduce-scatter and all-gather around a ring: least bytes, most rounds",
    .build = build,
    .formula = formula,
    .oracle = oracle,
};
