/* SPDX-License-Identifier: MIT */
/*
 * Oracle: a replicated strategy's fast mode, replayed in sequence on one device. It computes every
 * replica's slice by itself, adds the gradients up on the host in the strategy's documented order,
 * and updates: so a strategy that sums as it says gives the same bits, and one that loses a slice,
 * a wait or a scale does not. Only the gate runs it.
 */
#ifndef LS_IMPL_ORACLE_H
#define LS_IMPL_ORACLE_H

#include "impl/strategy.h"

/**
 * Opens the oracle of `strategy` for a job of `replicas` replicas; it runs on job->devices[0].
 * A run like any other, but that its steps wait.
 */
ls_status ls_oracle_open(const ls_strategy *strategy, const ls_job *job, int replicas,
                         ls_run **out);

/** Gradient of the latest step, all replicas added up, float32 [elements] on the host. */
const float *ls_oracle_gradient(const ls_run *run);

#endif
