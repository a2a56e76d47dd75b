/* SPDX-License-Identifier: MIT */
/*
 * Work left: what a command has yet to do, in seconds. What was expected of each case is corrected
 * by what it and the others have taken so far. Knows no clock: it is told what passes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** What a case goes through, in this order. */
typedef enum ls_phase {
    LS_PHASE_OPENING,
    LS_PHASE_CHECKING,
    LS_PHASE_WARM_UP,
    LS_PHASE_TIMING,
    LS_PHASE_EVALUATING,
    LS_PHASES
} ls_phase;

/** A phase of a case. Seconds. */
typedef struct ls_work_part {
    double expected; /**< before it began */
    double spent;
    double share; /**< that is done */
    double at;    /**< spent when the share was told */
} ls_work_part;

typedef struct ls_work_case {
    ls_work_part part[LS_PHASES];
    bool measured; /**< steps are expected of what some took, not of a count of operations */
} ls_work_case;

typedef struct ls_work {
    ls_work_case *cases; /**< [count] */
    size_t count;
    size_t now; /**< the case at work; `count`: none yet */
    ls_phase phase;
    double counted; /**< sum of steps' seconds by a count of operations, where some were measured */
    double measured; /**< the same as measured */
} ls_work;

/** What a case is expected to take; again, and `measured`, when some of its steps are known. */
void ls_work_expect(ls_work *work, size_t index, const double seconds[LS_PHASES], bool measured);

/** The phase before is done, but for one that is come back to: blocks of timed steps. */
void ls_work_enter(ls_work *work, size_t index, ls_phase phase);

/** So much time has passed. */
void ls_work_spend(ls_work *work, double seconds);

/** So much of the phase at work is done, from 0 to 1. */
void ls_work_share(ls_work *work, double share);

/** Nothing more comes of a case. */
void ls_work_end(ls_work *work, size_t index);

/** Seconds to come; negative: nothing is known of it yet. */
double ls_work_left(const ls_work *work);
