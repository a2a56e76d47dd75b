/* SPDX-License-Identifier: MIT */
/*
 * How blocks share work where one launch does that of many: tables of ranges, of which each block
 * has a part of one; and which block comes last, to add up what all have left. Not yet run on a
 * GPU.
 */
#ifndef LS_COMMON_KERNEL_CUDA_GPU_SHARES_CUH
#define LS_COMMON_KERNEL_CUDA_GPU_SHARES_CUH

#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"

/* Sets *place, in shared memory, to the range that this block has a part of; known to all behind a
 * barrier. */
__device__ static inline void ls_gpu_find_range(const ls_gpu_ranges &ranges, int64_t *place)
{
    if (!ranges.at && threadIdx.x == 0)
        *place = 0;
    for (int64_t i = threadIdx.x; ranges.at && i < ranges.count; i += blockDim.x) {
        const int64_t end = i + 1 < ranges.count ? ranges.at[i + 1].block : ranges.blocks;
        if (ranges.at[i].block <= blockIdx.x && blockIdx.x < end)
            *place = i;
    }
}

/* A thread's part of its range: its first item of a loop, and the distance to its next. */
struct ls_gpu_share {
    ls_update_range range;
    int64_t first, stride;
};

__device__ static inline ls_gpu_share ls_gpu_share_of(const ls_gpu_ranges &ranges, int64_t place)
{
    if (!ranges.at)
        return ls_gpu_share{ranges.one, ls_gpu_first(), ls_gpu_stride()};
    const ls_gpu_range &at = ranges.at[place];
    const int64_t end = place + 1 < ranges.count ? ranges.at[place + 1].block : ranges.blocks;
    return ls_gpu_share{at.range, (blockIdx.x - at.block) * blockDim.x + threadIdx.x,
                        (end - at.block) * blockDim.x};
}

/* To be called by all threads once they have left what others are to see: whether their block is
 * the last of `blocks` that count in *arrived, which is 0 before and after. */
__device__ static inline bool ls_gpu_comes_last(unsigned *arrived, unsigned blocks)
{
    __shared__ bool last;
    __threadfence(); /* what was left is there before its block is counted */
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1u) == blocks - 1;
        if (last)
            *arrived = 0;
    }
    __syncthreads();
    if (last)
        __threadfence();
    return last;
}

#endif
