/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `flat`: rank 0 adds what the others send, in the order of ranks, and sends the sum to
 * each. The baseline: rank 0 is the bottleneck.
 *
 * With P elements on n ranks: messages 2 (n - 1), none where P = 0; bytes 2 (n - 1) 4 P.
 * Sum: ((g0 + g1) + g2) + ...
 */
#include "common/comm/comm_parts.h"

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    const ls_exchange send = {.to = 0, .send = a->data, .send_count = a->count, .from = -1};
    const ls_exchange receive = {
        .to = -1, .from = 0, .receive = a->data, .receive_count = a->count};
    if (comm->rank > 0) {
        LS_TRY(ls_comm_put_exchange(comm, ops, &send));
        return ls_comm_put_exchange(comm, ops, &receive);
    }
    for (int r = 1; r < comm->size; r++) {
        ls_exchange e = receive;
        e.from = r;
        e.add = true;
        LS_TRY(ls_comm_put_exchange(comm, ops, &e));
    }
    for (int r = 1; r < comm->size; r++) {
        ls_exchange e = send;
        e.to = r;
        LS_TRY(ls_comm_put_exchange(comm, ops, &e));
    }
    return LS_OK;
}

static ls_traffic formula(int ranks, size_t count, int64_t shards, const ls_layout *layout)
{
    (void)layout;
    uint64_t messages = count ? 2 * ((uint64_t)ranks - 1) : 0;
    (void)shards;
    return (ls_traffic){.bytes_sent = ls_comm_bytes(messages, count), .messages_sent = messages};
}

static ls_status oracle(int ranks, size_t count, const ls_layout *layout, ls_sum_order *out)
{
    (void)layout;
    for (int r = 0; r < ranks; r++)
        LS_TRY(ls_sum_order_add(
            out,
            &(ls_order_step){.visit = (size_t)r, .input = r, .begins = r == 0, .count = count}));
    return LS_OK;
}

const ls_allreduce ls_allreduce_flat = {
    .name = "flat",
    .help = "rank 0 gathers, adds and sends back",
    .build = build,
    .formula = formula,
    .oracle = oracle,
};
