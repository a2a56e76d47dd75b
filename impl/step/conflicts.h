/* SPDX-License-Identifier: MIT */
/*
 * Conflicts of tasks over memory. A task conflicts with an earlier one (in the order in which
 * `build` appended them) on another lane if both touch the same bytes and one of them writes.
 *
 * Memory is cut wherever an access begins or ends. Each piece knows its last writer, and the last
 * reader of each lane since. So the work grows with the pieces that are accessed, not with pairs of
 * tasks.
 */
#pragma once

#include "impl/step/step_private.h"

typedef struct ls_conflicts ls_conflicts;

/** For the tasks of steps [count], one after the other: task number t counts through all. */
ls_status ls_conflicts_open(const ls_step *const *steps, size_t count, ls_conflicts **out);

/** Takes the next task, and visits the earlier ones that it conflicts with. One that the order of
 * its lane implies may be missing; some are visited twice. */
ls_status ls_conflicts_next(ls_conflicts *conflicts, void (*visit)(void *context, size_t earlier),
                            void *context);

/** Takes NULL. */
void ls_conflicts_close(ls_conflicts *conflicts);
