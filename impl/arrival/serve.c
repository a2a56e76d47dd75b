/* SPDX-License-Identifier: MIT */
/*
 * Servers that serve requests as they arrive. A worker's request is a small message; its server
 * receives requests from all workers in the order of arrival, and serves them one at a time.
 *
 * Async and ssp:
 *
 *     pull      sends the shard to the worker
 *     push      receives the worker's gradient into the shard's gradient buffer, and updates: one
 *               step of the optimizer's state
 *
 * ssp: a pull waits while its worker is more than K steps ahead of the slowest; so no applied
 * gradient is more than K steps ahead. Each server checks this on its own.
 *
 * Backup workers (../strategies/ps_arrival.c):
 *
 *     pull k    requests the variables of step k. A server answers after update k - 1; after
 *               update k, it answers that the worker is late
 *     push k    the first n - B gradients of step k are added as they arrive; a later one is
 *               received and dropped
 *     update k  by n - B gradients (fewer, if a tail batch has fewer samples): their sum, scaled
 *               to the mean over their samples
 *
 * Each server decides on its own which gradients are first. There is no deadlock: a server past
 * step k has had n - B gradients of it, and their workers push to every server without waiting.
 *
 * This is one operation of the server's queue; it ends when every worker has sent BYE. Leaves out:
 * pushes in parts (a gradient is applied whole, so that the optimizer's state counts gradients);
 * one decision for all shards; asking before a push, which saves the bytes of dropped gradients,
 * but costs every worker a message.
 */
#include "impl/arrival/serve.h"

#include "common/base/grow.h"
#include "impl/replica/slice.h"

#include <stdlib.h>

/* ---- Serving -------------------------------------------------------------------------------- */

/* Steps of the slowest worker. */
static uint64_t slowest(const ls_ps_serving *s)
{
    uint64_t least = UINT64_MAX;
    for (int w = 0; w < s->workers; w++)
        if (s->clocks[w].steps < least)
            least = s->clocks[w].steps;
    return least;
}

/* Runs operations on the thread of the server's queue. */
static ls_status run_list(const ls_op_list *ops, ls_queue *queue)
{
    for (size_t i = 0; i < ops->count; i++)
        LS_TRY(ops->items[i]->run(ops->items[i], queue));
    return LS_OK;
}

static ls_status apply(ls_ps_serving *s, int worker, ls_queue *queue)
{
    ls_ps_clock *clock = &s->clocks[worker];
    ls_ps_histogram_note(&s->now.seen.lead, clock->steps - slowest(s));
    ls_ps_histogram_note(&s->now.seen.staleness, s->now.version - clock->pulled);
    LS_TRY(run_list(&s->receive[worker], queue));
    LS_TRY(run_list(&s->apply, queue));
    s->now.version++;
    return LS_OK;
}

/* Counts the traffic of a sent shard, or of a received gradient. */
static void note_served(ls_ps_serving *s, int worker)
{
    const ls_ps_layout *l = s->shard->layout;
    ls_range range;
    if (ls_ps_same_device(s->job, l, s->shard->server, worker))
        return;
    for (size_t i = 0; ls_ps_layout_range(l, s->shard->server, i, &range); i++)
        ls_traffic_add(&s->served, (ls_traffic){range.count * sizeof(float), 1}, 1);
}

static bool may_have(const ls_ps_serving *s, const ls_ps_clock *clock)
{
    const ls_ps_options *ps = &s->job->ps;
    if (ps->backups)
        return clock->asked <= s->now.version;
    return ps->mode != LS_PS_SSP || clock->steps - slowest(s) <= (uint64_t)ps->staleness;
}

/* Sends the variables to each waiting worker that may have them. With backup workers, sends the
 * version first, which tells a worker if it is late. */
static ls_status send_variables(ls_ps_serving *s, ls_queue *queue)
{
    for (int w = 0; w < s->workers; w++) {
        ls_ps_clock *clock = &s->clocks[w];
        const int rank = ls_ps_seat_of(s->job, s->shard->layout, w).rank;
        if (!clock->waits || !may_have(s, clock))
            continue;
        clock->waits = false;
        clock->pulled = s->now.version;
        if (s->job->ps.backups)
            LS_TRY(s->control->backend->send(s->control, rank, LS_PS_ANSWER, &s->now.version,
                                             sizeof s->now.version));
        if (s->job->ps.backups && clock->asked < s->now.version)
            continue;
        ls_ps_log_note(&s->log, w, LS_PS_PULL);
        note_served(s, w);
        LS_TRY(run_list(&s->send[w], queue));
    }
    return LS_OK;
}

/* ---- Backup workers -------------------------------------------------------------------------- */

int ls_ps_backup_needed(const ls_job *job, int workers, int64_t batch)
{
    const int first = workers - job->ps.backups;
    return batch < first ? (int)batch : first;
}

static ls_status update(ls_ps_serving *s, int64_t batch, ls_queue *queue)
{
    float *gradient = s->shard->replica->gradients;
    const float factor = (float)((double)batch / (double)s->now.samples);
    for (size_t i = 0; i < s->shard->replica->elements; i++)
        gradient[i] *= factor; /* gradients are divided by the whole batch (slice.h) */
    LS_TRY(run_list(&s->apply, queue));
    s->now.version++;
    s->now.accepted = 0;
    s->now.samples = 0;
    return send_variables(s, queue);
}

static ls_status take_push(ls_ps_serving *s, int worker, uint64_t step, ls_queue *queue)
{
    const ls_job *job = s->job;
    note_served(s, worker);
    if (step < s->now.version) {
        s->now.seen.dropped++;
        ls_ps_log_note(&s->log, worker, LS_PS_DROP);
        return run_list(&s->drop[worker], queue);
    }
    const int64_t batch = ls_job_is_tail(job, s->now.version) ? ls_job_tail(job) : job->batch,
                  n = s->workers;
    ls_ps_log_note(&s->log, worker, LS_PS_PUSH);
    ls_ps_histogram_note(&s->now.seen.lead, 0);
    ls_ps_histogram_note(&s->now.seen.staleness, s->now.version - step);
    LS_TRY(run_list(s->now.accepted ? &s->add[worker] : &s->receive[worker], queue));
    s->now.samples += ls_slice_share(batch, worker, n);
    if (++s->now.accepted < ls_ps_backup_needed(job, s->workers, batch))
        return LS_OK;
    return update(s, batch, queue);
}

/* ---- Requests in the order of arrival -------------------------------------------------------- */

static ls_status serve_one(ls_ps_serving *s, const ls_ps_message *message, ls_queue *queue)
{
    const ls_ps_event *event = &message->what;
    ls_ps_clock *clock = &s->clocks[event->worker];
    const int worker = (int)event->worker;
    if (event->kind == LS_PS_BYE) {
        s->byes++;
        return LS_OK;
    }
    if (event->kind == LS_PS_PULL) {
        clock->waits = true;
        clock->asked = message->step;
        return send_variables(s, queue);
    }
    if (s->job->ps.backups)
        return take_push(s, worker, message->step, queue);
    if (event->kind == LS_PS_PUSH)
        LS_TRY(apply(s, worker, queue));
    ls_ps_log_note(&s->log, worker, event->kind);
    clock->steps++;
    return send_variables(s, queue);
}

static ls_status serve_all(ls_ps_serving *s, ls_queue *queue)
{
    ls_comm *control = s->control;
    for (s->byes = 0; s->byes < s->workers;) {
        ls_ps_message message;
        size_t bytes;
        int from;
        uint64_t begin_ns = ls_queue_wait_begin(queue);
        LS_TRY(control->backend->receive_any(control, LS_PS_TAG, &message, sizeof message, &from,
                                             &bytes));
        ls_queue_wait_end(queue, begin_ns);
        LS_TRY(serve_one(s, &message, queue));
    }
    return LS_OK;
}

/* ---- The operation --------------------------------------------------------------------------- */

typedef struct serve_op {
    ls_op op;
    ls_ps_serving *serving;
} serve_op;

static void abandon_serve(ls_op *op)
{
    const ls_ps_serving *s = ((serve_op *)op)->serving;
    s->control->backend->abandon(s->control);
    s->comm->backend->abandon(s->comm);
}

static ls_status run_serve(ls_op *op, ls_queue *queue)
{
    ls_status status = serve_all(((serve_op *)op)->serving, queue);
    if (status)
        abandon_serve(op);
    return status;
}

ls_status ls_ps_serving_op(ls_ps_serving *s, ls_op **out)
{
    serve_op *serve;
    LS_TRY(ls_allocate("ps", &serve, 1, sizeof *serve));
    *serve = (serve_op){.op = {.name = "ps.serve",
                               .run = run_serve,
                               .abandon = abandon_serve,
                               .use = LS_TIME_COMMUNICATION},
                        .serving = s};
    *out = &serve->op;
    return LS_OK;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

/* Appends exchanges of all ranges of the shard: sends it to a worker, or receives its gradient. */
static ls_status build_exchanges(const ls_ps_serving *s, int worker, ls_exchange like,
                                 ls_op_list *ops)
{
    const ls_ps_layout *l = s->shard->layout;
    for (size_t i = 0; i < l->range_count; i++) {
        const ls_ps_range *range = &l->ranges[i];
        ls_exchange e = like;
        ls_op *op;
        if (range->server != s->shard->server)
            continue;
        e.inside = ls_ps_same_device(s->job, l, s->shard->server, worker);
        if (like.send) {
            e.send += range->at;
            e.send_count = range->range.count;
        } else {
            e.receive += range->at;
            e.receive_count = range->range.count;
        }
        LS_TRY(ls_comm_exchange(s->comm, &e, &op));
        LS_TRY(ls_op_list_add(ops, op));
    }
    return LS_OK;
}

static ls_status open_worker(ls_ps_serving *s, int w)
{
    const ls_replica *r = s->shard->replica;
    const int rank = ls_ps_seat_of(s->job, s->shard->layout, w).rank;
    ls_exchange from = {.to = -1, .from = rank, .receive = r->gradients};
    LS_TRY(build_exchanges(s, w, (ls_exchange){.to = rank, .send = r->parameters, .from = -1},
                           &s->send[w]));
    LS_TRY(build_exchanges(s, w, from, &s->receive[w]));
    if (!s->job->ps.backups)
        return LS_OK;
    from.add = true;
    LS_TRY(build_exchanges(s, w, from, &s->add[w]));
    from = (ls_exchange){.to = -1, .from = rank, .receive = s->spare};
    return build_exchanges(s, w, from, &s->drop[w]);
}

ls_status ls_ps_serving_open(ls_ps_serving *s)
{
    const size_t workers = (size_t)s->shard->layout->workers;
    LS_TRY(ls_allocate("ps", &s->clocks, workers, sizeof *s->clocks));
    LS_TRY(ls_allocate("ps", &s->send, 4 * workers, sizeof *s->send));
    s->receive = s->send + workers;
    s->add = s->receive + workers;
    s->drop = s->add + workers;
    s->workers = (int)workers;
    s->log.capacity = s->job->ps.log_events;
    LS_TRY(ls_allocate("ps", &s->log.events, s->log.capacity, sizeof *s->log.events));
    for (int w = 0; w < s->workers; w++)
        LS_TRY(open_worker(s, w));
    return ls_ps_shard_apply(s->shard, &s->apply);
}

void ls_ps_serving_close(ls_ps_serving *s)
{
    for (int i = 0; i < 4 * s->workers; i++)
        ls_op_list_clear(&s->send[i]);
    ls_op_list_clear(&s->apply);
    free(s->log.events);
    free(s->clocks);
    free(s->send);
}

void ls_ps_serving_load(ls_ps_serving *s)
{
    for (int w = 0; w < s->workers; w++)
        s->clocks[w] = (ls_ps_clock){0};
    s->log.count = s->log.lost = 0;
    s->now = (ls_ps_progress){0};
}
