/* SPDX-License-Identifier: MIT */
/* What exact mode costs: the same case in fast mode, timed in turns with it. */
#ifndef LS_BENCH_TRAIN_EXACT_COST_H
#define LS_BENCH_TRAIN_EXACT_COST_H

#include "bench/train/trial.h"

/**
 * Median step of an exact case over that of the same case in fast mode, five blocks each in turns.
 * Trains the trial on: after everything of it has been kept.
 */
ls_status ls_exact_cost(ls_workplace *place, ls_trial *trial, double *out);

#endif
