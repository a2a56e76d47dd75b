/* SPDX-License-Identifier: MIT */
/* World: the processes of a command, which make every decision together, so all call its functions
 * at the same points. `comm` is ls_processes.comm, or NULL for a single process, for which they do
 * nothing. */
#pragma once

#include "common/comm/processes.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/** Returns the same status on all ranks: success if all succeeded, otherwise the failure of a rank
 * that follows from no other, with the rank's name unless all have it. Takes ownership of
 * `own_status`. */
ls_status ls_world_agree(ls_comm *comm, ls_status own_status);

/** As above; besides, all get rank 0's *number, and *stop if any rank sets it. Each may be NULL. */
ls_status ls_world_turn(ls_comm *comm, ls_status own_status, uint64_t *number, bool *stop);

/** LS_CODE_USAGE on all ranks if `value` of one differs from rank 0's; names the rank, `what` it
 * is, and both texts, if any. */
ls_status ls_world_same(ls_comm *comm, const char *what, uint64_t value, const char *text);

/** Finds the first rank whose value differs from rank 0's; -1 if there is none. */
ls_status ls_world_differs(ls_comm *comm, uint64_t value, int *rank);

/** As ls_comm_gather, for values: a new array of all ranks', on rank 0; an empty one on others.
 * `value` is NULL if this rank does not have one; then all fail. */
ls_status ls_world_gather_json(ls_comm *comm, const json_t *value, json_t **out);
