/* SPDX-License-Identifier: MIT */
/* Estimate: what a case will take, before it runs. */
#pragma once

#include "bench/case/case_plan.h"
#include "bench/progress/work_left.h"
#include "bench/train/session_memory.h"

/** What the phases of a case are made of, in seconds. */
typedef struct ls_costs {
    double open_s;   /**< opening of devices and strategy */
    double sample_s; /**< forward and backward of a sample, by one device */
    double step_s;   /**< a step, of all devices together */
    bool known;      /**< what `single` computes is known from a case before */
} ls_costs;

typedef struct ls_estimate {
    double step_s;      /**< a step, of all devices together */
    double around_s;    /**< all but the timed steps: opening, gate, warm-up, evaluation */
    double seconds;     /**< all of it, with the timed steps that the plan has */
    size_t memory_most; /**< bytes of the fullest device of this process */
    bool judged;        /**< by the gate */
    double looked_s;    /**< what the estimate took */
    size_t memory;      /**< bytes of all devices of this process */
    ls_need need;       /**< of these, by device and use; of rank 0 those of all ranks */
} ls_estimate;

/**
 * Opens the case's devices and its strategy, and closes them again. What opening takes is measured.
 * A step is three times the forward pass of its samples (backward has twice the products of
 * forward), which is measured on samples of the test set, or counted at a fixed rate where there is
 * none; divided by the replicas that run at once. Where `steps`, some steps are trained and timed
 * in place of that, and thrown away. Memory is the formula that a row has (memory.devices.formula).
 * The caller frees out->need.
 */
ls_status ls_estimate_case(const ls_workplace *place, const ls_plan_of_case *plan, bool steps,
                           ls_estimate *out);

/** The same by a count of operations at a fixed rate, nothing opened or measured: what cases take
 *  beside each other, rather than seconds. `step_s` above 0: what a step was measured to take. */
ls_costs ls_estimate_count(const ls_workplace *place, const ls_plan_of_case *plan, double step_s);

/** What each phase of the case takes. */
void ls_estimate_phases(const ls_workplace *place, const ls_plan_of_case *plan,
                        const ls_costs *costs, double seconds[LS_PHASES]);

/** Seconds that the gate takes to look at the plain kernels: once for a model and batch, so 0 where
 *  a case before this one has the same. */
double ls_estimate_kernels(const ls_case *cases, size_t index);
