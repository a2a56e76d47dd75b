/* SPDX-License-Identifier: MIT */
/*
 * Gate of runs that are not meant to be equal, because timing decides in which order servers apply
 * gradients. What must hold is checked: the order that a run noted, replayed in sequence, makes the
 * same bits; no worker was further ahead than its bound; a step sent what the formula says.
 */
#ifndef LS_BENCH_GATE_REPLAY_H
#define LS_BENCH_GATE_REPLAY_H

#include "bench/gate.h"

/** Of `steps` steps from the initial values. All ranks call it. */
ls_status ls_gate_replay(ls_workplace *place, const ls_plan_of_case *plan, uint64_t steps,
                         ls_gate *gate);

#endif
