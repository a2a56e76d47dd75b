/* SPDX-License-Identifier: MIT */
/*
 * All-reduces of gradients, bucket by bucket, over members of all processes.
 *
 * With overlap, a member's all-reduces have a lane of their own, so a bucket is reduced while
 * backward goes on. Otherwise they are on its compute lane, which is faster if one core does both
 * and memory is shared. If events order the communicator's queues (GPUs), one call enqueues the
 * operations of all members; otherwise each member waits for its peers on its own queue.
 */
#include "common/base/grow.h"
#include "common/comm/comm_sums.h"
#include "impl/step/build.h"

#include <stdlib.h>

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

/* ---- Opening --------------------------------------------------------------------------------- */

/* Which of several groups of replicas that share the update a member is in; of one, none. */
static ls_rank_group set_of(const ls_step_plan *plan, int member)
{
    return plan->mesh.size[LS_GROUP] > 1
               ? (ls_rank_group){ls_step_plan_set(plan, member), ls_step_plan_sets(plan)}
               : (ls_rank_group){0};
}

/* Allocates scratch for the largest all-reduce of this end; they run one after the other. */
static ls_status take_scratch(ls_resources *r, const ls_planned_group *g, int member, ls_end *end)
{
    const ls_job *job = r->plan->job;
    const ls_comm *comm = end->comm;
    /* its all-reduces are of shares, between groups of replicas */
    const bool between = g - r->plan->groups >= ls_step_plan_sets(r->plan);
    const ls_rank_group set = between ? (ls_rank_group){0} : set_of(r->plan, member);
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
    return most ? ls_replica_take(r->members[member].replica, "scratch", LS_MEMORY_COMMUNICATION,
                                  most * sizeof(float), &end->scratch)
                : LS_OK;
}

static ls_status open_ends(ls_resources *r, const ls_planned_group *g, const ls_ends *ends)
{
    const ls_allreduce *algorithm = r->plan->job->exchange.allreduce;
    if (algorithm->check && g->count)
        LS_TRY(algorithm->check(ends->comms[0]));
    for (int i = 0; i < g->count; i++) {
        ls_end *end = &ends->of[g->members[i]];
        end->comm = ends->comms[i];
        end->comm->layout = g->layout;
        LS_TRY(take_scratch(r, g, g->members[i], end));
    }
    return LS_OK;
}

ls_status ls_groups_open(ls_resources *r)
{
    for (int i = 0; i < r->plan->group_count; i++) {
        const ls_planned_group *g = &r->plan->groups[i];
        const ls_ends *ends = &r->ends[LS_GROUPS + i];
        if (!g->buckets.count)
            continue;
        LS_TRY(ls_connect(r, g->members, g->count, LS_COUNTED, ends->comms));
        LS_TRY(ls_comm_agree(r->plan->job->ranks.comm, open_ends(r, g, ends)));
    }
    return LS_OK;
}

/* ---- All-reduce ------------------------------------------------------------------------------ */

/* What a collective is of. */
typedef enum reduced { GRADIENTS, PARAMETERS, SQUARES } reduced;

/* Where a bucket of a member's parameters, or gradients, is when it is whole; or a range of its
 * sums of squares, as floats. */
static float *whole_at(const ls_replica *r, reduced what, ls_range range)
{
    if (what == SQUARES)
        return (float *)r->own_squares + range.first;
    if (what == PARAMETERS)
        return (float *)r->window + ls_windows_at(r->windows, range.first);
    return (float *)r->gradient_window + ls_windows_at(r->gradient_windows, range.first);
}

/* Appends the copy of a member's share of a bucket: parameters from where they are kept into the
 * window, gradients from the window to where they are kept. */
static ls_status copy_share(const ls_replica *r, reduced what, ls_range bucket, ls_op_list *ops)
{
    const ls_shares *shares = &r->shares;
    const size_t b = (size_t)ls_windows_unit(shares->buckets, bucket.first);
    const ls_range share = ls_bucket_share(shares->buckets, b, shares->share, shares->count);
    float *whole = whole_at(r, what, bucket) + (share.first - bucket.first);
    ls_op *op;
    size_t at;
    if (!share.count)
        return LS_OK;
    LS_TRY(ls_replica_find(r, share, &at));
    const ls_sum_step copy = what == PARAMETERS
                                 ? (ls_sum_step){whole, (float *)r->parameters + at, NULL}
                                 : (ls_sum_step){(float *)r->gradients + at, whole, NULL};
    LS_TRY(ls_sums_make(r->device, "allreduce.copy", &copy, 1, share.count, &op));
    return ls_op_list_add(ops, op);
}

/* What a member brings to a collective of a range of what it has, which may be cut as `cut` says.
 * In exact mode its sums are in `sums` [LS_REPLICA_LOSSES]. */
static ls_allreduce_args args_of(ls_step *s, const ls_end *end, int member, ls_half half,
                                 reduced what, ls_range range, const ls_extent *cut, float **sums)
{
    const ls_replica *r = ls_step_replica(s, member);
    const ls_slice *slice = ls_step_member(s, member)->slice[s->batch_kind];
    float *data = whole_at(r, what, range);
    ls_allreduce_args args = {
        .data = data, .count = range.count, .cut = cut, .scratch = end->scratch};
    if (ls_step_job(s)->exact.on && half != LS_ALL_GATHER) {
        args.shards = ls_shards(s);
        args.sums = sums;
        args.sum_count = ls_slice_sums(slice);
        args.of = set_of(s->plan, member);
    }
    for (size_t k = 0; k < args.sum_count; k++)
        sums[k] = (float *)ls_slice_gradients(slice, k) + (data - (float *)r->gradient_window);
    return args;
}

/* Builds a member's all-reduce, or a half of it. In exact mode, what groups add up between them
 * (reduce_shares) is not in the gradient's share yet. */
static ls_status build(ls_step *s, const ls_end *end, int member, ls_half half, reduced what,
                       ls_range range, const ls_extent *cut, ls_op_list *ops)
{
    const ls_job *job = ls_step_job(s);
    const ls_replica *r = ls_step_replica(s, member);
    float *sums[LS_REPLICA_LOSSES];
    const ls_allreduce_args args = args_of(s, end, member, half, what, range, cut, sums);
    if (half == LS_HALVES)
        return job->exchange.allreduce->build(end->comm, &args, ops);
    if (half == LS_ALL_GATHER && what == PARAMETERS && r->windows)
        LS_TRY(copy_share(r, PARAMETERS, range, ops));
    LS_TRY(job->exchange.allreduce->half(end->comm, half, &args, ops));
    return half == LS_REDUCE_SCATTER && r->gradient_windows && !args.of.groups
               ? copy_share(r, GRADIENTS, range, ops)
               : LS_OK;
}

/* Builds a member's all-reduce, between groups, of its share of bucket `b`, where that is kept. In
 * exact mode it brings its group's finished subtrees, which the reduce-scatter has left. */
static ls_status build_share(ls_step *s, const ls_end *end, int member, int b, ls_op_list *ops)
{
    const ls_job *job = ls_step_job(s);
    const ls_replica *r = ls_step_replica(s, member);
    const int set = ls_step_plan_set(s->plan, member);
    const ls_end *inside = &s->resources->ends[LS_GROUPS + set].of[member];
    const ls_range bucket = ls_bucket(s, 0, b), share = ls_share(s, member, b);
    float *sums[LS_REPLICA_LOSSES], *finished[LS_SUBTREES];
    size_t at = share.first;
    if (share.count && r->gradient_windows)
        LS_TRY(ls_replica_find(r, share, &at));
    ls_allreduce_args args = {
        .data = (float *)r->gradients + at, .count = share.count, .scratch = end->scratch};
    if (job->exact.on) {
        const ls_allreduce_args whole = args_of(s, inside, member, LS_REDUCE_SCATTER, GRADIENTS,
                                                bucket, &s->plan->groups->buckets.extents[b], sums);
        args.shards = whole.shards;
        args.sums = finished;
        LS_TRY(ls_canonical_sums(inside->comm, &whole, finished, &args.sum_count));
    }
    return job->exchange.allreduce->build(end->comm, &args, ops);
}

/* Appends a task that sets an empty slice's gradient to 0; `canonical` does not need it. */
static void append_zeros(ls_step *s, int member, ls_range range)
{
    const ls_replica *r = ls_step_replica(s, member);
    const ls_fill_args fill = {.count = (int64_t)range.count, .y = whole_at(r, GRADIENTS, range)};
    ls_op *op = NULL;
    ls_status status = r->kernels->table->fill(r->kernels, &fill, &op);
    ls_task_of_op(s->program, "zeros", member, range, op, status);
}

/* Appends the task of these operations, a member's part in a collective of group number `group`. */
static void append_ops(ls_step *s, int group, int member, ls_half half, ls_range range,
                       ls_op_list *ops, int call, ls_status status)
{
    static const char *const verbs[] = {[LS_HALVES] = "all-reduce",
                                        [LS_REDUCE_SCATTER] = "reduce-scatter",
                                        [LS_ALL_GATHER] = "all-gather"};
    const int channel = LS_GROUPS + group, lane = s->plan->lanes.channels[channel].lane[member];
    ls_task *task = ls_task_of(s->program, verbs[half], lane, range, ops, status);
    if (!task)
        return;
    task->call = call;
    task->end.channel = channel;
    ls_task_count_messages(s->program, s->resources->ends[channel].of[member].comm->rank);
}

/* The call that enqueues a collective of all members of a group; -1: each enqueues its own. */
static int call_of(ls_step *s, int group)
{
    const ls_planned_group *g = &s->plan->groups[group];
    const ls_comm *first = s->resources->ends[LS_GROUPS + group].comms[0];
    return g->count && ls_comm_is_joint(first) ? s->program->calls++ : -1;
}

/* Appends the all-reduce, or a half of it, of a range of what a group's members have. */
static void append_parts(ls_step *s, int group, ls_half half, ls_range range, reduced what,
                         const ls_extent *cut)
{
    const ls_planned_group *g = &s->plan->groups[group];
    const int call = call_of(s, group);
    for (int i = 0; i < g->count && !s->program->status; i++) {
        const int member = g->members[i];
        const ls_end *end = &s->resources->ends[LS_GROUPS + group].of[member];
        ls_op_list ops = {0};
        const ls_status status = build(s, end, member, half, what, range, cut, &ops);
        append_ops(s, group, member, half, what == SQUARES ? (ls_range){0} : range, &ops, call,
                   status);
    }
}

/* Appends the sum of a bucket's gradients over a group: all of it to all, or their shares to the
 * members. */
static void reduce(ls_step *s, const char *verb, int group, ls_half half, int b)
{
    const ls_planned_group *g = group_of(s, verb, group);
    if (!g)
        return;
    const ls_range range = g->buckets.items[b];
    for (int i = 0; i < g->count; i++)
        if (!ls_step_job(s)->exact.on &&
            !ls_slice_sums(ls_step_member(s, g->members[i])->slice[s->batch_kind]))
            append_zeros(s, g->members[i], range);
    append_parts(s, group, half, range, GRADIENTS, &g->buckets.extents[b]);
}

void ls_step_reduce_parameters(ls_step *s, int b)
{
    append_parts(s, 0, LS_HALVES, ls_bucket(s, 0, b), PARAMETERS,
                 &s->plan->groups->buckets.extents[b]);
}

ls_range ls_share(const ls_step *s, int member, int b)
{
    return ls_step_plan_shares(s->plan) ? ls_step_plan_bucket_share(s->plan, member, (size_t)b)
                                        : ls_bucket(s, ls_place_of(s, member), b);
}

/* Appends the all-reduces of a bucket's shares, of a group with the same share. */
static void reduce_share(ls_step *s, int group, int b)
{
    const ls_planned_group *g = &s->plan->groups[group];
    const int call = g->buckets.items[b].count ? call_of(s, group) : -1;
    for (int i = 0; i < g->count && g->buckets.items[b].count && !s->program->status; i++) {
        const int member = g->members[i];
        const ls_end *end = &s->resources->ends[LS_GROUPS + group].of[member];
        ls_op_list ops = {0};
        const ls_status status = build_share(s, end, member, b, &ops);
        append_ops(s, group, member, LS_HALVES, g->buckets.items[b], &ops, call, status);
    }
}

void ls_give(ls_step *s, int place, int b)
{
    const ls_half half = ls_step_plan_shares(s->plan) ? LS_REDUCE_SCATTER : LS_HALVES;
    const int sets = ls_step_plan_sets(s->plan), each = ls_step_plan_parts(s->plan);
    for (int set = ls_step_plan_group(s->plan, place); set < sets; set += each)
        reduce(s, "ls_give", set, half, b);
    for (int k = sets; k < s->plan->group_count; k++)
        reduce_share(s, k, b);
}

/* Appends the all-gathers of a bucket's parameters. */
static void gather(ls_step *s, int place, int b)
{
    const int sets = ls_step_plan_sets(s->plan), each = ls_step_plan_parts(s->plan);
    for (int set = ls_step_plan_group(s->plan, place); set < sets; set += each)
        append_parts(s, set, LS_ALL_GATHER, ls_bucket(s, place, b), PARAMETERS,
                     &s->plan->groups[set].buckets.extents[b]);
}

void ls_need(ls_step *s, int place, int b)
{
    if (b >= 0 && s->plan->parameters.on[LS_MEMBER] == LS_SHARE)
        gather(s, place, b);
}

void ls_settle(ls_step *s, int place, int b)
{
    if (ls_step_plan_shares(s->plan) && s->plan->parameters.on[LS_MEMBER] == LS_WHOLE)
        gather(s, place, b);
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
            const ls_extent extent = squares_of(&g->buckets, b);
            /* What members with the same buckets have: the blocks are theirs. */
            const ls_graph_part *part =
                ls_step_plan_part(s->plan, set % ls_step_plan_parts(s->plan));
            const size_t first = ls_blocks_before(part ? &part->graph->variables
                                                       : &ls_step_job(s)->model->graph->variables,
                                                  g->buckets.items[b].first);
            append_parts(s, set, LS_ALL_GATHER, (ls_range){HALVES_OF_DOUBLE * first, extent.count},
                         SQUARES, &extent);
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

ls_traffic ls_reduced_traffic(const ls_step *s)
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
