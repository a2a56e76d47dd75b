/* SPDX-License-Identifier: MIT */
/* Checkpoints of a trial; see trial.h. */
#include "bench/train/trial/trial.h"

#include "bench/checkpoint/checkpoint.h"
#include "bench/progress/progress.h"
#include "common/base/clock.h"

uint64_t ls_saved_until(const ls_saved *saved, const ls_workplace *workplace,
                        const ls_session *session, uint64_t steps)
{
    const uint64_t each = (uint64_t)workplace->request->checkpoint_interval;
    const uint64_t until = each ? each - session->step % each : steps;
    return saved->wanted && until < steps ? until : steps;
}

static ls_status write_checkpoint(ls_saved *saved, const ls_request *request, ls_session *session)
{
    const ls_plan_of_case *plan = session->plan;
    json_auto_t *agree = ls_plan_agreed(plan);
    json_auto_t *written = ls_plan_written(plan);
    const ls_checkpoint_order order = {.run = session->run,
                                       .folder = request->checkpoint,
                                       .step = session->step,
                                       .position = ls_job_samples(&session->job, session->step),
                                       .agree = agree,
                                       .written = written};
    const uint64_t begin_ns = ls_clock_ns();
    LS_TRY(ls_checkpoint_write(&order, &saved->bytes));
    saved->step = session->step;
    saved->count++;
    if (request->checkpoint_keep && ls_session_leads(session))
        ls_checkpoints_keep(request->checkpoint, session->step, request->checkpoint_keep);
    saved->time_ns += ls_clock_ns() - begin_ns;
    return LS_OK;
}

ls_status ls_saved_write(ls_saved *saved, ls_workplace *workplace, ls_session *session, bool last,
                         ls_verdict *verdict)
{
    const ls_request *request = workplace->request;
    const uint64_t each = (uint64_t)request->checkpoint_interval, step = session->step;
    const bool due = last || (each && step % each == 0);
    const bool done = saved->count && saved->step == step;
    const bool new = step > session->plan->job.start || !ls_plan_is_resumed(workplace);
    if (!saved->wanted || !due || done || !new || verdict->failed)
        return LS_OK;
    ls_workplace_busy(workplace, true);
    ls_status status = write_checkpoint(saved, request, session);
    ls_workplace_busy(workplace, false);
    if (ls_status_code(status) == LS_CODE_MISSING && ls_session_leads(session)) {
        ls_progress_pause(workplace->progress);
        ls_log_stderr("%s", ls_status_text(status));
    }
    if (ls_status_code(status) != LS_CODE_CHECK)
        return status;
    ls_verdict_fail(verdict, "%s", ls_status_text(status));
    ls_status_free(status);
    return LS_OK;
}
