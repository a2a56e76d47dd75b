/* SPDX-License-Identifier: MIT */
/* Traces of a case; see run_parts.h. */
#include "bench/commands/run_parts.h"

#include "common/base/escape.h"
#include "common/base/whole_file.h"
#include "bench/progress/progress.h"
#include "bench/row/row.h"
#include "bench/trace/whole.h"
#include "bench/train/interrupt.h"
#include "bench/train/time_steps.h"
#include "bench/train/world.h"
#include "bench/train/trial/trial.h"
#include "build_info.h"
#include "impl/pipeline/pipeline_times.h"
#include "impl/replica/replicas.h"

#include <string.h>

ls_status ls_trace_check(const ls_request *request, bool leads)
{
    if (!request->out)
        return ls_fail(LS_CODE_USAGE, "option", "--out",
                       "the file to write is missing; use --out FILE.json");
    if (request->case_count > 1)
        return ls_fail(
            LS_CODE_USAGE, "trace", "cases",
            "the options make %zu cases, but a trace holds one; give one value for each option",
            request->case_count);
    if (ls_fault_strikes(&request->cases[0].fault))
        return ls_fail(LS_CODE_USAGE, "option", "--inject",
                       "this fault would end the command before the trace; use --inject "
                       "delay=RANK:TIME, or remove --inject");
    return leads ? ls_file_writable("--out", request->out, 0) : LS_OK;
}

/* The mean time of `steps` steps (at most as many as there are records) without a trace, after one
 * more step. */
static ls_status time_untraced(ls_session *session, uint64_t steps, ls_step_times *times,
                               double *ms)
{
    const uint64_t most = session->job.records - 1, count = steps < most ? steps : most;
    if (!count) /* --steps 0 --warmup 0 means no records */
        return LS_OK;
    LS_TRY(ls_time_steps(session, count + 1, false, times));
    *ms = (times->mean_ms * (double)times->count - times->ms[0]) / (double)count;
    return LS_OK;
}

/* How much of the steps each stage of a pipeline waited, next to equal stages' share. */
static void say_idle(const ls_log *log, const ls_session *session, const ls_whole_trace *whole)
{
    const ls_trace *t = &whole->trace;
    const double all = (double)(whole->end_ns - whole->begin_ns);
    const ls_schedule schedule = ls_replicated_schedule(&session->job, 0, LS_FULL);
    char text[512] = "";
    for (size_t l = 0; l < t->lane_count && ls_plan_is_pipeline(session->plan); l++) {
        uint64_t waited_ns = 0;
        for (size_t i = whole->shown_first[l]; i < whole->shown_first[l + 1]; i++) {
            const ls_shown *s = &whole->shown[i];
            if (s->use == LS_TIME_WAIT || t->slices[s->slice].kind == LS_STRETCH_EVENT)
                waited_ns += s->end_ns - s->begin_ns;
        }
        if (t->lanes[l].main)
            ls_text_add(text, sizeof text, "%s%s %.0f%%", *text ? ", " : "", t->lanes[l].device,
                        100 * (double)waited_ns / all);
    }
    if (*text)
        ls_log_line(log, LS_LOG_NORMAL,
                    "idle: %s; if all stages took equal time, each would be idle for %.0f%%", text,
                    100 * ls_schedule_equal(&schedule));
}

static ls_status write_trace(const ls_workplace *workplace, const ls_session *session,
                             const ls_whole_trace *whole, double untraced_ms)
{
    const ls_request *request = workplace->request;
    const ls_row_facts facts = {.workplace = workplace, .plan = session->plan};
    const ls_case *c = session->plan->config;
    const int ranks = strcmp(c->comm, "mpi") == 0 || c->ranks < 1 ? 1 : c->ranks;
    const int devices = (int)session->job.device_count / ranks; /* of a rank in the file */
    json_auto_t *other = json_object();
    json_object_set_new(other, "program", json_string("lockstep " LS_VERSION " " LS_GIT_COMMIT));
    json_object_set_new(other, "command", json_string(request->command));
    ls_row_put_case(&facts, other);
    if (untraced_ms > 0)
        json_object_set_new(other, "untraced_step_ms", json_real(untraced_ms));
    LS_TRY(ls_trace_write(whole, request->out, devices > 0 ? devices : 1, other));
    ls_log_line(&request->log, LS_LOG_NORMAL,
                "a trace of %llu steps, %zu operations and %zu messages is written to %s",
                (unsigned long long)whole->steps, whole->shown_count, whole->flow_count,
                request->out);
    say_idle(&request->log, session, whole);
    return LS_OK;
}

/* An interrupt of any rank so far ends all of them. */
static ls_status agree_to_stop(const ls_session *session, bool stop)
{
    stop |= ls_interrupted();
    LS_TRY(ls_world_turn(session->job.ranks.comm, LS_OK, NULL, &stop));
    return stop ? ls_fail(LS_CODE_INTERRUPTED, "trace", "interrupted", "no trace was written")
                : LS_OK;
}

static ls_status trace_trial(const ls_workplace *workplace, ls_trial *trial)
{
    ls_session *session = &trial->session;
    const uint64_t steps = (uint64_t)workplace->request->trace_steps;
    ls_whole_trace whole = {0};
    double untraced_ms = 0;
    ls_progress_enter(workplace->progress, 0, LS_PHASE_WARM_UP);
    LS_TRY(ls_trial_warm_up(trial));
    ls_progress_enter(workplace->progress, 0, LS_PHASE_TIMING);
    if (!trial->interrupted)
        LS_TRY(time_untraced(session, steps, &trial->latest, &untraced_ms));
    LS_TRY(agree_to_stop(session, trial->interrupted));
    ls_status status = ls_whole_trace_take(session, steps, &whole);
    if (!status)
        status = agree_to_stop(session, false);
    if (!status && ls_session_leads(session))
        status = write_trace(workplace, session, &whole, untraced_ms);
    ls_whole_trace_close(&whole);
    return ls_world_agree(session->job.ranks.comm, status);
}

ls_status ls_trace_case(ls_workplace *workplace, const ls_plan_of_case *plan)
{
    ls_trial trial;
    if (plan->devices[0].kind == LS_DEVICE_GPU)
        return ls_fail(LS_CODE_MISSING, "trace", plan->strategy->name,
                       "on a GPU, each step runs as a CUDA graph, whose operations cannot be timed "
                       "one by one; use CPU devices, as --devices cpu:0");
    ls_progress_enter(workplace->progress, 0, LS_PHASE_OPENING);
    LS_TRY(ls_world_agree(plan->job.ranks.comm, ls_trial_open(workplace, plan, &trial)));
    ls_status status = trace_trial(workplace, &trial);
    ls_trial_close(&trial);
    return status;
}
