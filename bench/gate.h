/* SPDX-License-Identifier: MIT */
/*
 * Gate: the check that a case computes what the reference computes, in a pass of its own before
 * anything is timed. Candidate and reference start from the same values on devices of their own;
 * after each step their losses and parameters are compared bit by bit. For `single` itself the
 * reference is a second, fresh run: it shows that a run is repeatable.
 */
#ifndef LS_BENCH_GATE_H
#define LS_BENCH_GATE_H

#include "bench/trial.h"

typedef struct ls_gate {
    const char *grade; /**< "exact", "bounded" or "none" */
    bool compared;     /**< false: the row says why in `oracle` */
    bool pass;
    uint64_t steps;   /**< how many were compared */
    uint32_t max_ulp; /**< over all compared steps */
    double max_rel;
    double bound;              /**< of max_rel; 0: the bits must be the same */
    char digest[33];           /**< of the candidate after the last compared step */
    char reference_digest[33]; /**< "" unless all steps were compared */
    char oracle[256];          /**< "same bits", or what differed first */
} ls_gate;

/** A failed comparison is no failure of this function: see `pass`. */
ls_status ls_gate_run(const ls_workplace *place, const ls_plan_of_case *plan, ls_gate *out);

#endif
