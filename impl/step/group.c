/* SPDX-License-Identifier: MIT */
/*
 * All-reduces of gradients, bucket by bucket, over members of all processes.
 *
 * With overlap, a member's all-reduces have a lane of their own, so a bucket is reduced while
 * backward goes on. Otherwise they are on its compute lane, which is faster if one core does both
 * and memory is shared.
 */
#include "common/comm/comm_sums.h"
#include "impl/step/build.h"

/* ---- Buckets --------------------------------------------------------------------------------- */

/* The place's group; NULL after a failure, or if the verb cannot act. */
static const ls_planned_group *group_of(ls_step *s, const char *verb, int place)
{
    const int group = ls_step_plan_group(s->plan, place);
    return ls_step_can(s, group < s->plan->group_count, verb,
                       "has no buckets: the strategy does not declare .reduces")
               ? &s->plan->groups[group]
               : NULL;
}

int ls_buckets_of(ls_step *s, int place)
{
    const ls_planned_group *g = group_of(s, "ls_buckets_of", place);
    return g ? (int)g->buckets.count : 0;
}

ls_range ls_bucket(const ls_step *s, int place, int b)
{
    const int group = ls_step_plan_group(s->plan, place);
    const ls_buckets *buckets =
        group < s->plan->group_count ? &s->plan->groups[group].buckets : NULL;
    return buckets && (size_t)b < buckets->count ? buckets->items[b] : (ls_range){0, 0};
}

/* ---- Scratch --------------------------------------------------------------------------------- */

/* Which of several groups of replicas that share the update a member is in; of one, none. */
static ls_rank_group set_of(const ls_step_plan *plan, int member)
{
    return plan->mesh.size[LS_GROUP] > 1
               ? (ls_rank_group){ls_step_plan_set(plan, member), ls_step_plan_sets(plan)}
               : (ls_rank_group){0};
}

size_t ls_group_scratch(const ls_step_plan *plan, const ls_planned_group *g, int member,
                        const ls_comm *comm)
{
    const ls_job *job = plan->job;
    /* its all-reduces are of shares, between groups of replicas */
    const bool between = g - plan->groups >= ls_step_plan_sets(plan);
    const ls_rank_group set = between ? (ls_rank_group){0} : set_of(plan, member);
    size_t most = 0;
    for (int batch_kind = 0; batch_kind < LS_BATCHES && job->exchange.allreduce->scratch;
         batch_kind++) {
        const int64_t batch = ls_replicated_batch(job, batch_kind);
        const int64_t shards = job->exact.on && batch ? ls_job_shards(job, batch) : 0;
        for (size_t b = 0; b < g->buckets.count && batch; b++) {
            const ls_extent extent = g->buckets.extents[b];
            const size_t need =
                set.groups
                    ? ls_canonical_scratch(set, comm->rank, comm->size, extent, shards)
                    : job->exchange.allreduce->scratch(comm->rank, comm->size, extent, shards);
            most = need > most ? need : most;
        }
    }
    return most;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* What a call is of. */
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
        return (float *)r->windows.whole_parameters +
               ls_windows_at(r->windows.parameters, of->range.first);
    return (float *)r->windows.whole_gradients +
           ls_windows_at(r->windows.gradients, of->range.first);
}

/* Appends the copy of a member's share of a bucket: parameters from where they are kept into the
 * window, gradients from the window to where they are kept. */
static ls_status copy_share(const ls_replica *r, const reduced *of, ls_op_list *ops)
{
    const ls_shares *shares = &r->updated.shares;
    const ls_range share =
        ls_bucket_share(shares->buckets, (size_t)of->bucket, shares->share, shares->count);
    float *whole = whole_at(r, of) + (share.first - of->range.first);
    ls_op *op;
    size_t at;
    if (!share.count)
        return LS_OK;
    LS_TRY(ls_replica_find(r, share, &at));
    const ls_sum_step copy = of->what == PARAMETERS
                                 ? (ls_sum_step){whole, (float *)r->parameters + at, NULL}
                                 : (ls_sum_step){(float *)r->gradients + at, whole, NULL};
    LS_TRY(ls_sums_make(r->device, "allreduce.copy", &copy, 1, share.count, &op));
    return ls_op_list_add(ops, op);
}

/* In exact mode a member brings its finished subtrees. */
static ls_status bring(ls_step *s, const ls_call *c, int member, ls_brought *b, ls_op_list *ops)
{
    const reduced *of = c->of;
    const ls_replica *r = ls_step_replica(s, member);
    const ls_slice *slice = ls_step_member(s, member)->slice[s->batch_kind];
    b->args.data = whole_at(r, of);
    b->args.cut = &of->extent;
    if (ls_step_job(s)->exact.on && c->half != LS_ALL_GATHER) {
        b->args.shards = ls_shards(s);
        b->args.sums = b->sums;
        b->args.sum_count = ls_slice_sums(slice);
        b->args.of = set_of(s->plan, member);
    }
    for (size_t k = 0; k < b->args.sum_count; k++)
        b->sums[k] = (float *)ls_slice_gradients(slice, k) +
                     (b->args.data - (float *)r->windows.whole_gradients);
    return c->half == LS_ALL_GATHER && of->what == PARAMETERS && r->windows.parameters
               ? copy_share(r, of, ops)
               : LS_OK;
}

/* In exact mode, what groups add up between them (bring_share) is not in the gradient's share yet.
 */
static ls_status take(ls_step *s, const ls_call *c, int member, ls_brought *b, ls_op_list *ops)
{
    const ls_replica *r = ls_step_replica(s, member);
    return c->half == LS_REDUCE_SCATTER && r->windows.gradients && !b->args.of.groups
               ? copy_share(r, c->of, ops)
               : LS_OK;
}

/* Of a member's share of a bucket, between groups, where that is kept. In exact mode it brings its
 * group's finished subtrees, which the reduce-scatter has left. */
static ls_status bring_share(ls_step *s, const ls_call *c, int member, ls_brought *b,
                             ls_op_list *ops)
{
    const reduced *of = c->of;
    const ls_replica *r = ls_step_replica(s, member);
    const int inside = LS_GROUPS + ls_step_plan_set(s->plan, member);
    const ls_end *end = &s->resources->ends[inside].of[member];
    size_t at = of->range.first;
    if (of->range.count && r->windows.gradients)
        LS_TRY(ls_replica_find(r, of->range, &at));
    if (ls_step_job(s)->exact.on) {
        const ls_buckets *buckets = &s->plan->groups->buckets;
        const reduced bucket = {GRADIENTS, of->bucket, buckets->items[of->bucket],
                                buckets->extents[of->bucket]};
        const ls_call scatter = {.half = LS_REDUCE_SCATTER, .of = &bucket};
        ls_brought whole = {.args.scratch = end->scratch};
        LS_TRY(bring(s, &scatter, member, &whole, ops));
        whole.args.count = bucket.extent.count;
        LS_TRY(ls_canonical_sums(end->comm, &whole.args, b->sums, &b->args.sum_count));
        b->args.shards = whole.args.shards;
        b->args.sums = b->sums;
    }
    b->args.data = (float *)r->gradients + at;
    b->args.cut = &of->extent;
    return LS_OK;
}

static void append(ls_step *s, int group, ls_half half, const reduced *of)
{
    ls_step_call(s, &(ls_call){.channel = LS_GROUPS + group,
                               .algorithm = ls_step_job(s)->exchange.allreduce,
                               .half = half,
                               .range = of->what == SQUARES ? (ls_range){0} : of->range,
                               .bring = group < ls_step_plan_sets(s->plan) ? bring : bring_share,
                               .take = group < ls_step_plan_sets(s->plan) ? take : NULL,
                               .of = of});
}

/* The same of a bucket of a group. */
static void append_bucket(ls_step *s, int group, ls_half half, reduced_kind what, int b)
{
    const ls_buckets *buckets = &s->plan->groups[group].buckets;
    const reduced of = {what, b, buckets->items[b], buckets->extents[b]};
    append(s, group, half, &of);
}

/* Appends a task that sets an empty slice's gradient to 0; `canonical` does not need it. */
static void append_zeros(ls_step *s, int member, ls_range range)
{
    const ls_replica *r = ls_step_replica(s, member);
    const reduced of = {.what = GRADIENTS, .range = range};
    const ls_fill_args fill = {.count = (int64_t)range.count, .y = whole_at(r, &of)};
    ls_op *op = NULL;
    ls_status status = r->kernels->table->fill(r->kernels, &fill, &op);
    ls_task_of_op(s->program, "zeros", member, range, op, status);
}

/* Empty slices' gradients become 0. */
static void fill_empty(ls_step *s, int set, int b)
{
    const ls_channel *c = &s->plan->lanes.channels[LS_GROUPS + set];
    for (int i = 0; i < c->here_count && !ls_step_job(s)->exact.on; i++)
        if (!ls_slice_sums(ls_step_member(s, c->here[i])->slice[s->batch_kind]))
            append_zeros(s, c->here[i], s->plan->groups[set].buckets.items[b]);
}

/* Moves a bucket of a place, in all sets that have it, from how members have it to how they need
 * it. Where both agree it appends nothing. */
static void move(ls_step *s, int place, int b, reduced_kind what, ls_kind has, ls_kind needs)
{
    const int sets = ls_step_plan_sets(s->plan), each = ls_step_plan_parts(s->plan);
    const int half = ls_step_plan_move(has, needs);
    for (int set = ls_step_plan_group(s->plan, place); set < sets && half != LS_NO_SUM;
         set += each) {
        if (what == GRADIENTS)
            fill_empty(s, set, b);
        append_bucket(s, set, (ls_half)half, what, b);
    }
}

/* How members have a buffer of which each would have all, or its share. */
static ls_kind on_members(const ls_spread *spread)
{
    return spread->on[LS_MEMBER] == LS_SHARE ? LS_SHARE : LS_WHOLE;
}

void ls_step_reduce_parameters(ls_step *s, int b)
{
    move(s, 0, b, PARAMETERS, LS_PARTIAL, LS_WHOLE);
}

ls_range ls_share(const ls_step *s, int member, int b)
{
    return ls_step_plan_shares(s->plan) ? ls_step_plan_bucket_share(s->plan, member, (size_t)b)
                                        : ls_bucket(s, ls_place_of(s, member), b);
}

void ls_give(ls_step *s, int place, int b)
{
    if (!group_of(s, "ls_give", place))
        return;
    move(s, place, b, GRADIENTS, LS_PARTIAL, on_members(&s->plan->state));
    for (int k = ls_step_plan_sets(s->plan); k < s->plan->group_count; k++)
        if (s->plan->groups[k].buckets.items[b].count)
            append_bucket(s, k, LS_HALVES, GRADIENTS, b);
}

void ls_need(ls_step *s, int place, int b)
{
    if (b >= 0)
        move(s, place, b, PARAMETERS, on_members(&s->plan->parameters), LS_WHOLE);
}

void ls_settle(ls_step *s)
{
    const ls_kind has = on_members(&s->plan->state), needs = on_members(&s->plan->parameters);
    for (int place = 0; place < ls_step_plan_parts(s->plan) && s->plan->group_count; place++)
        for (int b = 0; b < ls_buckets_of(s, place); b++)
            move(s, place, b, PARAMETERS, has, needs);
    ls_step_share_values(s);
}

/* ---- Sums of squares ------------------------------------------------------------------------- */

enum { HALVES_OF_DOUBLE = sizeof(double) / sizeof(float) };

/* Of a bucket's blocks, as floats: two a sum. */
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
                               LS_ALL_GATHER, members, squares_of(buckets, b), ls_shards(s)),
                           1);
    }
    return sum;
}

int ls_bucket_ahead(const ls_step *s, int place, int b)
{
    const ls_windows *windows = &ls_step_planned_group(s->plan, place)->windows;
    return windows->buckets ? ls_windows_ahead(windows, b) : -1;
}

/* Of a bucket's reduce-scatter in a set, and of its all-gathers: two if others take its window
 * before the backward pass. */
static ls_traffic halves_traffic(const ls_step *s, int set, int b)
{
    const ls_job *job = ls_step_job(s);
    const ls_planned_group *g = &s->plan->groups[set];
    const ls_extent extent = g->buckets.extents[b];
    const int members = s->plan->mesh.size[LS_MEMBER];
    const ls_rank_group of = {set / ls_step_plan_parts(s->plan), s->plan->mesh.size[LS_GROUP]};
    ls_traffic sum = job->exact.on ? ls_canonical_scatter_formula(of, members, extent, ls_shards(s))
                                   : job->exchange.allreduce->half_formula(LS_REDUCE_SCATTER,
                                                                           members, extent, 0);
    ls_traffic_add(
        &sum, job->exchange.allreduce->half_formula(LS_ALL_GATHER, members, extent, ls_shards(s)),
        g->windows.buckets && ls_windows_twice(&g->windows, b) ? 2 : 1);
    return sum;
}

/* Of all buckets. */
static ls_traffic reduced_traffic(const ls_step *s)
{
    const int *size = s->plan->mesh.size, sets = ls_step_plan_sets(s->plan);
    const bool shares = ls_step_plan_shares(s->plan);
    ls_traffic sum = {0};
    for (int k = 0; k < s->plan->group_count; k++) {
        const ls_planned_group *g = &s->plan->groups[k];
        const int ranks = k < sets ? size[LS_MEMBER] * size[LS_POSITION] : size[LS_GROUP];
        for (int b = 0; b < (int)g->buckets.count; b++)
            if (shares && k < sets)
                ls_traffic_add(&sum, halves_traffic(s, k, b), 1);
            else if (k < sets || g->buckets.items[b].count)
                ls_traffic_add(&sum,
                               ls_step_job(s)->exchange.allreduce->formula(
                                   ranks, g->buckets.extents[b], ls_shards(s), g->layout),
                               1);
    }
    return sum;
}

ls_traffic ls_moved_traffic(const ls_step *s)
{
    ls_traffic sum = reduced_traffic(s);
    if (s->plan->context)
        ls_traffic_add(&sum, ls_step_all_to_all_traffic(s), 1);
    else if (s->plan->parts.count)
        ls_traffic_add(&sum, ls_step_border_traffic(s), 1);
    if (s->plan->parts.across > 1)
        ls_traffic_add(&sum, ls_step_sums_traffic(s), 1);
    return sum;
}
