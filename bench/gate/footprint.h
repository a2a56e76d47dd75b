/* SPDX-License-Identifier: MIT */
/*
 * Footprint: the memory of this process that a case takes at its peak, counted before anything of
 * its model's size is allocated. The candidate and its judges are opened with memory that is only
 * counted; copies on the host are counted by the lines that allocate them.
 */
#pragma once

#include "bench/case/case_plan.h"
#include "bench/train/session.h"

/** Bytes that a phase takes at its peak. */
typedef struct ls_footprint_phase {
    size_t sessions; /**< CPU devices of all sessions that are open at once */
    size_t copies;   /**< parameters, gradients and state on the host's heap */
} ls_footprint_phase;

/** What a case takes besides the program, its data set and its first values. */
typedef struct ls_footprint {
    ls_footprint_phase gate, training;
    ls_need need; /**< of the candidate's devices */
} ls_footprint;

/** Counts a case; all its processes call it. A device that has too little memory is refused
 * (ls_need_refuse), with `need` counted. The caller frees `need`. */
ls_status ls_footprint_count(const ls_workplace *workplace, const ls_plan_of_case *plan,
                             ls_footprint *out);
