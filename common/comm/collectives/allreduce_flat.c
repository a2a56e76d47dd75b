/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `flat`: rank 0 receives and adds all others' data in the order of ranks, and sends the
 * sum to each. The baseline: rank 0 is the bottleneck. With P elements on n ranks: messages 2 (n -
 * 1), none if P = 0; bytes 2 (n - 1) 4 P. Sum: ((g0 + g1) + g2) + ...
 */
#include "common/comm/comm_network.h"
#include "common/comm/comm_parts.h"

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    if (comm->rank > 0) {
        LS_TRY(ls_comm_add_whole(comm, a, 0, -1, LS_REPLACE, ops));
        return ls_comm_add_whole(comm, a, -1, 0, LS_REPLACE, ops);
    }
    for (int r = 1; r < comm->size; r++)
        LS_TRY(ls_comm_add_whole(comm, a, -1, r, LS_ADD, ops));
    for (int r = 1; r < comm->size; r++)
        LS_TRY(ls_comm_add_whole(comm, a, r, -1, LS_REPLACE, ops));
    return LS_OK;
}

ls_traffic ls_comm_whole_formula(int ranks, ls_extent extent, int64_t shards,
                                 const ls_layout *layout)
{
    (void)layout;
    (void)shards;
    uint64_t messages = extent.count ? 2 * ((uint64_t)ranks - 1) : 0;
    return (ls_traffic){.bytes_sent = ls_comm_bytes(messages, extent.count),
                        .messages_sent = messages};
}

ls_status ls_comm_rank_order(int ranks, ls_extent extent, const ls_layout *layout,
                             ls_sum_order *out)
{
    (void)layout;
    for (int r = 0; r < ranks; r++)
        LS_TRY(ls_sum_order_add(
            out, &(ls_order_step){
                     .visit = (size_t)r, .input = r, .begins = r == 0, .count = extent.count}));
    return LS_OK;
}

/* Rank 0 receives from one rank after the other, and sends to them in the same order. */
static ls_status take_time(ls_rounds *rounds, ls_half half, ls_extent extent, double *ns)
{
    (void)half;
    *ns = 0;
    for (int r = 1; r < rounds->load->ranks; r++) {
        ls_rounds_send(rounds, r, 0, extent.count);
        *ns += 2 * ls_rounds_end(rounds);
    }
    return LS_OK;
}

const ls_allreduce ls_allreduce_flat = {
    .name = "flat",
    .help = "rank 0 gathers, adds and sends back",
    .build = build,
    .formula = ls_comm_whole_formula,
    .oracle = ls_comm_rank_order,
    .time = take_time,
};
