/* SPDX-License-Identifier: MIT */
/* What training reaches: losses, accuracy, and the target. */
#pragma once

#include "bench/train/time_steps.h"
#include "impl/strategy.h"

/** Written by the functions below that take it without const. */
typedef struct ls_learned {
    double loss_first, loss_last;
    uint64_t trained;       /**< steps */
    uint64_t step_last;     /**< the last step's number, from 0 */
    double gradient_norm;   /**< of the last step, with --clip; NaN if there is none */
    ls_exchanged exchanged; /**< where the job has a period */
    double *losses;         /**< [losses_kept] of timed steps, kept with --verbose; else NULL */
    double *step_ms;        /**< [count] as losses */
    size_t losses_kept, room;
    double accuracy;    /**< NaN if there is none */
    uint64_t evaluated; /**< samples of the evaluation; 0 if there is none */
    bool stopped;       /**< a signal ended the evaluation */
    double ms;          /**< all steps so far, with the warm-up's */
    bool target_reached;
    uint64_t steps_to_target;
    double ms_to_target; /**< time of these steps, with the warm-up's */
    double target_sum;   /**< sum of losses since the target was last checked */
    int target_steps;    /**< how many there are */
} ls_learned;

/** Before the first step. */
ls_learned ls_learned_begin(void);
void ls_learned_close(ls_learned *learned);

/** Makes room for the losses of `count` more timed steps, which are then kept. */
ls_status ls_learned_expect(ls_learned *learned, uint64_t count);

/** Adds the steps of one call. Loss targets are checked against the mean of ten steps. */
void ls_learned_add(ls_learned *learned, const ls_case *config, const ls_step_times *steps,
                    bool timed);

/** Reads the norm of the last step's gradient, with --clip, and what replicas have exchanged, with
 * a period. All processes together. */
ls_status ls_learned_norm(ls_learned *learned, const ls_session *session);

/** Evaluates the first `samples` of the test set, if not 0. All processes together. */
ls_status ls_learned_evaluate(ls_learned *learned, ls_session *session, uint64_t samples);

/** Checks an accuracy target where an epoch has ended, even between two steps. All processes
 * together. */
ls_status ls_learned_look(ls_learned *learned, ls_session *session);
