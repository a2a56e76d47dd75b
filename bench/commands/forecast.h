/* SPDX-License-Identifier: MIT */
/* Forecast: what the cases of a command, baselines included, will take; and steps that fit a
 * budget. */
#pragma once

#include "bench/case/case_plan.h"
#include "bench/train/estimate.h"

typedef struct ls_forecast_case {
    ls_plan_of_case plan;
    ls_estimate estimate;
    ls_estimate plain; /**< without what is done once for several cases */
    ls_status error;   /**< why it cannot be opened here; NULL: it can */
    bool baseline;     /**< not asked for, but added by --baseline */
} ls_forecast_case;

/** Owned by the caller; closed in any case. */
typedef struct ls_forecast {
    ls_workplace place;
    ls_case *configs;        /**< [count] the request's, then baselines that are not among them */
    ls_forecast_case *cases; /**< [count] */
    size_t count;
    double data_s; /**< reading of the data sets */
} ls_forecast;

/** Resolves and opens each case once; `steps` as in ls_estimate_case. All processes together. */
ls_status ls_forecast_make(const ls_request *request, bool steps, ls_forecast *out);
void ls_forecast_close(ls_forecast *forecast);

/** Seconds of all cases together. */
double ls_forecast_seconds(const ls_forecast *forecast);

/**
 * Changes the request's timed steps so that all of it takes request.budget_ns less `spent_s`. Cases
 * of one model have the same number of steps, models the same time; where the command gives steps,
 * no more than those; of blocks that --until-precision adds there is time for as many as an
 * interval needs. A budget that is too short even for one step a block is told on stderr. The
 * estimates follow.
 */
ls_status ls_forecast_fit(ls_forecast *forecast, ls_request *request, double spent_s);
