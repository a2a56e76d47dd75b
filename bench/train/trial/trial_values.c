/* SPDX-License-Identifier: MIT */
/* What a trial learns, reports and saves; see trial.h. */
#include "bench/train/trial/trial.h"

#include "bench/checkpoint/checkpoint.h"
#include "bench/progress/progress.h"
#include "bench/train/world.h"
#include "common/base/clock.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

/* ---- Losses, accuracy and targets ------------------------------------------------------------ */

enum { LOSS_TARGET_STEPS = 10 };

ls_learned ls_learned_begin(void)
{
    return (ls_learned){.accuracy = NAN, .gradient_norm = NAN};
}

void ls_learned_close(ls_learned *learned)
{
    free(learned->losses);
    free(learned->step_ms);
    *learned = (ls_learned){0};
}

ls_status ls_learned_expect(ls_learned *learned, uint64_t count)
{
    const size_t steps = learned->losses_kept + count + 1, room = steps + learned->room;
    if (steps <= learned->room)
        return LS_OK;
    LS_TRY(ls_enlarge("trial", &learned->step_ms, room, sizeof *learned->step_ms));
    LS_TRY(ls_enlarge("trial", &learned->losses, room, sizeof *learned->losses));
    learned->room = room;
    return LS_OK;
}

static void reach_target(ls_learned *learned, uint64_t steps)
{
    if (learned->target_reached)
        return;
    learned->target_reached = true;
    learned->steps_to_target = steps;
    learned->ms_to_target = learned->ms;
}

static void look_at_loss(ls_learned *learned, const ls_case *config, uint64_t step, double loss)
{
    if (config->target_kind != LS_TARGET_LOSS)
        return;
    learned->target_sum += loss;
    learned->target_steps++;
    if ((step + 1) % LOSS_TARGET_STEPS)
        return;
    /* a run that goes on from a checkpoint may begin between two looks */
    if (learned->target_steps == LOSS_TARGET_STEPS &&
        learned->target_sum / LOSS_TARGET_STEPS <= config->target)
        reach_target(learned, step + 1);
    learned->target_sum = 0;
    learned->target_steps = 0;
}

void ls_learned_add(ls_learned *learned, const ls_case *config, const ls_step_times *steps,
                    bool timed)
{
    for (uint64_t i = 0; i < steps->count; i++) {
        const double loss = steps->records[i].loss;
        if (learned->trained++ == 0)
            learned->loss_first = loss;
        learned->loss_last = loss;
        learned->step_last = steps->first + i;
        learned->ms += steps->ms[i];
        look_at_loss(learned, config, steps->first + i, loss);
        if (!timed || !learned->losses)
            continue;
        learned->step_ms[learned->losses_kept] = steps->ms[i];
        learned->losses[learned->losses_kept++] = loss;
    }
}

ls_status ls_learned_norm(ls_learned *learned, const ls_session *session)
{
    const ls_run *run = session->run;
    if (session->job.update.period)
        LS_TRY(run->functions->exchanged(run, &learned->exchanged));
    return session->job.update.clip > 0 && learned->trained
               ? run->functions->norm(run, &learned->gradient_norm)
               : LS_OK;
}

ls_status ls_learned_evaluate(ls_learned *learned, ls_session *session, uint64_t samples)
{
    ls_evaluation found;
    learned->accuracy = NAN;
    learned->evaluated = 0;
    if (!samples)
        return LS_OK;
    LS_TRY(ls_session_evaluate(session, samples, false, &found));
    learned->stopped = found.stopped;
    if (found.stopped)
        return LS_OK;
    learned->accuracy = found.accuracy;
    learned->evaluated = samples;
    return LS_OK;
}

ls_status ls_learned_look(ls_learned *learned, ls_session *session)
{
    const ls_case *config = session->plan->config;
    if (config->target_kind != LS_TARGET_ACCURACY || learned->target_reached ||
        session->step % ls_job_steps_per_epoch(&session->job))
        return LS_OK;
    LS_TRY(ls_learned_evaluate(learned, session, session->plan->data->test.samples));
    learned->stopped = false; /* training stops, too */
    if (learned->accuracy >= config->target)
        reach_target(learned, session->step);
    return LS_OK;
}

/* ---- Memory and servers after the last step -------------------------------------------------- */

ls_status ls_report_warm(const ls_session *session, ls_reported *out)
{
    return ls_strategy_serves(session->plan->strategy)
               ? ls_ps_report_collect(session->run, &out->warm)
               : LS_OK;
}

ls_status ls_report_memory(const ls_session *session, ls_reported *out)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        out->rss_peak = (size_t)usage.ru_maxrss * 1024;
    LS_TRY(ls_world_agree(
        session->job.ranks.comm,
        ls_allocate("trial", &out->ledgers, session->device_count, sizeof *out->ledgers)));
    for (size_t i = 0; i < session->device_count; i++)
        out->ledgers[i] = ls_device_ledger(session->devices[i]);
    return LS_OK;
}

/* Lists the servers of this process. */
static ls_status list_servers(const ls_run *run, ls_reported *out)
{
    ls_ps_server server;
    size_t count = 0;
    while (ls_ps_report_server(run, count, &server))
        count++;
    LS_TRY(ls_allocate("trial", &out->servers, count, sizeof *out->servers));
    for (size_t s = 0; s < count; s++)
        ls_ps_report_server(run, s, &out->servers[s]);
    out->server_count = count;
    return LS_OK;
}

ls_status ls_report_servers(const ls_session *session, const char *record, ls_reported *out)
{
    const ls_run *run = session->run;
    if (!ls_strategy_serves(session->plan->strategy))
        return LS_OK;
    LS_TRY(ls_ps_report_collect(run, &out->ended));
    LS_TRY(ls_world_agree(session->job.ranks.comm, list_servers(run, out)));
    return record ? ls_ps_record(run, record, &out->unsaved) : LS_OK;
}

void ls_report_busy(const ls_session *session, ls_reported *out)
{
    ls_ps_server server;
    for (size_t s = 0; s < out->server_count; s++)
        if (ls_ps_report_server(session->run, s, &server))
            out->servers[s].busy = server.busy;
}

void ls_reported_close(ls_reported *reported)
{
    free(reported->ledgers);
    free(reported->servers);
    ls_status_free(reported->unsaved);
    *reported = (ls_reported){0};
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

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
