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
 * A worker that is too late for one server skips the whole step, and all steps up to the newest: it
 * computes step k with variables k of all shards and batch k, or not at all. So no gradient is
 * stale, and training ends after as many updates as there are steps. Each server decides for its
 * own shard who is first. None waits in vain: one that is past step k has had n - B gradients of
 * it, and those workers push theirs to every server, waiting for nothing between.
 *
 * Leaves out: one decision for all shards; asking before a push, which would save the bytes of
 * dropped gradients, and cost all others a message.
 */
#include "impl/ps/ps_serve.h"

#include "common/base/hooks.h"
#include "impl/slice.h"

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

/* Counts the traffic of a shard, or of its gradient, between the two. */
static void note_served(ls_ps_serving *s, int worker)
{
    const ls_ps_layout *l = s->shard->layout;
    if (ls_ps_same_device(s->job, l, s->shard->server, worker))
        return;
    for (size_t i = 0; i < l->range_count; i++) {
        if (l->ranges[i].server != s->shard->server)
            continue;
        s->served.messages_sent++;
        s->served.bytes_sent += l->ranges[i].count * sizeof(float);
    }
}

/* Answers each worker that waits for a step which has come, or gone. */
static ls_status answer(ls_ps_serving *s, ls_queue *queue)
{
    for (int w = 0; w < s->workers; w++) {
        ls_ps_clock *clock = &s->clocks[w];
        if (!clock->waits || clock->asked > s->version)
            continue;
        clock->waits = false;
        LS_TRY(s->control->backend->send(s->control, s->shard->layout->worker_rank[w], LS_PS_ANSWER,
                                         &s->version, sizeof s->version));
        if (clock->asked < s->version)
            continue;
        ls_ps_log_note(&s->log, w, LS_PS_PULL);
        note_served(s, w);
        LS_TRY(ls_ps_run(&s->send[w], queue));
    }
    return LS_OK;
}

static ls_status update(ls_ps_serving *s, int64_t batch, ls_queue *queue)
{
    float *gradient = s->shard->replica->gradients;
    const float factor = (float)((double)batch / (double)s->samples);
    for (size_t i = 0; i < s->shard->replica->elements && !LS_PLANTED(mean_over_all); i++)
        gradient[i] *= factor; /* slices are scaled by the whole batch (slice.h) */
    LS_TRY(ls_ps_run(&s->apply, queue));
    s->version++;
    s->accepted = 0;
    s->samples = 0;
    return answer(s, queue);
}

static ls_status take_push(ls_ps_serving *s, int worker, uint64_t step, ls_queue *queue)
{
    const ls_job *job = s->job;
    note_served(s, worker);
    if (step < s->version && !LS_PLANTED(late_added)) {
        s->dropped++;
        ls_ps_log_note(&s->log, worker, LS_PS_DROP);
        return ls_ps_run(&s->drop[worker], queue);
    }
    const int64_t batch = batch_of(job, s->version), n = s->workers;
    ls_ps_log_note(&s->log, worker, LS_PS_PUSH);
    ls_ps_histogram_note(&s->lead, 0);
    ls_ps_histogram_note(&s->staleness, s->version - step);
    LS_TRY(ls_ps_run(s->accepted ? &s->add[worker] : &s->receive[worker], queue));
    s->samples += ls_slice_share(batch, worker, n);
    if (++s->accepted < ls_ps_backup_needed(job, s->workers, batch))
        return LS_OK;
    return update(s, batch, queue);
}

ls_status ls_ps_backup_serve(ls_ps_serving *s, const ls_ps_message *message, ls_queue *queue)
{
    const int worker = (int)message->what.worker;
    if (message->what.kind == LS_PS_PUSH)
        return take_push(s, worker, message->step, queue);
    s->clocks[worker].waits = true;
    s->clocks[worker].asked = message->step;
    return answer(s, queue);
}
