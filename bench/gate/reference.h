/* SPDX-License-Identifier: MIT */
/*
 * Reference: what `single` computes in a configuration, step by step. Computed once and kept for
 * every case of the command that is compared with it, as far as memory set aside for that goes.
 */
#pragma once

#include "bench/train/session.h"

typedef struct ls_reference ls_reference;

/** `single` in this case's place, on the first of its devices and without its fault on purpose; all
 *  that is not its own is as where it was not given. Cases of one configuration have the same. */
ls_case ls_reference_case(const ls_case *one);

/** The reference of a plan for steps 0 to steps - 1, all of them: known already, or begun. Borrowed
 * from the workplace. */
ls_status ls_reference_get(ls_workplace *place, const ls_plan_of_case *plan, uint64_t steps,
                           ls_reference **out);

/**
 * Parameters [elements] and loss after `step`. Steps are asked for in order; the values stay until
 * the next one. After them, of an epoch's last, smaller batch that is not among them: after that
 * one step, from the first parameters.
 */
ls_status ls_reference_step(ls_reference *reference, uint64_t step, const float **values,
                            double *loss);

/** The gradient of step 0 [elements], once that has been asked for. */
const float *ls_reference_gradient(const ls_reference *reference);

/** The same of the whole batch in one piece, with its loss: in exact mode a step of its own. */
const float *ls_reference_whole(const ls_reference *reference, double *loss);

enum {
    LS_REFERENCE_TESTED = 256
}; /**< samples of the test set that are compared: a batch or few */

/** What evaluation finds after the last step that was asked for, where there is something to test
 *  (ls_plan_tests) and one step at least. */
const ls_evaluation *ls_reference_evaluation(const ls_reference *reference);

/** After the last step that is asked for: what is not kept is freed. */
void ls_reference_done(ls_workplace *place, ls_reference *reference);

/** All of them. */
void ls_references_close(ls_workplace *place);
