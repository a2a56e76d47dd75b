/* SPDX-License-Identifier: MIT */
/*
 * Runs with parameter servers: the functions of a run that differ from other runs'
 * (ls_run_of_steps). Servers may serve requests as they arrive (serve.h); then steps end, and have
 * losses, in their own way.
 */
#pragma once

#include "impl/step/run/run.h"

/** As ls_steps_records, if servers serve requests as they arrive (records.c). */
ls_status ls_arrival_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns);
