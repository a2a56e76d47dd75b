/* SPDX-License-Identifier: MIT */
/*
 * Oracle: a strategy's fast mode, replayed in sequence on one device. It computes every replica's
 * slice separately, sums the gradients on the host in the strategy's documented order, and updates.
 * So a strategy that sums in that order gives the same bits, and one that loses a slice, a wait or
 * a scale does not.
 *
 * Where replicas update alone (ls_strategy_alone), each has a separate state: parameters, optimizer
 * state, averages, position. A step is each replica's slice and update by
 * itself; then, in each step or the last one of a period (ls_job_update.period), all parameters
 * become their mean, summed in the strategy's order; or a replica's parameters become the mean of
 * itself and its peers (ls_strategy_average.peers), in the order of their numbers. Or what they
 * exchange is the strategy's own (ls_strategy_witness.exchange). Only the gate runs an oracle.
 */
#pragma once

#include "impl/strategy.h"

/**
 * Opens the oracle of `strategy` with the job `of`; runs on job->devices[0]. Borrows both. It is a
 * run like any other, but its steps wait until they are done, and it records the latest step only.
 * gather_replica gives any replica of all processes.
 */
ls_status ls_oracle_open(const ls_strategy *strategy, const ls_job *of, const ls_job *job,
                         ls_run **out);

/** For sums whose order only a library knows: from here on a step updates by this gradient, float32
 * [elements], weight decay included; or replicas that update alone take it for the mean of their
 * parameters. NULL means by its own sum, in the strategy's order. Borrowed until the step is done.
 */
void ls_oracle_give(ls_run *run, const float *sum);

/** From here on a step updates by the sum of the slices' gradients in float64. */
void ls_oracle_widely(ls_run *run);

/** If a gradient, or a mean, was given: the oracle's own of the latest step in float64 (a gradient
 * with weight decay), rounded to float32 [elements], on the host. */
const float *ls_oracle_wide_sum(const ls_run *run);

/** Gradient of the latest step, all replicas added up, float32 [elements] on the host. */
const float *ls_oracle_gradient(const ls_run *run);
