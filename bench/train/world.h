/* SPDX-License-Identifier: MIT */
/*
 * World: the processes of a command, which take every decision together: each calls these at the
 * same places. `comm` is ls_processes.comm, or NULL for a process alone, where they do nothing.
 */
#pragma once

#include "common/comm/processes.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/** All get the same: success where all have it, else the failure of the rank that failed by itself,
 *  with its name where it is not everybody's. Takes over `mine`. */
ls_status ls_world_agree(ls_comm *comm, ls_status mine);

/** The same, and: all get rank 0's number, and whether any wants to stop. */
ls_status ls_world_turn(ls_comm *comm, ls_status mine, uint64_t *number, bool *stop);

/** LS_CODE_USAGE for all where one rank's value is not rank 0's: names that rank, `what` it is, and
 *  both texts where there are some. */
ls_status ls_world_same(ls_comm *comm, const char *what, uint64_t value, const char *text);

/** The first rank whose value is not rank 0's; -1: none. */
ls_status ls_world_differs(ls_comm *comm, uint64_t value, int *rank);

/** Texts of all ranks, for rank 0 to use: texts[r] is owned by the caller; the others get none.
 *  `ready`, taken over, is whether this rank has its text: where one has not, all fail. */
ls_status ls_world_gather(ls_comm *comm, ls_status ready, const char *mine, char **texts);

/** The same of values: a new array of all ranks', on rank 0; an empty one on others. `mine` NULL:
 *  this rank has none, so all fail. */
ls_status ls_world_gather_json(ls_comm *comm, const json_t *mine, json_t **out);
