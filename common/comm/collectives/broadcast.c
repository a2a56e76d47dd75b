/* SPDX-License-Identifier: MIT */
/*
 * Broadcast down a binomial tree. With positions q = (rank - root) mod n: at distances m from the
 * largest power of two below n down to 1, a position that is a multiple of 2m sends to q + m. With
 * P elements on n ranks: messages n - 1, none if P = 0; bytes (n - 1) 4 P. Bus bandwidth equals
 * algorithm bandwidth.
 */
#include "common/comm/comm_parts.h"

ls_status ls_broadcast_build(ls_comm *comm, int root, float *data, size_t count, ls_op_list *ops)
{
    const ls_allreduce_args all = {.data = data, .count = count};
    int n = comm->size, relative = (comm->rank - root + n) % n, m = 1;
    while (2 * m < n)
        m *= 2;
    for (; m > 0 && n > 1; m /= 2) {
        const bool receives = relative % (2 * m) == m,
                   sends = relative % (2 * m) == 0 && relative + m < n;
        LS_TRY(ls_comm_add_whole(comm, &all, sends ? (comm->rank + m) % n : -1,
                                 receives ? (comm->rank - m + n) % n : -1, LS_REPLACE, ops));
    }
    return LS_OK;
}

ls_traffic ls_broadcast_formula(int ranks, size_t count)
{
    uint64_t messages = count ? (uint64_t)ranks - 1 : 0;
    return (ls_traffic){.bytes_sent = ls_comm_bytes(messages, count), .messages_sent = messages};
}
