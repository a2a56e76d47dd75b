/* SPDX-License-Identifier: MIT */
/* Rows of predictions; see predict.h. */
#include "bench/predict/predict.h"

#include "bench/case/profile.h"
#include "bench/output/format_parts.h"
#include "bench/predict/predict_parts.h"
#include "bench/row/row.h"
#include "bench/statistics/statistics.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The interval of a figure of the steps, of which each draw has one. */
static bool interval_of(const ls_predicted *p, const double *figures, double ci95[2])
{
    enum { LEAST = 2 };
    double *sorted = p->draws >= LEAST ? calloc(p->draws, sizeof *sorted) : NULL;
    if (!sorted)
        return false;
    memcpy(sorted, figures, p->draws * sizeof *sorted);
    ls_statistics_sort(sorted, p->draws);
    ci95[0] = ls_statistics_quantile(sorted, p->draws, 0.025);
    ci95[1] = ls_statistics_quantile(sorted, p->draws, 0.975);
    free(sorted);
    return true;
}

static ls_status put_time(json_t *row, const ls_plan_of_case *plan, const ls_predicted *p)
{
    const size_t count = p->draws * p->steps;
    double *sorted, ci95[2];
    ls_statistics s;
    LS_TRY(ls_allocate("row", &sorted, count, sizeof *sorted));
    memcpy(sorted, p->step_ms, count * sizeof *sorted);
    ls_statistics_compute(sorted, count, &s);
    free(sorted);
    json_t *step = json_pack("{s:f,s:f,s:f,s:f,s:f,s:I}", "mean", s.mean, "median", s.median, "p10",
                             s.p10, "p90", s.p90, "p99", s.p99, "n", (json_int_t)count);
    if (interval_of(p, p->median_ms, ci95))
        json_object_set_new(step, "ci95", json_pack("[f,f]", ci95[0], ci95[1]));
    const double batch_s = (double)plan->job.batch * 1e3;
    const bool mean = plan->job.period > 1;
    json_t *time =
        json_pack("{s:o,s:f,s:f}", "step_ms", step, "samples_per_s",
                  batch_s / (mean ? s.mean : s.median), "samples_per_s_mean", batch_s / s.mean);
    if (mean)
        ls_put_text(time, "samples_per_s_of", "mean");
    if (interval_of(p, p->mean_ms, ci95))
        json_object_set_new(time, "samples_per_s_mean_ci95",
                            json_pack("[f,f]", batch_s / ci95[1], batch_s / ci95[0]));
    json_object_set_new(row, "time", time);
    return LS_OK;
}

static void put_traffic(json_t *row, const ls_plan_of_case *plan, const ls_predicted *p)
{
    if (!plan->job.allreduce->formula) /* only the library knows it */
        return;
    if (!p->sent.messages_sent && !p->formula.messages_sent)
        return;
    json_t *group = json_object();
    ls_put_integer(group, "bytes_sent", p->sent.bytes_sent);
    ls_put_integer(group, "messages_sent", p->sent.messages_sent);
    ls_put_integer(group, "bytes_formula", p->formula.bytes_sent);
    ls_put_integer(group, "messages_formula", p->formula.messages_sent);
    json_object_set_new(row, "traffic", group);
}

static void put_memory(json_t *row, const ls_plan_of_case *plan, const ls_predicted *p)
{
    json_t *devices = json_array();
    for (size_t i = 0; i < p->devices; i++) {
        char text[32];
        size_t peak = 0;
        json_t *device = json_object(), *formula = json_object();
        const ls_device_name *name =
            i < plan->device_count ? &plan->devices[i] : &plan->variable_device;
        ls_put_text(device, "device", ls_device_name_text(name, text));
        for (ls_memory_use use = 0; use < LS_MEMORY_USES; use++) {
            ls_put_integer(device, ls_memory_use_name(use), p->ledgers[i].in_use[use]);
            ls_put_integer(formula, ls_memory_use_name(use), p->memory[i].bytes[use]);
            peak += p->memory[i].bytes[use];
        }
        ls_put_integer(formula, "peak", peak);
        ls_put_integer(device, "reserved", p->ledgers[i].reserved);
        ls_put_integer(device, "peak", p->ledgers[i].in_use_peak);
        json_object_set_new(device, "formula", formula);
        json_array_append_new(devices, device);
    }
    json_object_set_new(row, "memory", json_pack("{s:o}", "devices", devices));
}

/* Durations by a rate of FLOPs. */
static bool is_guess(const ls_predictor *predictor, const ls_plan_of_case *plan)
{
    return predictor->durations.flops_per_s > 0 && !ls_profile_is(plan->config->model);
}

static void put_prediction(json_t *row, const ls_predictor *predictor, const ls_plan_of_case *plan,
                           const ls_predicted *p)
{
    const ls_prediction_request *request = predictor->request;
    json_t *group = json_object();
    double ci95[2];
    ls_put_text(group, "engine", ls_engine_words[predictor->engine]);
    ls_put_text(group, "platform", predictor->platform.text ? predictor->platform.text : "none");
    ls_put_text(group, "collectives", ls_expansion_words[predictor->level]);
    char guess[96];
    snprintf(guess, sizeof guess, "%s (a guess)", request->durations ? request->durations : "");
    ls_put_text(group, "durations",
                ls_profile_is(plan->config->model) ? "profile"
                : is_guess(predictor, plan)        ? guess
                : request->durations               ? request->durations
                                                   : "measured");
    ls_put_integer(group, "devices_per_host", (uint64_t)predictor->devices_per_host);
    ls_put_integer(group, "activities", p->activities);
    if (p->draws)
        ls_put_integer(group, "draws", p->draws);
    json_object_set_new(group, "extrapolated", json_true()); /* until validated rows say else */
    const double *figures = plan->job.period > 1 ? p->mean_ms : p->median_ms;
    if (p->draws && interval_of(p, figures, ci95) && ci95[0] + ci95[1] > 0) {
        ls_put_real(group, "error", (ci95[1] - ci95[0]) / (ci95[1] + ci95[0]));
        ls_put_text(group, "error_source", "draws, with calibration");
        ls_put_real(group, "error_draws", (ci95[1] - ci95[0]) / (ci95[1] + ci95[0]));
        ls_put_real(group, "error_calibration",
                    ls_durations_error(ls_predictor_durations(predictor, plan)));
    }
    if (predictor->slow_device >= 0 && predictor->slow_device < (int)ls_predictor_devices(plan))
        ls_put_text(group, "slowdown", request->slowdown);
    ls_put_real(group, "wall_s", p->wall_s);
    json_object_set_new(row, "prediction", group);
}

/* The word and the note as of `run`. */
static void note_noise(json_t *result, const ls_durations *durations, bool sends)
{
    char text[160];
    if (!ls_durations_words(durations, sends, text, sizeof text))
        return;
    json_array_append_new(json_object_get(result, "warnings"), json_string("noisy"));
    json_object_set_new(result, "notes", json_pack("[s]", text));
}

ls_status ls_predicted_row(const ls_predictor *predictor, const ls_workplace *workplace,
                           const ls_plan_of_case *plan, const ls_predicted *p, const char *error,
                           json_t **out)
{
    const ls_row_facts facts = {.workplace = workplace, .plan = plan, .error = error};
    json_t *row;
    LS_TRY(ls_row_build(&facts, &row));
    json_t *result = json_object_get(row, "result");
    json_object_del(json_object_get(row, "case"), "blocks"); /* predict has none */
    json_object_set_new(result, "warnings", json_pack("[s]", "predicted"));
    if (is_guess(predictor, plan))
        json_array_append_new(json_object_get(result, "warnings"), json_string("guessed"));
    note_noise(result, ls_predictor_durations(predictor, plan), p->sent.messages_sent > 0);
    ls_status status = error || !p->step_ms ? LS_OK : put_time(row, plan, p);
    if (!error && p->step_ms) {
        /* Over all steps: nothing disturbs them. */
        double all_ms = 0;
        for (size_t i = 0; i < p->draws * p->steps; i++)
            all_ms += p->step_ms[i] * (double)ls_job_stages(&plan->job);
        if (ls_plan_is_pipeline(plan) && all_ms > 0)
            json_object_set_new(
                row, "pipeline",
                ls_row_pipeline(&plan->job, &(ls_bubble){1 - p->busy_ms / all_ms, NAN, NAN}));
    }
    if (!error)
        put_traffic(row, plan, p);
    if (p->devices)
        put_memory(row, plan, p);
    put_prediction(row, predictor, plan, p);
    if (status)
        json_decref(row);
    else
        *out = row;
    return status;
}
