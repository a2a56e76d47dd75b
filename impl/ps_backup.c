/* SPDX-License-Identifier: MIT */
/*
 * Backup workers: synchronous steps that do not wait for the last B of n workers (Chen et al. 2016,
 * "Revisiting Distributed Synchronous SGD").
 *
 *     ask k      a worker wants the variables of step k. A server whose update k - 1 is not done
 *                answers when it is; one that has done update k says that it is too late
 *     push k     one of the first n - B gradients of step k is added up as it comes; a later one is
 *                received and dropped
 *     update k   by n - B gradients, or as many as there are in an epoch's last batch: their sum,
 *                scaled to the mean over the samples that it is of
 *
 * A worker that is too late for one server passes over the whole step, and all steps up to the
 * newest: it works for step k from variables k of all shards, and their batch k, or not at all. So
 * no gradient is stale, and training ends after as many updates as there are steps. Each server
 * decides for its own shard who is first. None waits in vain: one that is past step k has had n - B
 * gradients of it, and those workers push theirs to every server, waiting for nothing between.
 *
 * Leaves out: one decision for all shards; a worker asked before it pushes, which would save the
 * bytes of what is dropped and cost the others a message.
 */
#include "impl/ps.h"

#include "common/base/hooks.h"

#include <stdlib.h>

/* ---- A worker's step ------------------------------------------------------------------------ */

typedef struct late_op {
    ls_op op;
    ls_ps_worker *worker;
    const ls_job *job;
    int server; /* rank */
} late_op;

static void set_late(late_op *o, bool late)
{
    const ls_step_state *state = o->worker->member.replica->state;
    o->worker->late = late;
    o->worker->took[state->step % o->job->records] = !late;
}

static ls_status run_begin(ls_op *op, ls_queue *queue)
{
    late_op *o = (late_op *)op;
    (void)queue;
    set_late(o, o->worker->member.replica->state->step < o->worker->newest);
    return LS_OK;
}

static ls_status run_ask(ls_op *op, ls_queue *queue)
{
    late_op *o = (late_op *)op;
    ls_ps_worker *w = o->worker;
    ls_comm *control = w->control;
    const uint64_t step = w->member.replica->state->step;
    const ls_ps_message ask = {{(uint32_t)w->place->number, LS_PS_PULL}, step};
    uint64_t version;
    ls_hooks_pause();
    LS_TRY(control->backend->send(control, o->server, LS_PS_TAG, &ask, sizeof ask));
    const uint64_t begin_ns = ls_queue_wait_begin(queue);
    LS_TRY(control->backend->receive(control, o->server, LS_PS_ANSWER, &version, sizeof version));
    ls_queue_wait_end(queue, begin_ns);
    if (version > step) {
        w->newest = version;
        set_late(o, true);
    }
    return LS_OK;
}

static void abandon_late(ls_op *op)
{
    ls_comm *control = ((late_op *)op)->worker->control;
    control->backend->abandon(control);
}

static void destroy_op(ls_op *op)
{
    free(op);
}

static ls_status add_late_op(late_op make, ls_op_list *ops)
{
    late_op *o = calloc(1, sizeof *o);
    if (!o)
        return ls_fail_memory("ps", sizeof *o);
    *o = make;
    o->op.destroy = destroy_op;
    o->op.use = LS_TIME_COMMUNICATION;
    ls_ps_worker *w = o->worker;
    const ls_step_state *state = w->member.replica->state;
    const ls_access touched[] = {{state, sizeof *state, false},
                                 {&w->late, sizeof w->late, true},
                                 {&w->newest, sizeof w->newest, true},
                                 {w->took, o->job->records * sizeof *w->took, true},
                                 {w->control, sizeof *w->control, true}};
    ls_status status = ls_op_touches(&o->op, touched, sizeof touched / sizeof *touched);
    if (status)
        ls_op_free(&o->op);
    return status ? status : ls_op_list_add(ops, &o->op);
}

ls_status ls_ps_begin(const ls_ps *run, ls_ps_worker *w, ls_op_list *ops)
{
    const ls_job *job = run->base.job;
    w->took = calloc(job->records, sizeof *w->took);
    if (!w->took)
        return ls_fail_memory("ps", job->records * sizeof *w->took);
    return add_late_op((late_op){{.name = "ps.begin", .run = run_begin}, w, job, -1}, ops);
}

ls_status ls_ps_ask(const ls_ps *run, ls_ps_worker *w, int server, ls_op_list *ops)
{
    const int rank = run->layout.server_rank[server];
    const ls_op op = {.name = "ps.ask", .run = run_ask, .abandon = abandon_late};
    return add_late_op((late_op){op, w, run->base.job, rank}, ops);
}

/* ---- Serving -------------------------------------------------------------------------------- */

static int64_t batch_of(const ls_job *job, uint64_t step)
{
    return ls_job_is_tail(job, step) ? ls_job_tail(job) : job->batch;
}

int ls_ps_backup_needed(const ls_job *job, int workers, int64_t batch)
{
    const int first = workers - job->ps.backups;
    return batch < first ? (int)batch : first;
}

/* A shard, or a gradient of one, has gone between the two. */
static void note_served(ls_ps_server *s, int worker)
{
    const ls_ps_layout *l = &s->run->layout;
    if (ls_ps_together(s->run->base.job, l, s->place->number, worker))
        return;
    for (size_t i = 0; i < l->range_count; i++) {
        if (l->ranges[i].server != s->place->number)
            continue;
        s->served.messages_sent++;
        s->served.bytes_sent += l->ranges[i].count * sizeof(float);
    }
}

/* Each worker that waits for a step that has come, or gone. */
static ls_status answer(ls_ps_server *s, ls_queue *queue)
{
    for (int w = 0; w < s->worker_count; w++) {
        ls_ps_clock *clock = &s->clocks[w];
        if (!clock->waits || clock->asked > s->version)
            continue;
        clock->waits = false;
        LS_TRY(s->control->backend->send(s->control, s->run->layout.worker_rank[w], LS_PS_ANSWER,
                                         &s->version, sizeof s->version));
        if (clock->asked < s->version)
            continue;
        ls_ps_log_note(&s->log, w, LS_PS_PULL);
        note_served(s, w);
        LS_TRY(ls_ps_run(&s->send[w], queue));
    }
    return LS_OK;
}

static ls_status update(ls_ps_server *s, int64_t batch, ls_queue *queue)
{
    float *gradient = s->replica->gradients;
    const float factor = (float)((double)batch / (double)s->samples);
    for (size_t i = 0; i < s->replica->elements && !LS_PLANTED(mean_over_all); i++)
        gradient[i] *= factor; /* slices are scaled by the whole batch (slice.h) */
    LS_TRY(ls_ps_run(&s->apply, queue));
    s->version++;
    s->accepted = 0;
    s->samples = 0;
    return answer(s, queue);
}

static ls_status take_push(ls_ps_server *s, int worker, uint64_t step, ls_queue *queue)
{
    const ls_job *job = s->run->base.job;
    note_served(s, worker);
    if (step < s->version && !LS_PLANTED(late_added)) {
        s->dropped++;
        ls_ps_log_note(&s->log, worker, LS_PS_DROP);
        return ls_ps_run(&s->drop[worker], queue);
    }
    const int64_t batch = batch_of(job, s->version), n = s->worker_count;
    ls_ps_log_note(&s->log, worker, LS_PS_PUSH);
    ls_ps_histogram_note(&s->lead, 0);
    ls_ps_histogram_note(&s->staleness, s->version - step);
    LS_TRY(ls_ps_run(s->accepted ? &s->add[worker] : &s->receive[worker], queue));
    s->samples += ls_slice_begin(batch, worker + 1, n) - ls_slice_begin(batch, worker, n);
    if (++s->accepted < ls_ps_backup_needed(job, s->worker_count, batch))
        return LS_OK;
    return update(s, batch, queue);
}

ls_status ls_ps_backup_serve(ls_ps_server *s, const ls_ps_message *message, ls_queue *queue)
{
    const int worker = (int)message->what.worker;
    if (message->what.kind == LS_PS_PUSH)
        return take_push(s, worker, message->step, queue);
    s->clocks[worker].waits = true;
    s->clocks[worker].asked = message->step;
    return answer(s, queue);
}

/* ---- Building ------------------------------------------------------------------------------- */

ls_status ls_ps_backup_open(const ls_ps *run, ls_ps_server *s)
{
    const size_t workers = (size_t)run->layout.workers;
    s->run = run;
    s->add = calloc(workers, sizeof *s->add);
    s->drop = calloc(workers, sizeof *s->drop);
    s->arrivals = calloc(1, sizeof *s->arrivals);
    if (!s->add || !s->drop || !s->arrivals)
        return ls_fail_memory("ps", workers * sizeof *s->add);
    LS_TRY(ls_device_allocate(s->replica->device, LS_MEMORY_COMMUNICATION,
                              s->replica->elements * sizeof(float), &s->arrivals[0]));
    s->arrival_count = 1;
    for (int w = 0; w < run->layout.workers; w++) {
        LS_TRY(ls_ps_receive_build(run, s, w, s->replica->gradients, true, &s->add[w]));
        LS_TRY(ls_ps_receive_build(run, s, w, s->arrivals[0], false, &s->drop[w]));
    }
    return LS_OK;
}

void ls_ps_backup_close(ls_ps_server *s)
{
    for (int w = 0; w < s->worker_count; w++) {
        if (s->add)
            ls_op_list_clear(&s->add[w]);
        if (s->drop)
            ls_op_list_clear(&s->drop[w]);
    }
    free(s->add);
    free(s->drop);
}

void ls_ps_backup_load(ls_ps_server *s)
{
    s->accepted = 0;
    s->samples = 0;
    s->dropped = 0;
}
