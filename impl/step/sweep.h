/* SPDX-License-Identifier: MIT */
/*
 * Sweep: the tasks of some steps one after the other, in the order said. Of each it tells which
 * earlier ones it meets, those that touch the same bytes, one of the two writing; and keeps which
 * are known to have ended when it begins: its clock has of every lane of its component the last.
 *
 * Addresses are cut where any access begins or ends; each piece knows its last writer, and the last
 * reader of each lane since. So the work is that of the accesses' pieces, not of pairs of tasks.
 */
#pragma once

#include "impl/step/step_private.h"

typedef struct ls_sweep {
    const ls_stepped *run;
    const ls_step *const *steps; /**< [step_count] tasks are counted through all, from 0 */
    size_t step_count;
    size_t task;    /**< the one at hand */
    size_t before;  /**< the one before it on its lane, from 1; 0: none */
    size_t next;    /**< the one after it */
    size_t *latest; /**< [lanes] the last one so far, from 1; 0: none */
    size_t *first;  /**< [tasks] where its clock begins in `clocks`; none without components */
    size_t *clocks;
    size_t *clock, size; /**< of the task at hand */
    uintptr_t *cuts;     /**< [cut_count] in order: piece i is [cuts[i], cuts[i + 1]) */
    size_t cut_count;
    size_t *writer;  /**< [cut_count] the piece's last, from 1; 0: none */
    size_t *readers; /**< [cut_count] the first of the piece's in `pool`, from 1 */
    struct ls_sweep_reader *pool;
    size_t pool_count;
} ls_sweep;

/** Of steps [count]; clocks where the run has components. To be closed also on failure. */
ls_status ls_sweep_open(const ls_stepped *run, const ls_step *const *steps, size_t count,
                        ls_sweep *out);
void ls_sweep_close(ls_sweep *sweep);

/** A task by its number, and the step that it is of. */
const ls_task *ls_sweep_task(const ls_sweep *sweep, size_t number, const ls_step **step);

/** Goes on to the next task, which knows what the one before it on its lane knew. */
const ls_task *ls_sweep_next(ls_sweep *sweep);

/** The task at hand waits for an earlier one of its component: it knows what that knew. */
void ls_sweep_hear(ls_sweep *sweep, size_t earlier);

/** Whether that is known to have ended. */
bool ls_sweep_knows(const ls_sweep *sweep, size_t earlier);

/** Told of an earlier task, and of bytes that both touch. */
typedef void (*ls_sweep_visit)(void *context, size_t earlier, ls_access both);

/** Visits the earlier tasks that the one at hand meets; once. Those that another one implies by the
 *  order of its lane may be left out; some are visited twice. */
ls_status ls_sweep_meet(ls_sweep *sweep, ls_sweep_visit visit, void *context);
