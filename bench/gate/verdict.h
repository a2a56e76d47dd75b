/* SPDX-License-Identifier: MIT */
/* What the gate found out about a case. */
#pragma once

#include "bench/train/session.h"

#include <jansson.h>

typedef struct ls_gate {
    const char *grade; /**< "exact", "bounded" or "none" */
    bool compared;     /**< false: the row says why in `oracle` */
    bool checked; /**< not compared, but facts of `steps` steps were checked (ls_gate_arrival) */
    bool pass;
    bool interrupted; /**< before all steps were compared */
    uint64_t steps;   /**< how many were compared */
    uint32_t max_ulp; /**< of parameters against `single`, over all compared steps */
    double max_rel;
    double loss_first, loss_last; /**< of the compared steps */
    double step_s;                /**< of steps enqueued many at once; 0: none were */
    double bound;        /**< on the first step's gradient against `single`; 0: bits are compared */
    double gradient_rel; /**< its distance; NaN: not compared */
    double library_rel;  /**< largest distance of a library's sum; NaN: none was compared */
    double kernels_rel;  /**< of the first gradients against plain C kernels; NaN: not compared */
    char kernels_compared[160];    /**< what they were compared with; "" */
    char digest[33];               /**< of the candidate after the last compared step */
    char reference_digest[33];     /**< of `single`; "" unless all steps were compared */
    char oracle[256];              /**< "same bits", or what differed first */
    char diverged[LS_REASON_SIZE]; /**< where the candidate stopped being finite; "": nowhere */
    json_t *kernels;               /**< of the candidate's step; NULL where nothing was compared */
    float *parameters;             /**< of the candidate after the last step, where verify saves
                                        them; or NULL */
} ls_gate;

/** Copies the candidate's parameters, where the request is to verify and to save them. */
ls_status ls_gate_keep(const ls_workplace *place, const ls_plan_of_case *plan, const float *values,
                       ls_gate *gate);

/** Makes the gate fail, and notes why. */
void ls_gate_wrong(ls_gate *gate, const char *why, ...) __attribute__((format(printf, 2, 3)));

/** Agrees with all ranks: where one does not pass none does, and all have its reason. */
ls_status ls_gate_agree(ls_comm *comm, ls_gate *gate);

/** Checks the traffic of a full step against the formula. All ranks call it. */
ls_status ls_gate_traffic(const ls_run *run, ls_gate *gate);

/** Frees what a gate holds; a zero-filled one holds nothing. */
void ls_gate_close(ls_gate *gate);
