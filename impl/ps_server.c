/* SPDX-License-Identifier: MIT */
/*
 * A server: a shard of the variables, with its optimizer state, and no net. A synchronous step of
 * it, in an order that never varies:
 *
 *     send each range of the shard to every worker; of each piece, as the buckets become final,
 *     receive every worker's gradient, in the order of workers, and add; update the piece
 *
 * Fast mode: ((g0 + g1) + g2) + ..., workers with an empty slice left out; the first goes straight
 * to the shard's gradient and the others are added to it where they arrive, so that no message is
 * copied (a communicator without shared memory has one arrival buffer). Exact mode: the workers'
 * finished subtrees each arrive in memory of their own and are added up the rest of the tree.
 */
#include "impl/ps.h"

#include "common/base/hooks.h"

#include <stdlib.h>

/* ---- Its shard ------------------------------------------------------------------------------ */

/* The parts of variables in one range: a graph that is nothing but these. */
static ls_status add_variables(const ls_variables *whole, const ls_ps_range *range, ls_graph *graph)
{
    for (size_t i = 0; i < whole->count; i++) {
        ls_variable v = whole->items[i];
        size_t first = v.offset > range->first ? v.offset : range->first;
        size_t last = v.offset + v.count, end = range->first + range->count;
        last = last < end ? last : end;
        if (first >= last)
            continue;
        v.rank = 1;
        v.shape[0] = (int64_t)(last - first);
        LS_TRY(ls_variables_add(&graph->variables, &v));
    }
    return LS_OK;
}

ls_status ls_ps_shard_open(const ls_ps *run, ls_ps_server *s, ls_device *device)
{
    const ls_job *job = run->base.job;
    LS_TRY(ls_graph_open(&s->part.graph));
    for (size_t i = 0; i < run->layout.range_count; i++)
        if (run->layout.ranges[i].server == s->place->number)
            LS_TRY(add_variables(&job->model->graph->variables, &run->layout.ranges[i],
                                 s->part.graph));
    s->part.owned = s->part.elements = s->part.graph->variables.elements;
    const ls_replica_options options = {.job = job,
                                        .device = device,
                                        .number = -1,
                                        .part = &s->part,
                                        .sums = 1,
                                        .decay_loss = LS_DECAY_ELSEWHERE};
    return ls_replica_open(&options, &s->replica);
}

/* ---- The synchronous step ------------------------------------------------------------------- */

static ls_status build_deal(const ls_ps *run, ls_ps_server *s)
{
    const ls_ps_layout *l = &run->layout;
    for (size_t i = 0; i < l->range_count; i++) {
        const ls_ps_range *range = &l->ranges[i];
        for (int w = 0; w < l->workers && range->server == s->place->number; w++) {
            const ls_exchange e = {.to = l->worker_rank[w],
                                   .send = (const float *)s->replica->parameters + range->at,
                                   .send_count = range->count,
                                   .from = -1};
            bool together = ls_ps_together(run->base.job, l, s->place->number, w);
            LS_TRY(ls_ps_exchange(s->comm, e, together, &s->deal));
        }
    }
    return LS_OK;
}

/* Where part number `leaf` of all workers' arrives. */
static float *arrival(const ls_ps_server *s, size_t leaf)
{
    return leaf ? s->arrivals[leaf - 1] : s->replica->gradients;
}

static ls_status build_receives(const ls_ps *run, ls_ps_server *s, int which,
                                const ls_ps_range *piece)
{
    const ls_job *job = run->base.job;
    const ls_ps_layout *l = &run->layout;
    size_t leaf = 0;
    for (int w = 0; w < l->workers; w++) {
        const size_t sums =
            ls_slice_count_sums(job, ls_replicated_batch(job, which), w, l->workers);
        bool together = ls_ps_together(job, l, s->place->number, w);
        for (size_t k = 0; k < sums; k++, leaf++) {
            const ls_exchange e = {.to = -1,
                                   .from = l->worker_rank[w],
                                   .receive = arrival(s, job->exact ? leaf : 0) + piece->at,
                                   .receive_count = piece->count,
                                   .add = !job->exact && leaf > 0 && !LS_PLANTED(push_overwrites)};
            LS_TRY(ls_ps_exchange(s->comm, e, together, &s->step[which]));
        }
    }
    return LS_OK;
}

/* Exact mode: up the rest of the tree, in place. */
static ls_status build_tree(const ls_ps *run, ls_ps_server *s, int which, const ls_ps_range *piece)
{
    const ls_job *job = run->base.job;
    ls_tree_sum *sums = NULL;
    size_t count = 0;
    LS_TRY(ls_slice_tree(job, ls_replicated_batch(job, which), run->layout.workers, &sums, &count));
    ls_status status = LS_OK;
    for (size_t i = 0; i < count && !status; i++) {
        float *left = arrival(s, sums[i].left) + piece->at;
        const ls_add_args args = {.count = (int64_t)piece->count,
                                  .a = left,
                                  .b = arrival(s, sums[i].right) + piece->at,
                                  .y = left};
        ls_op *op;
        status = s->replica->kernels->table->add(s->replica->kernels, &args, &op);
        if (!status)
            status = ls_op_list_add(&s->step[which], op);
    }
    free(sums);
    return status;
}

static ls_status build_step(const ls_ps *run, ls_ps_server *s, int which)
{
    const ls_job *job = run->base.job;
    const ls_ps_layout *l = &run->layout;
    for (size_t i = 0; i < l->piece_count; i++) {
        const ls_ps_range *piece = &l->pieces[i];
        if (piece->server != s->place->number)
            continue;
        LS_TRY(build_receives(run, s, which, piece));
        if (job->exact)
            LS_TRY(build_tree(run, s, which, piece));
        LS_TRY(ls_replica_update(s->replica, piece->at, piece->count, &s->step[which]));
        if (LS_PLANTED(applied_twice))
            LS_TRY(ls_replica_update(s->replica, piece->at, piece->count, &s->step[which]));
    }
    return ls_replica_finish(s->replica, ls_replicated_batch(job, which), &s->step[which]);
}

/* ---- Opening and closing -------------------------------------------------------------------- */

/* Subtrees of all workers but the first, which arrives in the gradient. */
static ls_status take_arrivals(const ls_ps *run, ls_ps_server *s)
{
    const ls_job *job = run->base.job;
    size_t most = 1;
    for (int b = 0; b < LS_BATCHES && job->exact; b++) {
        size_t leaves = 0;
        for (int w = 0; w < run->layout.workers && ls_replicated_batch(job, b); w++)
            leaves += ls_slice_count_sums(job, ls_replicated_batch(job, b), w, run->layout.workers);
        most = leaves > most ? leaves : most;
    }
    s->arrivals = calloc(most, sizeof *s->arrivals);
    if (!s->arrivals)
        return ls_fail_memory("ps", most * sizeof *s->arrivals);
    for (; s->arrival_count + 1 < most; s->arrival_count++)
        LS_TRY(ls_device_allocate(s->replica->device, LS_MEMORY_COMMUNICATION,
                                  s->replica->elements * sizeof(float),
                                  &s->arrivals[s->arrival_count]));
    return LS_OK;
}

ls_status ls_ps_server_open(const ls_ps *run, ls_ps_server *s)
{
    const ls_job *job = run->base.job;
    LS_TRY(ls_ps_shard_open(run, s, ls_ps_device(job, s->place)));
    if (ls_ps_by_arrival(&job->ps))
        return ls_ps_async_open(run, s);
    LS_TRY(take_arrivals(run, s));
    LS_TRY(build_deal(run, s));
    for (int b = 0; b < LS_BATCHES; b++) {
        if (!ls_replicated_batch(job, b))
            continue;
        LS_TRY(build_step(run, s, b));
        if (!job->capture || ls_ps_is_joint(job))
            continue;
        LS_TRY(ls_program_begin(s->replica->queue));
        ls_status put = ls_ps_server_put(s, b);
        LS_TRY(ls_status_first(put, ls_program_end(s->replica->queue, &s->program[b])));
    }
    return LS_OK;
}

ls_status ls_ps_server_put(ls_ps_server *s, int which)
{
    LS_TRY(ls_op_list_put(&s->deal, s->replica->queue));
    return ls_op_list_put(&s->step[which], s->replica->queue);
}

void ls_ps_server_close(ls_ps_server *s)
{
    if (s->replica)
        ls_status_free(ls_queue_sync(s->replica->queue));
    for (int b = 0; b < LS_BATCHES; b++) {
        ls_program_close(s->program[b]);
        ls_op_list_clear(&s->step[b]);
    }
    ls_op_list_clear(&s->deal);
    for (size_t i = 0; i < s->arrival_count; i++)
        ls_device_release(s->replica->device, s->arrivals[i]);
    free(s->arrivals);
    ls_ps_async_close(s);
    ls_comm_close(s->control);
    ls_comm_close(s->comm);
    ls_replica_close(s->replica);
    ls_graph_close(s->part.graph);
}

/* ---- Values, memory ------------------------------------------------------------------------- */

ls_status ls_ps_server_load(const ls_ps *run, ls_ps_server *s, const float *parameters)
{
    float *shard = malloc((s->replica->elements + 1) * sizeof *shard);
    if (!shard)
        return ls_fail_memory("ps", s->replica->elements * sizeof *shard);
    for (size_t i = 0; i < run->layout.range_count; i++) {
        const ls_ps_range *range = &run->layout.ranges[i];
        for (size_t k = 0; range->server == s->place->number && k < range->count; k++)
            shard[range->at + k] = parameters[range->first + k];
    }
    ls_ps_async_load(s);
    ls_status status = ls_replica_load(s->replica, shard);
    free(shard);
    return status;
}

/* Its ranges of the whole flat buffer, from one like it of the shard. */
static ls_status gather(const ls_ps *run, ls_ps_server *s, const float *shard, float *whole)
{
    for (size_t i = 0; i < run->layout.range_count; i++) {
        const ls_ps_range *range = &run->layout.ranges[i];
        if (range->server == s->place->number)
            LS_TRY(ls_queue_read(s->replica->queue, whole + range->first, shard + range->at,
                                 range->count * sizeof *shard));
    }
    return LS_OK;
}

ls_status ls_ps_server_gather(const ls_ps *run, ls_ps_server *s, float *parameters)
{
    return gather(run, s, s->replica->parameters, parameters);
}

ls_status ls_ps_server_averages(const ls_ps *run, ls_ps_server *s, float *averages)
{
    const ls_replica *r = s->replica;
    const bool raw = !r->average || LS_PLANTED(raw_evaluated);
    return gather(run, s, raw ? r->parameters : r->average, averages);
}

void ls_ps_server_memory(const ls_ps_server *s, ls_memory_formula *formula)
{
    const ls_memory_formula replica = ls_replica_memory(s->replica);
    for (int use = 0; use < LS_MEMORY_USES; use++)
        formula->bytes[use] += replica.bytes[use];
    formula->bytes[LS_MEMORY_COMMUNICATION] +=
        s->arrival_count * s->replica->elements * sizeof(float);
    if (s->comm->backend->memory)
        formula->bytes[LS_MEMORY_COMMUNICATION] += s->comm->backend->memory(s->comm);
}
