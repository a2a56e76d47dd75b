/* SPDX-License-Identifier: MIT */
/*
 * Oracle: a replicated strategy's fast mode, replayed in sequence on one device. It computes every
 * replica's slice separately, sums the gradients on the host in the strategy's documented order,
 * and updates. So a strategy that sums in that order gives the same bits, and one that loses a
 * slice, a wait or a scale does not. Only the gate runs it.
 */
#pragma once

#include "impl/replica/slice.h"
#include "impl/test_pass.h"

/**
 * Opens the oracle of `strategy` with the job `of`; runs on job->devices[0]. Borrows both. It is a
 * run like any other, but its steps wait until they are done.
 */
ls_status ls_oracle_open(const ls_strategy *strategy, const ls_job *of, const ls_job *job,
                         ls_run **out);

/** From here on a step updates by this gradient, float32 [elements], weight decay included: for
 * sums whose order only a library knows. NULL means by its own sum, in the strategy's order.
 * Borrowed until the step is done. */
void ls_oracle_give(ls_run *run, const float *gradient);

/** From here on a step updates by the sum of the slices' gradients in float64. */
void ls_oracle_widely(ls_run *run);

/** If a gradient was given: the oracle's own sum of the latest step in float64, weight decay
 * included, rounded to float32 [elements], on the host. */
const float *ls_oracle_wide_sum(const ls_run *run);

/** Gradient of the latest step, all replicas added up, float32 [elements] on the host. */
const float *ls_oracle_gradient(const ls_run *run);

/* ---- Places (oracle_places.c): of a replica whose places have parts of the positions
 * (graph_context.h), all on one device and one queue. Each node is computed place by place; what is
 * dealt to another place is copied. ---------------------------------------------------------- */

typedef struct ls_oracle_places ls_oracle_places;

/** Opens a replica for each of `places` places on job->devices[0]; all share the parameters of the
 * first, which updates. Borrows the job. */
ls_status ls_oracle_places_open(int places, const ls_job *job, ls_oracle_places **out);
void ls_oracle_places_close(ls_oracle_places *me); /**< takes NULL; after their slices */

/** The replica of place j. */
ls_replica *ls_oracle_place(const ls_oracle_places *me, int j);

/** Computes the gradients and losses of slices [places], of one piece each or empty. */
ls_status ls_oracle_places_run(ls_oracle_places *me, ls_slice *const *slices);

/** Runs a test pass of one tester, by the nets of the slices [places]. */
ls_status ls_oracle_places_evaluate(ls_oracle_places *me, ls_slice *const *slices,
                                    const ls_test_pass *pass, const ls_evaluating *how,
                                    ls_evaluation *out);
