/* SPDX-License-Identifier: MIT */
/* The communicator's kernels, as C functions that launch them (cuda/gpu_sums.cu).
 * test_sums_emulated runs the same source on a CPU. */
#pragma once

#include "common/comm/sum_step.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Makes the driver load the kernels onto the current device. 0, or the cudaError_t. */
int ls_gpu_load_sums(void);

/** Does the steps in turn, each over [count] elements. 0, or the cudaError_t of a launch that was
 *  refused. Allocates nothing and waits for nothing, so it can be captured. */
int ls_gpu_sums(void *stream, const ls_sum_step *steps, size_t step_count, size_t count);

/** What ls_wire_loop does with numbers of bf16, without means: sets values [count] to the sum of
 * `ranks` blocks (if that is 0 they stay), then rounds them to `out`, if that is not NULL. */
int ls_gpu_wire(void *stream, const uint16_t *const *blocks, int ranks, size_t count, float *values,
                uint16_t *out);

/** Adds one to a word of pinned host memory. 0, or the cudaError_t of a launch that was refused. */
int ls_gpu_pulse(void *stream, unsigned *word);

#ifdef __cplusplus
}
#endif
