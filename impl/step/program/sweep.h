/* SPDX-License-Identifier: MIT */
/*
 * Sweep: visits the tasks of some steps in program order. For each it finds the earlier tasks that
 * conflict with it: both touch the same bytes, and one of them writes. A vector clock keeps which
 * tasks have ended when it begins: the latest of each lane of its component.
 *
 * Memory is split at every address where an access begins or ends. Each piece keeps its last writer
 * and each lane's last reader since. So the work grows with accesses, not with pairs of tasks.
 */
#pragma once

#include "impl/step/program/program.h"

typedef struct ls_sweep {
    const ls_components *components;        /**< NULL if there are no clocks */
    const ls_step_program *const *programs; /**< [count] tasks are numbered through, from 0 */
    size_t count;
    size_t task;    /**< the current one */
    size_t before;  /**< the previous one on its lane, from 1; 0 if none */
    size_t next;    /**< the number after the current task's */
    size_t *latest; /**< [lanes] the latest task so far, from 1; 0 if none */
    size_t *first;  /**< [tasks] index of its clock in `clocks`; empty if there are no clocks */
    size_t *clocks;
    size_t *clock, size; /**< the current task's */
    uintptr_t *cuts;     /**< [cut_count] ascending; piece i is [cuts[i], cuts[i + 1]) */
    size_t cut_count;
    size_t *writer;  /**< [cut_count] the piece's last writer, from 1; 0 if none */
    size_t *readers; /**< [cut_count] the piece's first reader in `pool`, from 1; 0 if none */
    struct ls_sweep_reader *pool;
    size_t pool_count;
} ls_sweep;

/** Over programs [count] of the same lanes; with clocks if there are components. Close it also on
 * failure. */
ls_status ls_sweep_open(const ls_step_program *const *programs, size_t count,
                        const ls_components *components, ls_sweep *out);
void ls_sweep_close(ls_sweep *sweep);

/** Returns a task by its number, and its program. */
const ls_task *ls_sweep_task(const ls_sweep *sweep, size_t number, const ls_step_program **program);

/** Advances to the next task; its clock begins as the previous task's on its lane. */
const ls_task *ls_sweep_next(ls_sweep *sweep);

/** The current task waits for an earlier one of its component: merges that one's clock into its. */
void ls_sweep_hear(ls_sweep *sweep, size_t earlier);

/** Whether the earlier task has ended, by the current one's clock. */
bool ls_sweep_knows(const ls_sweep *sweep, size_t earlier);

/** Called with an earlier task, and a piece of memory that both touch. */
typedef void (*ls_sweep_visit)(void *context, size_t earlier, ls_access both);

/** Visits earlier tasks that conflict with the current one; to be called once for each task. Tasks
 * that precede a visited one on its lane may be skipped; some tasks are visited twice. */
ls_status ls_sweep_meet(ls_sweep *sweep, ls_sweep_visit visit, void *context);
