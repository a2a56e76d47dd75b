/* SPDX-License-Identifier: MIT */
/*
 * Names of a run's memory, its members and its tasks, in words: for the listing and the race check.
 * What no buffer of a member has is of its nets: activations.
 */
#pragma once

#include "impl/step/step_private.h"

#include <stdio.h>

typedef struct ls_names ls_names;

ls_status ls_names_open(const ls_stepped *run, ls_names **out);

/** Takes NULL. */
void ls_names_close(ls_names *names);

/** Names these accesses [count] of a task, those that read or those that write; "-": none. */
ls_status ls_names_accesses(const ls_names *names, const ls_step *step, const ls_task *task,
                            const ls_access *accesses, size_t count, bool writes, FILE *out);

/** "backward, elements 0 to 1289" */
void ls_names_task(const ls_step *step, const ls_task *task, FILE *out);

/** A node of a place's part, as the whole model, which is divided, names it; "": it has none. */
const char *ls_names_node(const ls_stepped *run, int place, int node, char text[LS_NODE_NAME]);

/** "cpu:0 compute" */
void ls_names_lane(const ls_stepped *run, int lane, FILE *out);
