/* SPDX-License-Identifier: MIT */
/* What the files of durations share. */
#pragma once

#include "bench/predict/durations.h"
#include "bench/predict/virtual.h"

/** NULL: there is none. */
ls_duration *ls_durations_find(const ls_durations *durations, const char *name, double flops,
                               double bytes);

/** Appends one, which must be new. */
ls_status ls_durations_add(ls_durations *durations, const char *name, double flops, double bytes,
                           double ns);

/** Of timed exchanges: the lower quartile, and the share of those that took more than twice as
 * long. Sorts `times`. */
void ls_durations_take_exchanges(double *times, size_t count, double *ns, double *late);

/** Whether the operation has a duration: it is neither an exchange nor a delay on purpose. */
bool ls_duration_is_timed(const ls_op *op);
