/* SPDX-License-Identifier: MIT */
/* Loads: the all-reduces of a job's step, and their halves, as a network sees them: by which
 * members, and of how many elements (common/comm/comm_network.h). Made from the job alone, before
 * an algorithm is chosen. Leaves out small ones: gradients' norms, and what a loss gathers. */
#pragma once

#include "common/comm/comm_network.h"
#include "impl/step/plan/plan.h"
#include "impl/strategy.h"

typedef struct ls_loads {
    ls_sum_load *items; /**< [count] */
    size_t count;
    ls_layout own_layout; /**< of the items, where it is not the job's */
    int *hosts;           /**< of own_layout */
} ls_loads;

/** The loads of a full batch; none if nothing is summed, or in exact mode. Borrows the job's
 * layout. Close it also on failure. */
ls_status ls_loads_open(const ls_strategy *strategy, const ls_job *job, ls_loads *out);
void ls_loads_close(ls_loads *loads);

/** What the places of split layers do between the halves of node n's pass: an all-reduce, a half of
 * one (ls_half), or nothing (LS_NO_SUM). `whole`: the graph with all slices. */
int ls_loads_half(const ls_graph *whole, int n, bool backward);
