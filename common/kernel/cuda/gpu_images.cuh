/* SPDX-License-Identifier: MIT */
/* Shared by the kernels of images: the position of an element, and moves of four channels. */
#pragma once

#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"

/* Threads of a block, in a kernel with a thread for each channel or for a few numbers. */
enum { LS_GPU_CHANNEL_THREADS = 64 };

/* An element of an image: row, pixel, channel. */
struct ls_gpu_position {
    int64_t row, y, x, channel;
};

/* The position of element `at * WIDE` in images [rows, height, width, channels]. */
template <int WIDE>
__device__ static inline ls_gpu_position ls_gpu_position_of(int64_t at, int64_t height,
                                                            int64_t width, int64_t channels)
{
    const int64_t packs = channels / WIDE, pixel = ls_gpu_divide(at, packs);
    const int64_t line = ls_gpu_divide(pixel, width), row = ls_gpu_divide(line, height);
    return ls_gpu_position{row, line - row * height, pixel - line * width,
                           (at - pixel * packs) * WIDE};
}

/* Whether all of it can be moved four channels at a time. */
static inline bool ls_gpu_moves_fours(int64_t channels, const void *a, const void *b)
{
    return channels % 4 == 0 && ls_gpu_takes_fours(a) && ls_gpu_takes_fours(b);
}

/* Neighbouring channels of a pixel: a thread's. */
typedef ls_gpu_pack<float, 4> ls_gpu_four;

/* `left` of four channels, and 0 for the missing ones. FOURS: all, in one access. */
template <bool FOURS>
__device__ static inline ls_gpu_four ls_gpu_load_four(const float *x, int left)
{
    if (FOURS)
        return *(const ls_gpu_four *)x;
    ls_gpu_four value = {};
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (j < left)
            value.element[j] = x[j];
    return value;
}

template <bool FOURS>
__device__ static inline void ls_gpu_store_four(float *y, const ls_gpu_four &value, int left)
{
    if (FOURS)
        *(ls_gpu_four *)y = value;
    else
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (j < left)
                y[j] = value.element[j];
}
