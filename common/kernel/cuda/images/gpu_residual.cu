/* SPDX-License-Identifier: MIT */
/*
 * Kernels of residual networks other than batch normalisation: shortcuts, the mean of an image,
 * moving averages, sums of sums. Elements are computed as in the cpu table.
 */
#include "common/kernel/cuda/gpu_images.cuh"
#include "common/kernel/element_inline.h"

/* ---- Shortcuts, means, averages -------------------------------------------------------------- */

__device__ static inline int64_t shorter(int64_t side, int64_t stride)
{
    return ls_gpu_divide(side + stride - 1, stride);
}

template <int WIDE>
__global__ void __launch_bounds__(LS_GPU_THREADS)
    shortcut_kernel(ls_shortcut_shape s, const float *x, float *y, int64_t packs)
{
    typedef ls_gpu_pack<float, WIDE> pack;
    const int64_t height = shorter(s.in_height, s.stride), width = shorter(s.in_width, s.stride);
    for (int64_t i = ls_gpu_first(); i < packs; i += ls_gpu_stride()) {
        const ls_gpu_position to = ls_gpu_position_of<WIDE>(i, height, width, s.outputs);
        const int64_t from =
            (to.row * s.in_height + to.y * s.stride) * s.in_width + to.x * s.stride;
        pack value = {};
        if (to.channel < s.channels)
            value = *(const pack *)(x + from * s.channels + to.channel);
        ((pack *)y)[i] = value;
    }
}

/* A thread writes all pixels that are made one by the shortcut. */
template <int WIDE>
__global__ void __launch_bounds__(LS_GPU_THREADS)
    shortcut_back_kernel(ls_shortcut_shape s, const float *dy, float *dx, int64_t packs)
{
    typedef ls_gpu_pack<float, WIDE> pack;
    const int64_t height = shorter(s.in_height, s.stride), width = shorter(s.in_width, s.stride);
    for (int64_t i = ls_gpu_first(); i < packs; i += ls_gpu_stride()) {
        const ls_gpu_position from = ls_gpu_position_of<WIDE>(i, height, width, s.channels);
        const int64_t pixel = (from.row * height + from.y) * width + from.x;
        pack value = *(const pack *)(dy + pixel * s.outputs + from.channel);
        const int64_t top = from.y * s.stride, left = from.x * s.stride;
        for (int64_t y = top; y < top + s.stride && y < s.in_height; y++)
            for (int64_t x = left; x < left + s.stride && x < s.in_width; x++) {
                const int64_t to = (from.row * s.in_height + y) * s.in_width + x;
                *(pack *)(dx + to * s.channels + from.channel) = value;
                value = {};
            }
    }
}

static bool shortcut_moves_fours(const ls_shortcut_shape *s, const void *a, const void *b)
{
    return s->outputs % 4 == 0 && ls_gpu_moves_fours(s->channels, a, b);
}

int ls_gpu_shortcut_forward(void *stream, const ls_shortcut_forward_args *args)
{
    const ls_shortcut_shape *s = &args->shape;
    const int64_t height = (s->in_height + s->stride - 1) / s->stride;
    const int64_t width = (s->in_width + s->stride - 1) / s->stride;
    const bool fours = shortcut_moves_fours(s, args->x, args->y);
    const int64_t packs = s->rows * height * width * s->outputs / (fours ? 4 : 1);
    return ls_gpu_launch_over(stream, packs, LS_GPU_THREADS,
                              fours ? shortcut_kernel<4> : shortcut_kernel<1>, *s,
                              (const float *)args->x, (float *)args->y, packs);
}

int ls_gpu_shortcut_backward(void *stream, const ls_shortcut_backward_args *args)
{
    const ls_shortcut_shape *s = &args->shape;
    const int64_t height = (s->in_height + s->stride - 1) / s->stride;
    const int64_t width = (s->in_width + s->stride - 1) / s->stride;
    const bool fours = shortcut_moves_fours(s, args->dy, args->dx);
    const int64_t packs = s->rows * height * width * s->channels / (fours ? 4 : 1);
    return ls_gpu_launch_over(stream, packs, LS_GPU_THREADS,
                              fours ? shortcut_back_kernel<4> : shortcut_back_kernel<1>, *s,
                              (const float *)args->dy, (float *)args->dx, packs);
}

__global__ static void __launch_bounds__(LS_GPU_CHANNEL_THREADS)
    mean_pool_kernel(ls_mean_pool_forward_args args)
{
    const int64_t count = args.rows * args.channels;
    for (int64_t i = ls_gpu_first(); i < count; i += ls_gpu_stride()) {
        const int64_t row = ls_gpu_divide(i, args.channels), c = i - row * args.channels;
        const float *x = (const float *)args.x + row * args.pixels * args.channels + c;
        float sum = x[0];
#pragma unroll 8
        for (int64_t p = 1; p < args.pixels; p++)
            sum += x[p * args.channels];
        ((float *)args.y)[i] = sum / (float)args.pixels;
    }
}

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    mean_pool_back_kernel(ls_mean_pool_backward_args args)
{
    const int64_t image = args.pixels * args.channels, count = args.rows * image;
    for (int64_t i = ls_gpu_first(); i < count; i += ls_gpu_stride()) {
        const int64_t row = ls_gpu_divide(i, image);
        const int64_t c = i - ls_gpu_divide(i, args.channels) * args.channels;
        ((float *)args.dx)[i] =
            ((const float *)args.dy)[row * args.channels + c] / (float)args.pixels;
    }
}

int ls_gpu_mean_pool_forward(void *stream, const ls_mean_pool_forward_args *args)
{
    const int64_t count = args->rows * args->channels;
    return ls_gpu_launch_over(stream, count, LS_GPU_CHANNEL_THREADS, mean_pool_kernel, *args);
}

int ls_gpu_mean_pool_backward(void *stream, const ls_mean_pool_backward_args *args)
{
    const int64_t count = args->rows * args->pixels * args->channels;
    return ls_gpu_launch_over(stream, count, LS_GPU_THREADS, mean_pool_back_kernel, *args);
}

__global__ static void __launch_bounds__(LS_GPU_THREADS) average_kernel(ls_moving_average_args args)
{
    const float rate = (float)(1 - ls_moving_average_decay(&args));
    const float *value = (const float *)args.value;
    float *average = (float *)args.average;
    for (int64_t i = ls_gpu_first(); i < args.count; i += ls_gpu_stride())
        average[i] += rate * (value[i] - average[i]);
}

int ls_gpu_moving_average(void *stream, const ls_moving_average_args *args)
{
    return ls_gpu_launch_over(stream, args->count, LS_GPU_THREADS, average_kernel, *args);
}

__global__ static void __launch_bounds__(LS_GPU_CHANNEL_THREADS)
    add_sums_kernel(ls_add_sums_args args)
{
    for (int64_t i = ls_gpu_first(); i < args.count; i += ls_gpu_stride())
        args.out[i] = args.b ? args.a[i] + args.b[i] : args.a[i];
}

int ls_gpu_add_sums(void *stream, const ls_add_sums_args *args)
{
    return ls_gpu_launch_over(stream, args->count, LS_GPU_CHANNEL_THREADS, add_sums_kernel, *args);
}

int ls_gpu_load_residual(void)
{
    return ls_gpu_load(shortcut_kernel<4>, shortcut_kernel<1>, shortcut_back_kernel<4>,
                       shortcut_back_kernel<1>, mean_pool_kernel, mean_pool_back_kernel,
                       average_kernel, add_sums_kernel);
}
