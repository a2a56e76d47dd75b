/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `canonical`, of exact mode: the bits of a fixed binary tree over S shards, for any
 * number of ranks. Rank d holds shards floor(d S / n) to floor((d + 1) S / n) - 1 and contributes
 * its finished subtrees (comm.h). Slice d is part d of an even split (ls_extent).
 *   1. round s = 1, ..., n - 1: rank r sends slice r + s of each of its subtrees to rank r + s and
 *      receives slice r of each subtree of rank r - s, modulo n
 *   2. each rank sums its slice of all subtrees up the rest of the tree
 *   3. the slices are all-gathered around a ring
 * With P elements, k = min(n, P) nonempty slices, T(q) subtrees of rank q, P(q) elements of slice
 * q: messages sum over q of T(q) (k - [P(q) > 0]), and (n - 1) k; bytes 4 times sum over q of T(q)
 * (P - P(q)), and 4 (n - 1) P. The first numbers are for the reduce-scatter (steps 1 and 2), the
 * second for the all-gather. With more ranks than shards, some contribute nothing. In a group of
 * ranks (ls_rank_group), steps 1 and 2 run among its ranks, and sum its finished subtrees. Sum:
 * sum(0, S) with sum(lo, hi) = sum(lo, mid) + sum(mid, hi), mid = lo + the largest power of two
 * below hi - lo; sum(s, s + 1) = shard s.
 */
#include "common/comm/comm_parts.h"
#include "common/comm/comm_sums.h"

#include <stdlib.h>

/* ---- The tree ------------------------------------------------------------------------------ */

int64_t ls_canonical_middle(int64_t lo, int64_t hi)
{
    int64_t half = 1;
    while (2 * half < hi - lo)
        half *= 2;
    return lo + half;
}

/* The left child has a power of two of leaves, and begins at a multiple of twice as many; without a
 * tree all are added to the first. */
static bool are_children(ls_subtree left, ls_subtree right, int64_t leaves)
{
    if (!leaves)
        return true;
    const int64_t size = left.last - left.first, end = left.first + 2 * size;
    return left.last == right.first && !(size & (size - 1)) && left.first % (2 * size) == 0 &&
           right.last == (end < leaves ? end : leaves);
}

size_t ls_fold(ls_term *terms, size_t count, int64_t leaves, ls_addition *out, size_t *out_count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        terms[kept++] = terms[i];
        for (; kept > 1 && are_children(terms[kept - 2].node, terms[kept - 1].node, leaves);
             kept--) {
            terms[kept - 2].node.last = terms[kept - 1].node.last;
            out[(*out_count)++] = (ls_addition){terms[kept - 2].at, terms[kept - 1].at};
        }
    }
    return kept;
}

static size_t find_finished(ls_subtree node, ls_subtree own, ls_subtree *out, size_t count)
{
    if (node.last <= own.first || own.last <= node.first)
        return count;
    if (own.first <= node.first && node.last <= own.last) {
        out[count] = node;
        return count + 1;
    }
    int64_t mid = ls_canonical_middle(node.first, node.last);
    count = find_finished((ls_subtree){node.first, mid}, own, out, count);
    return find_finished((ls_subtree){mid, node.last}, own, out, count);
}

size_t ls_canonical_subtrees(int rank, int ranks, int64_t shards, ls_subtree out[LS_SUBTREES])
{
    const ls_subtree own = {(int64_t)ls_comm_share((size_t)shards, rank, ranks),
                            (int64_t)ls_comm_share((size_t)shards, rank + 1, ranks)};
    return find_finished((ls_subtree){0, shards}, own, out, 0);
}

/* ---- Adding up the rest of the tree --------------------------------------------------------- */

/* The additions for a rank's slice, computed in the addends' memory; the result is then moved to
 * its position. */
typedef struct tree_plan {
    float **leaves; /* [leaf_count] this rank's slice of each finished subtree, in order */
    ls_term *terms; /* [term_count] of leaves, what is left after the additions: the group's */
    ls_addition *added;
    ls_sum_step *steps; /* [step_count] */
    size_t leaf_count, term_count, step_count;
} tree_plan;

static void free_plan(tree_plan *t)
{
    free(t->leaves);
    free(t->terms);
    free(t->added);
    free(t->steps);
}

/* ---- Collecting a rank's slice of all subtrees ---------------------------------------------- */

/* The finished subtrees of rank `rank` of the communicator, a group of `ranks` ranks. */
static size_t find_trees(ls_rank_group group, int rank, int ranks, int64_t shards, ls_subtree *out)
{
    const int groups = group.groups ? group.groups : 1;
    return ls_canonical_subtrees(group.group * ranks + rank, groups * ranks, shards, out);
}

/* The finished subtrees of the ranks before `ranks_before`. */
static size_t count_trees(ls_rank_group group, int ranks_before, int ranks, int64_t shards)
{
    ls_subtree nodes[LS_SUBTREES];
    size_t count = 0;
    for (int r = 0; r < ranks_before; r++)
        count += find_trees(group, r, ranks, shards, nodes);
    return count;
}

/* Locates this rank's slice of each subtree: in its own sums, or for other ranks' subtrees
 * consecutively in the scratch. Plans the sums of the group's subtrees; of all ranks it is one,
 * moved to the data. Frees nothing on failure. */
static ls_status plan_tree(const ls_comm *comm, const ls_allreduce_args *a, tree_plan *t)
{
    ls_subtree nodes[LS_SUBTREES];
    const ls_range slice = ls_comm_parts(ls_comm_extent(a), comm->rank, 1, comm->size);
    const size_t all = count_trees(a->of, comm->size, comm->size, a->shards);
    size_t scratch_used = 0;
    LS_TRY(ls_allocate("canonical", &t->leaves, all, sizeof(float *)));
    LS_TRY(ls_allocate("canonical", &t->terms, all, sizeof *t->terms));
    LS_TRY(ls_allocate("canonical", &t->added, all, sizeof *t->added));
    /* one less than leaves, and the final copy */
    LS_TRY(ls_allocate("canonical", &t->steps, all, sizeof *t->steps));
    for (int r = 0; r < comm->size; r++) {
        size_t count = find_trees(a->of, r, comm->size, a->shards, nodes);
        for (size_t k = 0; k < count; k++, t->leaf_count++) {
            t->terms[t->leaf_count] = (ls_term){nodes[k], t->leaf_count};
            t->leaves[t->leaf_count] = r == comm->rank ? a->sums[k] + slice.first
                                                       : a->scratch + scratch_used++ * slice.count;
        }
    }
    t->term_count = ls_fold(t->terms, t->leaf_count, a->shards, t->added, &t->step_count);
    for (size_t i = 0; i < t->step_count; i++) {
        float *into = t->leaves[t->added[i].into];
        t->steps[i] = (ls_sum_step){into, into, t->leaves[t->added[i].from]};
    }
    if (a->of.groups < 2 && t->leaves[0] != a->data + slice.first)
        t->steps[t->step_count++] = (ls_sum_step){a->data + slice.first, t->leaves[0], NULL};
    return LS_OK;
}

/* Receives the subtrees of rank `from`, and sends this rank's to rank `to`. */
static ls_status put_round(ls_comm *comm, const ls_allreduce_args *a, int to, int from,
                           const tree_plan *tree, ls_op_list *ops)
{
    ls_subtree nodes[LS_SUBTREES];
    ls_range theirs = ls_comm_parts(ls_comm_extent(a), to, 1, comm->size);
    ls_range own_range = ls_comm_parts(ls_comm_extent(a), comm->rank, 1, comm->size);
    const size_t first = count_trees(a->of, from, comm->size, a->shards); /* leaf of rank `from` */
    const size_t in = find_trees(a->of, from, comm->size, a->shards, nodes);
    for (size_t k = 0; k < a->sum_count || k < in; k++) {
        ls_exchange e = {.to = -1, .from = -1};
        if (k < a->sum_count) {
            e.to = to;
            e.send = a->sums[k] + theirs.first;
            e.send_count = theirs.count;
        }
        if (k < in) {
            e.from = from;
            e.receive = tree->leaves[first + k];
            e.receive_count = own_range.count;
        }
        LS_TRY(ls_comm_add_exchange(comm, ops, &e));
    }
    return LS_OK;
}

/* Appends the rounds and the sum; a single rank needs none. */
static ls_status put_sum(ls_comm *comm, const ls_allreduce_args *a, tree_plan *tree,
                         ls_op_list *ops)
{
    const int n = comm->size;
    const ls_range slice = ls_comm_parts(ls_comm_extent(a), comm->rank, 1, n);
    ls_op *sum;
    LS_TRY(plan_tree(comm, a, tree));
    for (int s = 1; s < n; s++)
        LS_TRY(put_round(comm, a, (comm->rank + s) % n, (comm->rank - s + n) % n, tree, ops));
    if (slice.count && tree->step_count) {
        LS_TRY(ls_sums_make(comm->device, "allreduce.tree", tree->steps, tree->step_count,
                            slice.count, &sum));
        LS_TRY(ls_op_list_add(ops, sum));
    }
    return LS_OK;
}

static ls_status put_half(ls_comm *comm, ls_half half, const ls_allreduce_args *a, ls_op_list *ops)
{
    if (half == LS_ALL_GATHER)
        return ls_allreduce_ring.half(comm, half, a, ops);
    ls_subtree nodes[LS_SUBTREES];
    tree_plan tree = {0};
    if (a->shards < 1)
        return ls_fail(LS_CODE_USAGE, "all-reduce", "canonical",
                       "the strategy divides the batch into %lld shards; let it make at least 1",
                       (long long)a->shards);
    size_t expected = find_trees(a->of, comm->rank, comm->size, a->shards, nodes);
    if (a->sum_count != expected)
        return ls_fail(
            LS_CODE_USAGE, "all-reduce", "canonical",
            "the number of partial sums from rank %d is %zu, but its part of the batch requires "
            "%zu; give exactly that number",
            comm->rank, a->sum_count, expected);
    if (comm->size == 1)
        return LS_OK;
    ls_status status = put_sum(comm, a, &tree, ops);
    free_plan(&tree);
    return status;
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    return ls_comm_add_halves(comm, &ls_allreduce_canonical, a, ops);
}

size_t ls_canonical_scratch(ls_rank_group group, int rank, int ranks, ls_extent extent,
                            int64_t shards)
{
    ls_subtree nodes[LS_SUBTREES];
    const size_t others =
        count_trees(group, ranks, ranks, shards) - find_trees(group, rank, ranks, shards, nodes);
    return others * ls_comm_parts(extent, rank, 1, ranks).count;
}

ls_status ls_canonical_sums(const ls_comm *comm, const ls_allreduce_args *args,
                            float *out[LS_SUBTREES], size_t *count)
{
    tree_plan tree = {0};
    ls_status status = plan_tree(comm, args, &tree);
    for (size_t k = 0; k < tree.term_count; k++)
        out[k] = tree.leaves[tree.terms[k].at];
    *count = tree.term_count;
    free_plan(&tree);
    return status;
}

ls_traffic ls_canonical_scatter_formula(ls_rank_group group, int ranks, ls_extent extent,
                                        int64_t shards)
{
    ls_subtree nodes[LS_SUBTREES];
    const uint64_t filled = ls_comm_filled(extent, ranks);
    ls_traffic sum = {0};
    for (int q = 0; q < ranks; q++) {
        uint64_t subtrees = find_trees(group, q, ranks, shards, nodes);
        size_t slice = ls_comm_parts(extent, q, 1, ranks).count;
        sum.messages_sent += subtrees * (filled - (slice > 0));
        sum.bytes_sent += ls_comm_bytes(subtrees, extent.count - slice);
    }
    return sum;
}

static size_t scratch(int rank, int ranks, ls_extent extent, int64_t shards)
{
    return ls_canonical_scratch((ls_rank_group){0}, rank, ranks, extent, shards);
}

static ls_traffic half_formula(ls_half half, int ranks, ls_extent extent, int64_t shards)
{
    return half == LS_ALL_GATHER
               ? ls_comm_shares_formula(ranks, extent)
               : ls_canonical_scatter_formula((ls_rank_group){0}, ranks, extent, shards);
}

static ls_traffic formula(int ranks, ls_extent extent, int64_t shards, const ls_layout *layout)
{
    (void)layout;
    return ls_comm_halves_formula(&ls_allreduce_canonical, ranks, extent, shards);
}

const ls_allreduce ls_allreduce_canonical = {
    .name = "canonical",
    .help = "exact mode: finished subtrees summed in a fixed tree, the same bits on any ranks",
    .scratch = scratch,
    .build = build,
    .formula = formula,
    .half = put_half,
    .half_formula = half_formula,
};
