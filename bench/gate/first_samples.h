/* SPDX-License-Identifier: MIT */
/*
 * The first samples of the first batch as a separate data set, for comparisons of gradients.
 *
 * Devices flush what is below the smallest normal number, 2^-126, and each kernel flushes at other
 * points: inside a fused sum, or not. For samples so small that products vanish, two correct
 * kernels make gradients, and signs at a ReLU, that differ by any amount. So a comparison that
 * exceeds its bound is repeated with such samples *lifted*: multiplied by a power of two. That
 * shows the same kernels at work where arithmetic can tell. What vanishes for other reasons, such
 * as the gradient of a loss near 0, is allowed for by the number of products (ls_model_distance).
 */
#pragma once

#include "bench/train/session.h"

typedef struct ls_first_samples {
    ls_data data;
    float *initial; /**< [elements] of the plan; lifted, in separate memory */
    bool lifted;    /**< some samples or variables were lifted */
} ls_first_samples;

/**
 * Copies `count` samples. `lift`: multiplies each sample, or target, whose largest magnitude is
 * below 2^-100 and not 0 by the power of two that brings it to 1/2 or more; and scales each
 * variable of the initial values in the same way. 2^-100: gradients divided by the batch, which
 * products are made with, are often below 2^-20. Close also on failure.
 */
ls_status ls_first_samples_open(const ls_plan_of_case *plan, size_t count, bool lift,
                                ls_first_samples *out);
void ls_first_samples_close(ls_first_samples *samples);

/** The plan, to train on the samples in their order: one batch. Borrows both. */
ls_plan_of_case ls_first_samples_plan(const ls_plan_of_case *plan, const ls_first_samples *samples);

/** Opens the oracle of the plan's strategy: a ls_session_opener. */
ls_status ls_gate_open_oracle(const ls_plan_of_case *plan, const ls_job *job, ls_run **out);

/** The first gradient [elements] and loss of the whole batch in one piece, by `single`. */
ls_status ls_gate_whole(const ls_workplace *workplace, const ls_plan_of_case *plan, float *gradient,
                        double *loss);

/** If samples or variables can be lifted, or were rounded to bfloat16: how far their first
 * gradient, in float32, summed over slices (shards, in exact mode), is from the gradient of the
 * whole batch in one piece, with what may have been flushed allowed for. Otherwise *rel stays. */
ls_status ls_gate_first_again(const ls_workplace *workplace, const ls_plan_of_case *plan,
                              double *rel);

/** How many values of a pass with `rows` samples may have been flushed: its products, forward and
 * backward. */
double ls_gate_products(const ls_plan_of_case *plan, int64_t rows);
