/* SPDX-License-Identifier: MIT */
/* Forecast: the time of a command's cases, baselines included; and steps that fit a budget. */
#pragma once

#include "bench/case/case_plan.h"
#include "bench/commands/estimate.h"
#include "bench/commands/memory_check.h"

typedef struct ls_forecast_case {
    ls_plan_of_case plan;
    ls_estimate estimate;
    ls_status error; /**< why it cannot be opened here; NULL if it can */
    bool baseline;   /**< not asked for, but added by --baseline */
} ls_forecast_case;

/** Owned by the caller; close it also on failure. */
typedef struct ls_forecast {
    ls_workplace workplace;
    ls_case *configs;        /**< [count] the request's, then baselines that are not among them */
    ls_forecast_case *cases; /**< [count] */
    ls_memory_case *memory;  /**< [count] */
    ls_memory_sum process;   /**< memory of this process */
    size_t count;
    double data_s; /**< reading of the data sets */
} ls_forecast;

/** Resolves and opens each case once; `steps` as in ls_estimate_case. All processes together. */
ls_status ls_forecast_make(const ls_request *request, bool steps, ls_forecast *out);
void ls_forecast_close(ls_forecast *forecast);

/** Seconds of all cases. */
double ls_forecast_seconds(const ls_forecast *forecast);

/**
 * Changes the numbers of timed steps so that the whole request takes request.budget_ns minus
 * `spent_s`. Cases of one model get the same number of steps, models the same time; steps that the
 * command gives are not exceeded; with --until-precision there is time for as many blocks as an
 * interval needs. Reports on stderr if the budget is too short even for one step per block. Updates
 * the estimates.
 */
ls_status ls_forecast_fit(ls_forecast *forecast, ls_request *request, double spent_s);
