/* SPDX-License-Identifier: MIT */
/* Resume: leaves out cases that have a row. */
#ifndef LS_BENCH_COMMANDS_RESUME_H
#define LS_BENCH_COMMANDS_RESUME_H

#include "bench/case/case.h"

/**
 * Leaves out as many repeats of each case as request.results has ok rows of the same case (all that
 * a row's group `case` says; with a budget, all but the steps), commit and machine: host,
 * processor, cores, memory limit, GPU. Says on stderr how many. May leave none. All processes
 * together; rank 0's file counts.
 */
ls_status ls_resume(ls_request *request);

#endif
