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
#include "bench/train/world.h"
#include "common/base/clock.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static ls_status look(ls_forecast *forecast, const ls_request *request, size_t index, bool steps)
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
                           ls_estimate_case(&forecast->workplace, &c->plan, steps, &c->estimate));
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
        LS_TRY(look(out, request, i, steps));
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

double ls_forecast_seconds(const ls_forecast *forecast)
{
    double sum = forecast->data_s;
    for (size_t i = 0; i < forecast->count; i++)
        sum += forecast->cases[i].estimate.seconds;
    return sum;
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
        ls_log_line(&request->log, LS_LOG_NORMAL,
                    "budget: %.1f s is too short: setup, warm-up and checks take about %.1f s, so "
                    "each case has only the least number of timed steps; use a larger `budget:`",
                    (double)request->budget_ns * 1e-9, around_s);
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
