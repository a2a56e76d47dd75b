/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `direct`, in shared memory: rank r sums elements floor(r P / n) to floor((r + 1) P /
 * n) - 1 of all ranks' buffers, in the order of ranks, and writes the sum to all buffers. Nothing
 * is staged: each element is read once and written once per rank. Up to 8 elements, each rank reads
 * every other rank's data and sums it itself, which saves a barrier. With P elements on n ranks and
 * k = min(n, P) nonempty slices, the transfers between ranks are: messages 2 (n - 1) k (a slice is
 * read from n - 1 ranks and written to them); bytes 2 (n - 1) 4 P. For 1 <= P <= 8: messages n (n -
 * 1); bytes n (n - 1) 4 P. Sum: ((g0 + g1) + g2) + ...
 */
#include "common/comm/comm_parts.h"

static ls_status check(const ls_comm *comm)
{
    if (comm->linked)
        return ls_fail(LS_CODE_USAGE, "all-reduce", "direct",
                       "reads the others' memory, and over links none is shared; ring, tree, "
                       "halving-doubling, flat and auto work");
    if (comm->backend->direct && comm->shared)
        return LS_OK;
    if (comm->unshared)
        return ls_fail(LS_CODE_MISSING, "all-reduce", "direct",
                       "%s; --allreduce halving-doubling, ring, tree and flat need none",
                       comm->unshared);
    return ls_fail(LS_CODE_USAGE, "all-reduce", "direct",
                   "ranks of communicator %s share no memory; flat, ring, tree and "
                   "halving-doubling need none",
                   comm->backend->name);
}

/* What a rank sends: its part of every other rank's slice, and its own slice's sum to each; up to 8
 * elements, its data to each. */
ls_direct_part ls_comm_direct_part(int rank, int ranks, size_t count)
{
    const bool few = count <= LS_DIRECT_FEW;
    const uint64_t others = (uint64_t)ranks - 1, filled = ls_comm_filled(count, ranks);
    ls_direct_part part = {
        .few = few, .slice = few ? (ls_range){0, count} : ls_comm_parts(count, rank, 1, ranks)};
    const bool mine = part.slice.count > 0;
    part.messages = few ? others : filled - mine + (mine ? others : 0);
    part.bytes =
        ls_comm_bytes(1, count - part.slice.count) + ls_comm_bytes(others, part.slice.count);
    return part;
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    LS_TRY(check(comm));
    return ls_comm_add_all(comm, false, a, ops);
}

static ls_traffic formula(int ranks, size_t count, int64_t shards, const ls_layout *layout)
{
    (void)layout;
    uint64_t others = (uint64_t)ranks - 1, twice = 2 * others;
    (void)shards;
    if (count > 0 && count <= LS_DIRECT_FEW)
        return (ls_traffic){.bytes_sent = ls_comm_bytes((uint64_t)ranks * others, count),
                            .messages_sent = (uint64_t)ranks * others};
    return (ls_traffic){.bytes_sent = ls_comm_bytes(twice, count),
                        .messages_sent = twice * ls_comm_filled(count, ranks)};
}

const ls_allreduce ls_allreduce_direct = {
    .name = "direct",
    .help = "shared memory: each rank sums a slice of all buffers and writes it to all",
    .check = check,
    .build = build,
    .formula = formula,
    .oracle = ls_comm_rank_order,
};
