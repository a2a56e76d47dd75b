/* SPDX-License-Identifier: MIT */
/*
 * Replay: what servers did, once more in sequence on one device, by the host alone.
 *
 *     pull w s     worker w's copy of shard s = the shard as it is now
 *     push w s     (worker w has pulled every shard) the gradient of its slice of the batch of its
 *                  step, from its copy, is applied to shard s
 *
 * An event waits until its worker is that far; the servers' logs are merged so. With backup workers
 * a worker is as far as the shards: update k of each takes the gradients that were first, of slices
 * of batch k, from all shards as they were before; the rest of the log says who was too late.
 * Whatever a message that came late, early, twice or torn does to a run, it does not to this.
 */
#include "impl/ps/ps_report.h"
#include "impl/step/served.h"

#include <stdlib.h>
#include <string.h>

typedef struct copy {
    float *parameters, *gradient; /* [P] on the host */
    uint64_t step;
    int pulled, pushed; /* shards, in this step */
    bool computed;
} copy;

typedef struct replay {
    const ls_ps_layout *layout;
    const ls_job *job;
    ls_device *device;
    ls_replica *replica;           /* computes for every worker in turn */
    ls_slice **slices[LS_BATCHES]; /* [workers] */
    ls_ps_shard *shards;           /* [servers] */
    ls_op_list *apply;             /* [servers] */
    copy *copies;                  /* [workers] */
    float *shard;                  /* [P] on its way */
    int active;                    /* servers that hold something */
} replay;

/* ---- Opening -------------------------------------------------------------------------------- */

static ls_status open_slices(replay *me, int which)
{
    const int workers = me->layout->workers;
    me->slices[which] = calloc((size_t)workers, sizeof(ls_slice *));
    if (!me->slices[which])
        return ls_fail_memory("ps", (size_t)workers * sizeof(ls_slice *));
    /* Slices differ by one row at most and the last one is never the smaller. */
    for (int w = workers; w-- > 0 && ls_replicated_batch(me->job, which);) {
        const ls_slice_options options = {.replica = me->replica,
                                          .batch = ls_replicated_batch(me->job, which),
                                          .number = w,
                                          .count = workers,
                                          .memory_of = me->slices[LS_FULL][workers - 1]};
        LS_TRY(ls_slice_open(&options, &me->slices[which][w]));
    }
    return LS_OK;
}

static ls_status open_copies(replay *me, const float *initial)
{
    const size_t elements = me->job->model->graph->variables.elements;
    const size_t bytes = (elements + 1) * sizeof(float);
    const ls_ps_layout *l = me->layout;
    me->copies = calloc((size_t)l->workers, sizeof *me->copies);
    me->shards = calloc((size_t)l->servers, sizeof *me->shards);
    me->apply = calloc((size_t)l->servers, sizeof *me->apply);
    me->shard = malloc(bytes);
    if (!me->copies || !me->shards || !me->apply || !me->shard)
        return ls_fail_memory("ps", bytes);
    for (int w = 0; w < l->workers; w++) {
        me->copies[w].parameters = malloc(bytes);
        me->copies[w].gradient = malloc(bytes);
        if (!me->copies[w].parameters || !me->copies[w].gradient)
            return ls_fail_memory("ps", bytes);
    }
    for (int s = 0; s < l->servers; s++) {
        LS_TRY(ls_ps_shard_open(me->job, l, s, me->device, &me->shards[s]));
        LS_TRY(ls_ps_shard_apply(&me->shards[s], &me->apply[s]));
        LS_TRY(ls_ps_shard_load(&me->shards[s], initial));
        me->active += l->elements[s] > 0;
    }
    return LS_OK;
}

static ls_status open_replay(replay *me, const float *initial)
{
    const ls_replica_options place = {.job = me->job,
                                      .device = me->device,
                                      .number = -2, /* nobody: no fault is put into it */
                                      .rows = me->job->batch,
                                      .sums = 1,
                                      .no_optimizer = true,
                                      .decay_loss = LS_DECAY_ELSEWHERE};
    LS_TRY(ls_replica_open(&place, &me->replica));
    LS_TRY(open_slices(me, LS_FULL));
    LS_TRY(open_slices(me, LS_TAIL));
    return open_copies(me, initial);
}

static void close_replay(replay *me)
{
    const ls_ps_layout *l = me->layout;
    for (int b = LS_BATCHES; b-- > 0;) {
        for (int w = 0; me->slices[b] && w < l->workers; w++) /* the memory's holder last */
            ls_slice_close(me->slices[b][w]);
        free(me->slices[b]);
    }
    ls_replica_close(me->replica);
    for (int s = 0; me->shards && me->apply && s < l->servers; s++) {
        ls_op_list_clear(&me->apply[s]);
        ls_ps_shard_close(&me->shards[s]);
    }
    for (int w = 0; me->copies && w < l->workers; w++) {
        free(me->copies[w].parameters);
        free(me->copies[w].gradient);
    }
    free(me->copies);
    free(me->shards);
    free(me->apply);
    free(me->shard);
}

/* ---- Events --------------------------------------------------------------------------------- */

/* Where the worker's step begins in the data, and whether its batch is an epoch's smaller one. */
static uint64_t position_of(const ls_job *job, uint64_t step, int *which)
{
    const uint64_t per_epoch = ls_job_steps_per_epoch(job), batch = (uint64_t)job->batch;
    *which = ls_job_is_tail(job, step) ? LS_TAIL : LS_FULL;
    if (!ls_job_tail(job))
        return step * batch;
    return step / per_epoch * job->data->train.samples + step % per_epoch * batch;
}

static ls_status compute(replay *me, int worker)
{
    copy *c = &me->copies[worker];
    ls_replica *r = me->replica;
    int which;
    const ls_step_state state = {.step = c->step,
                                 .position = position_of(me->job, c->step, &which)};
    const size_t bytes = r->elements * sizeof(float);
    LS_TRY(ls_queue_write(r->queue, r->state, &state, sizeof state));
    LS_TRY(ls_queue_write(r->queue, r->parameters, c->parameters, bytes));
    LS_TRY(ls_slice_put(me->slices[which][worker]));
    c->computed = true;
    return ls_queue_read(r->queue, c->gradient, r->gradients, bytes);
}

/* A worker's gradient of the shard, or that and what `shard` has. */
static ls_status take_gradient(replay *me, int server, int worker, bool add)
{
    copy *c = &me->copies[worker];
    if (!c->computed)
        LS_TRY(compute(me, worker));
    for (size_t i = 0; i < me->layout->range_count; i++) {
        const ls_ps_range *range = &me->layout->ranges[i];
        const float *from = c->gradient + range->first;
        float *to = me->shard + range->at;
        for (size_t k = 0; range->server == server && k < range->count; k++)
            to[k] = add ? to[k] + from[k] : from[k];
    }
    return LS_OK;
}

static ls_status apply(replay *me, int server)
{
    ls_replica *r = me->shards[server].replica;
    LS_TRY(ls_queue_write(r->queue, r->gradients, me->shard, r->elements * sizeof(float)));
    LS_TRY(ls_op_list_put(&me->apply[server], r->queue));
    return ls_queue_sync(r->queue);
}

static ls_status push(replay *me, int server, int worker)
{
    LS_TRY(take_gradient(me, server, worker, false));
    return apply(me, server);
}

/* *done: the worker is that far, and the event has happened. */
static ls_status take_event(replay *me, int server, const ls_ps_event *event, bool *done)
{
    copy *c = &me->copies[event->worker];
    const bool pulls = event->kind == LS_PS_PULL;
    *done = pulls ? c->pulled < me->active : c->pulled == me->active;
    if (!*done)
        return LS_OK;
    if (pulls) {
        c->pulled++;
        return ls_ps_shard_gather(&me->shards[server], c->parameters);
    }
    if (event->kind == LS_PS_PUSH)
        LS_TRY(push(me, server, (int)event->worker));
    if (++c->pushed == me->active) {
        c->pulled = c->pushed = 0;
        c->computed = false;
        c->step++;
    }
    return LS_OK;
}

static ls_status not_so(void)
{
    return ls_fail(LS_CODE_CHECK, "ps", "order", "no run can have served so");
}

static ls_status take_all(replay *me, const ls_ps_log *logs)
{
    const int servers = me->layout->servers;
    size_t *next = calloc((size_t)servers, sizeof *next);
    if (!next)
        return ls_fail_memory("ps", (size_t)servers * sizeof *next);
    ls_status status = LS_OK;
    bool left = true, moved = true;
    while (left && moved && !status) {
        left = moved = false;
        for (int s = 0; s < servers; s++) {
            for (bool done = true; done && next[s] < logs[s].count && !status; next[s] += done) {
                status = take_event(me, s, &logs[s].events[next[s]], &done);
                moved |= done;
            }
            left |= next[s] < logs[s].count;
        }
    }
    free(next);
    return !status && left ? not_so() : status;
}

/* ---- Backup workers ------------------------------------------------------------------------- */

/* The next update of a shard, from event *next on: of the step that `copies` are in, whose batch
 * has so many samples. */
static ls_status take_update(replay *me, int server, const ls_ps_log *log, int64_t batch,
                             size_t *next)
{
    const int workers = me->layout->workers;
    const int needed = ls_ps_backup_needed(me->job, workers, batch);
    const size_t elements = me->shards[server].replica->elements;
    int64_t samples = 0;
    for (int w = 0; w < workers; w++)
        me->copies[w].pushed = 0;
    for (int taken = 0; taken < needed; ++*next) {
        if (*next == log->count)
            return not_so();
        const ls_ps_event *event = &log->events[*next];
        if (event->kind != LS_PS_PUSH)
            continue;
        const int64_t w = event->worker, begin = ls_slice_begin(batch, w, workers);
        const int64_t rows = ls_slice_begin(batch, w + 1, workers) - begin;
        if (!rows || me->copies[w].pushed++) /* twice in one sum */
            return not_so();
        LS_TRY(take_gradient(me, server, (int)w, taken++ > 0));
        samples += rows;
    }
    const float factor = (float)((double)batch / (double)samples);
    for (size_t i = 0; i < elements; i++)
        me->shard[i] *= factor;
    return apply(me, server);
}

/* Whether the log has another gradient that was taken; pulls and drops may follow the last. */
static bool has_push(const ls_ps_log *log, size_t next)
{
    while (next < log->count && log->events[next].kind != LS_PS_PUSH)
        next++;
    return next < log->count;
}

/* The workers' copies are the shards as they are now, and nobody has computed anything. */
static ls_status begin_step(replay *me, uint64_t step)
{
    const ls_ps_layout *l = me->layout;
    for (int w = 0; w < l->workers; w++) {
        copy *c = &me->copies[w];
        c->step = step;
        c->computed = false;
        for (int s = 0; s < l->servers; s++)
            LS_TRY(ls_ps_shard_gather(&me->shards[s], c->parameters));
    }
    return LS_OK;
}

static ls_status take_updates(replay *me, const ls_ps_log *logs)
{
    const ls_ps_layout *l = me->layout;
    size_t *next = calloc((size_t)l->servers, sizeof *next);
    if (!next)
        return ls_fail_memory("ps", (size_t)l->servers * sizeof *next);
    ls_status status = LS_OK;
    bool left = true;
    for (uint64_t step = 0; left && !status; step++) {
        const int64_t batch =
            ls_replicated_batch(me->job, ls_job_is_tail(me->job, step) ? LS_TAIL : LS_FULL);
        left = false;
        for (int s = 0; s < l->servers; s++)
            left |= has_push(&logs[s], next[s]);
        if (left)
            status = begin_step(me, step);
        for (int s = 0; s < l->servers && left && !status; s++)
            if (l->elements[s])
                status = take_update(me, s, &logs[s], batch, &next[s]);
    }
    free(next);
    return status;
}

ls_status ls_ps_replay(const ls_run *run, ls_device *device, const ls_ps_log *logs,
                       const float *initial, float *out)
{
    replay me = {.layout = &ls_served_of(run)->layout, .job = run->job, .device = device};
    ls_status status = open_replay(&me, initial);
    if (!status)
        status = me.job->ps.backups ? take_updates(&me, logs) : take_all(&me, logs);
    for (int s = 0; s < me.layout->servers && !status; s++)
        status = ls_ps_shard_gather(&me.shards[s], out);
    close_replay(&me);
    return status;
}
