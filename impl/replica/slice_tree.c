/* SPDX-License-Identifier: MIT */
/* The number of sums of each slice, and the order in which all are added; see slice.h. */
#include "impl/replica/slice_private.h"

#include "common/base/grow.h"

#include <stdlib.h>

int64_t ls_slice_begin(int64_t total, int64_t d, int64_t n)
{
    return d * total / n;
}

int64_t ls_slice_share(int64_t total, int64_t d, int64_t n)
{
    return ls_slice_begin(total, d + 1, n) - ls_slice_begin(total, d, n);
}

int ls_slice_exchanges(const ls_job *job)
{
    const ls_accumulation *a = &job->accumulation;
    return a->each && !a->breadth ? ls_job_pieces(job) : 1;
}

int64_t ls_slice_pieces(const ls_job *job, int64_t batch, int count, int each)
{
    return job->exact.on ? ls_job_shards(job, batch) : (int64_t)count * (each > 1 ? each : 1);
}

/* Replicas to which shards are dealt together, for each exchange; pieces are dealt to one. */
static int dealt_to(const ls_job *job)
{
    return job->exact.on ? ls_job_mesh(job).size[LS_MEMBER] : 1;
}

int ls_slice_number(const ls_job *job, int d, int exchange)
{
    const int exchanges = ls_slice_exchanges(job), members = dealt_to(job);
    return (d / members * exchanges + exchange) * members + d % members;
}

/* The replica whose part this is. */
static int replica_of(const ls_job *job, int number)
{
    const int members = dealt_to(job);
    return number / members / ls_slice_exchanges(job) * members + number % members;
}

int64_t ls_slice_samples(const ls_job *job, int64_t batch, int d, int count, int exchange)
{
    const ls_slice_options of = {
        .batch = batch, .number = d, .count = count, .pieces = ls_slice_exchanges(job)};
    int64_t first, last;
    const int64_t all = ls_slice_find_pieces(job, &of, exchange, &first, &last);
    return batch ? ls_slice_begin(batch, last, all) - ls_slice_begin(batch, first, all) : 0;
}

bool ls_slice_has_exchange(const ls_job *job, int64_t batch, int count, int exchange)
{
    for (int d = 0; d < count; d++)
        if (ls_slice_samples(job, batch, d, count, exchange))
            return true;
    return false;
}

/* ---- Sums ----------------------------------------------------------------------------------- */

static ls_status list(ls_slice *s, ls_slice_item item)
{
    LS_TRY(ls_grow("slice", &s->order.items, s->order.count, sizeof item));
    s->order.items[s->order.count++] = item;
    return LS_OK;
}

ls_status ls_slice_list(ls_slice *s)
{
    const ls_job *job = s->options.replica->job;
    ls_term left[LS_SUBTREES];
    ls_addition added[LS_SUBTREES];
    int pieces = 0;
    s->order.count = s->order.sums = 0;
    for (int64_t of = s->order.first; of < s->order.last; of++) {
        size_t count = 0;
        if (!ls_slice_piece_rows(s, of)) /* of a smaller batch */
            continue;
        if (s->order.sums == LS_SUBTREES)
            return ls_fail(LS_CODE_USAGE, "option", "--sync-bn",
                           "has an oracle for %d replicas at most; use fewer", (int)LS_SUBTREES);
        const size_t at = s->order.sums++;
        left[at] = (ls_term){{of, of + 1}, at};
        s->order.begins[at] = s->order.count;
        LS_TRY(list(s, (ls_slice_item){.level = at, .of = of, .piece = s->piece + pieces++}));
        if (s->chained && at) {
            added[count++] = (ls_addition){0, 1};
            s->order.sums = 1;
        } else if (job->exact.on) {
            s->order.sums = ls_fold(left, s->order.sums, s->pieces, added, &count);
        }
        for (size_t i = 0; i < count; i++)
            LS_TRY(list(s, (ls_slice_item){.adds = true,
                                           .level = added[i].into,
                                           .left = s->order.begins[added[i].into],
                                           .right = s->order.begins[added[i].from]}));
    }
    return LS_OK;
}

size_t ls_slice_count_sums(const ls_job *job, int64_t batch, int number, int count)
{
    ls_subtree nodes[LS_SUBTREES];
    if (!job->exact.on)
        return ls_slice_share(batch, number, count) > 0;
    return ls_canonical_subtrees(number, count, ls_job_shards(job, batch), nodes);
}

ls_status ls_slice_tree(const ls_job *job, int64_t batch, int count, ls_addition **out,
                        size_t *out_count)
{
    const int64_t shards = ls_job_shards(job, batch);
    size_t leaves = 0, at = 0;
    ls_subtree nodes[LS_SUBTREES];
    ls_term *terms;
    for (int d = 0; d < count; d++)
        leaves += ls_slice_count_sums(job, batch, d, count);
    *out_count = 0;
    LS_TRY(ls_allocate("slice", out, leaves, sizeof **out));
    if (!job->exact.on) {
        for (size_t i = 1; i < leaves; i++)
            (*out)[(*out_count)++] = (ls_addition){0, i};
        return LS_OK;
    }
    ls_status status = ls_allocate("slice", &terms, leaves, sizeof *terms);
    for (int d = 0; d < count && !status; d++) {
        const size_t sums = ls_canonical_subtrees(d, count, shards, nodes);
        for (size_t k = 0; k < sums; k++, at++)
            terms[at] = (ls_term){nodes[k], at};
    }
    if (!status)
        ls_fold(terms, leaves, shards, *out, out_count);
    free(terms);
    return status;
}

/* As above, for losses, one after the other: what is left of earlier ones fits here. */
static double fold_losses(const ls_job *job, const double *const *parts, int64_t shards, int count)
{
    double loss[LS_SUBTREES];
    ls_subtree nodes[LS_SUBTREES];
    ls_term terms[LS_SUBTREES];
    ls_addition added[LS_SUBTREES];
    size_t left = 0, sums, taken[LS_JOB_REPLICAS] = {0};
    const int all = count * ls_slice_exchanges(job);
    for (int number = 0; number < all; number++) {
        const int d = replica_of(job, number);
        const size_t own = ls_canonical_subtrees(number, all, shards, nodes);
        for (size_t k = 0; k < own; k++) {
            loss[left] = parts[d][taken[d]++];
            terms[left] = (ls_term){nodes[k], left};
            sums = 0;
            left = ls_fold(terms, left + 1, shards, added, &sums);
            for (size_t i = 0; i < sums; i++)
                loss[added[i].into] += loss[added[i].from];
        }
    }
    return loss[0];
}

double ls_slice_loss_sum(const ls_job *job, int64_t batch, const double *const *parts, int count)
{
    if (job->exact.on)
        return fold_losses(job, parts, ls_job_shards(job, batch), count);
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
