/* SPDX-License-Identifier: MIT */
/*
 * Reference: what `single` computes in a configuration, step by step. Computed once, and kept for
 * all cases of the command that are compared with it, within a limit of memory.
 */
#pragma once

#include "bench/train/session.h"

typedef struct ls_reference ls_reference;

/** The case with `single` as its strategy, on its first device, without faults on purpose; options
 * that `single` does not have get their defaults. Cases of one configuration have the same
 * reference. */
ls_case ls_reference_case(const ls_case *one);

/** The reference of a plan for `steps` steps from job.start on: one that is known already, or a new
 * one. Borrowed from the workplace. */
ls_status ls_reference_get(ls_workplace *workplace, const ls_plan_of_case *plan, uint64_t steps,
                           ls_reference **out);

/**
 * Parameters [elements] and loss after `step`. Steps must be requested in order; values are valid
 * until the next call. If no step has an epoch's smaller last batch, any later step is one with it,
 * from the initial parameters.
 */
ls_status ls_reference_step(ls_reference *reference, uint64_t step, const float **values,
                            double *loss);

/** The most bytes that all trajectories of a command take: a part of the memory limit. */
size_t ls_reference_most(const ls_workplace *workplace);

/** Bytes of the parameters of `steps` steps, if they are kept; else of one step's. */
size_t ls_reference_bytes(const ls_workplace *workplace, size_t elements, uint64_t steps);

/** The gradient of the first step [elements], once that has been asked for. */
const float *ls_reference_gradient(const ls_reference *reference);

/** As above, for the whole batch in one piece, and its loss; exact mode computes a step for
 * this. */
const float *ls_reference_whole(const ls_reference *reference, double *loss);

/** Number of samples of the test set that are compared: 256, or 16 windows of tokens, and at least
 * a batch, so that all replicas evaluate some. */
uint64_t ls_reference_tested(const ls_plan_of_case *plan);

/** The evaluation after the last requested step; exists if ls_plan_tests is true and at least one
 * step was requested. */
const ls_evaluation *ls_reference_evaluation(const ls_reference *reference);

/** Hashes of the variables' elements, [variables], of an array of the state besides parameters
 * after the last requested step; NULL if the job has no such array. */
const uint64_t *ls_reference_state(const ls_reference *reference, ls_values array);

/** Such a hash; 0 if a value is not finite: where both sides have one, they count as equal. */
uint64_t ls_reference_hash(const float *values, size_t count);

/** Call after the last step: frees what is not kept. */
void ls_reference_done(ls_workplace *workplace, ls_reference *reference);

/** Frees all references. */
void ls_references_close(ls_workplace *workplace);
