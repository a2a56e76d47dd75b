/* SPDX-License-Identifier: MIT */
/*
 * Edits of steps, in builds with LOCKSTEP_HOOKS: a task or a wait is changed as a wrong strategy,
 * or a wrong derivation, would have it; checks must find it. Switched by the environment:
 *
 *     LOCKSTEP_EDIT=KIND:NUMBER    drop, double: that task. swap: it and the next one of its lane.
 *                                  turn: it and the next one said. drop-wait: that wait.
 *                                  drop-begin: that task's, for the step's beginning
 *                  KIND:NUMBER?    is not made; a refusal says whether the step would mean the same
 *     LOCKSTEP_PLANT=BUG           the bugs of hooks.h that are edits: by a table here
 *
 * Numbers count from 0 through the full batch's step, then through the smaller one's. Tasks are
 * edited as they are said, before it is derived who waits for whom.
 */
#ifndef LS_IMPL_STEP_EDIT_H
#define LS_IMPL_STEP_EDIT_H

#include "impl/step/step_private.h"

#ifdef LOCKSTEP_HOOKS

ls_status ls_steps_edit_tasks(ls_stepped *run);
ls_status ls_steps_edit_waits(ls_stepped *run);

/** The check of steps (run.h) whenever some are built; those of a strategy that the gate compares
 * are left to that where they are edited. */
ls_status ls_steps_check_built(const ls_stepped *run);

#else

static inline ls_status ls_steps_check_built(const ls_stepped *run)
{
    (void)run;
    return LS_OK;
}

static inline ls_status ls_steps_edit_tasks(ls_stepped *run)
{
    (void)run;
    return LS_OK;
}

static inline ls_status ls_steps_edit_waits(ls_stepped *run)
{
    (void)run;
    return LS_OK;
}

#endif

#endif
