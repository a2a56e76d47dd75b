/* SPDX-License-Identifier: MIT */
/*
 * Replay of a strategy whose replicas update alone (ls_strategy_alone), in sequence on one device.
 * Each replica has a separate state: parameters, optimizer state, averages, position. A step is
 * each replica's slice and update by itself; then, in each step or the last one of a period
 * (ls_job_update.period), all parameters become their mean, summed in the strategy's order; or a
 * replica's parameters become the mean of itself and its peers (ls_strategy_average.peers), in the
 * order of their numbers. Or what they exchange is the strategy's own
 * (ls_strategy_witness.exchange). So a strategy that does this has the same bits in each replica.
 * Only the gate runs it.
 */
#pragma once

#include "impl/strategy.h"

/** Opens the replay of `strategy` with the job `of`; runs on job->devices[0]. Borrows both. A run
 * like any other, whose steps wait until they are done and which records the latest step only.
 * gather_replica gives any replica of all processes. */
ls_status ls_replay_open(const ls_strategy *strategy, const ls_job *of, const ls_job *job,
                         ls_run **out);

/** The mean of the replicas' parameters as a wire of fewer bits carries it, by plain loops: sets
 * mean[replayed->due]. */
void ls_replay_wired_mean(const ls_replayed *replayed, float *mean);

/** From here on, where only a library knows the order of the sum, replicas take `mean`, float32
 * [elements], for the mean of their parameters. NULL if they sum. Borrowed until the step is
 * done. */
void ls_replay_give(ls_run *run, const float *mean);

/** If a mean was given: the latest one, summed in float64 and rounded to float32 [elements]. */
const float *ls_replay_wide_mean(const ls_run *run);
