/* SPDX-License-Identifier: MIT */
/*
 * Reduce-scatter around a ring: in round s = 0, ..., n - 2 rank r sends block r - s - 1 to rank
 * r + 1, receives block r - s - 2 from rank r - 1 and adds its own to it, modulo n.
 *
 * With P elements in n blocks, k of which have elements: messages (n - 1) k; bytes (n - 1) 4 P.
 * Sum of block b: g(b) + (g(b-1) + ... (g(b+2) + g(b+1))), ranks modulo n. Bus bandwidth is
 * (n - 1) / n times algorithm bandwidth.
 */
#include "common/comm/comm_parts.h"

ls_status ls_reducescatter_build(ls_comm *comm, float *data, const size_t *offsets,
                                 const size_t *counts, ls_op_list *ops)
{
    int n = comm->size;
    for (int s = 0; s < n - 1; s++) {
        int out = (comm->rank - s - 1 + n) % n, in = (comm->rank - s - 2 + 2 * n) % n;
        LS_TRY(ls_comm_put_exchange(comm, ops,
                                    &(ls_exchange){.to = (comm->rank + 1) % n,
                                                   .send = data + offsets[out],
                                                   .send_count = counts[out],
                                                   .from = (comm->rank - 1 + n) % n,
                                                   .receive = data + offsets[in],
                                                   .receive_count = counts[in],
                                                   .add = true}));
    }
    return LS_OK;
}

ls_traffic ls_reducescatter_formula(int ranks, const size_t *counts)
{
    return ls_allgather_formula(ranks, counts);
}
