/* SPDX-License-Identifier: MIT */
/*
 * A worker of parameter servers: builds only its own step, whatever the number of workers.
 *
 *     pull the variables, range by range; gather its part of the batch, forward, backward; push
 *     each range of the gradients as soon as it is final
 *
 * Where there is something to overlap (job.h), messages have a queue of their own, as all-reduces
 * have: a bucket waits there for an event of the backward pass.
 */
#include "impl/ps.h"

#include "common/base/hooks.h"

#include <stdlib.h>

/* ---- The step ------------------------------------------------------------------------------- */

typedef struct push_sink {
    ls_ps_worker *worker;
    int which;
} push_sink;

static ls_status put_bucket(void *context, size_t bucket)
{
    const push_sink *sink = context;
    ls_ps_worker *w = sink->worker;
    const ls_op_list *push = &w->push[sink->which][bucket];
    if (!w->own_queue)
        return ls_op_list_put(push, w->queue);
    LS_TRY(ls_queue_record(w->member.replica->queue, w->final[bucket]));
    if (!LS_PLANTED(push_early))
        LS_TRY(ls_queue_wait(w->queue, w->final[bucket]));
    return ls_op_list_put(push, w->queue);
}

static ls_status range_final(void *context, size_t first, size_t count)
{
    const push_sink *sink = context;
    return ls_buckets_final(&sink->worker->buckets, first, count, put_bucket, context);
}

/* From here on, or no longer, what is put is passed over where the worker is late. */
static ls_status pass_if_late(const ls_ps_worker *w, bool on)
{
    if (!w->begin.count) /* it never is */
        return LS_OK;
    LS_TRY(ls_queue_pass(w->queue, on ? &w->late : NULL));
    return ls_queue_pass(w->member.replica->queue, on ? &w->late : NULL);
}

/* The variables of this step are there before anything reads them, and nothing of the step before
 * reads them any more. */
static ls_status put_pull(ls_ps_worker *w)
{
    ls_replica *r = w->member.replica;
    if (w->own_queue) {
        LS_TRY(ls_queue_record(r->queue, w->begun));
        LS_TRY(ls_queue_wait(w->queue, w->begun));
    }
    LS_TRY(ls_op_list_put(&w->begin, w->queue));
    LS_TRY(pass_if_late(w, true));
    LS_TRY(ls_op_list_put(&w->pull, w->queue));
    if (!w->own_queue)
        return ls_op_list_put(&r->decay_loss, r->queue);
    LS_TRY(ls_queue_record(w->queue, w->pulled));
    if (!LS_PLANTED(pull_wait))
        LS_TRY(ls_queue_wait(r->queue, w->pulled));
    return ls_op_list_put(&r->decay_loss, r->queue);
}

ls_status ls_ps_worker_put(ls_ps_worker *w, int which)
{
    push_sink sink = {w, which};
    ls_replica *r = w->member.replica;
    const ls_slice *slice = w->member.slice[which];
    const bool whole = !ls_slice_reports(slice);
    ls_buckets_begin(&w->buckets);
    LS_TRY(put_pull(w));
    LS_TRY(ls_slice_put(w->member.slice[which], whole ? NULL : range_final, &sink));
    if (whole) /* not reported in parts: everything is final now */
        LS_TRY(range_final(&sink, 0, r->elements));
    if (w->own_queue) {
        LS_TRY(ls_queue_record(w->queue, w->pushed));
        LS_TRY(ls_queue_wait(r->queue, w->pushed));
    }
    LS_TRY(pass_if_late(w, false));
    return ls_op_list_put(&w->member.finish[which], r->queue);
}

ls_status ls_ps_worker_compute(ls_ps_worker *w, int which)
{
    LS_TRY(ls_op_list_put(&w->member.replica->decay_loss, w->queue));
    return ls_slice_put(w->member.slice[which], NULL, NULL);
}

/* ---- Building ------------------------------------------------------------------------------- */

static ls_status open_replica(const ls_ps *run, ls_ps_worker *w)
{
    const ls_job *job = run->base.job;
    /* A chief that is late does not know what step's variables decay by. */
    const bool decays = w->place->number == 0 || job->ps.backups > 0;
    ls_replica_options options = {.job = job,
                                  .device = ls_ps_device(job, w->place),
                                  .number = w->place->number,
                                  .sums = ls_replicated_sums(job, w->place->number),
                                  .no_optimizer = true,
                                  .decay_loss = decays ? LS_DECAY_HERE : LS_DECAY_ELSEWHERE};
    for (int b = 0; b < LS_BATCHES; b++) {
        int64_t batch = ls_replicated_batch(job, b);
        options.rows = batch > options.rows ? batch : options.rows;
    }
    LS_TRY(ls_replica_open(&options, &w->member.replica));
    return ls_replicated_open_slices(job, w->place->number, &w->member);
}

static ls_status open_queue(const ls_ps *run, ls_ps_worker *w)
{
    const ls_replica *r = w->member.replica;
    w->queue = r->queue;
    if (!run->base.job->overlap || ls_ps_is_joint(run->base.job))
        return LS_OK;
    LS_TRY(ls_queue_open(r->device, "communication", &w->queue));
    w->own_queue = true;
    LS_TRY(ls_event_open(r->device, &w->begun));
    LS_TRY(ls_event_open(r->device, &w->pulled));
    LS_TRY(ls_event_open(r->device, &w->pushed));
    w->final = calloc(w->buckets.count, sizeof *w->final);
    if (!w->final)
        return ls_fail_memory("ps", w->buckets.count * sizeof *w->final);
    for (size_t b = 0; b < w->buckets.count; b++)
        LS_TRY(ls_event_open(r->device, &w->final[b]));
    return LS_OK;
}

static bool asks(const ls_ps *run)
{
    return ls_ps_by_arrival(&run->base.job->ps);
}

/* Server by server, each asked right before where it waits to be. */
static ls_status build_pull(const ls_ps *run, ls_ps_worker *w)
{
    const ls_ps_layout *l = &run->layout;
    float *parameters = w->member.replica->parameters;
    for (int s = 0; s < l->servers; s++) {
        const bool together = ls_ps_together(run->base.job, l, s, w->place->number);
        if (run->base.job->ps.backups && l->elements[s])
            LS_TRY(ls_ps_ask(run, w, s, &w->pull));
        else if (asks(run) && l->elements[s])
            LS_TRY(ls_ps_say(run, w, s, LS_PS_PULL, &w->pull));
        for (size_t i = 0; i < l->range_count; i++) {
            const ls_ps_range *range = &l->ranges[i];
            const ls_exchange e = {.to = -1,
                                   .from = l->server_rank[s],
                                   .receive = parameters + range->first,
                                   .receive_count = range->count};
            if (range->server == s)
                LS_TRY(ls_ps_exchange(w->comm, e, together, &w->pull));
        }
    }
    return LS_OK;
}

/* Of each piece the gradient's parts in order: one, or the finished subtrees. */
static ls_status build_push(const ls_ps *run, ls_ps_worker *w, int which)
{
    const ls_ps_layout *l = &run->layout;
    w->push[which] = calloc(w->buckets.count, sizeof *w->push[which]);
    if (!w->push[which])
        return ls_fail_memory("ps", w->buckets.count * sizeof *w->push[which]);
    for (size_t i = 0; i < l->piece_count && !asks(run); i++) {
        const ls_ps_range *piece = &l->pieces[i];
        const size_t bucket = ls_ps_is_joint(run->base.job) ? 0 : piece->bucket; /* all at once */
        bool together = ls_ps_together(run->base.job, l, piece->server, w->place->number);
        for (size_t k = 0; k < ls_slice_sums(w->member.slice[which]); k++) {
            const float *sum = ls_slice_gradients(w->member.slice[which], k);
            const ls_exchange e = {.to = l->server_rank[piece->server],
                                   .send = sum + piece->first,
                                   .send_count = piece->count,
                                   .from = -1};
            LS_TRY(ls_ps_exchange(w->comm, e, together, &w->push[which][bucket]));
        }
    }
    return LS_OK;
}

/* Bucket that the last of a server's pieces is in. */
static size_t last_bucket(const ls_ps_layout *l, int server)
{
    size_t bucket = 0;
    for (size_t i = 0; i < l->piece_count; i++)
        if (l->pieces[i].server == server)
            bucket = l->pieces[i].bucket;
    return bucket;
}

/* A whole shard's gradient goes at once, when the last of it is final. */
static ls_status build_shard_push(const ls_ps *run, ls_ps_worker *w, int which, int server)
{
    const ls_ps_layout *l = &run->layout;
    const bool empty = !ls_slice_sums(w->member.slice[which]);
    ls_op_list *ops = &w->push[which][last_bucket(l, server)];
    if (empty && run->base.job->ps.backups) /* no gradient, which nobody waits for */
        return LS_OK;
    LS_TRY(ls_ps_say(run, w, server, empty ? LS_PS_EMPTY : LS_PS_PUSH, ops));
    for (size_t i = 0; i < l->range_count && !empty; i++) {
        const ls_ps_range *range = &l->ranges[i];
        const float *gradients = w->member.replica->gradients;
        const ls_exchange e = {.to = l->server_rank[server],
                               .send = gradients + range->first,
                               .send_count = range->count,
                               .from = -1};
        bool together = ls_ps_together(run->base.job, l, server, w->place->number);
        if (range->server == server)
            LS_TRY(ls_ps_exchange(w->comm, e, together, ops));
    }
    return LS_OK;
}

static ls_status build_alone(const ls_ps *run, ls_ps_worker *w)
{
    for (int s = 0; s < run->layout.servers; s++) {
        for (int b = 0; b < LS_BATCHES && run->layout.elements[s]; b++)
            if (ls_replicated_batch(run->base.job, b))
                LS_TRY(build_shard_push(run, w, b, s));
        LS_TRY(ls_ps_say(run, w, s, LS_PS_BYE, &w->bye));
    }
    return LS_OK;
}

static ls_status capture(const ls_job *job, ls_ps_worker *w)
{
    for (int b = 0; b < LS_BATCHES && job->capture && !ls_ps_is_joint(job); b++) {
        if (!ls_replicated_batch(job, b))
            continue;
        LS_TRY(ls_program_begin(w->member.replica->queue));
        ls_status put = ls_ps_worker_put(w, b);
        LS_TRY(
            ls_status_first(put, ls_program_end(w->member.replica->queue, &w->member.program[b])));
    }
    return LS_OK;
}

ls_status ls_ps_worker_open(const ls_ps *run, ls_ps_worker *w)
{
    const ls_job *job = run->base.job;
    LS_TRY(open_replica(run, w));
    LS_TRY(ls_buckets_open(job->model->graph, job->model->graph->variables.elements,
                           job->bucket_bytes, &w->buckets));
    LS_TRY(open_queue(run, w));
    if (job->ps.backups)
        LS_TRY(ls_ps_begin(run, w, &w->begin));
    LS_TRY(build_pull(run, w));
    for (int b = 0; b < LS_BATCHES; b++)
        if (ls_replicated_batch(job, b))
            LS_TRY(build_push(run, w, b));
    if (asks(run))
        LS_TRY(build_alone(run, w));
    return capture(job, w);
}

/* ---- The rest ------------------------------------------------------------------------------- */

ls_status ls_ps_worker_sync(ls_ps_worker *w)
{
    ls_status status = LS_OK;
    if (w->member.replica)
        status = ls_queue_sync(w->member.replica->queue);
    return w->own_queue ? ls_status_first(status, ls_queue_sync(w->queue)) : status;
}

void ls_ps_worker_close(ls_ps_worker *w)
{
    ls_status_free(ls_ps_worker_sync(w));
    for (int b = 0; b < LS_BATCHES; b++) {
        ls_program_close(w->member.program[b]);
        for (size_t k = 0; w->push[b] && k < w->buckets.count; k++)
            ls_op_list_clear(&w->push[b][k]);
        free(w->push[b]);
    }
    ls_op_list_clear(&w->begin);
    ls_op_list_clear(&w->pull);
    ls_op_list_clear(&w->bye);
    free(w->took);
    if (w->own_queue)
        ls_queue_close(w->queue);
    for (size_t b = 0; w->final && b < w->buckets.count; b++)
        ls_event_close(w->final[b]);
    free(w->final);
    ls_event_close(w->begun);
    ls_event_close(w->pulled);
    ls_event_close(w->pushed);
    ls_buckets_close(&w->buckets);
    ls_comm_close(w->control);
    ls_comm_close(w->comm);
    ls_member_close(&w->member);
}

void ls_ps_worker_each(const ls_ps_worker *w, ls_op_visit visit, void *context)
{
    ls_slice_each(w->member.slice[LS_FULL], visit, context);
    ls_op_list_each(&w->begin, visit, context);
    ls_op_list_each(&w->pull, visit, context);
    for (size_t b = 0; b < w->buckets.count; b++)
        ls_op_list_each(&w->push[LS_FULL][b], visit, context);
    ls_op_list_each(&w->member.finish[LS_FULL], visit, context);
}

void ls_ps_worker_memory(const ls_ps_worker *w, ls_memory_formula *formula)
{
    const ls_memory_formula replica = ls_replica_memory(w->member.replica);
    for (int use = 0; use < LS_MEMORY_USES; use++)
        formula->bytes[use] += replica.bytes[use];
    for (int b = 0; b < LS_BATCHES; b++)
        if (w->member.slice[b])
            ls_slice_memory(w->member.slice[b], formula);
    if (w->comm->backend->memory)
        formula->bytes[LS_MEMORY_COMMUNICATION] += w->comm->backend->memory(w->comm);
}
