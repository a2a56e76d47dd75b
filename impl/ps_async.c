/* SPDX-License-Identifier: MIT */
/*
 * Servers that serve whoever comes first: async, ssp; how synchronous steps with backup workers do,
 * is in ps_backup.c. A worker says what it wants in a small message; its server takes these from
 * any worker, in the order in which they come, and serves one at a time:
 *
 *     pull      sends its shard to that worker
 *     push      receives that worker's gradient of the shard, straight into the shard's own, and
 *               updates: one step of the optimizer's state
 *
 * ssp: a pull is held back while its worker has done more than K steps above the slowest one's;
 * so no gradient is ever applied that is more than K steps ahead. Each server sees to that alone.
 *
 * All of it is one operation of the server's queue, which ends when every worker has said that it
 * is through. A worker asks one server at a time, right before their exchange, so that a server
 * never waits for a worker that another server holds back. Leaves out: pushes in parts; a gradient
 * is applied whole, so that the optimizer's state counts applied gradients.
 */
#include "impl/ps.h"

#include "common/base/hooks.h"

#include <stdlib.h>

/* ---- What workers say ----------------------------------------------------------------------- */

typedef struct say_op {
    ls_op op;
    ls_comm *control;
    int to;
    const ls_step_state *state;
    ls_ps_message message;
} say_op;

static ls_status run_say(ls_op *op, ls_queue *queue)
{
    say_op *say = (say_op *)op;
    (void)queue;
    ls_hooks_pause();
    if (say->message.what.kind !=
        LS_PS_BYE) /* which is of no step, and waits for the end of none */
        say->message.step = say->state->step;
    return say->control->backend->send(say->control, say->to, LS_PS_TAG, &say->message,
                                       sizeof say->message);
}

static void abandon_say(ls_op *op)
{
    ls_comm *control = ((say_op *)op)->control;
    control->backend->abandon(control);
}

static void destroy_op(ls_op *op)
{
    free(op);
}

ls_status ls_ps_say(const ls_ps *run, const ls_ps_worker *w, int server, ls_ps_kind kind,
                    ls_op_list *ops)
{
    say_op *say = calloc(1, sizeof *say);
    if (!say)
        return ls_fail_memory("ps", sizeof *say);
    *say = (say_op){.op = {.name = "ps.say",
                           .run = run_say,
                           .abandon = abandon_say,
                           .destroy = destroy_op,
                           .use = LS_TIME_COMMUNICATION},
                    .control = w->control,
                    .to = run->layout.server_rank[server],
                    .state = w->member.replica->state,
                    .message = {.what = {(uint32_t)w->place->number, (uint32_t)kind}}};
    const ls_access touched[] = {{say->state, sizeof *say->state, false},
                                 {say->control, sizeof *say->control, true}};
    ls_status status = ls_op_touches(&say->op, touched, 2);
    if (status)
        ls_op_free(&say->op);
    return status ? status : ls_op_list_add(ops, &say->op);
}

/* ---- Serving -------------------------------------------------------------------------------- */

typedef struct serve_op {
    ls_op op;
    ls_ps_server *server;
    const ls_job *job;
    int workers;
} serve_op;

/* Steps of the slowest worker. */
static uint64_t slowest(const serve_op *serve)
{
    uint64_t least = UINT64_MAX;
    for (int w = 0; w < serve->workers; w++)
        if (serve->server->clocks[w].steps < least)
            least = serve->server->clocks[w].steps;
    return least;
}

ls_status ls_ps_run(const ls_op_list *ops, ls_queue *queue)
{
    for (size_t i = 0; i < ops->count; i++)
        LS_TRY(ops->items[i]->run(ops->items[i], queue));
    return LS_OK;
}

static ls_status apply(serve_op *serve, int worker, ls_queue *queue)
{
    ls_ps_server *s = serve->server;
    ls_ps_clock *clock = &s->clocks[worker];
    ls_ps_histogram_note(&s->lead, clock->steps - slowest(serve));
    ls_ps_histogram_note(&s->staleness, s->version - clock->pulled);
    LS_TRY(ls_ps_run(&s->receive[worker], queue));
    LS_TRY(ls_ps_run(&s->apply, queue));
    if (LS_PLANTED(applied_twice))
        LS_TRY(ls_ps_run(&s->apply, queue));
    s->version++;
    return LS_OK;
}

/* Sends the variables to every worker that asked and may have them. */
static ls_status let_go(serve_op *serve, ls_queue *queue)
{
    ls_ps_server *s = serve->server;
    const ls_ps_options *ps = &serve->job->ps;
    for (int w = 0; w < serve->workers; w++) {
        ls_ps_clock *clock = &s->clocks[w];
        const bool bound = ps->mode == LS_PS_SSP && !LS_PLANTED(bound_left_out);
        if (!clock->waits || (bound && clock->steps - slowest(serve) > (uint64_t)ps->staleness))
            continue;
        clock->waits = false;
        clock->pulled = s->version;
        ls_ps_log_note(&s->log, w, LS_PS_PULL);
        LS_TRY(ls_ps_run(&s->send[w], queue));
    }
    return LS_OK;
}

static ls_status serve_one(serve_op *serve, const ls_ps_message *message, ls_queue *queue)
{
    ls_ps_server *s = serve->server;
    const ls_ps_event *event = &message->what;
    const int worker = (int)event->worker;
    if (event->kind == LS_PS_BYE) {
        s->byes++;
        return LS_OK;
    }
    if (serve->job->ps.backups)
        return ls_ps_backup_serve(s, message, queue);
    if (event->kind == LS_PS_PULL) {
        s->clocks[worker].waits = true;
        return let_go(serve, queue);
    }
    if (event->kind == LS_PS_PUSH)
        LS_TRY(apply(serve, worker, queue));
    ls_ps_log_note(&s->log, worker, LS_PLANTED(order_noted) ? LS_PS_EMPTY : event->kind);
    s->clocks[worker].steps++;
    return let_go(serve, queue);
}

static ls_status serve_all(serve_op *serve, ls_queue *queue)
{
    ls_comm *control = serve->server->control;
    for (serve->server->byes = 0; serve->server->byes < serve->workers;) {
        ls_ps_message message;
        size_t bytes;
        int from;
        uint64_t begin_ns = ls_queue_wait_begin(queue);
        LS_TRY(control->backend->receive_any(control, LS_PS_TAG, &message, sizeof message, &from,
                                             &bytes));
        ls_queue_wait_end(queue, begin_ns);
        LS_TRY(serve_one(serve, &message, queue));
    }
    return LS_OK;
}

static void abandon_serve(ls_op *op)
{
    const ls_ps_server *s = ((serve_op *)op)->server;
    s->control->backend->abandon(s->control);
    s->comm->backend->abandon(s->comm);
}

static ls_status run_serve(ls_op *op, ls_queue *queue)
{
    ls_status status = serve_all((serve_op *)op, queue);
    if (status)
        abandon_serve(op);
    return status;
}

/* ---- Building ------------------------------------------------------------------------------- */

static ls_status build_send(const ls_ps *run, ls_ps_server *s, int worker)
{
    const ls_ps_layout *l = &run->layout;
    const bool together = ls_ps_together(run->base.job, l, s->place->number, worker);
    for (size_t i = 0; i < l->range_count; i++) {
        const ls_ps_range *range = &l->ranges[i];
        const ls_exchange send = {.to = l->worker_rank[worker],
                                  .send = (const float *)s->replica->parameters + range->at,
                                  .send_count = range->count,
                                  .from = -1};
        if (range->server == s->place->number)
            LS_TRY(ls_ps_exchange(s->comm, send, together, &s->send[worker]));
    }
    return LS_OK;
}

ls_status ls_ps_receive_build(const ls_ps *run, ls_ps_server *s, int worker, float *to, bool add,
                              ls_op_list *ops)
{
    const ls_ps_layout *l = &run->layout;
    const bool together = ls_ps_together(run->base.job, l, s->place->number, worker);
    for (size_t i = 0; i < l->range_count; i++) {
        const ls_ps_range *range = &l->ranges[i];
        const ls_exchange receive = {.to = -1,
                                     .from = l->worker_rank[worker],
                                     .receive = to + range->at,
                                     .receive_count = range->count,
                                     .add = add};
        if (range->server == s->place->number)
            LS_TRY(ls_ps_exchange(s->comm, receive, together, ops));
    }
    return LS_OK;
}

ls_status ls_ps_async_open(const ls_ps *run, ls_ps_server *s)
{
    const ls_job *job = run->base.job;
    const size_t workers = (size_t)run->layout.workers;
    serve_op *serve = calloc(1, sizeof *serve);
    s->serve = serve ? &serve->op : NULL;
    s->clocks = calloc(workers, sizeof *s->clocks);
    s->send = calloc(workers, sizeof *s->send);
    s->receive = calloc(workers, sizeof *s->receive);
    if (!serve || !s->clocks || !s->send || !s->receive) {
        free(serve);
        s->serve = NULL;
        return ls_fail_memory("ps", workers * sizeof *s->clocks);
    }
    *serve = (serve_op){.op = {.name = "ps.serve",
                               .run = run_serve,
                               .abandon = abandon_serve,
                               .destroy = destroy_op,
                               .use = LS_TIME_COMMUNICATION},
                        .server = s,
                        .job = job,
                        .workers = run->layout.workers};
    s->worker_count = run->layout.workers;
    LS_TRY(ls_ps_log_open(job->ps.log_events, &s->log));
    for (int w = 0; w < run->layout.workers; w++) {
        LS_TRY(build_send(run, s, w));
        LS_TRY(ls_ps_receive_build(run, s, w, s->replica->gradients, false, &s->receive[w]));
    }
    if (job->ps.backups)
        LS_TRY(ls_ps_backup_open(run, s));
    return ls_ps_apply_build(job, s->replica, &s->apply);
}

ls_status ls_ps_apply_build(const ls_job *job, ls_replica *replica, ls_op_list *ops)
{
    if (replica->elements)
        LS_TRY(ls_replica_update(replica, 0, replica->elements, ops));
    return ls_replica_finish(replica, job->batch, ops);
}

void ls_ps_async_close(ls_ps_server *s)
{
    for (int w = 0; w < s->worker_count; w++) {
        ls_op_list_clear(&s->send[w]);
        ls_op_list_clear(&s->receive[w]);
    }
    ls_ps_backup_close(s);
    ls_op_list_clear(&s->apply);
    ls_op_free(s->serve);
    ls_ps_log_close(&s->log);
    free(s->clocks);
    free(s->send);
    free(s->receive);
}

void ls_ps_async_load(ls_ps_server *s)
{
    for (int w = 0; w < s->worker_count; w++)
        s->clocks[w] = (ls_ps_clock){0};
    s->version = 0;
    s->log.count = s->log.lost = 0;
    s->lead = s->staleness = (ls_ps_histogram){0};
    ls_ps_backup_load(s);
}
