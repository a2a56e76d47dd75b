/* SPDX-License-Identifier: MIT */
/* Runs of steps (ls_stepped): the entries of ls_run_kind (strategy.h) that are not in run.c. */
#pragma once

#include "impl/replicas.h"

#include <stdio.h>

ls_status ls_stepped_load(ls_run *run, const float *parameters);
ls_status ls_stepped_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns);
ls_status ls_stepped_gather(ls_run *run, float *parameters);
ls_status ls_stepped_gather_replica(ls_run *run, int index, float *parameters);
ls_status ls_stepped_records_replica(ls_run *run, int index, uint64_t first, uint64_t count,
                                     ls_step_record *out);
ls_program_info ls_stepped_describe_replica(const ls_run *run, int index);
ls_status ls_stepped_evaluate(ls_run *run, uint64_t most, ls_evaluation *out);
void ls_stepped_describe(const ls_run *run, ls_run_info *out);
void ls_stepped_each(const ls_run *run, ls_op_visit visit, void *context);
ls_time_profile ls_stepped_times(const ls_run *run, size_t index);
ls_status ls_stepped_parts(const ls_run *run, size_t devices, uint64_t mark_ns, uint64_t end_ns,
                           ls_time_profile *out);
ls_memory_formula ls_stepped_memory(const ls_run *run, size_t index);
ls_status ls_stepped_traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula);
ls_status ls_stepped_keep(ls_run *run, struct ls_carried *carried);
ls_status ls_stepped_gradient(ls_run *run, float *gradient);
/** Prints this process's part of the steps, of a full batch and of an epoch's last one: a line for
 * each task. */
ls_status ls_stepped_list(const ls_run *run, FILE *out);
/** The race check: in this process's part of any two steps in a row, tasks that conflict over
 * memory are ordered, and no operation is twice in a step. LS_CODE_CHECK names the tasks and the
 * memory. */
ls_status ls_stepped_check(const ls_run *run);
