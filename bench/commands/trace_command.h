/* SPDX-License-Identifier: MIT */
/* `lockstep trace`: some steps of a case as a file, in place of measuring it. */
#ifndef LS_BENCH_COMMANDS_TRACE_COMMAND_H
#define LS_BENCH_COMMANDS_TRACE_COMMAND_H

#include "bench/case/workplace.h"

/** Refuses more than one case, and a file that cannot be written: before any training. */
ls_status ls_trace_check(const ls_request *request, bool leads);

/** The case's warm-up, then --trace-steps steps as they go without a trace, then the same traced.
 * All ranks of the case call it; rank 0 writes --out. */
ls_status ls_trace_case(const ls_workplace *place, const ls_plan_of_case *plan);

#endif
