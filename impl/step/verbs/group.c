/* SPDX-License-Identifier: MIT */
/*
 * All-reduces of gradients, bucket by bucket. With overlap, a member's all-reduces have a separate
 * lane; otherwise they are on its compute lane, which is faster if one core does both.
 */
#include "common/comm/comm_sums.h"
#include "impl/step/verbs/build.h"

/* ---- Scratch --------------------------------------------------------------------------------- */

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
                crosses ? (ls_rank_group){0} : ls_step_dealt_to(plan, member, (int)(i % exchanges));
            const size_t need =
                set.groups && shards
                    ? ls_canonical_scratch(set, comm->rank, comm->size, extent, shards)
                    : adds->scratch(comm->rank, comm->size, extent, shards);
            most = need > most ? need : most;
        }
    }
    return most;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* What a call reduces. */
typedef enum reduced_kind { GRADIENTS, PARAMETERS } reduced_kind;

typedef struct reduced {
    reduced_kind what;
    int bucket;
    ls_range range; /* of the flat buffer */
    ls_extent extent;
} reduced;

/* Where a member's range is when it is whole. */
static float *whole_at(const ls_replica *r, const reduced *target)
{
    if (target->what == PARAMETERS)
        return (float *)(r->masters ? r->masters : r->windows.whole_parameters) +
               ls_windows_at(r->windows.parameters, target->range.first);
    return (float *)r->windows.whole_gradients +
           ls_windows_at(r->windows.gradients, target->range.first);
}

/* Whether gradients of an exchange, in fast mode, are in another buffer than earlier ones. */
static bool adds_to_earlier(const ls_step *s, const ls_replica *r)
{
    return s->exchanged && !ls_step_folds(ls_step_job(s)) && !r->windows.gradients;
}

/* Where a member has a range before a call: gradients of the exchange, that is. */
static float *brought_at(const ls_step *s, int member, const reduced *target)
{
    const ls_replica *r = ls_step_replica(s, member);
    const ls_slice *slice = ls_step_member(s, member)->slice[s->batch_kind];
    return target->what == GRADIENTS && adds_to_earlier(s, r)
               ? (float *)ls_slice_gradients(slice, 1) + target->range.first
               : whole_at(r, target);
}

/* Appends the copy of a member's share of a bucket: parameters from where they are kept into the
 * window, gradients from the window to where they are kept, or are added (`adds`). */
static ls_status copy_share(const ls_replica *r, const reduced *target, bool adds, ls_op_list *ops)
{
    const ls_shares *shares = &r->updated.shares;
    const ls_range share =
        ls_bucket_share(shares->buckets, (size_t)target->bucket, shares->share, shares->count);
    float *whole = whole_at(r, target) + (share.first - target->range.first);
    ls_op *op;
    ls_replica_at at;
    if (!share.count)
        return LS_OK;
    LS_TRY(ls_replica_find(r, share, &at));
    float *kept = (float *)r->gradients + at.gradients;
    const ls_sum_step copy =
        target->what == PARAMETERS
            ? (ls_sum_step){whole, (float *)r->parameters + at.parameters, NULL}
        : adds ? (ls_sum_step){kept, kept, whole}
               : (ls_sum_step){kept, whole, NULL};
    LS_TRY(ls_sums_make(r->device, "allreduce.copy", &copy, 1, share.count, &op));
    return ls_op_list_add(ops, op);
}

/* In exact mode a member brings its finished subtrees. */
static ls_status bring(ls_step *s, const ls_call *c, int member, ls_brought *b, ls_op_list *ops)
{
    const reduced *target = c->of;
    const ls_replica *r = ls_step_replica(s, member);
    const ls_slice *slice = ls_step_member(s, member)->slice[s->batch_kind];
    b->args.data = c->half == LS_ALL_GATHER ? whole_at(r, target) : brought_at(s, member, target);
    b->args.cut = &target->extent;
    b->args.shards = c->half == LS_ALL_GATHER ? 0 : ls_step_shards(s);
    if (b->args.shards) {
        b->args.sums = b->sums;
        b->args.sum_count = ls_slice_sums(slice, s->exchange);
        b->args.of = ls_step_dealt_to(s->plan, member, s->exchange);
    }
    for (size_t k = 0; k < b->args.sum_count; k++)
        b->sums[k] = (float *)ls_slice_gradients(slice, k) +
                     (b->args.data - (float *)r->windows.whole_gradients);
    return c->half == LS_ALL_GATHER && target->what == PARAMETERS && r->windows.parameters
               ? copy_share(r, target, false, ops)
               : LS_OK;
}

/* Appends what adds the gradients of an exchange to earlier ones, in fast mode, for a bucket, or
 * for a member's share. */
static ls_status add_exchange(const ls_step *s, const ls_end *end, int member, ls_half half,
                              const reduced *target, ls_op_list *ops)
{
    const ls_replica *r = ls_step_replica(s, member);
    const ls_planned_group *g = &s->plan->groups[ls_step_plan_set(s->plan, member)];
    reduced own = *target;
    ls_op *op;
    if (r->windows.gradients)
        return copy_share(r, target, s->exchanged > 0, ops);
    if (half == LS_REDUCE_SCATTER)
        own.range =
            ls_bucket_share(&g->buckets, (size_t)target->bucket, end->comm->rank, end->comm->size);
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
    const reduced *target = c->of;
    const ls_end *end = &s->resources->ends[c->channel].items[member];
    if (target->what != GRADIENTS || c->half == LS_ALL_GATHER)
        return LS_OK;
    if (ls_step_folds(ls_step_job(s)))
        return ls_step_fold_share(s, end, member, target->bucket, b, ops);
    return b->args.shards && b->args.of.groups ? LS_OK
                                               : add_exchange(s, end, member, c->half, target, ops);
}

/* Appends a member's part in reducing its share of a bucket between groups. In exact mode it brings
 * its group's finished subtrees, which the reduce-scatter has left. */
static ls_status bring_share(ls_step *s, const ls_call *c, int member, ls_brought *b,
                             ls_op_list *ops)
{
    const reduced *target = c->of;
    const ls_replica *r = ls_step_replica(s, member);
    const int inside = LS_GROUPS + ls_step_plan_set(s->plan, member);
    const ls_end *end = &s->resources->ends[inside].items[member];
    ls_replica_at at;
    LS_TRY(ls_replica_find(r, target->range, &at));
    b->args.shards = ls_step_shards(s);
    if (ls_step_folds(ls_step_job(s))) {
        ls_step_bring_terms(s, member, target->bucket, b);
    } else if (b->args.shards) {
        const ls_buckets *buckets = &s->plan->groups->buckets;
        const reduced bucket = {GRADIENTS, target->bucket, buckets->items[target->bucket],
                                buckets->extents[target->bucket]};
        const ls_call scatter = {.half = LS_REDUCE_SCATTER, .of = &bucket};
        ls_brought whole = {.args.scratch = end->scratch};
        LS_TRY(bring(s, &scatter, member, &whole, ops));
        whole.args.count = bucket.extent.count;
        LS_TRY(ls_canonical_sums(end->comm, &whole.args, b->sums, &b->args.sum_count));
        b->args.sums = b->sums;
    }
    b->args.data = (float *)r->gradients + at.gradients;
    b->args.cut = &target->extent;
    return LS_OK;
}

/* Brings what layers read of parameters, two bytes an element. The share of a window is rounded
 * from the masters anew. */
static ls_status bring_copies(ls_step *s, const ls_call *c, int member, ls_brought *b,
                              ls_op_list *ops)
{
    const reduced *target = c->of;
    const ls_replica *r = ls_step_replica(s, member);
    const ls_shares *shares = &r->updated.shares;
    const ls_range own =
        ls_bucket_share(shares->buckets, (size_t)target->bucket, shares->share, shares->count);
    uint16_t *copies = (uint16_t *)r->windows.whole_parameters +
                       ls_windows_at(r->windows.parameters, target->range.first);
    ls_replica_at at;
    b->args.data = (float *)(void *)copies;
    b->args.cut = &target->extent;
    if (!r->windows.parameters || !own.count)
        return LS_OK;
    LS_TRY(ls_replica_find(r, own, &at));
    return ls_step_narrow(r->kernels, own.count, (const float *)r->masters + at.state,
                          copies + (own.first - target->range.first), ops);
}

/* Appends the call of a bucket of a group. */
static void append_bucket(ls_step *s, int group, ls_half half, reduced_kind what, int b)
{
    const ls_job *job = ls_step_job(s);
    const ls_buckets *buckets = &s->plan->groups[group].buckets;
    const reduced target = {what, b, buckets->items[b], buckets->extents[b]};
    const bool inside = group < ls_step_plan_sets(s->plan);
    const bool copies = what == PARAMETERS && half == LS_ALL_GATHER && ls_job_rounds(job);
    ls_step_call(s, &(ls_call){.channel = LS_GROUPS + group,
                               .algorithm = copies              ? &ls_allreduce_stored
                                            : what == GRADIENTS ? ls_gradient_sum(job)
                                                                : job->exchange.allreduce,
                               .half = half,
                               .range = target.range,
                               .bring = copies   ? bring_copies
                                        : inside ? bring
                                                 : bring_share,
                               .take = inside ? take : NULL,
                               .of = &target});
}

/* Empty slices' gradients become 0; `canonical` does not need it. */
static void fill_empty(ls_step *s, int set, int b)
{
    const ls_channel *c = &s->plan->lanes.channels[LS_GROUPS + set];
    const reduced target = {.what = GRADIENTS, .range = s->plan->groups[set].buckets.items[b]};
    for (int i = 0; i < c->local_count && !ls_step_shards(s); i++) {
        ls_kernels *k = ls_step_replica(s, c->local[i])->kernels;
        const ls_fill_args fill = {.count = (int64_t)target.range.count,
                                   .y = brought_at(s, c->local[i], &target)};
        ls_op *op = NULL;
        if (ls_slice_sums(ls_step_member(s, c->local[i])->slice[s->batch_kind], s->exchange))
            continue;
        const ls_status status = k->table->fill(k, &fill, &op);
        ls_task_of_op(s->program, "zeros", c->local[i], target.range, op, status);
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
    const ls_kind needs = ls_spread_held(&s->plan->state);
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
    const ls_kind has = ls_spread_held(&s->plan->state),
                  needs = ls_spread_held(&s->plan->parameters);
    for (int b = 0; s->plan->group_count && b < ls_bucket_count(s); b++)
        move(s, b, PARAMETERS, has, needs);
    ls_step_share_values(s, -1, ls_no_range);
}
