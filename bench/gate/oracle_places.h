/* SPDX-License-Identifier: MIT */
/*
 * The oracle's places: of a replica whose places have parts of the positions (graph_context.h), all
 * on one device and one queue. Each node is computed place by place; what is dealt to another place
 * is copied.
 */
#pragma once

#include "impl/replica/slice.h"
#include "impl/test_pass.h"

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
