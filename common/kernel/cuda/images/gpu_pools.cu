/* SPDX-License-Identifier: MIT */
/*
 * Kernels of max pools and of local response normalisation, with the bits of the cpu table. Images
 * are channels-last, so neighbouring threads read neighbouring channels. The backward pool gathers:
 * the thread of an input element visits the windows that cover it, in order, so threads never add
 * to the same element, and every element is written.
 */
#include "common/kernel/cuda/gpu_images.cuh"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/element_inline.h"

/* ---- Max pool -------------------------------------------------------------------------------- */

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    pool_kernel(ls_max_pool_forward_args args, int64_t count)
{
    const ls_window &w = args.window;
    for (int64_t i = ls_gpu_first(); i < count; i += ls_gpu_stride()) {
        const ls_gpu_position out =
            ls_gpu_position_of<1>(i, w.out_height, w.out_width, args.channels);
        const float *image =
            (const float *)args.x + out.row * w.in_height * w.in_width * args.channels;
        const int64_t top = out.y * w.stride_y - w.top, left = out.x * w.stride_x - w.left;
        float largest = 0;
        int32_t at = -1;
        for (int64_t y = top < 0 ? 0 : top; y < top + w.height && y < w.in_height; y++)
            for (int64_t x = left < 0 ? 0 : left; x < left + w.width && x < w.in_width; x++) {
                const int64_t pixel = y * w.in_width + x;
                const float value = image[pixel * args.channels + out.channel];
                if (at < 0 || value > largest) {
                    largest = value;
                    at = (int32_t)pixel;
                }
            }
        ((float *)args.y)[i] = largest;
        args.argmax[i] = at;
    }
}

/* The first and last position on an axis whose window covers `at`. */
__device__ static inline void covering(int64_t at, int64_t size, int64_t stride, int64_t positions,
                                       int64_t *first, int64_t *last)
{
    *first = at < size ? 0 : ls_gpu_divide(at - size, stride) + 1;
    *last = ls_gpu_divide(at, stride);
    *last = *last < positions ? *last : positions - 1;
}

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    pool_back_kernel(ls_max_pool_backward_args args, int64_t count)
{
    const ls_window &w = args.window;
    const float *output = (const float *)args.relu_output;
    for (int64_t i = ls_gpu_first(); i < count; i += ls_gpu_stride()) {
        const ls_gpu_position in = ls_gpu_position_of<1>(i, w.in_height, w.in_width, args.channels);
        const int32_t pixel = (int32_t)(in.y * w.in_width + in.x);
        int64_t y[2], x[2];
        covering(in.y + w.top, w.height, w.stride_y, w.out_height, &y[0], &y[1]);
        covering(in.x + w.left, w.width, w.stride_x, w.out_width, &x[0], &x[1]);
        float sum = 0;
        for (int64_t oy = y[0]; oy <= y[1]; oy++)
            for (int64_t ox = x[0]; ox <= x[1]; ox++) {
                const int64_t from =
                    ((in.row * w.out_height + oy) * w.out_width + ox) * args.channels + in.channel;
                if (args.argmax[from] == pixel && (!output || output[from] > 0))
                    sum += ((const float *)args.dy)[from];
            }
        ((float *)args.dx)[i] = sum;
    }
}

int ls_gpu_max_pool_forward(void *stream, const ls_max_pool_forward_args *args)
{
    const ls_window *w = &args->window;
    const int64_t count = args->rows * w->out_height * w->out_width * args->channels;
    return ls_gpu_launch_over(stream, count, LS_GPU_THREADS, pool_kernel, *args, count);
}

int ls_gpu_max_pool_backward(void *stream, const ls_max_pool_backward_args *args)
{
    const ls_window *w = &args->window;
    const int64_t count = args->rows * w->in_height * w->in_width * args->channels;
    return ls_gpu_launch_over(stream, count, LS_GPU_THREADS, pool_back_kernel, *args, count);
}

/* ---- Local response normalisation ------------------------------------------------------------ */

/*
 * A block computes a run of elements, one per thread, and reads `radius` elements before and after
 * them (forward), or twice as many (backward, whose terms need their neighbours' sums).
 */
enum { LRN_HALO = LS_GPU_LRN_RADIUS_MOST, LRN_RUN = LS_GPU_THREADS };

/* 1 + alpha * the sum of the values within `radius` channels of channel c, which is *value. */
__device__ static inline float lrn_sum(const float *value, int64_t c, int64_t channels, int radius)
{
    const int before = c < radius ? (int)c : radius;
    const int behind = channels - 1 - c < radius ? (int)(channels - 1 - c) : radius;
    float sum = 0;
    for (int j = -before; j <= behind; j++)
        sum += value[j];
    return sum;
}

__global__ static void __launch_bounds__(LRN_RUN)
    lrn_kernel(ls_lrn_forward_args args, int radius, int64_t count)
{
    __shared__ float square[LRN_RUN + 2 * LRN_HALO];
    const float *x = (const float *)args.x, alpha = (float)args.alpha;
    for (int64_t first = (int64_t)blockIdx.x * LRN_RUN; first < count;
         first += (int64_t)gridDim.x * LRN_RUN) { /* equally many iterations in all threads */
        for (int t = (int)threadIdx.x; t < LRN_RUN + 2 * radius; t += LRN_RUN) {
            const int64_t i = first - radius + t;
            square[t] = i >= 0 && i < count ? x[i] * x[i] : 0;
        }
        __syncthreads();
        const int64_t i = first + threadIdx.x;
        if (i < count) {
            const int64_t c = i - ls_gpu_divide(i, args.channels) * args.channels;
            const float sum = lrn_sum(&square[radius + (int)threadIdx.x], c, args.channels, radius);
            ((float *)args.y)[i] = x[i] * ls_lrn_power(1.0f + alpha * sum);
        }
        __syncthreads();
    }
}

__global__ static void __launch_bounds__(LRN_RUN)
    lrn_back_kernel(ls_lrn_backward_args args, int radius, int64_t count)
{
    __shared__ float square[LRN_RUN + 4 * LRN_HALO], term[LRN_RUN + 2 * LRN_HALO];
    const float *x = (const float *)args.x, *dy = (const float *)args.dy;
    const float alpha = (float)args.alpha, factor = (float)(1.5 * args.alpha);
    for (int64_t first = (int64_t)blockIdx.x * LRN_RUN; first < count;
         first += (int64_t)gridDim.x * LRN_RUN) {
        for (int t = (int)threadIdx.x; t < LRN_RUN + 4 * radius; t += LRN_RUN) {
            const int64_t i = first - 2 * radius + t;
            square[t] = i >= 0 && i < count ? x[i] * x[i] : 0;
        }
        __syncthreads();
        for (int t = (int)threadIdx.x; t < LRN_RUN + 2 * radius; t += LRN_RUN) {
            const int64_t i = first - radius + t;
            term[t] = 0;
            if (i < 0 || i >= count)
                continue;
            const int64_t c = i - ls_gpu_divide(i, args.channels) * args.channels;
            const float s = 1.0f + alpha * lrn_sum(&square[radius + t], c, args.channels, radius);
            term[t] = ls_lrn_power(s) * dy[i] * x[i] / s;
        }
        __syncthreads();
        const int64_t i = first + threadIdx.x;
        if (i < count) {
            const int64_t c = i - ls_gpu_divide(i, args.channels) * args.channels;
            const int t = (int)threadIdx.x;
            const float s =
                1.0f + alpha * lrn_sum(&square[2 * radius + t], c, args.channels, radius);
            const float sum = lrn_sum(&term[radius + t], c, args.channels, radius);
            const float value = ls_lrn_power(s) * dy[i] - factor * x[i] * sum;
            ((float *)args.dx)[i] = !args.relu || x[i] > 0 ? value : 0;
        }
        __syncthreads();
    }
}

int ls_gpu_lrn_forward(void *stream, const ls_lrn_forward_args *args, int radius)
{
    const int64_t count = args->pixels * args->channels;
    return ls_gpu_launch_over(stream, count, LRN_RUN, lrn_kernel, *args, radius, count);
}

int ls_gpu_lrn_backward(void *stream, const ls_lrn_backward_args *args, int radius)
{
    const int64_t count = args->pixels * args->channels;
    return ls_gpu_launch_over(stream, count, LRN_RUN, lrn_back_kernel, *args, radius, count);
}

int ls_gpu_load_pools(void)
{
    return ls_gpu_load(pool_kernel, pool_back_kernel, lrn_kernel, lrn_back_kernel);
}
