/* SPDX-License-Identifier: MIT */
/* The number of sums of each slice, and the order in which all are added; see slice.h. */
#include "impl/replica/slice_private.h"

#include "common/base/grow.h"

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
    const int64_t shards = ls_job_shards(job, batch);
    return shards ? shards : (int64_t)count * ls_parts_of(each);
}

/* How shards, or pieces, are dealt: to so many replicas together, for each exchange; and the
 * exchanges whose sums are kept. */
typedef struct dealing {
    int members, kept;
} dealing;

static dealing dealing_of(const ls_job *job)
{
    return job->exact.on ? (dealing){ls_job_mesh(job).size[LS_MEMBER], ls_slice_exchanges(job)}
                         : (dealing){1, 1};
}

int ls_slice_kept(const ls_job *job)
{
    return dealing_of(job).kept;
}

/* The number of replica d's part for one of so many exchanges; and the replica whose part it is. */
static int number_of(const ls_job *job, int d, int exchange, int exchanges)
{
    const int members = dealing_of(job).members;
    return (d / members * exchanges + exchange) * members + d % members;
}

static int replica_of(const ls_job *job, int number, int exchanges)
{
    const int members = dealing_of(job).members;
    return number / members / exchanges * members + number % members;
}

int ls_slice_number(const ls_job *job, int d, int exchange)
{
    return number_of(job, d, exchange, ls_slice_exchanges(job));
}

int64_t ls_slice_samples(const ls_job *job, int64_t batch, int d, int count, int exchange)
{
    const ls_slice_options of = {
        .batch = batch, .number = d, .count = count, .pieces = ls_slice_exchanges(job)};
    const ls_slice_dealt dealt = ls_slice_deal(job, &of, exchange);
    return batch ? ls_slice_begin(batch, dealt.last, dealt.all) -
                       ls_slice_begin(batch, dealt.first, dealt.all)
                 : 0;
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
    const int64_t shards = ls_job_shards(s->options.replica->job, s->options.batch);
    /* later exchanges' gradients are next to the sum of earlier ones, which they are added to */
    const size_t base = s->chained && s->building && !s->options.replica->windows.gradients;
    ls_term left[LS_SUBTREES];
    ls_addition added[LS_SUBTREES];
    int pieces = 0;
    s->order.count = s->order.sums = 0;
    for (int64_t of = s->order.dealt.first; of < s->order.dealt.last; of++) {
        size_t count = 0;
        if (!ls_slice_piece_rows(s, of)) /* of a smaller batch */
            continue;
        if (s->order.sums == LS_SUBTREES)
            return ls_fail(LS_CODE_USAGE, "option", "--sync-bn",
                           "the check against the reference supports at most %d replicas with "
                           "--sync-bn; use fewer --devices",
                           (int)LS_SUBTREES);
        const size_t at = s->order.sums++;
        left[at] = (ls_term){{of, of + 1}, at};
        s->order.begins[at] = s->order.count;
        LS_TRY(
            list(s, (ls_slice_item){.level = base + at, .of = of, .piece = s->piece + pieces++}));
        if (!s->options.unsummed)
            s->order.sums = ls_fold(left, s->order.sums, shards, added, &count);
        for (size_t i = 0; i < count; i++)
            LS_TRY(list(s, (ls_slice_item){.adds = true,
                                           .level = base + added[i].into,
                                           .left = s->order.begins[added[i].into],
                                           .right = s->order.begins[added[i].from]}));
    }
    return LS_OK;
}

/* What a part's sums are of: its finished subtrees; in fast mode all of it. */
static size_t find_sums(const ls_job *job, int64_t batch, int number, int count, ls_subtree *out)
{
    const int64_t shards = ls_job_shards(job, batch);
    if (shards)
        return ls_canonical_subtrees(number, count, shards, out);
    *out = (ls_subtree){number, number + 1};
    return ls_slice_share(batch, number, count) > 0;
}

size_t ls_slice_count_sums(const ls_job *job, int64_t batch, int number, int count)
{
    ls_subtree nodes[LS_SUBTREES];
    return find_sums(job, batch, number, count, nodes);
}

size_t ls_slice_count_kept(const ls_job *job, int64_t batch, int d, int count)
{
    const int kept = ls_slice_kept(job);
    size_t sums = 0;
    for (int e = 0; e < kept; e++)
        sums += ls_slice_count_sums(job, batch, number_of(job, d, e, kept), count * kept);
    return sums;
}

ls_status ls_slice_tree(const ls_job *job, int64_t batch, int count, ls_addition **out,
                        size_t *out_count)
{
    size_t leaves = 0, at = 0;
    ls_subtree nodes[LS_SUBTREES];
    ls_auto ls_term *terms = NULL;
    for (int d = 0; d < count; d++)
        leaves += ls_slice_count_sums(job, batch, d, count);
    *out_count = 0;
    LS_TRY(ls_allocate("slice", out, leaves, sizeof **out));
    LS_TRY(ls_allocate("slice", &terms, leaves, sizeof *terms));
    for (int d = 0; d < count; d++) {
        const size_t sums = find_sums(job, batch, d, count, nodes);
        for (size_t k = 0; k < sums; k++, at++)
            terms[at] = (ls_term){nodes[k], at};
    }
    ls_fold(terms, leaves, ls_job_shards(job, batch), *out, out_count);
    return LS_OK;
}

/* One loss after the other is added: what is left of earlier ones fits here. */
double ls_slice_loss_sum(const ls_job *job, int64_t batch, const double *const *parts, int count)
{
    double loss[LS_SUBTREES] = {0};
    ls_subtree nodes[LS_SUBTREES];
    ls_term terms[LS_SUBTREES];
    ls_addition added[LS_SUBTREES];
    size_t left = 0, sums, taken[LS_JOB_REPLICAS] = {0};
    const int kept = ls_slice_kept(job);
    for (int number = 0; number < count * kept; number++) {
        const int d = replica_of(job, number, kept);
        const size_t own = find_sums(job, batch, number, count * kept, nodes);
        for (size_t k = 0; k < own; k++) {
            loss[left] = parts[d][taken[d]++];
            if (job->update.own_mean)
                loss[left] *= (double)ls_slice_share(batch, d, count) / (double)batch;
            terms[left] = (ls_term){nodes[k], left};
            sums = 0;
            left = ls_fold(terms, left + 1, ls_job_shards(job, batch), added, &sums);
            for (size_t i = 0; i < sums; i++)
                loss[added[i].into] += loss[added[i].from];
        }
    }
    return loss[0];
}
