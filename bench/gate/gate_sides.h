/* SPDX-License-Identifier: MIT */
/* What the gate looks at beyond what steps compute: how they are ordered, and evaluation. */
#pragma once

#include "bench/gate/verdict.h"
#include "bench/gate/reference.h"

/** The candidate and who judges it, in this process. Borrowed. */
typedef struct ls_gate_sides {
    const ls_workplace *place;
    ls_session *candidate;
    ls_session *oracle;      /**< NULL: `single` judges, or this process does not */
    ls_reference *reference; /**< NULL: this process does not judge */
} ls_gate_sides;

/** Puts the session's steps up to `steps`, at most `most` at once, so that an interrupt is answered
 *  between; `done` is the progress before them. All ranks call it. */
ls_status ls_gate_put(const ls_workplace *place, ls_session *session, uint64_t steps, uint64_t most,
                      double done, ls_gate *gate);

/** Checks the candidate's tasks (impl/step/run.h). Before any of them runs: tasks that nothing
 * orders may wait for each other for ever. All ranks call it. */
ls_status ls_gate_step(const ls_session *candidate, ls_gate *gate);

/** The same of a strategy that is not meant to be equal, in a session of its own. */
ls_status ls_gate_steps_alone(const ls_workplace *place, const ls_plan_of_case *plan, ls_gate *out);

/** The same of servers that serve whoever comes first (gate_arrival.c), and of `steps` steps from
 * the initial values what must hold whoever does. All ranks call it. */
ls_status ls_gate_arrival(ls_workplace *place, const ls_plan_of_case *plan, uint64_t steps,
                          ls_gate *gate);

/**
 * Evaluates candidate and judge, which have the same parameters, on some samples of the test set:
 * what the model makes of them must have the same bits. After the last compared step. All ranks
 * call it.
 */
ls_status ls_gate_evaluation(const ls_gate_sides *sides, ls_gate *gate);
