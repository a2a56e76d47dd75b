/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `direct`, in shared memory: rank r sums elements floor(r P / n) to floor((r + 1) P /
 * n) - 1 of all ranks' buffers, in the order of ranks, and writes the sum to all buffers. Nothing
 * is staged: each element is read once and written once per rank. Up to 8 elements, each rank reads
 * every other rank's data and sums it itself, which saves a barrier. With P elements on n ranks and
 * k = min(n, P) nonempty slices, the transfers between ranks are: messages 2 (n - 1) k (a slice is
 * read from n - 1 ranks and written to them); bytes 2 (n - 1) 4 P. For 1 <= P <= 8: messages n (n -
 * 1); bytes n (n - 1) 4 P. Sum: ((g0 + g1) + g2) + ... The reduce-scatter only sums, the all-gather
 * only writes, for every P: messages (n - 1) k; bytes (n - 1) 4 P each.
 */
#include "common/comm/comm_parts.h"

#include <string.h>

static ls_status check(const ls_comm *comm)
{
    if (comm->linked)
        return ls_fail(LS_CODE_USAGE, "all-reduce", "direct",
                       "this algorithm reads other devices' memory, which --link does not allow; "
                       "use --allreduce ring, tree, halving-doubling, flat or auto");
    if (comm->backend->direct && comm->shared)
        return LS_OK;
    if (comm->unshared)
        return ls_fail(LS_CODE_MISSING, "all-reduce", "direct",
                       "%s; use --allreduce halving-doubling, ring, tree or flat", comm->unshared);
    return ls_fail(LS_CODE_USAGE, "all-reduce", "direct",
                   "this algorithm needs shared memory, which ranks of --comm %s do not have; use "
                   "--allreduce flat, ring, tree or halving-doubling",
                   comm->backend->name);
}

/* What a rank sends: its part of every other rank's slice, and its own slice's sum to each; up to 8
 * elements, its data to each. */
ls_direct_part ls_comm_direct_part(ls_half half, int rank, int ranks, ls_extent extent)
{
    const size_t count = extent.count;
    static const char *const names[] = {
        [LS_HALVES] = "allreduce.direct",
        [LS_REDUCE_SCATTER] = "reducescatter.direct",
        [LS_ALL_GATHER] = "allgather.direct",
    };
    const bool few = half == LS_HALVES && count <= LS_DIRECT_FEW;
    const uint64_t others = (uint64_t)ranks - 1, filled = ls_comm_filled(extent, ranks);
    const ls_range slice = few ? (ls_range){0, count} : ls_comm_parts(extent, rank, 1, ranks);
    const bool sums = half != LS_ALL_GATHER, writes = half != LS_REDUCE_SCATTER;
    ls_direct_part part = {.name = names[half], .half = half, .few = few, .slice = slice};
    if (sums && !few) {
        part.messages = filled - (slice.count > 0);
        part.bytes = ls_comm_bytes(1, count - slice.count);
    }
    if (writes && slice.count) {
        part.messages += others;
        part.bytes += ls_comm_bytes(others, slice.count);
    }
    part.flops = sums ? (double)others * (double)slice.count : 0;
    part.moved =
        (double)ls_comm_bytes((sums ? others + 1 : 1) + (writes ? others + sums : 1), slice.count);
    return part;
}

void ls_comm_direct_do(const ls_direct_part *part, float *const *data, int rank, int ranks)
{
    const ls_range slice = part->slice;
    if (part->half != LS_ALL_GATHER) {
        ls_loop_sum(data, ranks, part->half == LS_HALVES ? LS_LOOP_ALL : rank, slice);
        return;
    }
    for (int r = 0; r < ranks; r++)
        if (r != rank)
            memcpy(data[r] + slice.first, data[rank] + slice.first, slice.count * sizeof **data);
}

static ls_status put_half(ls_comm *comm, ls_half half, const ls_allreduce_args *a, ls_op_list *ops)
{
    LS_TRY(check(comm));
    return ls_comm_add_all(comm, half, LS_BY_BACKEND, a, ops);
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    return put_half(comm, LS_HALVES, a, ops);
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
    const size_t count = extent.count;
    uint64_t others = (uint64_t)ranks - 1, twice = 2 * others;
    (void)shards;
    if (count > 0 && count <= LS_DIRECT_FEW)
        return (ls_traffic){.bytes_sent = ls_comm_bytes((uint64_t)ranks * others, count),
                            .messages_sent = (uint64_t)ranks * others};
    return (ls_traffic){.bytes_sent = ls_comm_bytes(twice, count),
                        .messages_sent = twice * ls_comm_filled(extent, ranks)};
}

const ls_allreduce ls_allreduce_direct = {
    .name = "direct",
    .help = "shared memory: each rank sums a slice of all buffers and writes it to all",
    .check = check,
    .build = build,
    .formula = formula,
    .half = put_half,
    .half_formula = half_formula,
    .oracle = ls_comm_rank_order,
};
