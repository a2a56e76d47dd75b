/* SPDX-License-Identifier: MIT */
/*
 * All-reduce `canonical`, of exact mode: the bits of a fixed binary tree over S shards, whatever
 * the number of ranks. Rank d holds shards floor(d S / n) to floor((d + 1) S / n) - 1 and brings
 * its finished subtrees (comm.h). Slice d is elements floor(d P / n) to floor((d + 1) P / n) - 1.
 *   1. round s = 1, ..., n - 1: rank r sends slice r + s of each of its subtrees to rank r + s and
 *      receives slice r of those of rank r - s, modulo n
 *   2. each rank adds its slice of all subtrees up the rest of the tree
 *   3. the slices are all-gathered around a ring
 *
 * With P elements, k = min(n, P) slices with elements, T(q) subtrees of rank q, P(q) elements of
 * slice q: messages sum over q of T(q) (k - [P(q) > 0]), and (n - 1) k; bytes 4 times sum over q
 * of T(q) (P - P(q)), and 4 (n - 1) P. Ranks may be more than shards; some then bring nothing.
 * Sum: sum(0, S) with sum(lo, hi) = sum(lo, mid) + sum(mid, hi), mid = lo + the largest power of
 * two below hi - lo; sum(s, s + 1) = shard s. Adds on the host: for devices whose memory it sees.
 */
#include "common/comm/comm_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- The tree ------------------------------------------------------------------------------ */

static int64_t middle(ls_subtree node)
{
    int64_t half = 1;
    while (2 * half < node.last - node.first)
        half *= 2;
    return node.first + half;
}

static size_t find_finished(ls_subtree node, ls_subtree held, ls_subtree *out, size_t count)
{
    if (node.last <= held.first || held.last <= node.first)
        return count;
    if (held.first <= node.first && node.last <= held.last) {
        out[count] = node;
        return count + 1;
    }
    int64_t mid = middle(node);
    count = find_finished((ls_subtree){node.first, mid}, held, out, count);
    return find_finished((ls_subtree){mid, node.last}, held, out, count);
}

size_t ls_canonical_subtrees(int rank, int ranks, int64_t shards, ls_subtree out[LS_SUBTREES])
{
    const ls_subtree held = {(int64_t)ls_comm_share((size_t)shards, rank, ranks),
                             (int64_t)ls_comm_share((size_t)shards, rank + 1, ranks)};
    return find_finished((ls_subtree){0, shards}, held, out, 0);
}

/* ---- Adding up the rest of the tree --------------------------------------------------------- */

/* A finished subtree's slice in this rank's reach. */
typedef struct leaf {
    ls_subtree node;
    float *data;
} leaf;

typedef struct tree_step {
    float *to;
    const float *from;
} tree_step;

/* to = to + from for each step in turn; then the result goes to its place. */
typedef struct tree_op {
    ls_op op;
    float *out;
    size_t count;
    leaf *leaves;
    size_t leaf_count, step_count;
    tree_step *steps;
} tree_op;

enum { BLOCK = 4096 };

static ls_status run_tree(ls_op *op, ls_queue *queue)
{
    tree_op *t = (tree_op *)op;
    (void)queue;
    for (size_t at = 0; at < t->count; at += BLOCK) { /* a block of all leaves stays in the cache */
        size_t left = t->count - at, count = left < BLOCK ? left : BLOCK;
        for (size_t s = 0; s < t->step_count; s++)
            ls_loop_add(t->steps[s].to + at, t->steps[s].from + at, count);
        if (t->out != t->leaves[0].data)
            memcpy(t->out + at, t->leaves[0].data + at, count * sizeof *t->out);
    }
    return LS_OK;
}

static void destroy_tree(ls_op *op)
{
    tree_op *t = (tree_op *)op;
    free(t->leaves);
    free(t->steps);
    free(t);
}

/* Plans sum(node) in place of its leftmost leaf; leaves are in order, `next` is the first left. */
static float *plan_node(tree_op *t, ls_subtree node, size_t *next)
{
    const leaf *l = &t->leaves[*next];
    if (l->node.first == node.first && l->node.last == node.last) {
        (*next)++;
        return l->data;
    }
    int64_t mid = middle(node);
    float *to = plan_node(t, (ls_subtree){node.first, mid}, next);
    const float *from = plan_node(t, (ls_subtree){mid, node.last}, next);
    t->steps[t->step_count++] = (tree_step){to, from};
    return to;
}

/* ---- Collecting a rank's slice of all subtrees ---------------------------------------------- */

static size_t count_all(int ranks, int64_t shards)
{
    ls_subtree nodes[LS_SUBTREES];
    size_t count = 0;
    for (int r = 0; r < ranks; r++)
        count += ls_canonical_subtrees(r, ranks, shards, nodes);
    return count;
}

/* Where the slice of each rank's subtrees lies: in its own sums, else one after the other in the
 * scratch. */
static ls_status make_tree(ls_comm *comm, const ls_allreduce_args *a, ls_range slice, tree_op **out)
{
    ls_subtree nodes[LS_SUBTREES];
    size_t all = count_all(comm->size, a->shards), place = 0;
    tree_op *t = calloc(1, sizeof *t);
    if (!t)
        return ls_fail_memory("canonical", sizeof *t);
    *t = (tree_op){.op = {.name = "allreduce.tree", .run = run_tree, .destroy = destroy_tree},
                   .out = a->data + slice.first,
                   .count = slice.count,
                   .leaves = calloc(all, sizeof *t->leaves),
                   .steps = calloc(all, sizeof *t->steps)};
    if (!t->leaves || !t->steps) {
        destroy_tree(&t->op);
        return ls_fail_memory("canonical", all * sizeof *t->leaves);
    }
    for (int r = 0; r < comm->size; r++) {
        size_t count = ls_canonical_subtrees(r, comm->size, a->shards, nodes);
        for (size_t k = 0; k < count; k++)
            t->leaves[t->leaf_count++] =
                (leaf){nodes[k], r == comm->rank ? a->sums[k] + slice.first
                                                 : a->scratch + place++ * slice.count};
    }
    size_t next = 0;
    plan_node(t, (ls_subtree){0, a->shards}, &next);
    t->op.flops = (double)t->step_count * (double)slice.count;
    t->op.bytes = (double)ls_comm_bytes(all + 1, slice.count);
    *out = t;
    return LS_OK;
}

/* Subtrees of rank `from` come, those of this rank go to rank `to`. */
static ls_status put_round(ls_comm *comm, const ls_allreduce_args *a, int to, int from,
                           const tree_op *tree, ls_op_list *ops)
{
    ls_subtree nodes[LS_SUBTREES];
    ls_range theirs = ls_comm_parts(a->count, to, 1, comm->size);
    size_t first = 0; /* leaf of rank `from` */
    for (int r = 0; r < from; r++)
        first += ls_canonical_subtrees(r, comm->size, a->shards, nodes);
    size_t in = ls_canonical_subtrees(from, comm->size, a->shards, nodes);
    for (size_t k = 0; k < a->sum_count || k < in; k++) {
        ls_exchange e = {.to = -1, .from = -1};
        if (k < a->sum_count) {
            e.to = to;
            e.send = a->sums[k] + theirs.first;
            e.send_count = theirs.count;
        }
        if (k < in) {
            e.from = from;
            e.receive = tree->leaves[first + k].data;
            e.receive_count = tree->count;
        }
        LS_TRY(ls_comm_put_exchange(comm, ops, &e));
    }
    return LS_OK;
}

static ls_status put_gather(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    size_t *offsets = NULL;
    LS_TRY(ls_comm_even_split(a->count, comm->size, &offsets));
    ls_status status = ls_allgather_build(comm, a->data, offsets, offsets + comm->size, ops);
    free(offsets);
    return status;
}

static ls_status build(ls_comm *comm, const ls_allreduce_args *a, ls_op_list *ops)
{
    ls_subtree nodes[LS_SUBTREES];
    int n = comm->size;
    tree_op *tree = NULL;
    if (a->shards < 1)
        return ls_fail(LS_CODE_USAGE, "all-reduce", "canonical", "%lld shards; there must be one",
                       (long long)a->shards);
    size_t mine = ls_canonical_subtrees(comm->rank, n, a->shards, nodes);
    if (a->sum_count != mine)
        return ls_fail(LS_CODE_USAGE, "all-reduce", "canonical",
                       "rank %d brings %zu sums, where its shards have %zu finished subtrees",
                       comm->rank, a->sum_count, mine);
    LS_TRY(make_tree(comm, a, ls_comm_parts(a->count, comm->rank, 1, n), &tree));
    ls_status status = LS_OK;
    for (int s = 1; s < n && !status; s++)
        status = put_round(comm, a, (comm->rank + s) % n, (comm->rank - s + n) % n, tree, ops);
    if (status || n == 1) {
        destroy_tree(&tree->op);
        return status;
    }
    LS_TRY(ls_op_list_add(ops, &tree->op));
    return put_gather(comm, a, ops);
}

static size_t scratch(int rank, int ranks, size_t count, int64_t shards)
{
    ls_subtree nodes[LS_SUBTREES];
    size_t others = count_all(ranks, shards) - ls_canonical_subtrees(rank, ranks, shards, nodes);
    return others * ls_comm_parts(count, rank, 1, ranks).count;
}

static ls_traffic formula(int ranks, size_t count, int64_t shards)
{
    ls_subtree nodes[LS_SUBTREES];
    uint64_t filled = ls_comm_filled(count, ranks);
    ls_traffic sum = {.messages_sent = ((uint64_t)ranks - 1) * filled,
                      .bytes_sent = ls_comm_bytes((uint64_t)ranks - 1, count)};
    for (int q = 0; q < ranks; q++) {
        uint64_t subtrees = ls_canonical_subtrees(q, ranks, shards, nodes);
        size_t slice = ls_comm_parts(count, q, 1, ranks).count;
        sum.messages_sent += subtrees * (filled - (slice > 0));
        sum.bytes_sent += ls_comm_bytes(subtrees, count - slice);
    }
    return sum;
}

const ls_allreduce ls_allreduce_canonical = {
    .name = "canonical",
    .help = "exact mode: finished subtrees added up a fixed tree, the same bits on any ranks",
    .scratch = scratch,
    .build = build,
    .formula = formula,
};
