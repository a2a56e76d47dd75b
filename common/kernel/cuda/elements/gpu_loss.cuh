/* SPDX-License-Identifier: MIT */
/* Sums of losses: parts (one per row, or per block) are written to memory; the last block to finish
 * adds them, in double and in a fixed order. */
#pragma once

#include "common/kernel/cuda/gpu_shares.cuh"
#include "common/kernel/element_inline.h"

/* The largest of a row's logits, in all of its LANES (1 to 32, a power of 2) neighbouring threads;
 * all lanes of the warp call it. */
template <int LANES>
__device__ static inline float largest_logit(const float *z, int64_t classes, int lane)
{
    float largest = -INFINITY;
#pragma unroll 8
    for (int64_t c = lane; c < classes; c += LANES)
        largest = z[c] > largest ? z[c] : largest;
#pragma unroll
    for (int half = LANES / 2; half; half /= 2) {
        const float other = ls_gpu_exchange(largest, half);
        largest = other > largest ? other : largest;
    }
    return largest;
}

/* All threads, THREADS a block at most, call it once their parts are written: the last block to
 * finish computes *loss = scale * sum of `count` parts, in an order that depends on up to 256
 * threads: later threads add nothing. */
template <int THREADS = LS_GPU_THREADS>
__device__ static void finish_loss(ls_gpu_parts parts, int64_t count, double scale, double *loss)
{
    __shared__ double space[THREADS];
    if (!ls_gpu_comes_last(parts.arrived, gridDim.x))
        return;
    const unsigned most = LS_GPU_THREADS, adding = blockDim.x < most ? blockDim.x : most;
    double sum = 0;
#pragma unroll 8
    for (int64_t i = threadIdx.x < adding ? threadIdx.x : count; i < count; i += adding)
        sum += ls_gpu_fetch(&parts.values[i]);
    sum = ls_gpu_block_sum(sum, space);
    if (threadIdx.x == 0)
        *loss = scale * sum;
}
