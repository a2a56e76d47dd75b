/* SPDX-License-Identifier: MIT */
/*
 * Names of a run's memory, members and tasks, for the listing and the race check. Memory outside
 * the named buffers belongs to nets: activations.
 */
#pragma once

#include "impl/step/step_private.h"

#include <stdio.h>

typedef struct ls_names ls_names;

ls_status ls_names_open(const ls_stepped *run, ls_names **out);

void ls_names_close(ls_names *names);

/** Writes the names of the memory that accesses [count] of a task read, or write; "-" if none. */
ls_status ls_names_accesses(const ls_names *names, const ls_step *step, const ls_task *task,
                            const ls_access *accesses, size_t count, bool writes, FILE *out);

/** Writes "backward, elements 0 to 1289"; of a copy or message also how much goes where: "send, 12
 * bytes to cpu:1", to another process "to rank 1 device 0". */
void ls_names_task(const ls_step *step, const ls_task *task, FILE *out);

/** Name, in the whole model, of a node of a place's part; "": it has none there. */
const char *ls_names_node(const ls_stepped *run, int place, int node, char text[LS_NODE_NAME]);

/** Writes "cpu:0 compute". */
void ls_names_lane(const ls_stepped *run, int lane, FILE *out);
