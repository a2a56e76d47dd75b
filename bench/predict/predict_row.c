/* SPDX-License-Identifier: MIT */
/* Rows of predictions; see predict.h. */
#include "bench/predict/predict.h"

#include "bench/case/profile.h"
#include "bench/predict/predict_parts.h"
#include "bench/row/row.h"
#include "bench/rows/put.h"
#include "bench/statistics/statistics.h"
#include "common/base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The interval of the mean or the median step, over the draws. */
static bool interval_of(const ls_predicted *p, bool mean, double ci95[2])
{
    ls_auto double *figures =
        p->step_ms && p->draws > 1 ? calloc(p->draws + p->steps, sizeof *figures) : NULL;
    if (!figures)
        return false;
    for (size_t d = 0; d < p->draws; d++) {
        double *steps = figures + p->draws;
        memcpy(steps, p->step_ms + d * p->steps, p->steps * sizeof *steps);
        figures[d] =
            mean ? ls_statistics_mean(steps, p->steps) : ls_statistics_median(steps, p->steps);
    }
    ls_statistics_sort(figures, p->draws);
    ci95[0] = ls_statistics_quantile(figures, p->draws, 0.025);
    ci95[1] = ls_statistics_quantile(figures, p->draws, 0.975);
    return true;
}

static ls_status put_time(json_t *row, const ls_plan_of_case *plan, const ls_predicted *p)
{
    const size_t count = p->draws * p->steps;
    ls_auto double *sorted = NULL;
    double ci95[2];
    ls_statistics s;
    LS_TRY(ls_allocate("row", &sorted, count, sizeof *sorted));
    memcpy(sorted, p->step_ms, count * sizeof *sorted);
    ls_statistics_compute(sorted, count, &s);
    const double batch_s = (double)plan->job.batch * 1e3;
    const bool mean = plan->job.update.period > 1;
    ls_put_time_step_ms_mean(row, s.mean);
    ls_put_time_step_ms_median(row, s.median);
    ls_put_time_step_ms_p10(row, s.p10);
    ls_put_time_step_ms_p90(row, s.p90);
    ls_put_time_step_ms_p99(row, s.p99);
    if (interval_of(p, false, ci95))
        ls_put_time_step_ms_ci95(row, ls_interval_value(ci95[0], ci95[1]));
    ls_put_time_step_ms_n(row, count);
    ls_put_time_samples_per_s(row, batch_s / (mean ? s.mean : s.median));
    if (mean)
        ls_put_time_samples_per_s_of(row, "mean");
    ls_put_time_samples_per_s_mean(row, batch_s / s.mean);
    if (interval_of(p, true, ci95))
        ls_put_time_samples_per_s_mean_ci95(
            row, ls_interval_value(batch_s / ci95[1], batch_s / ci95[0]));
    return LS_OK;
}

/* Durations by a rate of FLOPs. */
static bool is_guess(const ls_predictor *predictor, const ls_plan_of_case *plan)
{
    return predictor->durations.flops_per_s > 0 && !ls_profile_is(plan->config->model);
}

/* What kind of case it is, where durations were measured: its interval depends on it. */
static void put_kind(json_t *row, const ls_predictor *predictor, const ls_plan_of_case *plan,
                     const ls_predicted *p)
{
    const size_t hosts = (size_t)predictor->devices_per_host;
    const size_t at_once = p->devices < hosts ? p->devices : hosts;
    const int cores =
        ls_durations_cores(ls_predictor_durations(predictor, plan), predictor->devices_per_host);
    if (!cores || !(p->all_ms > 0))
        return;
    ls_put_prediction_shared(row, at_once > (size_t)cores);
    ls_put_prediction_computing(row, p->busy_ms / p->all_ms / (double)p->devices);
}

static void put_prediction(json_t *row, const ls_predictor *predictor, const ls_plan_of_case *plan,
                           const ls_predicted *p)
{
    const ls_prediction_request *request = predictor->request;
    const bool is_profile = ls_profile_is(plan->config->model);
    double ci95[2];
    char guess[96];
    ls_put_prediction_engine(row, ls_engine_words[predictor->engine]);
    ls_put_prediction_platform(row, predictor->platform.text ? predictor->platform.text : "none");
    ls_put_prediction_collectives(row, ls_expansion_words[predictor->level]);
    snprintf(guess, sizeof guess, "%s (a guess)", request->durations ? request->durations : "");
    ls_put_prediction_durations(row, is_profile                  ? "profile"
                                     : is_guess(predictor, plan) ? guess
                                     : request->durations        ? request->durations
                                                                 : "measured");
    if (predictor->slow_device >= 0 && predictor->slow_device < (int)ls_predictor_devices(plan))
        ls_put_prediction_slowdown(row, request->slowdown);
    ls_put_prediction_devices_per_host(row, predictor->devices_per_host);
    ls_put_prediction_activities(row, p->activities);
    if (p->draws)
        ls_put_prediction_draws(row, p->draws);
    put_kind(row, predictor, plan, p);
    ls_put_prediction_extrapolated(row, true); /* until validated rows say else */
    if (p->draws && interval_of(p, plan->job.update.period > 1, ci95) && ci95[0] + ci95[1] > 0) {
        const double error = (ci95[1] - ci95[0]) / (ci95[1] + ci95[0]);
        ls_put_prediction_error(row, error);
        ls_put_prediction_error_source(row, "draws, with calibration");
        ls_put_prediction_error_draws(row, error);
        ls_put_prediction_error_calibration(
            row, ls_durations_error(ls_predictor_durations(predictor, plan)));
    }
    ls_put_prediction_wall_s(row, p->wall_s);
}

/* Over all steps: nothing disturbs them. */
static ls_status put_pipeline(json_t *row, const ls_plan_of_case *plan, const ls_predicted *p)
{
    const ls_schedule schedule = ls_replicated_schedule(&plan->job, 0, LS_FULL);
    const size_t stages = (size_t)schedule.stages, steps = p->draws * p->steps;
    ls_auto ls_time_profile *profiles = NULL;
    ls_bubble bubble;
    LS_TRY(ls_allocate("predict", &profiles, stages, sizeof *profiles));
    for (size_t s = 0; s < stages; s++) {
        uint64_t busy = 0;
        for (int use = 0; use < LS_TIME_USES; use++)
            busy += profiles[s].ns[use] =
                (uint64_t)llround(p->uses_ns[s * LS_TIME_USES + (size_t)use] / (double)steps);
        const uint64_t all = (uint64_t)llround(p->all_ms * 1e6 / (double)steps);
        profiles[s].ns[LS_TIME_IDLE] += all > busy ? all - busy : 0;
    }
    LS_TRY(ls_bubble_measure(&schedule, profiles, &bubble));
    if (p->all_ms > 0)
        ls_row_put_pipeline(row, &plan->job, &bubble);
    return LS_OK;
}

ls_status ls_predicted_row(const ls_predictor *predictor, const ls_workplace *workplace,
                           const ls_plan_of_case *plan, const ls_predicted *p, const char *error,
                           json_t **out)
{
    const ls_row_facts facts = {.workplace = workplace, .plan = plan, .error = error};
    char text[160];
    json_auto_t *row = NULL;
    LS_TRY(ls_row_build(&facts, &row));
    ls_row_drop(row, LS_F_case_blocks); /* predict has no blocks */
    ls_row_append(row, LS_F_result_warnings, json_string("predicted"));
    if (is_guess(predictor, plan))
        ls_row_append(row, LS_F_result_warnings, json_string("guessed"));
    if (ls_durations_words(ls_predictor_durations(predictor, plan), p->sent.messages_sent > 0, text,
                           sizeof text)) { /* the word and the note as of `run` */
        ls_row_append(row, LS_F_result_warnings, json_string("noisy"));
        ls_row_append(row, LS_F_result_notes, json_string(text));
    }
    if (ls_durations_scaled_words(ls_predictor_durations(predictor, plan), text, sizeof text)) {
        ls_row_append(row, LS_F_result_warnings, json_string("scaled"));
        ls_row_append(row, LS_F_result_notes, json_string(text));
    }
    if (!error && p->step_ms)
        LS_TRY(put_time(row, plan, p));
    if (!error && p->step_ms && p->uses_ns)
        LS_TRY(put_pipeline(row, plan, p));
    if (!error && plan->job.exchange.allreduce->formula && /* else only the library knows it */
        (p->sent.messages_sent || p->formula.messages_sent))
        ls_row_put_traffic(row, &p->sent, &p->formula);
    for (size_t i = 0; i < p->devices; i++) {
        const ls_device_name *name =
            i < plan->device_count ? &plan->devices[i] : &plan->variable_device;
        ls_memory_ledger ledger = p->ledgers[i];
        const size_t reals = ledger.of_type[LS_MEMORY_FLOAT32];
        ledger.of_type[LS_MEMORY_FLOAT32] = 0;
        ledger.of_type[ls_profile_type(plan->model)] += reals;
        ls_row_add_memory(row, ls_device_name_text(name, text), &ledger, p->memory[i].bytes);
    }
    put_prediction(row, predictor, plan, p);
    *out = json_incref(row);
    return LS_OK;
}
