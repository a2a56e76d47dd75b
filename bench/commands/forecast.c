/* SPDX-License-Identifier: MIT */
/* Forecast; see forecast.h. */
#include "bench/commands/forecast.h"

#include "bench/case/case_facts.h"
#include "bench/case/workplace.h"
#include "bench/commands/command.h"
#include "bench/commands/run_parts.h"
#include "bench/progress/progress.h"
#include "bench/statistics/statistics.h"
#include "bench/train/interrupt.h"
#include "bench/train/time_steps.h"
#include "bench/train/trial/profile.h"
#include "bench/train/trial/trial.h"
#include "bench/train/world.h"
#include "common/base/clock.h"
#include "common/base/grow.h"
#include "impl/pipeline/pipeline_times.h"
#include "impl/replica/replicas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Estimate ------------------------------------------------------------------------------- */
/*
 * The gate opens the case, its judge and the reference, runs the case's steps twice, and computes
 * them on one device twice (once if the reference is the judge).
 *
 * The estimate leaves out copies and messages, links, delays, and the effect of other cases' steps
 * on caches and memory.
 */

static const double core_flops = 2e10; /* per second and core, if nothing can be measured */
static const double timed_ns = 1e8;    /* duration of the measured steps */
static const double chunk_s = 0.05;    /* duration of one chunk of enqueued steps */
static const double opening_s = 0.01;  /* to open a session, if none is opened here */
enum { FORWARDS = 3, LOOKS = 5, WARM_STEPS = 2, EXACT_BLOCKS = 10 };

static double seconds(uint64_t begin_ns)
{
    return (double)(ls_clock_ns() - begin_ns) * 1e-9;
}

/* Seconds of a sample's forward and backward pass on one device, from its FLOP count. */
static double counted_sample(const ls_workplace *workplace, const ls_plan_of_case *plan)
{
    return ls_graph_flops(plan->model->graph) /
           (core_flops * ls_machine_cores_per_device(workplace->machine));
}

/* Seconds of a sample's forward and backward pass on one device, measured. */
static ls_status sample_time(const ls_workplace *workplace, ls_session *session, double *out)
{
    const ls_plan_of_case *plan = session->plan;
    const uint64_t tests = plan->data->test.samples;
    const ls_job *job = &plan->job;
    const int64_t pieces = job->exact.on ? ls_job_shards(job, job->batch) : ls_job_replicas(job);
    const uint64_t rows = (uint64_t)(job->batch / pieces); /* of one replica */
    ls_evaluation evaluation;
    if (!tests) {
        *out = counted_sample(workplace, plan);
        return LS_OK;
    }
    const uint64_t most = tests < rows ? tests : rows;
    double times[LOOKS];
    for (int i = -1; i < LOOKS; i++) { /* the first is a warm-up */
        const uint64_t begin = ls_clock_ns();
        LS_TRY(ls_session_evaluate(session, most, false, &evaluation));
        times[i < 0 ? 0 : i] = FORWARDS * seconds(begin) / (double)rows;
    }
    *out = ls_statistics_median(times, LOOKS);
    return LS_OK;
}

/* How many of so many devices' worth of work this machine does at the same time. */
static double devices_at_once(const ls_workplace *workplace, const ls_plan_of_case *plan,
                              double devices)
{
    const double cores = (double)ls_machine_describe(workplace->machine)->cores_allowed /
                         ls_machine_cores_per_device(workplace->machine);
    if (plan->oversubscribed && devices > cores)
        devices = cores > 1 ? cores : 1;
    return devices;
}

/* Number of samples that are computed at the same time. */
static double width(const ls_workplace *workplace, const ls_plan_of_case *plan)
{
    const ls_job *job = &plan->job;
    const ls_schedule schedule = ls_replicated_schedule(job, 0, LS_FULL);
    const double stages = ls_job_stages(job);
    const double busy =
        job->division.microbatches > 0 ? stages * (1 - ls_schedule_equal(&schedule)) : 1;
    return devices_at_once(workplace, plan, ls_job_replicas(job) * busy);
}

/* Seconds of a step, measured by training. */
static ls_status step_time(ls_session *session, double *out)
{
    const uint64_t most = session->job.records;
    LS_TRY(ls_session_steps(session, WARM_STEPS < most ? WARM_STEPS : most));
    uint64_t begin = ls_clock_ns(), count;
    LS_TRY(ls_session_steps(session, 1));
    count = (uint64_t)(timed_ns / (double)(ls_clock_ns() - begin + 1));
    count = count < 1 ? 1 : count < most ? count : most;
    LS_TRY(ls_world_turn(session->job.ranks.comm, LS_OK, &count, NULL));
    begin = ls_clock_ns();
    LS_TRY(ls_session_steps(session, count));
    *out = seconds(begin) / (double)count;
    return LS_OK;
}

static bool is_judged(const ls_plan_of_case *plan)
{
    return plan->config->gate_steps != 0 && plan->warmup + plan->timed > 0;
}

/* Number of steps that are trained for the extra figures: the profile and the cost of exact mode.
 * Long steps are trained a few times only. */
static double extra_steps(const ls_plan_of_case *plan, double step_s)
{
    const double most = plan->timed < LS_PROFILED_MOST ? (double)plan->timed : LS_PROFILED_MOST;
    const double chunk = fmax(1, fmin(step_s > 0 ? chunk_s / step_s : most, most));
    const double rounds = plan->job.division.microbatches > 0 ? LS_PROFILE_ROUNDS : 1;
    const double profiled = rounds * chunk < most ? rounds * chunk : most;
    return profiled + (plan->job.exact.on ? EXACT_BLOCKS * chunk : 0);
}

/* Seconds to reopen devices, and with --until-precision of the fewest blocks to add: enough for an
 * interval, or as many as --max-time allows. With a time budget, they use that time. */
static double later_blocks(const ls_workplace *workplace, const ls_plan_of_case *plan,
                           const ls_costs *costs)
{
    const ls_request *request = workplace->request;
    const double asked = (double)request->blocks, timed = (double)plan->timed;
    const double blocks = asked < timed ? asked : timed;
    const double reopened_s = blocks > 1 ? (blocks - 1) * costs->open_s : 0;
    if (!(request->precision > 0) || blocks < 1 || blocks >= LS_STATISTICS_BLOCKS)
        return reopened_s;
    if (request->budget_ns)
        return (LS_STATISTICS_BLOCKS - 1) * costs->open_s;
    const double like_s = floor(timed / asked) * costs->step_s, least_s = LS_ADDED_BLOCK_MS * 1e-3;
    const double each_s = costs->open_s + fmax(like_s, least_s);
    const double left_s = (double)request->max_time_ns * 1e-9 - timed * costs->step_s - reopened_s;
    return reopened_s + fmax(fmin((LS_STATISTICS_BLOCKS - blocks) * each_s, left_s), 0);
}

void ls_estimate_phases(const ls_workplace *workplace, const ls_plan_of_case *plan,
                        const ls_costs *costs, double seconds[LS_PHASES])
{
    const double alone_s = costs->sample_s * (double)plan->job.batch;
    const double steps = (double)(plan->warmup + plan->timed),
                 asked = (double)plan->config->gate_steps;
    const double compared = asked < 0 || asked > steps ? steps : asked;
    const double judges = (plan->job.exact.on || !ls_job_sums(&plan->job) ? 1 : 2);
    memset(seconds, 0, LS_PHASES * sizeof *seconds);
    if (workplace->request->trace) { /* the trace needs as long as the run itself */
        seconds[LS_PHASE_OPENING] = costs->open_s;
        seconds[LS_PHASE_WARM_UP] = (double)plan->warmup * costs->step_s;
        seconds[LS_PHASE_TIMING] = (2 * workplace->request->trace_steps + 1) * costs->step_s;
        return;
    }
    if (is_judged(plan))
        seconds[LS_PHASE_CHECKING] =
            3 * costs->open_s + compared * (2 * costs->step_s + judges * alone_s);
    if (workplace->request->verify)
        return;
    seconds[LS_PHASE_OPENING] = costs->open_s;
    seconds[LS_PHASE_WARM_UP] = (double)plan->warmup * costs->step_s;
    seconds[LS_PHASE_TIMING] =
        (double)plan->timed * costs->step_s + later_blocks(workplace, plan, costs);
    const double tested = (double)ls_plan_evaluated(plan, (uint64_t)steps);
    seconds[LS_PHASE_EVALUATING] =
        costs->sample_s / FORWARDS * tested /
            devices_at_once(workplace, plan, ls_job_replicas(&plan->job)) +
        extra_steps(plan, costs->step_s) * costs->step_s;
}

ls_costs ls_estimate_count(const ls_workplace *workplace, const ls_plan_of_case *plan,
                           double step_s)
{
    const double batch = (double)plan->job.batch, at_once = width(workplace, plan);
    ls_costs costs = {.open_s = opening_s, .sample_s = counted_sample(workplace, plan)};
    if (step_s > 0)
        costs.sample_s = step_s * at_once / batch;
    costs.step_s = costs.sample_s * batch / at_once;
    return costs;
}

double ls_estimate_kernels(const ls_case *cases, size_t index)
{
    static const double seconds = 0.6;
    for (size_t i = 0; i < index; i++)
        if (cases[i].batch == cases[index].batch && strcmp(cases[i].model, cases[index].model) == 0)
            return 0;
    return seconds;
}

static ls_status look(const ls_workplace *workplace, ls_session *session, bool steps,
                      ls_estimate *out)
{
    const ls_plan_of_case *plan = session->plan;
    double sample_s = 0;
    /* the memory that the formulas predict */
    ls_need_of(session, &out->need);
    for (size_t i = 0; i < out->need.count; i++) {
        const size_t bytes = ls_need_sum(&out->need.devices[i].formula);
        out->memory += bytes;
        out->memory_most = bytes > out->memory_most ? bytes : out->memory_most;
    }
    LS_TRY(ls_need_join(plan->job.ranks.comm, &out->need));
    LS_TRY(sample_time(workplace, session, &sample_s));
    out->step_s = sample_s * (double)plan->job.batch / width(workplace, plan);
    if (steps)
        LS_TRY(step_time(session, &out->step_s));
    const ls_costs costs = {
        .open_s = (double)session->setup_ns * 1e-9, .sample_s = sample_s, .step_s = out->step_s};
    double phases[LS_PHASES];
    ls_estimate_phases(workplace, plan, &costs, phases);
    out->judged = is_judged(plan);
    for (int i = 0; i < LS_PHASES; i++)
        out->seconds += phases[i];
    out->around_s = out->seconds;
    if (!workplace->request->verify)
        out->around_s -= (double)plan->timed * out->step_s;
    return LS_OK;
}

static ls_status estimate_case(const ls_workplace *workplace, const ls_plan_of_case *plan,
                               bool steps, ls_estimate *out)
{
    ls_session session;
    const uint64_t begin = ls_clock_ns();
    *out = (ls_estimate){0};
    LS_TRY(ls_session_open(workplace, plan, (ls_opening){0}, &session));
    ls_status status = look(workplace, &session, steps, out);
    ls_session_close(&session);
    out->looked_s = seconds(begin);
    return status;
}

/* The request's cases and, with --baseline, the cases of `single` that are missing. */
static ls_status list_cases(const ls_request *request, ls_forecast *out)
{
    const size_t most = request->case_count * (request->baseline ? 2 : 1);
    LS_TRY(ls_allocate("cases", &out->configs, most, sizeof *out->configs));
    LS_TRY(ls_allocate("cases", &out->cases, most, sizeof *out->cases));
    memcpy(out->configs, request->cases, request->case_count * sizeof *out->configs);
    out->count = request->case_count;
    for (size_t i = 0; i < request->case_count && request->baseline; i++) {
        const ls_case single = ls_case_single(&out->configs[i]);
        size_t at = 0;
        while (at < out->count && !ls_case_same(&out->configs[at], &single))
            at++;
        if (at < out->count)
            continue;
        memcpy(&out->configs[at], &single, sizeof single);
        out->cases[at].baseline = true;
        out->count++;
    }
    return LS_OK;
}

static ls_status look_at_case(ls_forecast *forecast, const ls_request *request, size_t index,
                              bool steps)
{
    ls_forecast_case *c = &forecast->cases[index];
    const ls_forecast_case *same = NULL; /* an earlier equal case, whose estimate it takes */
    for (size_t i = 0; i < index && !same; i++)
        if (ls_case_same(&forecast->configs[i], &forecast->configs[index]))
            same = &forecast->cases[i];
    const int rank = request->processes->rank;
    c->error = forecast->memory[index].error;
    forecast->memory[index].error = LS_OK;
    if (!c->error)
        c->error =
            ls_world_agree(request->processes->comm, ls_plan_draw(&forecast->workplace, &c->plan));
    if (c->error)
        return LS_OK;
    if (same) {
        c->estimate = same->estimate;
        c->estimate.looked_s = 0;
        c->estimate.need = ls_need_copy(&same->estimate.need);
        c->error = same->error ? ls_fail(ls_status_code(same->error), NULL, NULL, "%s",
                                         ls_status_text(same->error))
                               : LS_OK;
        return LS_OK;
    }
    if (c->plan.job.ranks.comm || rank == 0) /* otherwise only rank 0 has the case */
        c->error =
            ls_world_agree(c->plan.job.ranks.comm,
                           estimate_case(&forecast->workplace, &c->plan, steps, &c->estimate));
    if (c->error) { /* it takes no time */
        const double looked_s = c->estimate.looked_s;
        ls_need_free(&c->estimate.need);
        c->estimate = (ls_estimate){.looked_s = looked_s};
    }
    return LS_OK;
}

/* Resolves the cases, and refuses cases that do not fit into memory. */
static ls_status open_plans(ls_forecast *out)
{
    const ls_request *request = out->workplace.request;
    LS_TRY(ls_allocate("cases", &out->memory, out->count, sizeof *out->memory));
    for (size_t i = 0; i < out->count; i++) {
        ls_plan_of_case *plan = &out->cases[i].plan;
        LS_TRY(ls_world_agree(request->processes->comm,
                              ls_plan_open(&out->workplace, &out->configs[i], plan)));
        out->memory[i] = (ls_memory_case){.plan = plan, .group = i / LS_GROUP_CASES};
    }
    out->workplace.holds = !request->processes->comm; /* as run does */
    ls_memory_check(&out->workplace, out->memory, out->count, &out->process);
    return LS_OK;
}

ls_status ls_forecast_make(const ls_request *request, bool steps, ls_forecast *out)
{
    *out = (ls_forecast){0};
    const uint64_t begin = ls_clock_ns();
    ls_status status = ls_workplace_open(request, &out->workplace);
    if (!status)
        out->workplace.progress = ls_progress_open(stderr, request->progress);
    if (!status)
        status = list_cases(request, out);
    if (!steps) {
        /* progress by cases, which take about equally long: opening devices, computing some
         * samples. */
        const double seconds[LS_PHASES] = {[LS_PHASE_CHECKING] = 0.1};
        ls_progress_cases(out->workplace.progress, out->count);
        for (size_t i = 0; i < out->count; i++)
            ls_progress_expect(out->workplace.progress, i, out->configs[i].strategy->name, seconds,
                               false);
    }
    LS_TRY(ls_world_agree(request->processes->comm, status));
    LS_TRY(open_plans(out));
    for (size_t i = 0; i < out->count; i++) {
        bool stop = ls_interrupted();
        LS_TRY(ls_world_turn(request->processes->comm, LS_OK, NULL, &stop));
        if (stop)
            return ls_fail(LS_CODE_INTERRUPTED, "interrupted", NULL,
                           "before all cases were checked; nothing was trained");
        ls_progress_enter(out->workplace.progress, i, LS_PHASE_CHECKING);
        LS_TRY(look_at_case(out, request, i, steps));
    }
    ls_progress_close(out->workplace.progress);
    out->workplace.progress = NULL;
    out->data_s = (double)(ls_clock_ns() - begin) * 1e-9;
    for (size_t i = 0; i < out->count; i++) {
        ls_estimate *estimate = &out->cases[i].estimate;
        const double kernels_s = estimate->judged ? ls_estimate_kernels(out->configs, i) : 0;
        out->data_s -= estimate->looked_s; /* the rest is mostly reading */
        estimate->around_s += kernels_s;
        estimate->seconds += kernels_s;
    }
    return LS_OK;
}

void ls_forecast_close(ls_forecast *forecast)
{
    for (size_t i = 0; forecast->cases && i < forecast->count; i++) {
        ls_need_free(&forecast->cases[i].estimate.need);
        ls_status_free(forecast->cases[i].error);
        ls_plan_close(&forecast->cases[i].plan);
    }
    for (size_t i = 0; forecast->memory && i < forecast->count; i++) {
        ls_need_free(&forecast->memory[i].footprint.need);
        ls_status_free(forecast->memory[i].error);
    }
    free(forecast->memory);
    free(forecast->cases);
    free(forecast->configs);
    ls_progress_close(forecast->workplace.progress);
    ls_workplace_close(&forecast->workplace);
}

/* ---- Budgets -------------------------------------------------------------------------------- */

static bool same_model(const ls_forecast *forecast, size_t a, size_t b)
{
    return strcmp(forecast->configs[a].model, forecast->configs[b].model) == 0;
}

/* Number of steps for each case with the model of case `index`, if all its cases take `share_s`. */
static double steps_in(const ls_forecast *forecast, size_t index, double share_s)
{
    double sum = 0;
    for (size_t i = 0; i < forecast->count; i++)
        if (same_model(forecast, i, index))
            sum += forecast->cases[i].estimate.step_s;
    return sum > 0 ? floor(share_s / sum) : 0;
}

/* Time of all blocks relative to the requested ones: --until-precision adds more. */
static double blocks_over_asked(const ls_request *request)
{
    const bool adds = request->precision > 0 && request->blocks < LS_STATISTICS_BLOCKS;
    return adds ? (double)LS_STATISTICS_BLOCKS / (double)request->blocks : 1;
}

ls_status ls_forecast_fit(ls_forecast *forecast, ls_request *request, double spent_s)
{
    double left_s = (double)request->budget_ns * 1e-9 - spent_s - forecast->data_s, models = 0;
    double around_s = forecast->data_s;
    bool few = false;
    for (size_t i = 0; i < forecast->count; i++) {
        size_t first = 0;
        left_s -= forecast->cases[i].estimate.around_s;
        around_s += forecast->cases[i].estimate.around_s;
        while (!same_model(forecast, first, i))
            first++;
        models += first == i;
    }
    for (size_t i = 0; i < forecast->count; i++) {
        const double fit = steps_in(forecast, i, left_s / models / blocks_over_asked(request));
        const double least = (double)request->blocks;
        const double given = (double)forecast->configs[i].steps;
        double wanted = fit < least ? least : fit > 1e8 ? 1e8 : fit;
        wanted = request->steps_given && wanted > given ? given : wanted;
        uint64_t steps = (uint64_t)wanted;
        few |= fit < least;
        LS_TRY(ls_world_turn(request->processes->comm, LS_OK, &steps, NULL));
        ls_forecast_case *c = &forecast->cases[i];
        forecast->configs[i].steps = c->plan.timed = (int64_t)steps;
        c->estimate.seconds =
            c->estimate.around_s + (double)steps * c->estimate.step_s * blocks_over_asked(request);
        if (i < request->case_count)
            request->cases[i].steps = (int64_t)steps;
    }
    if (few && request->processes->rank == 0)
        ls_log_line(
            &request->log, LS_LOG_NORMAL,
            "budget: %.1f s is too short, since setup, warm-up and checks take about %.1f s; "
            "some cases get only %lld timed step%s, one per block (--blocks); use a larger "
            "`budget:`",
            (double)request->budget_ns * 1e-9, around_s, (long long)request->blocks,
            request->blocks == 1 ? "" : "s");
    return LS_OK;
}

ls_status ls_budget_fit(ls_request *request)
{
    ls_closing(ls_forecast_close) ls_forecast forecast = {0};
    const uint64_t begin = ls_clock_ns();
    if (request->processes->comm) /* ranks end together */
        ls_interrupt_install();
    request->deadline_ns = begin + request->budget_ns;
    LS_TRY(ls_forecast_make(request, true, &forecast));
    return ls_forecast_fit(&forecast, request, (double)(ls_clock_ns() - begin) * 1e-9);
}
