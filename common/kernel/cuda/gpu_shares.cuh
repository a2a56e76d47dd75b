/* SPDX-License-Identifier: MIT */
/*
 * How blocks share a launch that does several things: a table says which blocks have which item,
 * and each block does a part of its item; the last block to end may add up what all have left.
 */
#pragma once

#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"

/* Item i of a table and this block: the first block behind its own. */
template <typename Item>
__device__ static inline int64_t ls_gpu_block_end(const Item *at, int64_t count, int64_t blocks,
                                                  int64_t i)
{
    return i + 1 < count ? at[i + 1].block : blocks;
}

/* Sets *item, in shared memory, to the item that this block has a part of, of a table for `blocks`
 * in all; known to all threads behind a barrier. */
template <typename Item>
__device__ static inline void ls_gpu_find(const Item *at, int64_t count, int64_t blocks,
                                          int64_t *item)
{
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
        if (at[i].block <= blockIdx.x && blockIdx.x < ls_gpu_block_end(at, count, blocks, i))
            *item = i;
}

/* A thread's part of an item: its first element of a loop, and the distance to its next. */
struct ls_gpu_share {
    int64_t first, stride;
};

template <typename Item>
__device__ static inline ls_gpu_share ls_gpu_share_of(const Item *at, int64_t count, int64_t blocks,
                                                      int64_t item)
{
    const int64_t begin = at[item].block, end = ls_gpu_block_end(at, count, blocks, item);
    return ls_gpu_share{(blockIdx.x - begin) * blockDim.x + threadIdx.x,
                        (end - begin) * blockDim.x};
}

/* As above, for ranges; a single range needs no table. */
__device__ static inline void ls_gpu_find_range(const ls_gpu_ranges &ranges, int64_t *item)
{
    if (ranges.at)
        ls_gpu_find(ranges.at, ranges.count, ranges.blocks, item);
}

__device__ static inline ls_update_range ls_gpu_range_at(const ls_gpu_ranges &ranges, int64_t item)
{
    return ranges.at ? ranges.at[item].range : ranges.one;
}

__device__ static inline ls_gpu_share ls_gpu_range_share(const ls_gpu_ranges &ranges, int64_t item)
{
    return ranges.at ? ls_gpu_share_of(ranges.at, ranges.count, ranges.blocks, item)
                     : ls_gpu_share{ls_gpu_first(), ls_gpu_stride()};
}

/* Called by all threads after they wrote what other blocks are to see: whether their block is the
 * last of `blocks` that count in *arrived, which is 0 before and after. */
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
