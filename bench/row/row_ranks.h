/* SPDX-License-Identifier: MIT */
/* Rows of several ranks: each builds its own, of its devices; rank 0 makes one of them. */
#ifndef LS_BENCH_ROW_ROW_RANKS_H
#define LS_BENCH_ROW_ROW_RANKS_H

#include "common/comm/processes.h"

#include <jansson.h>

/**
 * All ranks call it. On rank 0 the row gets the other ranks' devices after its own, in the order of
 * ranks, and says which host and cores each rank has, and whether any cores are shared.
 */
ls_status ls_row_join(const ls_processes *processes, json_t *row);

#endif
