/* SPDX-License-Identifier: MIT */
/* Estimate: what a case will take, before it runs. */
#ifndef LS_BENCH_TRAIN_ESTIMATE_H
#define LS_BENCH_TRAIN_ESTIMATE_H

#include "bench/train/session_memory.h"

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

#endif
