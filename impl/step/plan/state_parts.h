/* SPDX-License-Identifier: MIT */
/*
 * State parts: which member owns which elements of the state (impl/state.h), made from the plan
 * alone, so that all processes have the same list. Together the parts have each element of the
 * model once. Where several copies of the model are updated alike (replicas), variables are dealt
 * out to the copies, so that each device has about as many.
 */
#pragma once

#include "impl/step/plan/plan.h"

/** Elements of one variable, which are next to each other in a file, too. */
typedef struct ls_state_part {
    int member;      /**< that owns them */
    size_t variable; /**< number of the model's variable */
    size_t first;    /**< its first element there */
    size_t count;    /**< elements; at least 1 */
    size_t at;       /**< first element among the member's updated ones
                          (ls_replica_updated.stated) */
} ls_state_part;

typedef struct ls_state_parts {
    ls_state_part *items; /**< [count] by member; of one, in the order of its elements */
    size_t count;
} ls_state_parts;

/** Visits the elements of the model that a range of a member's own elements holds, `at` elements
 * behind its first one. What all places of a stage hold is visited for the first of them only. */
void ls_state_each(const ls_step_plan *plan, int member, ls_range range, ls_graph_part_visit *visit,
                   void *context);

/** The bytes of the state that each member of `to` holds and its device did not hold as member
 * of[m] of `from` (-1 if it was not a member): out [members of `to`]. */
ls_status ls_state_moved(const ls_step_plan *from, const ls_step_plan *to, const int *of,
                         uint64_t *out);

/** Opens the parts of all members of all processes. Close it also on failure. */
ls_status ls_state_parts_open(const ls_step_plan *plan, ls_state_parts *out);
void ls_state_parts_close(ls_state_parts *parts);
