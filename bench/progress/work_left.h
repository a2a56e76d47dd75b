/* SPDX-License-Identifier: MIT */
/*
 * Remaining work: how many seconds a command still needs. The expected times of each case are
 * corrected by the times that it and the others have taken so far. It reads no clock: callers pass
 * the time spent.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** The phases of a case, in order. */
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
    double share; /**< of the phase that is done */
    double at;    /**< `spent` when the share was set */
} ls_work_part;

typedef struct ls_work_case {
    ls_work_part part[LS_PHASES];
    bool measured; /**< expected times come from measured steps, not from operation counts */
} ls_work_case;

typedef struct ls_work {
    ls_work_case *cases; /**< [count] */
    size_t count;
    size_t now; /**< the case at work; `count`: none yet */
    ls_phase phase;
    double counted;  /**< of measured cases: seconds of steps by a count of operations, summed */
    double measured; /**< these seconds by measurement */
} ls_work;

/** Sets the expected times of a case; again, with `measured`, once some of its steps were timed. */
void ls_work_expect(ls_work *work, size_t index, const double seconds[LS_PHASES], bool measured);

/** A phase begins, and the one before is done; only timing may be entered again, for each block. */
void ls_work_enter(ls_work *work, size_t index, ls_phase phase);

/** Adds time that has passed. */
void ls_work_spend(ls_work *work, double seconds);

/** Sets the share of the present phase that is done, from 0 to 1. */
void ls_work_share(ls_work *work, double share);

/** A case is over. */
void ls_work_end(ls_work *work, size_t index);

/** Seconds left; negative if not known yet. */
double ls_work_left(const ls_work *work);
