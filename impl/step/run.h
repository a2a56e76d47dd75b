/* SPDX-License-Identifier: MIT */
/* Runs of steps (ls_stepped): the operations of ls_run_kind. */
#pragma once

#include "impl/replicas.h"

#include <stdio.h>

extern const ls_run_kind ls_run_of_steps; /**< run_facts.c */

/** Entries of ls_run_of_steps. */
ls_status ls_stepped_step(ls_run *run, bool tail, uint64_t times);
ls_status ls_stepped_sync(ls_run *run);
ls_status ls_stepped_mark(ls_run *run);
ls_status ls_stepped_profile(ls_run *run, uint64_t steps);
void ls_stepped_close(ls_run *run);
ls_status ls_stepped_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns);
ls_status ls_stepped_parts(const ls_run *run, size_t devices, uint64_t mark_ns, uint64_t end_ns,
                           ls_time_profile *out);

/** Prints this process's part of the full batch's step and the tail's: a line for each task. */
ls_status ls_stepped_list(const ls_run *run, FILE *out);
/** The race check: in this process's part of two consecutive steps, conflicting tasks are ordered,
 * and no operation is twice in a step. LS_CODE_CHECK names the tasks and the memory. */
ls_status ls_stepped_check(const ls_run *run);
