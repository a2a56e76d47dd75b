/* SPDX-License-Identifier: MIT */
/*
 * Gate: the check that a case computes what it should, in a pass of its own before anything is
 * timed. Candidate and judges start from the same values on devices of their own; after each step
 * losses and parameters are compared bit by bit.
 *
 *     exact   with `single --reduce exact`: the same bits
 *     fast    with an oracle, which replays the strategy's sums in sequence (impl/oracle.h): the
 *             same bits. The drift of the parameters from `single` is reported and judges nothing.
 *     library (the all-reduce) each step's reduced gradient with the float64 sum of the slices'
 *             gradients from the same parameters: within a bound; and the update by that gradient:
 *             the same bits as `single`'s optimizer makes of it
 *     single  with a second, fresh run of itself: it shows that a run is repeatable
 *
 * Where each replica has parameters of its own, all have the same bits after each step, too.
 * So that judge and candidate cannot be wrong together, the first step's gradient and loss are
 * compared with those of `single` on the whole batch in one piece, within bounds (not where parts
 * of the batch are normalised by statistics of their own: the oracle alone judges). What candidate
 * and judge then make of 256 samples of the test set must have the same bits (gate_sides.h). Then
 * the same steps are made again, put at once, and must end in the same bits: that finds what is
 * only right while the host waits after each step. A library's sums need not repeat: there a few
 * steps at a time are put at once, and the last one's gradient is compared with the slices' sum,
 * within the bound of the first step's. Then what a step sent must be what the formula says; where
 * the case has epochs, and these a last, smaller batch that the steps did not come to, that one is
 * compared, too, by itself. Last, the kernels that candidate and judges share are compared with
 * plain C (gate_kernels.h), also where nothing else is.
 *
 * Of several ranks each runs its part of the candidate; rank 0 judges, and all get its verdict.
 */
#ifndef LS_BENCH_GATE_H
#define LS_BENCH_GATE_H

#include "bench/trial.h"

#include <jansson.h>

typedef struct ls_gate {
    const char *grade;  /**< "exact", "bounded" or "none" */
    bool compared;      /**< false: the row says why in `oracle` */
    bool replayed;      /**< not compared, but with its own replay (gate_replay.h) */
    const char *reason; /**< why there is no grade, where `oracle` says something else; NULL */
    bool pass;
    bool interrupted; /**< before all steps were compared */
    uint64_t steps;   /**< how many were compared */
    uint32_t max_ulp; /**< of parameters against `single`, over all compared steps */
    double max_rel;
    double loss_first, loss_last; /**< of the compared steps */
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

/** A failed comparison is no failure of this function: see `pass`. */
ls_status ls_gate_run(ls_workplace *place, const ls_plan_of_case *plan, ls_gate *out);

/** Copies the candidate's parameters, where the request is to verify and to save them. */
ls_status ls_gate_keep(const ls_workplace *place, const ls_plan_of_case *plan, const float *values,
                       ls_gate *gate);

/** The pass of all ranks: one that does not is enough; it says why. */
ls_status ls_gate_agree(ls_comm *comm, ls_gate *gate);

/** What a full step sent, against the formula. All ranks call it. */
ls_status ls_gate_traffic(const ls_run *run, ls_gate *gate);

/** Frees what a gate holds; a zero-filled one holds nothing. */
void ls_gate_close(ls_gate *gate);

#endif
