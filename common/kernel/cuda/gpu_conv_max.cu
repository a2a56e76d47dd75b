/* SPDX-License-Identifier: MIT */
/*
 * Kernels of a convolution of which only the largest of all positions is kept. Not yet run on a
 * GPU.
 *
 * Forward, a block has 32 outputs of one sample, a lane for each, and its warps share the
 * positions, eight at a time each, so a weight is read once for eight. The weights of up to 64 taps
 * lie in shared memory; a pixel is the same for all lanes. Backward, a block has one output and
 * eight taps, its threads share the rows: only the window that was the largest is read, and rows
 * whose gradient is 0 are left out. Sums have the order of the taps, and of rows folded by halves.
 */
#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/element_inline.h"

enum { GROUP = 32, GROUP_WARPS = LS_GPU_THREADS / GROUP, AT_ONCE = 8 };
static const int TAPS_HELD = 64;

/* Where a tap lies in its window. */
struct tap_place {
    int y, x, channel;
};

/* Taps are numbered as in the weights: [channels, height, width]. */
__device__ static inline tap_place tap_of(const ls_conv_shape &s, int64_t tap)
{
    const int64_t line = ls_gpu_divide(tap, s.window.width);
    const int64_t channel = ls_gpu_divide(line, s.window.height);
    return tap_place{(int)(line - channel * s.window.height), (int)(tap - line * s.window.width),
                     (int)channel};
}

/* A pixel's channel of a sample; 0 in the padding. */
__device__ static inline float pixel_of(const ls_conv_shape &s, const float *image, int64_t y,
                                        int64_t x, int channel)
{
    const ls_window &w = s.window;
    if (y < 0 || y >= w.in_height || x < 0 || x >= w.in_width)
        return 0;
    return image[(y * w.in_width + x) * s.channels + channel];
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* A position and the convolution there. */
struct largest_place {
    float value;
    int32_t at;
};

/* The larger; of equals the first. */
__device__ static inline largest_place larger_place(largest_place a, largest_place b)
{
    return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

/* sum[q] = the convolution of one output (a lane's) at positions first + q * GROUP_WARPS, without
 * bias.
 */
__device__ static inline void convolve(const ls_conv_max_forward_args &args, const float *image,
                                       int64_t group, int64_t first, float sum[AT_ONCE])
{
    __shared__ float weight[TAPS_HELD][GROUP];
    __shared__ tap_place taps[TAPS_HELD];
    const ls_conv_shape &s = args.shape;
    const ls_window &w = s.window;
    const int64_t all = s.channels * w.height * w.width;
    const int lane = (int)threadIdx.x % GROUP;
    int64_t y[AT_ONCE], x[AT_ONCE];
#pragma unroll
    for (int q = 0; q < AT_ONCE; q++) { /* beyond the last: below the image, all padding */
        const int64_t line = ls_gpu_divide(first + q * GROUP_WARPS, w.out_width);
        y[q] = line < w.out_height ? line * w.stride_y - w.top : w.in_height;
        x[q] = (first + q * GROUP_WARPS - line * w.out_width) * w.stride_x - w.left;
        sum[q] = 0;
    }
    for (int64_t start = 0; start < all; start += TAPS_HELD) {
        const int count = (int)(all - start < TAPS_HELD ? all - start : TAPS_HELD);
        __syncthreads(); /* what is there has been used */
        for (int i = (int)threadIdx.x; i < count * GROUP; i += LS_GPU_THREADS) {
            const int64_t output = group * GROUP + i % GROUP;
            weight[i / GROUP][i % GROUP] =
                output < s.outputs ? ((const float *)args.weight)[output * all + start + i / GROUP]
                                   : 0;
        }
        if ((int)threadIdx.x < count)
            taps[threadIdx.x] = tap_of(s, start + threadIdx.x);
        __syncthreads();
        for (int t = 0; t < count; t++) {
            const tap_place tap = taps[t];
            const float factor = weight[t][lane];
#pragma unroll
            for (int q = 0; q < AT_ONCE; q++)
                sum[q] = fmaf(pixel_of(s, image, y[q] + tap.y, x[q] + tap.x, tap.channel), factor,
                              sum[q]);
        }
    }
}

__global__ static void conv_max_kernel(ls_conv_max_forward_args args, int64_t groups)
{
    __shared__ largest_place found[GROUP_WARPS][GROUP];
    const ls_conv_shape &s = args.shape;
    const int64_t positions = s.window.out_height * s.window.out_width;
    const int64_t pixels = s.window.in_height * s.window.in_width * s.channels;
    const int lane = (int)threadIdx.x % GROUP, warp = (int)threadIdx.x / GROUP;
    for (int64_t turn = blockIdx.x; turn < s.rows * groups; turn += gridDim.x) {
        const int64_t row = ls_gpu_divide(turn, groups), group = turn - row * groups;
        const int64_t output = group * GROUP + lane;
        const float *image = (const float *)args.x + row * pixels;
        const float bias = args.bias && output < s.outputs ? ((const float *)args.bias)[output] : 0;
        largest_place most = {-INFINITY, 0};
        for (int64_t base = 0; base < positions; base += AT_ONCE * GROUP_WARPS) {
            float sum[AT_ONCE];
            convolve(args, image, group, base + warp, sum);
#pragma unroll
            for (int q = 0; q < AT_ONCE; q++) {
                const int64_t at = base + warp + q * GROUP_WARPS;
                if (at < positions)
                    most = larger_place(most, largest_place{sum[q] + bias, (int32_t)at});
            }
        }
        found[warp][lane] = most;
        __syncthreads();
        if (warp == 0 && output < s.outputs) {
            for (int k = 1; k < GROUP_WARPS; k++)
                most = larger_place(most, found[k][lane]);
            ((float *)args.y)[row * s.outputs + output] =
                args.activation == LS_ACTIVATION_RELU ? ls_relu(most.value) : most.value;
            args.place[row * s.outputs + output] = most.at;
        }
        __syncthreads();
    }
}

int ls_gpu_conv_max_forward(void *stream, const ls_conv_max_forward_args *args)
{
    const int64_t groups = (args->shape.outputs + GROUP - 1) / GROUP;
    if (!args->shape.rows)
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(args->shape.rows * groups, 1), LS_GPU_THREADS,
                         conv_max_kernel, *args, groups);
}

/* ---- Backward -------------------------------------------------------------------------------- */

enum { FOLDED = AT_ONCE + 1 };

/* The block's sum of each of a thread's values, value q in thread q, by halves. */
__device__ static inline float fold_sums(const float values[FOLDED])
{
    __shared__ float space[FOLDED][LS_GPU_THREADS];
    const unsigned thread = threadIdx.x;
    __syncthreads(); /* what is there has been used */
    for (int q = 0; q < FOLDED; q++)
        space[q][thread] = values[q];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        for (int q = 0; q < FOLDED && thread < half; q++)
            space[q][thread] += space[q][thread + half];
        __syncthreads();
    }
    return thread < FOLDED ? space[thread][0] : 0;
}

__global__ static void conv_max_back_kernel(ls_conv_max_backward_weights_args args, int64_t parts)
{
    const ls_conv_shape &s = args.shape;
    const ls_window &w = s.window;
    const int64_t all = s.channels * w.height * w.width;
    const int64_t pixels = w.in_height * w.in_width * s.channels;
    for (int64_t turn = blockIdx.x; turn < s.outputs * parts; turn += gridDim.x) {
        const int64_t output = ls_gpu_divide(turn, parts),
                      first = (turn - output * parts) * AT_ONCE;
        tap_place taps[AT_ONCE];
        float sum[FOLDED] = {}; /* of the taps, and of dy */
#pragma unroll
        for (int q = 0; q < AT_ONCE; q++)
            taps[q] = tap_of(s, first + q < all ? first + q : 0);
        for (int64_t row = threadIdx.x; row < s.rows; row += blockDim.x) {
            const float dy = ((const float *)args.dy)[row * s.outputs + output];
            if (dy == 0) /* as after a ReLU: half of them, and more */
                continue;
            const int64_t place = args.place[row * s.outputs + output];
            const int64_t line = ls_gpu_divide(place, w.out_width);
            const int64_t y = line * w.stride_y - w.top;
            const int64_t x = (place - line * w.out_width) * w.stride_x - w.left;
            const float *image = (const float *)args.x + row * pixels;
            sum[AT_ONCE] += dy;
#pragma unroll
            for (int q = 0; q < AT_ONCE; q++)
                sum[q] = fmaf(dy, pixel_of(s, image, y + taps[q].y, x + taps[q].x, taps[q].channel),
                              sum[q]);
        }
        const float total = fold_sums(sum);
        const int64_t tap = first + threadIdx.x;
        if (threadIdx.x < AT_ONCE && tap < all)
            ((float *)args.dweight)[output * all + tap] = total;
        if (threadIdx.x == AT_ONCE && first == 0 && args.dbias)
            ((float *)args.dbias)[output] = total;
    }
}

int ls_gpu_conv_max_backward_weights(void *stream, const ls_conv_max_backward_weights_args *args)
{
    const ls_conv_shape *s = &args->shape;
    const int64_t taps = s->channels * s->window.height * s->window.width;
    const int64_t parts = (taps + AT_ONCE - 1) / AT_ONCE;
    return ls_gpu_launch(stream, ls_gpu_blocks(s->outputs * parts, 1), LS_GPU_THREADS,
                         conv_max_back_kernel, *args, parts);
}

int ls_gpu_load_conv_max(void)
{
    const int errors[] = {ls_gpu_load_kernel(conv_max_kernel),
                          ls_gpu_load_kernel(conv_max_back_kernel)};
    return ls_gpu_first_failure(errors, sizeof errors / sizeof *errors);
}
