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
#include "impl/step/step_private.h"

#include <stdlib.h>

/* ---- Buckets --------------------------------------------------------------------------------- */

static const ls_group *group_at(const ls_step *s, int place)
{
    return &s->run->groups[place];
}

int ls_buckets_of(const ls_step *s, int place)
{
    return (int)group_at(s, place)->buckets.count;
}

ls_range ls_bucket(const ls_step *s, int place, int b)
{
    return group_at(s, place)->buckets.items[b];
}

/* ---- Hosts of the members -------------------------------------------------------------------- */

ls_status ls_group_buckets(const ls_job *job, const ls_graph_parts *parts, int place,
                           ls_buckets *out)
{
    const ls_graph_part *part = parts->count ? &parts->parts[place] : NULL;
    const ls_graph *graph = part ? part->graph : job->model->graph;
    return ls_buckets_open(graph, part ? part->owned : graph->variables.elements,
                           job->exact ? SIZE_MAX : job->bucket_bytes, out);
}

/* If a replica has q processes with c devices each, place m of replica d is in process d q + m /
 * c. */
const ls_layout *ls_group_layout(const ls_job *job, int place, int *hosts, ls_layout *spread)
{
    const int here = (int)job->device_count, places = ls_job_places(job);
    if (!job->layout || places <= here)
        return job->layout;
    for (int d = 0; d < ls_job_replicas(job); d++)
        hosts[d] = job->layout->host[d * (places / here) + place / here];
    *spread = (ls_layout){.processes = ls_job_replicas(job), .host = hosts};
    return spread;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Allocates scratch for the largest all-reduce of this end; they run one after the other. */
static ls_status take_scratch(ls_stepped *run, ls_group *g, int i)
{
    const ls_job *job = run->base.job;
    const ls_comm *comm = g->comms[i];
    size_t most = 0;
    for (int batch_kind = 0; batch_kind < LS_BATCHES && job->allreduce->scratch; batch_kind++) {
        const int64_t batch = ls_replicated_batch(job, batch_kind);
        for (size_t b = 0; b < g->buckets.count && batch; b++) {
            const size_t need =
                job->allreduce->scratch(comm->rank, comm->size, g->buckets.items[b].count,
                                        job->exact ? ls_job_shards(job, batch) : 0);
            most = need > most ? need : most;
        }
    }
    return most
               ? ls_replica_take(run->members[g->members[i]].replica, "scratch",
                                 LS_MEMORY_COMMUNICATION, most * sizeof(float), &g->ends[i].scratch)
               : LS_OK;
}

static ls_status open_members(ls_stepped *run, ls_group *g)
{
    const ls_allreduce *algorithm = run->base.job->allreduce;
    if (algorithm->check && g->count)
        LS_TRY(algorithm->check(g->comms[0]));
    for (int i = 0; i < g->count; i++) {
        g->comms[i]->layout = g->layout;
        LS_TRY(ls_lane_open(run, g->members[i], "communication", run->base.job->overlap,
                            &g->ends[i].lane));
        LS_TRY(take_scratch(run, g, i));
    }
    return LS_OK;
}

static ls_status prepare(const ls_stepped *run, int place, ls_group *g)
{
    const ls_job *job = run->base.job;
    const size_t most = job->device_count + 1;
    LS_TRY(ls_group_buckets(job, &run->parts, place, &g->buckets));
    LS_TRY(ls_allocate("step", &g->members, most, sizeof *g->members));
    LS_TRY(ls_allocate("step", &g->ends, most, sizeof *g->ends));
    LS_TRY(ls_allocate("step", &g->comms, most, sizeof(ls_comm *)));
    LS_TRY(ls_allocate("step", &g->hosts, LS_JOB_REPLICAS, sizeof *g->hosts));
    for (int m = place; m < run->count * run->places && g->buckets.count; m += run->places)
        if (run->members[m].replica)
            g->members[g->count++] = m;
    g->layout = ls_group_layout(job, place, g->hosts, &g->spread);
    return LS_OK;
}

ls_status ls_group_open(ls_stepped *run, int place, ls_group *g)
{
    ls_status status = ls_comm_agree(run->base.job->comm, prepare(run, place, g));
    if (!status && g->buckets.count)
        status = ls_held_connect(run, g->members, g->count, true, g->comms);
    if (status)
        g->count = 0; /* no end was opened */
    LS_TRY(status);
    return g->buckets.count ? ls_comm_agree(run->base.job->comm, open_members(run, g)) : LS_OK;
}

void ls_group_close(ls_group *g)
{
    free(g->members);
    free(g->comms);
    free(g->ends);
    free(g->hosts);
    ls_buckets_close(&g->buckets);
}

/* ---- All-reduce ------------------------------------------------------------------------------ */

/* Builds a member's all-reduce of a range of `flat`, its gradients or parameters. */
static ls_status build(ls_step *s, const ls_group *g, int i, void *flat, ls_range range,
                       ls_op_list *ops)
{
    const ls_job *job = ls_step_job(s);
    const ls_slice *slice = ls_step_member(s, g->members[i])->slice[s->batch_kind];
    float *sums[LS_REPLICA_LOSSES];
    ls_allreduce_args args = {
        .data = (float *)flat + range.first, .count = range.count, .scratch = g->ends[i].scratch};
    if (job->exact) {
        args.shards = ls_shards(s);
        args.sums = sums;
        args.sum_count = ls_slice_sums(slice);
    }
    for (size_t k = 0; k < args.sum_count; k++)
        sums[k] = ls_slice_gradients(slice, k);
    return job->allreduce->build(g->comms[i], &args, ops);
}

/* Appends a task that sets an empty slice's gradient to 0; `canonical` does not need it. */
static void say_zeros(ls_step *s, int member, ls_range range)
{
    const ls_replica *r = ls_step_replica(s, member);
    const ls_fill_args fill = {.count = (int64_t)range.count,
                               .y = (float *)r->gradients + range.first};
    ls_op *op = NULL;
    ls_status status = r->kernels->table->fill(r->kernels, &fill, &op);
    ls_task_of_op(s, "zeros", member, range, op, status);
}

static void say_part(ls_step *s, const ls_group *g, int i, void *flat, ls_range range, int call)
{
    ls_op_list ops = {0};
    ls_status status = build(s, g, i, flat, range, &ops);
    ls_task *task = ls_task_of(s, "all-reduce", g->ends[i].lane, range, &ops, status);
    if (!task)
        return;
    task->call = call;
    task->ends = g->comms;
    task->rank = i;
}

static void say_parts(ls_step *s, const ls_group *g, ls_range range, bool parameters)
{
    const int call = g->count && ls_comm_is_joint(g->comms[0]) ? s->calls++ : -1;
    for (int i = 0; i < g->count && !s->status; i++) {
        const ls_replica *r = ls_step_replica(s, g->members[i]);
        say_part(s, g, i, parameters ? r->parameters : r->gradients, range, call);
    }
}

void ls_all_reduce(ls_step *s, int place, int b)
{
    const ls_group *g = group_at(s, place);
    const ls_range range = ls_bucket(s, place, b);
    for (int i = 0; i < g->count && !s->status; i++)
        if (!ls_step_job(s)->exact &&
            !ls_slice_sums(ls_step_member(s, g->members[i])->slice[s->batch_kind]))
            say_zeros(s, g->members[i], range);
    say_parts(s, g, range, false);
}

static void say_quotient(ls_step *s, int member, ls_range range, int count)
{
    const ls_replica *r = ls_step_replica(s, member);
    const ls_scale_args scale = {.count = (int64_t)range.count,
                                 .factor = 1.0 / count,
                                 .y = (float *)r->parameters + range.first};
    ls_op *op = NULL;
    ls_status status = r->kernels->table->scale(r->kernels, &scale, &op);
    ls_task_of_op(s, "average", member, range, op, status);
}

void ls_average(ls_step *s, int place, int b)
{
    if (!ls_step_job(s)->period)
        ls_step_fail(s, ls_fail(LS_CODE_USAGE, "strategy", s->run->base.strategy->name,
                                "averages once a period of steps; give one of 1 or more"));
    const ls_group *g = group_at(s, place);
    const ls_range range = ls_bucket(s, place, b);
    say_parts(s, g, range, true);
    for (int i = 0; i < g->count && !s->status; i++)
        say_quotient(s, g->members[i], range, ls_replicas(s));
}

ls_traffic ls_reduced_traffic(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    ls_traffic sum = {0};
    for (int k = 0; k < s->run->group_count; k++)
        for (int b = 0; b < ls_buckets_of(s, k); b++)
            ls_traffic_add(&sum,
                           job->allreduce->formula(ls_replicas(s), ls_bucket(s, k, b).count,
                                                   ls_shards(s), group_at(s, k)->layout),
                           1);
    return sum;
}
