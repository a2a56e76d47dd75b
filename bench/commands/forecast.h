/* SPDX-License-Identifier: MIT */
/* Forecast: the time of a command's cases, baselines included; and steps that fit a budget. */
#pragma once

#include "bench/case/case_plan.h"
#include "bench/commands/memory_check.h"
#include "bench/progress/work_left.h"
#include "bench/train/session.h"

/* ---- Estimate: the time and memory that a case will take, before it runs -------------------- */

/** Costs that the times of a case's phases follow from, in seconds. */
typedef struct ls_costs {
    double open_s;   /**< opening of devices and strategy */
    double sample_s; /**< forward and backward of a sample, by one device */
    double step_s;   /**< a step of all devices */
} ls_costs;

typedef struct ls_estimate {
    double step_s;      /**< a step of all devices */
    double around_s;    /**< opening, gate, warm-up, evaluation: all but the timed steps */
    double seconds;     /**< the whole case, with the timed steps that the plan has */
    size_t memory_most; /**< bytes of the fullest device of this process */
    bool judged;        /**< the gate runs */
    double looked_s;    /**< what the estimate itself took */
    size_t memory;      /**< bytes of all devices of this process */
    ls_need need;       /**< memory by device and use; at rank 0, of all ranks */
} ls_estimate;

/** Estimates from a count of operations at a fixed rate, without opening anything: good to compare
 * cases, rather than for seconds. `step_s` above 0: the measured time of a step. */
ls_costs ls_estimate_count(const ls_workplace *workplace, const ls_plan_of_case *plan,
                           double step_s);

/** The seconds that each phase of the case takes. */
void ls_estimate_phases(const ls_workplace *workplace, const ls_plan_of_case *plan,
                        const ls_costs *costs, double seconds[LS_PHASES]);

/** Seconds of the gate of kernels (gate_kernels.c): it runs once per model and batch, so 0 if an
 * earlier case has the same. */
double ls_estimate_kernels(const ls_case *cases, size_t index);

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

/**
 * Resolves and opens each case once, to measure how long that takes. A step is estimated as three
 * times the forward pass of its samples (backward has twice the products), divided by the replicas
 * that run concurrently; the pass is measured on test samples or, without any, computed from FLOPs
 * at a fixed rate. With `steps`, some steps are trained and timed instead, and discarded. Memory is
 * by the row's formula (memory.devices.formula). All processes together.
 */
ls_status ls_forecast_make(const ls_request *request, bool steps, ls_forecast *out);
void ls_forecast_close(ls_forecast *forecast);

/**
 * Changes the numbers of timed steps so that the whole request takes request.budget_ns minus
 * `spent_s`. Cases of one model get the same number of steps, models the same time; steps that the
 * command gives are not exceeded; with --until-precision there is time for as many blocks as an
 * interval needs. Reports on stderr if the budget is too short even for one step per block. Updates
 * the estimates.
 */
ls_status ls_forecast_fit(ls_forecast *forecast, ls_request *request, double spent_s);
