/* SPDX-License-Identifier: MIT */
/* What the LSTM kernels of many states and of few share. Not yet run on a GPU. */
#pragma once

#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"

/* The recurrence of this block, and the block's number among those that it has. The shape, which is
 * one for both, stays where arguments are, and takes no registers. */
__device__ static inline ls_gpu_lstm ls_gpu_lstm_of_block(const ls_gpu_lstms &all)
{
    ls_gpu_lstm lstm = blockIdx.x < all.blocks ? all.of[0] : all.of[1];
    lstm.shape = all.of[0].shape;
    return lstm;
}

__device__ static inline int64_t ls_gpu_lstm_block(const ls_gpu_lstms &all)
{
    return blockIdx.x < all.blocks ? blockIdx.x : blockIdx.x - all.blocks;
}

/* Where a step's state goes: into the next one, and out. */
__device__ static inline void ls_gpu_lstm_leave(const ls_gpu_lstm &l, int64_t row, int64_t t,
                                                int64_t j, float h)
{
    const int64_t H = l.shape.hidden, T = l.shape.steps, at = row * T + t;
    if (t == 0)
        l.previous[at * H + j] = 0;
    if (t + 1 < T)
        l.previous[(at + 1) * H + j] = h;
    if (!l.shape.last)
        l.y[at * H + j] = h;
    else if (t + 1 == T)
        l.y[row * H + j] = h;
}
