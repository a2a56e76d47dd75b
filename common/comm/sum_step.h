/* SPDX-License-Identifier: MIT */
/* A step of a sum on a device: what comm_sums.h enqueues and gpu_sums.h launches. */
#pragma once

/** to = a + b; b NULL means to = a. All are [count] of the operation, and the same or apart.
 */
typedef struct ls_sum_step {
    float *to;
    const float *a, *b;
} ls_sum_step;
