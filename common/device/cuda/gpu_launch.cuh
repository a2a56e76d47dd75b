/* SPDX-License-Identifier: MIT */
/*
 * What the kernels share: launching, the position of a thread in a grid-stride loop, packs of
 * elements that one thread moves at once, and sums over a block.
 */
#pragma once

#include "common/device/cuda/gpu_device.cuh"

#include <stdint.h>

/* Default threads per block, and the most blocks of a grid-stride loop: enough to fill any GPU, and
 * the same on all. */
enum { LS_GPU_THREADS = 256 };
static const int64_t LS_GPU_BLOCKS = 4096;

/* Blocks of a grid-stride loop over `items`; at least one. */
static inline unsigned ls_gpu_blocks(int64_t items, int64_t items_of_block)
{
    const int64_t blocks = items / items_of_block + (items % items_of_block != 0);
    return (unsigned)(blocks < 1 ? 1 : blocks > LS_GPU_BLOCKS ? LS_GPU_BLOCKS : blocks);
}

/* A grid-stride loop of `threads` over `items`; without items nothing is launched. */
template <typename... Parameters, typename... Arguments>
static int ls_gpu_launch_over(void *stream, int64_t items, unsigned threads,
                              void (*kernel)(Parameters...), Arguments... arguments)
{
    return items
               ? ls_gpu_launch(stream, ls_gpu_blocks(items, threads), threads, kernel, arguments...)
               : 0;
}

/* Loads kernels; the first failure, or 0 if there is none. */
template <typename... Kernels> static int ls_gpu_load(Kernels... kernels)
{
    int error = 0;
    ((error = error ? error : ls_gpu_load_kernel(kernels)), ...);
    return error;
}

/* Loads kernels that are launched with so many bytes of shared memory. */
template <typename... Kernels> static int ls_gpu_load_with(size_t bytes, Kernels... kernels)
{
    int error = ls_gpu_load(kernels...);
    ((error = error ? error : ls_gpu_allow_shared(kernels, bytes)), ...);
    return error;
}

/* This thread's first item of a grid-stride loop, and the distance to its next. */
__device__ static inline int64_t ls_gpu_first()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ static inline int64_t ls_gpu_stride()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* N elements of type T that one access moves. */
template <typename T, int N> struct alignas(sizeof(T) * N) ls_gpu_pack {
    T element[N];
};

/* n / d, by 32-bit division if possible, at a fifth of the cost. */
__device__ static inline int64_t ls_gpu_divide(int64_t n, int64_t d)
{
    if (((uint64_t)n | (uint64_t)d) >> 32)
        return n / d;
    return (int64_t)((uint32_t)n / (uint32_t)d);
}

/* Sum over the block, in thread 0, added by halves; `space` has an element for each thread, a power
 * of two of them. */
template <typename T> __device__ static inline T ls_gpu_block_sum(T value, T *space)
{
    const unsigned thread = threadIdx.x;
    space[thread] = value;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        if (thread < half)
            space[thread] += space[thread + half];
        __syncthreads();
    }
    return space[0];
}
