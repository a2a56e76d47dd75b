/* SPDX-License-Identifier: MIT */
/*
 * All-gather around a ring: in round s = 0, ..., n - 2 rank r sends block r - s to rank r + 1 and
 * receives block r - s - 1 from rank r - 1, modulo n.
 *
 * With P elements in n blocks, k of which have elements: messages (n - 1) k; bytes (n - 1) 4 P.
 * Bus bandwidth is (n - 1) / n times algorithm bandwidth.
 */
#include "common/base/hooks.h"
#include "common/comm/comm_parts.h"

ls_status ls_allgather_build(ls_comm *comm, float *data, const size_t *offsets,
                             const size_t *counts, ls_op_list *ops)
{
    int n = comm->size;
    for (int s = 0; s < n - 1 - LS_PLANTED(ring_round); s++) {
        int out = (comm->rank - s + n) % n, in = (comm->rank - s - 1 + n) % n;
        LS_TRY(ls_comm_put_exchange(comm, ops,
                                    &(ls_exchange){.to = (comm->rank + 1) % n,
                                                   .send = data + offsets[out],
                                                   .send_count = counts[out],
                                                   .from = (comm->rank - 1 + n) % n,
                                                   .receive = data + offsets[in],
                                                   .receive_count = counts[in]}));
    }
    return LS_OK;
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
