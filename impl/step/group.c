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
    return ls_step_can(s, place < s->plan->group_count, verb,
                       "has no buckets: the strategy does not declare .reduces")
               ? &s->plan->groups[place]
               : NULL;
}

int ls_buckets_of(ls_step *s, int place)
{
    const ls_planned_group *g = group_of(s, "ls_buckets_of", place);
    return g ? (int)g->buckets.count : 0;
}

ls_range ls_bucket(const ls_step *s, int place, int b)
{
    const ls_buckets *buckets =
        place < s->plan->group_count ? &s->plan->groups[place].buckets : NULL;
    return buckets && (size_t)b < buckets->count ? buckets->items[b] : (ls_range){0, 0};
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Allocates scratch for the largest all-reduce of this end; they run one after the other. */
static ls_status take_scratch(ls_resources *r, const ls_planned_group *g, int member, ls_end *end)
{
    const ls_job *job = r->plan->job;
    const ls_comm *comm = end->comm;
    size_t most = 0;
    for (int batch_kind = 0; batch_kind < LS_BATCHES && job->allreduce->scratch; batch_kind++) {
        const int64_t batch = ls_replicated_batch(job, batch_kind);
        for (size_t b = 0; b < g->buckets.count && batch; b++) {
            const size_t need =
                job->allreduce->scratch(comm->rank, comm->size, g->buckets.extents[b],
                                        job->exact ? ls_job_shards(job, batch) : 0);
            most = need > most ? need : most;
        }
    }
    return most ? ls_replica_take(r->members[member].replica, "scratch", LS_MEMORY_COMMUNICATION,
                                  most * sizeof(float), &end->scratch)
                : LS_OK;
}

static ls_status open_ends(ls_resources *r, const ls_planned_group *g, const ls_ends *ends)
{
    const ls_allreduce *algorithm = r->plan->job->allreduce;
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
        LS_TRY(ls_comm_agree(r->plan->job->comm, open_ends(r, g, ends)));
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
        return (float *)r->squares + range.first;
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

/* Builds a member's all-reduce, or a half of it, of a range of what it has, which may be cut as
 * `cut` says. */
static ls_status build(ls_step *s, const ls_end *end, int member, ls_half half, reduced what,
                       ls_range range, const ls_extent *cut, ls_op_list *ops)
{
    const ls_job *job = ls_step_job(s);
    const ls_replica *r = ls_step_replica(s, member);
    const ls_slice *slice = ls_step_member(s, member)->slice[s->batch_kind];
    float *sums[LS_REPLICA_LOSSES], *data = whole_at(r, what, range);
    ls_allreduce_args args = {
        .data = data, .count = range.count, .cut = cut, .scratch = end->scratch};
    if (job->exact && half != LS_ALL_GATHER) {
        args.shards = ls_shards(s);
        args.sums = sums;
        args.sum_count = ls_slice_sums(slice);
    }
    for (size_t k = 0; k < args.sum_count; k++)
        sums[k] = (float *)ls_slice_gradients(slice, k) + (data - (float *)r->gradient_window);
    if (half == LS_HALVES)
        return job->allreduce->build(end->comm, &args, ops);
    if (half == LS_ALL_GATHER && what == PARAMETERS && r->windows)
        LS_TRY(copy_share(r, PARAMETERS, range, ops));
    LS_TRY(job->allreduce->half(end->comm, half, &args, ops));
    return half == LS_REDUCE_SCATTER && r->gradient_windows ? copy_share(r, GRADIENTS, range, ops)
                                                            : LS_OK;
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

/* Appends the all-reduce, or a half of it, of a range of what a member has. */
static void append_part(ls_step *s, int place, int member, ls_half half, reduced what,
                        ls_range range, const ls_extent *cut, int call)
{
    static const char *const verbs[] = {[LS_HALVES] = "all-reduce",
                                        [LS_REDUCE_SCATTER] = "reduce-scatter",
                                        [LS_ALL_GATHER] = "all-gather"};
    const int channel = LS_GROUPS + place, lane = s->plan->lanes.channels[channel].lane[member];
    ls_op_list ops = {0};
    const ls_end *end = &s->resources->ends[channel].of[member];
    ls_status status = build(s, end, member, half, what, range, cut, &ops);
    if (what == SQUARES)
        range = (ls_range){0};
    ls_task *task = ls_task_of(s->program, verbs[half], lane, range, &ops, status);
    if (!task)
        return;
    task->call = call;
    task->end.channel = channel;
    ls_task_count_messages(s->program, end->comm->rank);
}

static void append_parts(ls_step *s, int place, ls_half half, ls_range range, reduced what,
                         const ls_extent *cut)
{
    const ls_planned_group *g = &s->plan->groups[place];
    const ls_comm *first = s->resources->ends[LS_GROUPS + place].comms[0];
    const int call = g->count && ls_comm_is_joint(first) ? s->program->calls++ : -1;
    for (int i = 0; i < g->count && !s->program->status; i++)
        append_part(s, place, g->members[i], half, what, range, cut, call);
}

/* Appends the sum of a bucket's gradients: all of it to all, or their shares to the members. */
static void reduce(ls_step *s, const char *verb, int place, ls_half half, int b)
{
    const ls_planned_group *g = group_of(s, verb, place);
    if (!g)
        return;
    const ls_range range = ls_bucket(s, place, b);
    for (int i = 0; i < g->count; i++)
        if (!ls_step_job(s)->exact &&
            !ls_slice_sums(ls_step_member(s, g->members[i])->slice[s->batch_kind]))
            append_zeros(s, g->members[i], range);
    append_parts(s, place, half, range, GRADIENTS, &g->buckets.extents[b]);
}

void ls_step_reduce_parameters(ls_step *s, int b)
{
    append_parts(s, 0, LS_HALVES, ls_bucket(s, 0, b), PARAMETERS,
                 &s->plan->groups->buckets.extents[b]);
}

void ls_all_reduce(ls_step *s, int place, int b)
{
    reduce(s, "ls_all_reduce", place, LS_HALVES, b);
}

/* ---- Its halves ------------------------------------------------------------------------------ */

ls_range ls_share(const ls_step *s, int member, int b)
{
    return ls_bucket_share(&s->plan->groups[ls_place_of(s, member)].buckets, (size_t)b, member,
                           ls_replicas(s));
}

static bool can_share(ls_step *s, const char *verb)
{
    return ls_step_can(s, s->plan->strategy->shares, verb,
                       "finds no shares: the strategy does not declare .shares");
}

void ls_reduce_scatter(ls_step *s, int place, int b)
{
    if (can_share(s, "ls_reduce_scatter"))
        reduce(s, "ls_reduce_scatter", place, LS_REDUCE_SCATTER, b);
}

void ls_all_gather(ls_step *s, int place, int b)
{
    const ls_planned_group *g =
        can_share(s, "ls_all_gather") ? group_of(s, "ls_all_gather", place) : NULL;
    if (g)
        append_parts(s, place, LS_ALL_GATHER, ls_bucket(s, place, b), PARAMETERS,
                     &g->buckets.extents[b]);
}

/* ---- Sums of squares ------------------------------------------------------------------------- */

enum { HALVES_OF_DOUBLE = sizeof(double) / sizeof(float) };

/* Of a bucket's blocks, as floats: two a sum. */
static ls_extent squares_of(const ls_buckets *buckets, size_t b)
{
    const size_t blocks = buckets->extents[b].blocks;
    return (ls_extent){.count = HALVES_OF_DOUBLE * blocks, .blocks = blocks};
}

void ls_step_gather_squares(ls_step *s, int place)
{
    const ls_planned_group *g = &s->plan->groups[place];
    const ls_variables *whole = &ls_step_job(s)->model->graph->variables;
    for (size_t b = 0; b < g->buckets.count; b++) {
        const ls_extent extent = squares_of(&g->buckets, b);
        const size_t first = ls_blocks_before(whole, g->buckets.items[b].first);
        append_parts(s, place, LS_ALL_GATHER, (ls_range){HALVES_OF_DOUBLE * first, extent.count},
                     SQUARES, &extent);
    }
}

ls_traffic ls_step_squares_traffic(const ls_step *s)
{
    const ls_buckets *buckets = &s->plan->groups->buckets;
    ls_traffic sum = {0};
    for (size_t b = 0; b < buckets->count; b++)
        ls_traffic_add(&sum,
                       ls_step_job(s)->allreduce->half_formula(
                           LS_ALL_GATHER, ls_replicas(s), squares_of(buckets, b), ls_shards(s)),
                       1);
    return sum;
}

ls_traffic ls_reduced_traffic(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    ls_traffic sum = {0};
    for (int k = 0; k < s->plan->group_count; k++) {
        const ls_planned_group *g = &s->plan->groups[k];
        for (size_t b = 0; b < g->buckets.count; b++)
            ls_traffic_add(&sum,
                           job->allreduce->formula(ls_replicas(s), g->buckets.extents[b],
                                                   ls_shards(s), g->layout),
                           1);
    }
    return sum;
}

int ls_bucket_ahead(const ls_step *s, int b)
{
    return s->plan->windows.buckets ? ls_windows_ahead(&s->plan->windows, b) : -1;
}

ls_traffic ls_halves_traffic(const ls_step *s)
{
    const ls_allreduce *algorithm = ls_step_job(s)->allreduce;
    const ls_windows *windows = &s->plan->windows;
    ls_traffic sum = {0};
    for (int b = 0; b < (int)s->plan->groups->buckets.count; b++)
        for (ls_half half = LS_REDUCE_SCATTER; half <= LS_ALL_GATHER; half++) {
            const bool twice =
                half == LS_ALL_GATHER && windows->buckets && ls_windows_twice(windows, b);
            ls_traffic_add(&sum,
                           algorithm->half_formula(half, ls_replicas(s),
                                                   s->plan->groups->buckets.extents[b],
                                                   ls_shards(s)),
                           twice ? 2 : 1);
        }
    return sum;
}
