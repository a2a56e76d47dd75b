/* SPDX-License-Identifier: MIT */
/* `run --print-step`: the tasks of a case's step, instead of its training. */
#ifndef LS_BENCH_COMMANDS_PRINT_STEP_H
#define LS_BENCH_COMMANDS_PRINT_STEP_H

#include "bench/train/trial.h"

/** Opens the case, prints what each of its processes does in a step, in order of ranks, to standard
 *  output, and closes it. By all processes of the case. */
ls_status ls_print_step(const ls_workplace *place, const ls_plan_of_case *plan);

#endif
