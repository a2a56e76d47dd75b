/* SPDX-License-Identifier: MIT */
/*
 * All-reduces of gradients, bucket by bucket, over members of all processes.
 *
 * Overlapped, a member's all-reduces have a lane of their own: a bucket travels while backward goes
 * on. Else they are put on its compute lane, which is faster where one core does both and memory is
 * shared. Where the communicator's queues are ordered by events (GPUs), one call puts those of all
 * members; else each waits for its peers on its own queue.
 */
#include "common/base/hooks.h"
#include "impl/step/step_private.h"

#include <stdlib.h>

/* ---- Buckets --------------------------------------------------------------------------------- */

/* The node whose backward pass makes the range final: the first of those that have its variables. */
static int final_node(const ls_graph *graph, ls_range range)
{
    for (int n = 0; n < graph->count; n++) {
        for (int v = 0; v < graph->nodes[n].variable_count; v++) {
            const ls_variable *variable = &graph->variables.items[graph->nodes[n].variables[v]];
            if (variable->offset < range.first + range.count &&
                variable->offset + variable->count > range.first)
                return n;
        }
    }
    return 0;
}

/* The last node's first; of one node's as they are. */
static ls_status order_buckets(const ls_graph *graph, ls_group *g)
{
    g->order = calloc(g->buckets.count + 1, sizeof *g->order);
    if (!g->order)
        return ls_fail_memory("step", g->buckets.count * sizeof *g->order);
    for (size_t b = 0; b < g->buckets.count; b++) {
        const ls_range bucket = {g->buckets.items[b].first, g->buckets.items[b].count};
        const int node = final_node(graph, bucket);
        size_t at = b;
        for (; at > 0 && final_node(graph, g->order[at - 1]) < node; at--)
            g->order[at] = g->order[at - 1];
        g->order[at] = bucket;
    }
    return LS_OK;
}

int ls_buckets_of(const ls_step *s)
{
    return (int)s->run->group.buckets.count;
}

ls_range ls_bucket(const ls_step *s, int b)
{
    return s->run->group.order[b];
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Shards of the tree of a batch; fast mode has none. */
static int64_t shards_of(const ls_job *job, int which)
{
    const int64_t batch = ls_replicated_batch(job, which);
    if (!job->exact)
        return 0;
    return job->micro_shards < batch ? job->micro_shards : batch;
}

/* The most that an all-reduce of this member needs; they run one after the other. */
static ls_status take_scratch(ls_stepped *run, int member)
{
    const ls_job *job = run->shared.base.job;
    ls_group *g = &run->group;
    const ls_comm *comm = g->comms[member];
    size_t most = 0;
    void *memory;
    for (int which = 0; which < LS_BATCHES && job->allreduce->scratch; which++) {
        for (size_t b = 0; b < g->buckets.count && ls_replicated_batch(job, which); b++) {
            const size_t need = job->allreduce->scratch(
                comm->rank, comm->size, g->buckets.items[b].count, shards_of(job, which));
            most = need > most ? need : most;
        }
    }
    g->scratch_elements[member] = most;
    if (!most)
        return LS_OK;
    LS_TRY(ls_device_allocate(run->shared.members[member].replica->device, LS_MEMORY_COMMUNICATION,
                              most * sizeof(float), &memory));
    g->scratch[member] = memory;
    return LS_OK;
}

static ls_status open_lane(ls_stepped *run, int member)
{
    ls_lane lane = {.member = member, .name = "communication", .own = true};
    run->group.lane[member] = member;
    if (!run->shared.base.job->overlap)
        return LS_OK;
    LS_TRY(ls_queue_open(run->shared.members[member].replica->device, lane.name, &lane.queue));
    run->group.lane[member] = run->lane_count;
    run->lanes[run->lane_count++] = lane;
    return LS_OK;
}

static ls_status open_ends(ls_stepped *run)
{
    const ls_job *job = run->shared.base.job;
    ls_group *g = &run->group;
    const size_t n = (size_t)run->shared.count;
    g->comms = calloc(n, sizeof *g->comms);
    g->lane = calloc(n, sizeof *g->lane);
    g->scratch = calloc(n, sizeof *g->scratch);
    g->scratch_elements = calloc(n, sizeof *g->scratch_elements);
    if (!g->comms || !g->lane || !g->scratch || !g->scratch_elements)
        return ls_fail_memory("step", n * sizeof *g->comms);
    LS_TRY(ls_comm_open(job->transport, job->comm, job->devices, (int)n, g->comms));
    for (g->count = 0; g->count < (int)n; g->count++)
        g->comms[g->count]->layout = job->layout;
    return LS_OK;
}

static ls_status open_members(ls_stepped *run)
{
    const ls_allreduce *algorithm = run->shared.base.job->allreduce;
    if (algorithm->check)
        LS_TRY(algorithm->check(run->group.comms[0]));
    for (int m = 0; m < run->group.count; m++) {
        LS_TRY(open_lane(run, m));
        LS_TRY(take_scratch(run, m));
    }
    return LS_OK;
}

ls_status ls_group_open(ls_stepped *run)
{
    const ls_job *job = run->shared.base.job;
    const ls_graph *graph = job->model->graph;
    ls_group *g = &run->group;
    LS_TRY(ls_buckets_open(graph, graph->variables.elements,
                           job->exact ? SIZE_MAX : job->bucket_bytes, &g->buckets));
    LS_TRY(order_buckets(graph, g));
    LS_TRY(open_ends(run));
    return ls_job_agree(job, open_members(run));
}

void ls_group_close(ls_stepped *run)
{
    ls_group *g = &run->group;
    for (int m = 0; m < g->count; m++) {
        if (g->scratch[m])
            ls_device_release(run->shared.members[m].replica->device, g->scratch[m]);
        ls_comm_close(g->comms[m]);
    }
    free(g->comms);
    free(g->lane);
    free(g->scratch);
    free(g->scratch_elements);
    free(g->order);
    ls_buckets_close(&g->buckets);
}

/* ---- All-reduce ------------------------------------------------------------------------------ */

static ls_status build(ls_step *s, int member, ls_range range, ls_op_list *ops)
{
    const ls_group *g = &s->run->group;
    const ls_job *job = ls_step_job(s);
    const ls_slice *slice = s->run->shared.members[member].slice[s->which];
    float *sums[LS_REPLICA_LOSSES];
    ls_allreduce_args args = {.data = (float *)ls_step_replica(s, member)->gradients + range.first,
                              .count = range.count,
                              .scratch = g->scratch[member]};
    if (job->exact) {
        args.shards = shards_of(job, s->which);
        args.sums = sums;
        args.sum_count = ls_slice_sums(slice);
    }
    for (size_t k = 0; k < args.sum_count; k++)
        sums[k] = ls_slice_gradients(slice, k);
    return job->allreduce->build(g->comms[member], &args, ops);
}

/* An empty slice's gradient is 0; canonical sums know of it. */
static void say_zeros(ls_step *s, int member, ls_range range)
{
    const ls_replica *r = ls_step_replica(s, member);
    const ls_fill_args fill = {.count = (int64_t)range.count,
                               .y = (float *)r->gradients + range.first};
    ls_op *op = NULL;
    ls_step_fail(s, r->kernels->table->fill(r->kernels, &fill, &op));
    if (op)
        ls_step_fail(s, ls_op_list_add(&s->own, op));
    ls_task_begin(s, "zeros", member, range);
    if (!s->status)
        ls_task_add_ops(s, &(ls_op_list){.items = &op, .count = 1});
    ls_task_end(s);
}

static void say_part(ls_step *s, int member, ls_range range, int call)
{
    ls_op_list ops = {0};
    ls_step_fail(s, build(s, member, range, &ops));
    ls_task *task = ls_task_begin(s, "all-reduce", s->run->group.lane[member], range);
    if (task) {
        task->call = call;
        task->comm = s->run->group.comms[member];
    }
    ls_task_add_ops(s, &ops);
    ls_task_end(s);
    for (size_t i = 0; i < ops.count; i++) {
        if (s->status)
            ls_op_free(ops.items[i]);
        else
            ls_step_fail(s, ls_op_list_add(&s->own, ops.items[i]));
    }
    free(ops.items);
}

void ls_all_reduce(ls_step *s, int b)
{
    const int n = s->run->group.count;
    const ls_range range = ls_bucket(s, b);
    const bool together = ls_comm_together(s->run->group.comms[0]);
    const int call = together ? s->calls++ : -1;
    for (int m = 0; m < n && !s->status; m++)
        if (!ls_step_job(s)->exact && !ls_slice_sums(s->run->shared.members[m].slice[s->which]))
            say_zeros(s, m, range);
    for (int m = 0; m < n && !s->status; m++)
        say_part(s, m, range, call);
}
