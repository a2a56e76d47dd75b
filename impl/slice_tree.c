/* SPDX-License-Identifier: MIT */
/* The number of sums of each slice, and the order in which all are added; see slice.h. */
#include "impl/slice_private.h"

#include "common/base/grow.h"

int64_t ls_slice_begin(int64_t total, int64_t d, int64_t n)
{
    return d * total / n;
}

int64_t ls_slice_share(int64_t total, int64_t d, int64_t n)
{
    return ls_slice_begin(total, d + 1, n) - ls_slice_begin(total, d, n);
}

size_t ls_slice_count_sums(const ls_job *job, int64_t batch, int number, int count)
{
    ls_subtree nodes[LS_SUBTREES];
    if (!job->exact.on)
        return ls_slice_share(batch, number, count) > 0;
    return ls_canonical_subtrees(number, count, ls_job_shards(job, batch), nodes);
}

typedef struct tree_builder {
    int64_t shards, replicas;
    size_t leaves; /* sums visited so far */
    ls_tree_sum *sums;
    size_t count;
} tree_builder;

/* The replica that owns all shards of sum(lo, hi); -1: none. */
static int64_t owner_of(int64_t lo, int64_t hi, int64_t shards, int64_t replicas)
{
    for (int64_t d = 0; d < replicas; d++)
        if (lo >= ls_slice_begin(shards, d, replicas) &&
            hi <= ls_slice_begin(shards, d + 1, replicas))
            return d;
    return -1;
}

/* Appends the additions of sum(lo, hi); returns the number of its sum. */
static size_t tree_below(tree_builder *b, int64_t lo, int64_t hi)
{
    if (owner_of(lo, hi, b->shards, b->replicas) >= 0)
        return b->leaves++;
    size_t left = tree_below(b, lo, ls_canonical_middle(lo, hi));
    size_t right = tree_below(b, ls_canonical_middle(lo, hi), hi);
    b->sums[b->count++] = (ls_tree_sum){left, right};
    return left;
}

ls_status ls_slice_tree(const ls_job *job, int64_t batch, int count, ls_tree_sum **out,
                        size_t *out_count)
{
    size_t leaves = 0;
    for (int d = 0; d < count; d++)
        leaves += ls_slice_count_sums(job, batch, d, count);
    tree_builder b = {.shards = ls_job_shards(job, batch), .replicas = count};
    LS_TRY(ls_allocate("slice", &b.sums, leaves, sizeof *b.sums));
    if (job->exact.on) {
        tree_below(&b, 0, b.shards);
    } else {
        for (size_t i = 1; i < leaves; i++)
            b.sums[b.count++] = (ls_tree_sum){0, i};
    }
    *out = b.sums;
    *out_count = b.count;
    return LS_OK;
}

/* sum(lo, hi) of losses; reads each replica's parts from left to right. */
static double loss_below(const double *const *parts, size_t *taken, int64_t lo, int64_t hi,
                         const int64_t tree[2])
{
    const int64_t d = owner_of(lo, hi, tree[0], tree[1]);
    if (d >= 0)
        return parts[d][taken[d]++];
    double left = loss_below(parts, taken, lo, ls_canonical_middle(lo, hi), tree);
    return left + loss_below(parts, taken, ls_canonical_middle(lo, hi), hi, tree);
}

double ls_slice_loss_sum(const ls_job *job, int64_t batch, const double *const *parts, int count)
{
    if (job->exact.on) {
        size_t taken[LS_JOB_REPLICAS] = {0};
        const int64_t shards = ls_job_shards(job, batch);
        return loss_below(parts, taken, 0, shards, (const int64_t[]){shards, count});
    }
    double loss = 0;
    bool first = true;
    for (int d = 0; d < count; d++) {
        if (!ls_slice_count_sums(job, batch, d, count))
            continue;
        double part = parts[d][0];
        if (job->update.own_mean)
            part *= (double)ls_slice_share(batch, d, count) / (double)batch;
        loss = first ? part : loss + part;
        first = false;
    }
    return loss;
}
