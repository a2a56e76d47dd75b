/* SPDX-License-Identifier: MIT */
/*
 * Conflicts of tasks over memory: each task, in the order said, with those before it on other lanes
 * that touch the same bytes, one of the two writing.
 *
 * Addresses are cut where any access begins or ends; each piece knows its last writer, and the last
 * reader of each lane since. So the work is that of the accesses' pieces, not of pairs of tasks.
 */
#pragma once

#include "impl/step/step_private.h"

typedef struct ls_conflicts ls_conflicts;

/** For the tasks of steps [count], one after the other: task number t counts through all. */
ls_status ls_conflicts_open(const ls_step *const *steps, size_t count, ls_conflicts **out);

/** Takes the next task; visits the earlier ones that it meets, none of its own lane. Those that
 *  another one implies by the order of its lane may be left out; some are visited twice. */
ls_status ls_conflicts_next(ls_conflicts *conflicts, void (*visit)(void *context, size_t earlier),
                            void *context);

/** Takes NULL. */
void ls_conflicts_close(ls_conflicts *conflicts);
