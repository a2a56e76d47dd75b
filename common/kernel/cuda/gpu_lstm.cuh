/* SPDX-License-Identifier: MIT */
/* What the LSTM kernels of many states and of few share. Not yet run on a GPU. */
#ifndef LS_COMMON_KERNEL_CUDA_GPU_LSTM_CUH
#define LS_COMMON_KERNEL_CUDA_GPU_LSTM_CUH

#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"

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

#endif
