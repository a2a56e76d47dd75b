/* SPDX-License-Identifier: MIT */
/*
 * All-reduces of gradients, bucket by bucket. With overlap, a member's all-reduces have a separate
 * lane; otherwise they are on its compute lane, which is faster if one core does both.
 */
#include "common/base/grow.h"
#include "common/comm/comm_sums.h"
#include "impl/step/verbs/build.h"
#include "impl/step/verbs/terms.h"

#include <stdlib.h>

/* ---- Scratch --------------------------------------------------------------------------------- */

/* The group, among several groups of replicas that share the update, that a member is in; none if
 * there is one. A group has the shards of its exchanges one after the other, so each exchange
 * counts as a group. */
static ls_rank_group set_of(const ls_step_plan *plan, int member, int exchange)
{
    const int exchanges = ls_slice_kept(plan->job), groups = plan->mesh.size[LS_GROUP];
    const int group = groups > 1 ? ls_step_plan_set(plan, member) : 0;
    return groups * exchanges > 1
               ? (ls_rank_group){group * exchanges + exchange, groups * exchanges}
               : (ls_rank_group){0};
}

size_t ls_group_scratch(const ls_step_plan *plan, const ls_planned_group *g, int member,
                        const ls_comm *comm)
{
    const ls_job *job = plan->job;
    const ls_allreduce *adds = ls_gradient_sum(job);
    /* its all-reduces sum shares, between groups of replicas */
    const bool crosses = g - plan->groups >= ls_step_plan_sets(plan);
    const size_t exchanges = crosses ? 1 : (size_t)ls_slice_kept(job);
    size_t most = 0;
    for (int kind = 0; kind < LS_BATCHES && adds->scratch; kind++) {
        const int64_t batch = ls_replicated_batch(job, kind), shards = ls_shards_of(job, kind);
        for (size_t i = 0; i < exchanges * g->buckets.count && batch; i++) {
            const ls_extent extent = g->buckets.extents[i / exchanges];
            const ls_rank_group set =
                crosses ? (ls_rank_group){0} : set_of(plan, member, (int)(i % exchanges));
            const size_t need =
                set.groups && shards
                    ? ls_canonical_scratch(set, comm->rank, comm->size, extent, shards)
                    : adds->scratch(comm->rank, comm->size, extent, shards);
            most = need > most ? need : most;
        }
    }
    return most;
}

size_t ls_group_share_before(const ls_planned_group *g, size_t buckets, const ls_comm *comm)
{
    size_t sum = 0;
    for (size_t b = 0; b < buckets; b++)
        sum += ls_bucket_share(&g->buckets, b, comm->rank, comm->size).count;
    return sum;
}

size_t ls_group_slots(const ls_step_plan *plan, const ls_planned_group *g, int member)
{
    const ls_job *job = plan->job;
    ls_terms terms = {0};
    if (!ls_step_folds(job) || g - plan->groups >= ls_step_plan_sets(plan))
        return 0;
    for (int kind = 0; kind < LS_BATCHES; kind++) {
        terms.count = 0;
        for (int e = 0; e < ls_slice_kept(job) && ls_shards_of(job, kind); e++)
            ls_terms_take(&terms, set_of(plan, member, e), ls_shards_of(job, kind));
    }
    return terms.slots;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* What a call reduces. */
typedef enum reduced_kind { GRADIENTS, PARAMETERS, SQUARES } reduced_kind;

typedef struct reduced {
    reduced_kind what;
    int bucket;
    ls_range range; /* of the flat buffer; of sums of squares, as floats */
    ls_extent extent;
} reduced;

/* Where a member's range is when it is whole. */
static float *whole_at(const ls_replica *r, const reduced *of)
{
    if (of->what == SQUARES)
        return (float *)r->norm.own_squares + of->range.first;
    if (of->what == PARAMETERS)
        return (float *)(r->masters ? r->masters : r->windows.whole_parameters) +
               ls_windows_at(r->windows.parameters, of->range.first);
    return (float *)r->windows.whole_gradients +
           ls_windows_at(r->windows.gradients, of->range.first);
}

/* Whether gradients of an exchange, in fast mode, are in another buffer than earlier ones. */
static bool adds_to_earlier(const ls_step *s, const ls_replica *r)
{
    return s->exchanged && !ls_step_folds(ls_step_job(s)) && !r->windows.gradients;
}

/* Where a member has a range before a call: gradients of the exchange, that is. */
static float *brought_at(const ls_step *s, int member, const reduced *of)
{
    const ls_replica *r = ls_step_replica(s, member);
    const ls_slice *slice = ls_step_member(s, member)->slice[s->batch_kind];
    return of->what == GRADIENTS && adds_to_earlier(s, r)
               ? (float *)ls_slice_gradients(slice, 1) + of->range.first
               : whole_at(r, of);
}

/* Appends the copy of a member's share of a bucket: parameters from where they are kept into the
 * window, gradients from the window to where they are kept, or are added (`adds`). */
static ls_status copy_share(const ls_replica *r, const reduced *of, bool adds, ls_op_list *ops)
{
    const ls_shares *shares = &r->updated.shares;
    const ls_range share =
        ls_bucket_share(shares->buckets, (size_t)of->bucket, shares->share, shares->count);
    float *whole = whole_at(r, of) + (share.first - of->range.first);
    ls_op *op;
    ls_replica_at at;
    if (!share.count)
        return LS_OK;
    LS_TRY(ls_replica_find(r, share, &at));
    float *kept = (float *)r->gradients + at.gradients;
    const ls_sum_step copy =
        of->what == PARAMETERS ? (ls_sum_step){whole, (float *)r->parameters + at.parameters, NULL}
        : adds                 ? (ls_sum_step){kept, kept, whole}
                               : (ls_sum_step){kept, whole, NULL};
    LS_TRY(ls_sums_make(r->device, "allreduce.copy", &copy, 1, share.count, &op));
    return ls_op_list_add(ops, op);
}

/* In exact mode a member brings its finished subtrees. */
static ls_status bring(ls_step *s, const ls_call *c, int member, ls_brought *b, ls_op_list *ops)
{
    const reduced *of = c->of;
    const ls_replica *r = ls_step_replica(s, member);
    const ls_slice *slice = ls_step_member(s, member)->slice[s->batch_kind];
    b->args.data = c->half == LS_ALL_GATHER ? whole_at(r, of) : brought_at(s, member, of);
    b->args.cut = &of->extent;
    b->args.shards = c->half == LS_ALL_GATHER ? 0 : ls_step_shards(s);
    if (b->args.shards) {
        b->args.sums = b->sums;
        b->args.sum_count = ls_slice_sums(slice, s->exchange);
        b->args.of = set_of(s->plan, member, s->exchange);
    }
    for (size_t k = 0; k < b->args.sum_count; k++)
        b->sums[k] = (float *)ls_slice_gradients(slice, k) +
                     (b->args.data - (float *)r->windows.whole_gradients);
    return c->half == LS_ALL_GATHER && of->what == PARAMETERS && r->windows.parameters
               ? copy_share(r, of, false, ops)
               : LS_OK;
}

/* ---- Exchanges of a step --------------------------------------------------------------------- */

/* Where a member has slots of sums of its share of a bucket. */
typedef struct slots {
    float *first;
    size_t count; /* elements from a slot to the next */
} slots;

static slots slots_of(const ls_step *s, int member, int bucket)
{
    const int set = ls_step_plan_set(s->plan, member);
    const ls_planned_group *g = &s->plan->groups[set];
    const ls_end *end = &s->resources->ends[LS_GROUPS + set].items[member];
    return (slots){(float *)end->terms + ls_group_share_before(g, (size_t)bucket, end->comm),
                   ls_group_share_before(g, g->buckets.count, end->comm)};
}

static float *slot_at(const slots *of, size_t slot)
{
    return of->first + slot * of->count;
}

/* Sets `terms` to the sums that are left over behind the exchange. */
static void find_terms(const ls_step *s, int member, ls_terms *terms)
{
    *terms = (ls_terms){0};
    for (int e = 0; e <= s->exchange; e++)
        ls_terms_take(terms, set_of(s->plan, member, e), ls_step_shards(s));
}

/* Appends what adds the finished sums of a member's share of a bucket to earlier exchanges' sums.
 * Behind the last one, a single sum goes to where the share is kept. */
static ls_status fold_share(const ls_step *s, const ls_end *end, int member, const ls_brought *b,
                            const reduced *of, ls_op_list *ops)
{
    const ls_replica *r = ls_step_replica(s, member);
    const ls_planned_group *g = &s->plan->groups[ls_step_plan_set(s->plan, member)];
    const ls_range share =
        ls_bucket_share(&g->buckets, (size_t)of->bucket, end->comm->rank, end->comm->size);
    const slots own = slots_of(s, member, of->bucket);
    float *sums[LS_SUBTREES];
    ls_sum_step steps[3 * LS_SUBTREES + 1];
    ls_terms terms;
    ls_replica_at at;
    ls_op *op;
    size_t count;
    if (!share.count)
        return LS_OK;
    LS_TRY(ls_replica_find(r, share, &at));
    LS_TRY(ls_canonical_sums(end->comm, &b->args, sums, &count));
    find_terms(s, member, &terms);
    for (count = 0; count < terms.step_count; count++) {
        const struct ls_term_step *step = &terms.steps[count];
        float *slot = slot_at(&own, step->slot);
        steps[count] = step->adds ? (ls_sum_step){slot, slot, slot_at(&own, step->from)}
                                  : (ls_sum_step){slot, sums[step->from], NULL};
    }
    if (ls_step_last_exchange(s) && s->plan->mesh.size[LS_GROUP] == 1)
        steps[count++] = (ls_sum_step){(float *)r->gradients + at.gradients,
                                       slot_at(&own, terms.items[0].at), NULL};
    if (!count)
        return LS_OK;
    LS_TRY(ls_sums_make(r->device, "allreduce.terms", steps, count, share.count, &op));
    return ls_op_list_add(ops, op);
}

/* Appends what adds the gradients of an exchange to earlier ones, in fast mode, for a bucket, or
 * for a member's share. */
static ls_status add_exchange(const ls_step *s, const ls_end *end, int member, ls_half half,
                              const reduced *of, ls_op_list *ops)
{
    const ls_replica *r = ls_step_replica(s, member);
    const ls_planned_group *g = &s->plan->groups[ls_step_plan_set(s->plan, member)];
    reduced own = *of;
    ls_op *op;
    if (r->windows.gradients)
        return copy_share(r, of, s->exchanged > 0, ops);
    if (half == LS_REDUCE_SCATTER)
        own.range =
            ls_bucket_share(&g->buckets, (size_t)of->bucket, end->comm->rank, end->comm->size);
    if (!adds_to_earlier(s, r) || !own.range.count)
        return LS_OK;
    float *sum = whole_at(r, &own);
    const ls_sum_step add = {sum, sum, brought_at(s, member, &own)};
    LS_TRY(ls_sums_make(r->device, "allreduce.add", &add, 1, own.range.count, &op));
    return ls_op_list_add(ops, op);
}

/* In exact mode, what groups add up between them (bring_share) is not in the gradient's share yet.
 */
static ls_status take(ls_step *s, const ls_call *c, int member, ls_brought *b, ls_op_list *ops)
{
    const reduced *of = c->of;
    const ls_end *end = &s->resources->ends[c->channel].items[member];
    if (of->what != GRADIENTS || c->half == LS_ALL_GATHER)
        return LS_OK;
    if (ls_step_folds(ls_step_job(s)))
        return fold_share(s, end, member, b, of, ops);
    return b->args.shards && b->args.of.groups ? LS_OK
                                               : add_exchange(s, end, member, c->half, of, ops);
}

/* Appends a member's part in reducing its share of a bucket between groups. In exact mode it brings
 * its group's finished subtrees, which the reduce-scatter has left. */
static ls_status bring_share(ls_step *s, const ls_call *c, int member, ls_brought *b,
                             ls_op_list *ops)
{
    const reduced *of = c->of;
    const ls_replica *r = ls_step_replica(s, member);
    const int inside = LS_GROUPS + ls_step_plan_set(s->plan, member);
    const ls_end *end = &s->resources->ends[inside].items[member];
    ls_replica_at at;
    LS_TRY(ls_replica_find(r, of->range, &at));
    b->args.shards = ls_step_shards(s);
    if (ls_step_folds(ls_step_job(s))) {
        const slots own = slots_of(s, member, of->bucket);
        ls_terms terms;
        find_terms(s, member, &terms);
        for (; b->args.sum_count < terms.count; b->args.sum_count++)
            b->sums[b->args.sum_count] = slot_at(&own, terms.items[b->args.sum_count].at);
        b->args.sums = b->sums;
    } else if (b->args.shards) {
        const ls_buckets *buckets = &s->plan->groups->buckets;
        const reduced bucket = {GRADIENTS, of->bucket, buckets->items[of->bucket],
                                buckets->extents[of->bucket]};
        const ls_call scatter = {.half = LS_REDUCE_SCATTER, .of = &bucket};
        ls_brought whole = {.args.scratch = end->scratch};
        LS_TRY(bring(s, &scatter, member, &whole, ops));
        whole.args.count = bucket.extent.count;
        LS_TRY(ls_canonical_sums(end->comm, &whole.args, b->sums, &b->args.sum_count));
        b->args.sums = b->sums;
    }
    b->args.data = (float *)r->gradients + at.gradients;
    b->args.cut = &of->extent;
    return LS_OK;
}

static void append(ls_step *s, int group, ls_half half, const reduced *of)
{
    const ls_job *job = ls_step_job(s);
    ls_step_call(s, &(ls_call){.channel = LS_GROUPS + group,
                               .algorithm = of->what == GRADIENTS ? ls_gradient_sum(job)
                                                                  : job->exchange.allreduce,
                               .half = half,
                               .range = of->what == SQUARES ? (ls_range){0} : of->range,
                               .bring = group < ls_step_plan_sets(s->plan) ? bring : bring_share,
                               .take = group < ls_step_plan_sets(s->plan) ? take : NULL,
                               .of = of});
}

/* As above, for a bucket of a group. */
static void append_bucket(ls_step *s, int group, ls_half half, reduced_kind what, int b)
{
    const ls_buckets *buckets = &s->plan->groups[group].buckets;
    const reduced of = {what, b, buckets->items[b], buckets->extents[b]};
    if (what == PARAMETERS && half == LS_ALL_GATHER && ls_step_rounds(s))
        ls_step_gather_copies(s, group, b);
    else
        append(s, group, half, &of);
}

/* Empty slices' gradients become 0; `canonical` does not need it. */
static void fill_empty(ls_step *s, int set, int b)
{
    const ls_channel *c = &s->plan->lanes.channels[LS_GROUPS + set];
    const reduced of = {.what = GRADIENTS, .range = s->plan->groups[set].buckets.items[b]};
    for (int i = 0; i < c->local_count && !ls_step_shards(s); i++) {
        ls_kernels *k = ls_step_replica(s, c->local[i])->kernels;
        const ls_fill_args fill = {.count = (int64_t)of.range.count,
                                   .y = brought_at(s, c->local[i], &of)};
        ls_op *op = NULL;
        if (ls_slice_sums(ls_step_member(s, c->local[i])->slice[s->batch_kind], s->exchange))
            continue;
        const ls_status status = k->table->fill(k, &fill, &op);
        ls_task_of_op(s->program, "zeros", c->local[i], of.range, op, status);
    }
}

/* Moves a bucket, in all sets that have it, from how members have it to how they need it. Where
 * both agree it appends nothing. */
static void move(ls_step *s, int b, reduced_kind what, ls_kind has, ls_kind needs)
{
    const int sets = ls_step_plan_sets(s->plan), each = ls_step_plan_parts(s->plan);
    const int half = ls_step_plan_move(has, needs);
    for (int set = ls_step_set_of(s->plan, &b); set < sets && half != LS_NO_SUM; set += each) {
        if (what == GRADIENTS && has == LS_PARTIAL)
            fill_empty(s, set, b);
        append_bucket(s, set, (ls_half)half, what, b);
    }
}

/* How members have a buffer: complete, or as shares. */
static ls_kind on_members(const ls_spread *spread)
{
    return spread->on[LS_MEMBER] == LS_SHARE ? LS_SHARE : LS_WHOLE;
}

void ls_sum_parameters(ls_step *s, int b)
{
    if (ls_step_can(s, s->plan->group_count, "ls_sum_parameters", ls_no_buckets))
        move(s, b, PARAMETERS, LS_PARTIAL, LS_WHOLE);
}

void ls_give(ls_step *s, int b)
{
    /* in exact mode, a whole sum is left only behind the last exchange, by shares */
    const bool folds = ls_step_folds(ls_step_job(s));
    const bool last = ls_step_last_exchange(s);
    const ls_kind needs = on_members(&s->plan->state);
    if (!ls_step_can(s, s->plan->group_count, "ls_give", ls_no_buckets))
        return;
    move(s, b, GRADIENTS, LS_PARTIAL, folds ? LS_SHARE : needs);
    if (folds && last)
        move(s, b, GRADIENTS, LS_SHARE, needs);
    for (int k = ls_step_plan_sets(s->plan); k < s->plan->group_count && last; k++)
        if (s->plan->groups[k].buckets.items[b].count)
            append_bucket(s, k, LS_HALVES, GRADIENTS, b);
}

void ls_need(ls_step *s, int b, ls_pass_kind before)
{
    int at = b;
    const ls_windows *windows = &s->plan->groups[ls_step_set_of(s->plan, &at)].windows;
    const bool held = s->exchanged && s->plan->parameters.windows == LS_ALL_WINDOWS;
    if (!windows->buckets || held)
        return;
    const int needed = before == LS_PASS_BACKWARD ? ls_windows_ahead(windows, at) : at;
    if (needed >= 0)
        move(s, b - at + needed, PARAMETERS, LS_SHARE, LS_WHOLE);
}

void ls_settle(ls_step *s)
{
    const ls_kind has = on_members(&s->plan->state), needs = on_members(&s->plan->parameters);
    for (int b = 0; s->plan->group_count && b < ls_bucket_count(s); b++)
        move(s, b, PARAMETERS, has, needs);
    ls_step_share_values(s, -1, ls_no_range);
}

/* ---- Sums of squares ------------------------------------------------------------------------- */

enum { HALVES_OF_DOUBLE = sizeof(double) / sizeof(float) };

/* The extent of a bucket's sums of squares, as floats: two a sum. */
static ls_extent squares_of(const ls_buckets *buckets, size_t b)
{
    const size_t blocks = buckets->extents[b].blocks;
    return (ls_extent){.count = HALVES_OF_DOUBLE * blocks, .blocks = blocks};
}

void ls_step_gather_squares(ls_step *s)
{
    for (int set = 0; set < ls_step_plan_sets(s->plan); set++) {
        const ls_planned_group *g = &s->plan->groups[set];
        for (size_t b = 0; b < g->buckets.count; b++) {
            /* What members with the same buckets have: the blocks are theirs. */
            const ls_graph_part *part =
                ls_step_plan_part(s->plan, set % ls_step_plan_parts(s->plan));
            const size_t first = ls_blocks_before(part ? &part->graph->variables
                                                       : &ls_step_job(s)->model->graph->variables,
                                                  g->buckets.items[b].first);
            const ls_extent extent = squares_of(&g->buckets, b);
            const reduced of = {SQUARES, (int)b, {HALVES_OF_DOUBLE * first, extent.count}, extent};
            append(s, set, LS_ALL_GATHER, &of);
        }
    }
}

ls_traffic ls_step_squares_traffic(const ls_step *s)
{
    const int members = s->plan->mesh.size[LS_MEMBER];
    ls_traffic sum = {0};
    for (int set = 0; set < ls_step_plan_sets(s->plan); set++) {
        const ls_buckets *buckets = &s->plan->groups[set].buckets;
        for (size_t b = 0; b < buckets->count; b++)
            ls_traffic_add(&sum,
                           ls_step_job(s)->exchange.allreduce->half_formula(
                               LS_ALL_GATHER, members, squares_of(buckets, b), ls_step_shards(s)),
                           1);
    }
    return sum;
}
