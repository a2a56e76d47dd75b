/* SPDX-License-Identifier: MIT */
/* What the gate found out about a case. */
#pragma once

#include "bench/train/session.h"

#include <jansson.h>

typedef struct ls_gate {
    const char *grade; /**< "exact", "bounded" or "none" */
    bool compared;     /**< false: the row says why in `oracle` */
    bool checked;      /**< not compared; of `steps` steps what else must hold (gate_sides.h) */
    bool pass;
    bool interrupted; /**< before all steps were compared */
    uint64_t steps;   /**< how many were compared */
    uint32_t max_ulp; /**< of parameters against `single`, over all compared steps */
    double max_rel;
    double loss_first, loss_last; /**< of the compared steps */
    double step_s;                /**< of the steps put at once; 0: none were */
    double bound;        /**< on the first step's gradient against `single`; 0: bits are compared */
    double gradient_rel; /**< what that was; NaN: not looked at */
    double library_rel;  /**< largest distance of a library's sum; NaN: none was compared */
    double kernels_rel;  /**< of the first gradients against plain C kernels; NaN: not compared */
    char kernels_compared[160];    /**< with what; "" */
    char digest[33];               /**< of the candidate after the last compared step */
    char reference_digest[33];     /**< of `single`; "" unless all steps were compared */
    char oracle[256];              /**< "same bits", or what differed first */
    char diverged[LS_REASON_SIZE]; /**< where the candidate stopped being finite; "": nowhere */
    json_t *kernels;               /**< of the candidate's step; NULL where nothing was compared */
    float
        *parameters; /**< of the candidate after the last step, where verify saves them; or NULL */
} ls_gate;

/** Copies the candidate's parameters, where the request is to verify and to save them. */
ls_status ls_gate_keep(const ls_workplace *place, const ls_plan_of_case *plan, const float *values,
                       ls_gate *gate);

/** The gate does not pass, and why: what differed first. */
void ls_gate_wrong(ls_gate *gate, const char *why, ...) __attribute__((format(printf, 2, 3)));

/** The pass of all ranks: one that does not is enough; it says why. */
ls_status ls_gate_agree(ls_comm *comm, ls_gate *gate);

/** What a full step sent, against the formula. All ranks call it. */
ls_status ls_gate_traffic(const ls_run *run, ls_gate *gate);

/** Frees what a gate holds; a zero-filled one holds nothing. */
void ls_gate_close(ls_gate *gate);
