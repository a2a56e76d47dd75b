/* SPDX-License-Identifier: MIT */
/*
 * All-gather and reduce-scatter around a ring: in round s = 0, ..., n - 2 rank r sends a block to
 * rank r + 1 and receives one from rank r - 1, modulo n.
 *     all-gather      sends block r - s, receives block r - s - 1
 *     reduce-scatter  sends block r - s - 1, receives block r - s - 2 and adds its own to it
 * With P elements in n blocks, k of them not empty: messages (n - 1) k; bytes (n - 1) 4 P. Sum of
 * block b: g(b) + (g(b-1) + ... (g(b+2) + g(b+1))), ranks modulo n. Bus bandwidth is (n - 1) / n
 * times algorithm bandwidth.
 */
#include "common/comm/comm_parts.h"

ls_status ls_comm_add_ring(ls_comm *comm, const ls_comm_ring *ring, ls_half half, ls_op_list *ops)
{
    const bool add = half == LS_REDUCE_SCATTER;
    const int n = ring->size, next = (ring->position + 1) % n,
              before = (ring->position - 1 + n) % n;
    for (int s = 0; s < n - 1; s++) {
        const int out = (ring->position - s - add + n) % n, in = (out - 1 + n) % n;
        LS_TRY(
            ls_comm_add_exchange(comm, ops,
                                 &(ls_exchange){.to = ring->ranks ? ring->ranks[next] : next,
                                                .send = ring->data + ring->offsets[out],
                                                .send_count = ring->counts[out],
                                                .from = ring->ranks ? ring->ranks[before] : before,
                                                .receive = ring->data + ring->offsets[in],
                                                .receive_count = ring->counts[in],
                                                .add = add}));
    }
    return LS_OK;
}

ls_status ls_allgather_build(ls_comm *comm, float *data, const size_t *offsets,
                             const size_t *counts, ls_op_list *ops)
{
    const ls_comm_ring ring = {comm->size, comm->rank, NULL, data, offsets, counts};
    return ls_comm_add_ring(comm, &ring, LS_ALL_GATHER, ops);
}

ls_status ls_reducescatter_build(ls_comm *comm, float *data, const size_t *offsets,
                                 const size_t *counts, ls_op_list *ops)
{
    const ls_comm_ring ring = {comm->size, comm->rank, NULL, data, offsets, counts};
    return ls_comm_add_ring(comm, &ring, LS_REDUCE_SCATTER, ops);
}

ls_traffic ls_allgather_formula(int ranks, const size_t *counts)
{
    ls_traffic sum = {0};
    for (int r = 0; r < ranks; r++) {
        uint64_t messages = counts[r] ? (uint64_t)ranks - 1 : 0;
        sum.messages_sent += messages;
        sum.bytes_sent += ls_comm_bytes(messages, counts[r]);
    }
    return sum;
}

ls_traffic ls_reducescatter_formula(int ranks, const size_t *counts)
{
    return ls_allgather_formula(ranks, counts);
}
