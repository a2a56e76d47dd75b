/* SPDX-License-Identifier: MIT */
/* What the gate checks besides the values that steps compute: the order of tasks, and evaluation.
 */
#pragma once

#include "bench/gate/verdict.h"
#include "bench/gate/reference.h"

/** The candidate and its judges, in this process. Borrowed. */
typedef struct ls_gate_sides {
    const ls_workplace *place;
    ls_session *candidate;
    ls_session *oracle;      /**< NULL: `single` judges, or this process does not */
    ls_reference *reference; /**< NULL: this process does not judge */
} ls_gate_sides;

/** Runs the session's steps up to number `steps`, enqueuing at most `most` at once, so that an
 * interrupt is answered soon; `done` is the progress before them. All ranks call it. */
ls_status ls_gate_put(const ls_workplace *place, ls_session *session, uint64_t steps, uint64_t most,
                      double done, ls_gate *gate);

/** Runs the race check (ls_stepped_check) on the candidate, before any task runs: tasks without
 * order might wait for each other for ever. All ranks call it. */
ls_status ls_gate_step(const ls_session *candidate, ls_gate *gate);

/** The same of a strategy that is not meant to be equal, in a session of its own. */
ls_status ls_gate_steps_alone(const ls_workplace *place, const ls_plan_of_case *plan, ls_gate *out);

/** The same for servers that serve by arrival (gate_arrival.c); also runs `steps` steps from the
 * initial values, and checks what must hold in any order of arrival. All ranks call it. */
ls_status ls_gate_arrival(ls_workplace *place, const ls_plan_of_case *plan, uint64_t steps,
                          ls_gate *gate);

/**
 * Evaluates candidate and judge, which have the same parameters, on some samples of the test set:
 * the model's outputs must have the same bits. After the last compared step. All ranks call it.
 */
ls_status ls_gate_evaluation(const ls_gate_sides *sides, ls_gate *gate);
