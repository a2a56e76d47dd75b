/* SPDX-License-Identifier: MIT */
/*
 * Kernels of a convolution followed by a global max. Forward, a block computes 32 outputs of one
 * sample, one per lane; its warps share the positions, eight neighbours of a line at a time. The
 * sample's image is in shared memory, one plane per channel including its padding, so no pixel
 * needs a check and all lanes read the same address; an image that is too large is read from global
 * memory. Taps are in shared memory, 64 at a time. Backward, a block computes one output and eight
 * taps, and its threads share the rows: only the window with the maximum is read, and rows with
 * gradient 0 are skipped. Sums are in the order of the taps; sums over rows are folded by halves.
 * Instructions for a tap at eight positions, 8 of them products, in the code for sm_90: 30 with the
 * image in shared memory, 103 without. A separate pool would write and read the image in between,
 * 22 MB per step of `cnn` each, while x has 0.8 MB.
 */
#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/element_inline.h"

enum { GROUP = 32, GROUP_WARPS = LS_GPU_THREADS / GROUP, AT_ONCE = 8 };
enum { TAPS_HELD = 64, PIXELS_HELD = 4096 };

/* A sample's positions in chunks of AT_ONCE along a line, and its image with the padding that their
 * windows cover, even beyond a line's end: [channels, lines, pitch]. */
struct image_plan {
    int chunks, chunks_of_line;
    int lines, pitch;
};

/* A tap's position in its window, and its offset from the window's first pixel in the plan. */
struct tap_position {
    int y, x, channel, offset;
};

/* Taps are numbered as in the weights: [channels, height, width]. */
__device__ static inline tap_position tap_of(const ls_conv_shape &s, const image_plan &plan,
                                             int tap)
{
    const int width = (int)s.window.width, height = (int)s.window.height;
    const int line = tap / width, channel = line / height;
    const int y = line - channel * height, x = tap - line * width;
    return tap_position{y, x, channel, (channel * plan.lines + y) * plan.pitch + x};
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* A position, and the convolution's value there. */
struct largest {
    float value;
    int32_t at;
};

/* The larger value; the first one if equal. */
__device__ static inline largest larger_of(largest a, largest b)
{
    return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

/* Loads a sample's image, one warp per line. */
__device__ static inline void hold_image(const ls_conv_shape &s, const image_plan &plan,
                                         const float *image, float *pixels)
{
    const int height = (int)s.window.in_height, width = (int)s.window.in_width;
    const int channels = (int)s.channels, top = (int)s.window.top, left = (int)s.window.left;
    const int lane = (int)threadIdx.x % GROUP;
    for (int line = (int)threadIdx.x / GROUP; line < channels * plan.lines; line += GROUP_WARPS) {
        const int channel = line / plan.lines, y = line - channel * plan.lines - top;
        for (int at = lane; at < plan.pitch; at += GROUP) {
            const int x = at - left;
            const bool valid = (unsigned)y < (unsigned)height && (unsigned)x < (unsigned)width;
            pixels[line * plan.pitch + at] =
                valid ? image[(y * width + x) * channels + channel] : 0;
        }
    }
    __syncthreads();
}

/* A chunk's line, and its first position in that. */
struct chunk_position {
    int line, first;
};

/* Some taps of a group of outputs, in shared memory. */
struct held_taps {
    float weight[TAPS_HELD][GROUP];
    tap_position position[TAPS_HELD];
};

__device__ static inline int hold_taps(const ls_conv_max_forward_args &args, const image_plan &plan,
                                       int64_t group, int start, held_taps *taps)
{
    const ls_conv_shape &s = args.shape;
    const int all = (int)(s.channels * s.window.height * s.window.width);
    const int count = all - start < TAPS_HELD ? all - start : TAPS_HELD;
    __syncthreads(); /* the previous contents have been used */
    for (int i = (int)threadIdx.x; i < count * GROUP; i += LS_GPU_THREADS) {
        const int64_t output = group * GROUP + i % GROUP;
        taps->weight[i / GROUP][i % GROUP] =
            output < s.outputs ? ((const float *)args.weight)[output * all + start + i / GROUP] : 0;
    }
    if ((int)threadIdx.x < count)
        taps->position[threadIdx.x] = tap_of(s, plan, start + (int)threadIdx.x);
    __syncthreads();
    return count;
}

/* sum[q] += some taps at position q of the chunk, from the image in shared memory. */
__device__ static inline void add_held(const ls_conv_shape &s, const image_plan &plan,
                                       const float *pixels, chunk_position chunk,
                                       const held_taps *taps, int count, float sum[AT_ONCE])
{
    const int lane = (int)threadIdx.x % GROUP, stride = (int)s.window.stride_x;
    const float *window =
        pixels + chunk.line * (int)s.window.stride_y * plan.pitch + chunk.first * stride;
    for (int t = 0; t < count; t++) {
        const float *pixel = window + taps->position[t].offset, factor = taps->weight[t][lane];
#pragma unroll
        for (int q = 0; q < AT_ONCE; q++)
            sum[q] = fmaf(pixel[q * stride], factor, sum[q]);
    }
}

/* As above, from global memory; padding is 0. */
__device__ static inline void add_far(const ls_conv_shape &s, const float *image,
                                      chunk_position chunk, const held_taps *taps, int count,
                                      float sum[AT_ONCE])
{
    const int lane = (int)threadIdx.x % GROUP, stride = (int)s.window.stride_x;
    const int height = (int)s.window.in_height, width = (int)s.window.in_width;
    const int channels = (int)s.channels;
    const int top = chunk.line * (int)s.window.stride_y - (int)s.window.top;
    const int left = chunk.first * stride - (int)s.window.left;
    for (int t = 0; t < count; t++) {
        const tap_position tap = taps->position[t];
        const int y = top + tap.y, x = left + tap.x;
        const float factor = taps->weight[t][lane];
        const bool inside = (unsigned)y < (unsigned)height;
        const float *pixel = image + ((int64_t)(y * width + x) * channels + tap.channel);
#pragma unroll
        for (int q = 0; q < AT_ONCE; q++) {
            const bool valid = inside && (unsigned)(x + q * stride) < (unsigned)width;
            sum[q] = fmaf(valid ? pixel[q * stride * channels] : 0, factor, sum[q]);
        }
    }
}

/* sum[q] = the convolution of one output (one per lane) at the chunk's positions, without bias. All
 * threads of the block must call it. */
template <bool HELD>
__device__ static inline void convolve(const ls_conv_max_forward_args &args, const image_plan &plan,
                                       const float *image, int64_t group, chunk_position chunk,
                                       float sum[AT_ONCE])
{
    __shared__ held_taps taps;
    const ls_conv_shape &s = args.shape;
    const int all = (int)(s.channels * s.window.height * s.window.width);
    for (int start = 0; start < all; start += TAPS_HELD) {
        const int count = hold_taps(args, plan, group, start, &taps);
        if (chunk.line >= s.window.out_height)
            continue;
        if (HELD)
            add_held(s, plan, image, chunk, &taps, count, sum);
        else
            add_far(s, image, chunk, &taps, count, sum);
    }
}

/* HELD: the image is in shared memory. */
template <bool HELD>
__global__ void __launch_bounds__(LS_GPU_THREADS)
    conv_max_kernel(ls_conv_max_forward_args args, image_plan plan, int64_t groups)
{
    __shared__ largest found[GROUP_WARPS][GROUP];
    __shared__ float space[HELD ? PIXELS_HELD : 1];
    const ls_conv_shape &s = args.shape;
    const int width = (int)s.window.out_width, height = (int)s.window.out_height;
    const int64_t pixels = s.window.in_height * s.window.in_width * s.channels;
    const int lane = (int)threadIdx.x % GROUP, warp = (int)threadIdx.x / GROUP;
    for (int64_t turn = blockIdx.x; turn < s.rows * groups; turn += gridDim.x) {
        const int64_t row = ls_gpu_divide(turn, groups), group = turn - row * groups;
        const int64_t output = group * GROUP + lane;
        const bool valid = output < s.outputs;
        const float *image = (const float *)args.x + row * pixels;
        const float bias = args.bias && valid ? ((const float *)args.bias)[output] : 0;
        if (HELD) {
            hold_image(s, plan, image, space);
            image = space;
        }
        largest most = {-INFINITY, 0};
        for (int base = 0; base < plan.chunks; base += GROUP_WARPS) {
            const int line = (base + warp) / plan.chunks_of_line;
            const chunk_position chunk = {line,
                                          (base + warp - line * plan.chunks_of_line) * AT_ONCE};
            float sum[AT_ONCE] = {};
            convolve<HELD>(args, plan, image, group, chunk, sum);
            const int last = line < height ? width - chunk.first : 0;
            const int at = line * width + chunk.first;
#pragma unroll
            for (int q = 0; q < AT_ONCE; q++) { /* in order: of equal values the first is kept */
                const float value = sum[q] + bias;
                const bool larger = q < last && value > most.value;
                most.value = larger ? value : most.value;
                most.at = larger ? at + q : most.at;
            }
        }
        found[warp][lane] = most;
        __syncthreads();
        if (warp == 0 && valid) {
            for (int k = 1; k < GROUP_WARPS; k++)
                most = larger_of(most, found[k][lane]);
            ((float *)args.y)[row * s.outputs + output] =
                args.activation == LS_ACTIVATION_RELU ? ls_relu(most.value) : most.value;
            args.argmax[row * s.outputs + output] = most.at;
        }
        __syncthreads();
    }
}

/* If the image is too large, the plan has no lines in shared memory. */
static image_plan plan_image(const ls_conv_shape *s)
{
    const ls_window *w = &s->window;
    const int64_t chunks = (w->out_width + AT_ONCE - 1) / AT_ONCE;
    const int64_t lines = (w->out_height - 1) * w->stride_y + w->height;
    const int64_t pitch = (chunks * AT_ONCE - 1) * w->stride_x + w->width;
    const bool fits = lines * pitch <= PIXELS_HELD && lines * pitch * s->channels <= PIXELS_HELD;
    return image_plan{(int)(chunks * w->out_height), (int)chunks, fits ? (int)lines : 0,
                      fits ? (int)pitch : 0};
}

int ls_gpu_conv_max_forward(void *stream, const ls_conv_max_forward_args *args)
{
    const ls_conv_shape *s = &args->shape;
    const int64_t groups = (s->outputs + GROUP - 1) / GROUP;
    const unsigned blocks = ls_gpu_blocks(s->rows * groups, 1);
    if (!s->rows)
        return 0;
    const image_plan plan = plan_image(s);
    return ls_gpu_launch(stream, blocks, LS_GPU_THREADS,
                         plan.lines ? conv_max_kernel<true> : conv_max_kernel<false>, *args, plan,
                         groups);
}

/* ---- Backward -------------------------------------------------------------------------------- */

enum { FOLDED = AT_ONCE + 1 };

/* Sums each of a thread's values over the block, by halves; thread q gets value q. */
__device__ static inline float fold_sums(const float values[FOLDED])
{
    __shared__ float space[FOLDED][LS_GPU_THREADS];
    const unsigned thread = threadIdx.x;
    __syncthreads(); /* the previous contents have been used */
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

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    conv_max_back_kernel(ls_conv_max_backward_weights_args args, int64_t parts)
{
    const ls_conv_shape &s = args.shape;
    const ls_window &w = s.window;
    const int all = (int)(s.channels * w.height * w.width), channels = (int)s.channels;
    const int height = (int)w.in_height, width = (int)w.in_width, across = (int)w.out_width;
    for (int64_t turn = blockIdx.x; turn < s.outputs * parts; turn += gridDim.x) {
        const int64_t output = ls_gpu_divide(turn, parts);
        const int first = (int)(turn - output * parts) * AT_ONCE;
        tap_position taps[AT_ONCE];
        float sum[FOLDED] = {}; /* of the taps; of dy */
#pragma unroll
        for (int q = 0; q < AT_ONCE; q++) {
            taps[q] = tap_of(s, image_plan{}, first + q < all ? first + q : 0);
            taps[q].offset = (taps[q].y * width + taps[q].x) * channels + taps[q].channel;
        }
        for (int64_t row = threadIdx.x; row < s.rows; row += blockDim.x) {
            const float dy = ((const float *)args.dy)[row * s.outputs + output];
            if (dy == 0) /* like after a ReLU: half of them or more */
                continue;
            const int position = args.argmax[row * s.outputs + output], line = position / across;
            const int y = line * (int)w.stride_y - (int)w.top;
            const int x = (position - line * across) * (int)w.stride_x - (int)w.left;
            const float *window =
                (const float *)args.x + ((row * height + y) * width + x) * channels;
            sum[AT_ONCE] += dy;
#pragma unroll
            for (int q = 0; q < AT_ONCE; q++) {
                const bool valid = (unsigned)(y + taps[q].y) < (unsigned)height &&
                                   (unsigned)(x + taps[q].x) < (unsigned)width;
                sum[q] = fmaf(dy, valid ? window[taps[q].offset] : 0, sum[q]);
            }
        }
        const float total = fold_sums(sum);
        const int tap = first + (int)threadIdx.x;
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
    return ls_gpu_load(conv_max_kernel<true>, conv_max_kernel<false>, conv_max_back_kernel);
}
