/* SPDX-License-Identifier: MIT */
/* Where the time of steps is taken; see time_steps.h. */
#include "bench/train/time_steps.h"

#include "bench/train/world.h"
#include "common/base/clock.h"
#include "common/base/grow.h"

#include <stdlib.h>

ls_status ls_step_times_open(uint64_t most, ls_step_times *out)
{
    *out = (ls_step_times){0};
    LS_TRY(ls_allocate("times", &out->records, most, sizeof *out->records));
    return ls_allocate("times", &out->ms, most, sizeof *out->ms);
}

void ls_step_times_close(ls_step_times *times)
{
    free(times->records);
    free(times->ms);
    *times = (ls_step_times){0};
}

/* So few replays that any queue has room for them: the host's time then includes no waiting. */
enum { TIMED_PUTS = 64 };

/* *host_ns: the host's time to enqueue a step, of the first ones. */
static ls_status enqueue(ls_session *session, uint64_t count, double *host_ns)
{
    const uint64_t begin = session->step, end = begin + count;
    while (session->step < end) {
        bool tail = ls_job_is_tail(&session->job, session->step);
        uint64_t run = 1;
        if (!tail && ls_job_tail(&session->job)) {
            uint64_t per_epoch = ls_job_steps_per_epoch(&session->job);
            uint64_t until_tail = per_epoch - 1 - session->step % per_epoch;
            run = until_tail < end - session->step ? until_tail : end - session->step;
        } else if (!tail) {
            run = end - session->step;
        }
        const bool timed = session->step == begin;
        if (timed && run > TIMED_PUTS)
            run = TIMED_PUTS;
        const uint64_t begin_ns = ls_clock_ns();
        LS_TRY(session->run->functions->step(session->run, tail ? LS_TAIL : LS_FULL, run));
        if (timed)
            *host_ns = (double)(ls_clock_ns() - begin_ns) / (double)run;
        session->step += run;
    }
    return LS_OK;
}

ls_status ls_time_steps(ls_session *session, uint64_t count, bool profiled, ls_step_times *out)
{
    ls_run *run = session->run;
    const uint64_t first = session->step;
    double host_ns = 0;
    if (out && out->memory)
        out->before = ls_memory_in_use_by(session);
    ls_processes_step(session->job.ranks.processes, first, count,
                      (!ls_job_tail(&session->job) || count == 1) && !session->job.ps.backups);
    session->latest_first = first;
    session->latest_count = count;
    ls_watch_begin(session->watch, first);
    ls_status status = run->functions->mark(run); /* the device reads its clock */
    if (!status)                                  /* and again in each step's last task */
        status = enqueue(session, count, &host_ns);
    if (!status) /* the host sleeps */
        status = run->functions->sync(run);
    if (out && out->memory)
        out->after = ls_memory_in_use_by(session);
    if (!status && profiled)
        status = run->functions->profile(run, 0);
    LS_TRY(ls_world_agree(session->job.ranks.comm, status));
    if (!out)
        return LS_OK;
    LS_TRY(ls_session_records(session, count, out->records, &out->mark_ns));
    out->first = first;
    out->count = count;
    out->host_ns = host_ns;
    uint64_t begin_ns = out->mark_ns;
    double sum_ms = 0;
    for (uint64_t i = 0; i < count; i++) {
        out->ms[i] = (double)(out->records[i].end_ns - begin_ns) * 1e-6;
        begin_ns = out->records[i].end_ns;
        sum_ms += out->ms[i];
    }
    out->mean_ms = sum_ms / (double)count;
    return LS_OK;
}

ls_status ls_session_steps(ls_session *session, uint64_t count)
{
    return ls_time_steps(session, count, false, NULL);
}

ls_status ls_session_one_step(ls_session *session, float *values, double *loss)
{
    ls_step_record record;
    uint64_t mark_ns;
    LS_TRY(ls_session_steps(session, 1));
    LS_TRY(ls_session_records(session, 1, &record, &mark_ns));
    *loss = record.loss;
    return ls_session_gather(session, LS_VALUES, values);
}
