/* SPDX-License-Identifier: MIT */
/*
 * Kernels of residual networks: batch normalisation, shortcuts, the mean of an image, moving
 * averages. A block handles up to 32 neighbouring channels and a run of pixels; a thread keeps its
 * channel and that channel's values, and loops over pixels. So a warp reads whole sectors, and each
 * image is read once. Sums are in double and in a fixed order: over a thread's pixels, folded by
 * halves over the block, then over the runs by the last block of the same channels. Elements are
 * computed as in the cpu table.
 */
#include "common/kernel/cuda/gpu_shares.cuh"
#include "common/kernel/element_inline.h"

/* ---- Channels down the pixels ---------------------------------------------------------------- */

/* Partition of images [pixels, channels]: blocks of `width` channels, `runs` of pixels. */
struct channel_grid {
    int64_t pixels, channels, runs, run, groups; /* run: pixels per run; groups: of channels */
    unsigned width, blocks;
};

static channel_grid grid_of(int64_t pixels, int64_t channels, int64_t runs)
{
    channel_grid g = {pixels, channels, runs, (pixels + runs - 1) / runs, 0, 1, 0};
    while (g.width < 32 && g.width < channels)
        g.width *= 2;
    g.groups = (channels + g.width - 1) / g.width;
    g.blocks = (unsigned)(g.groups * runs);
    return g;
}

/* A thread's channel and pixels: from `first` in steps of `step`, below `last`. */
struct channel_share {
    int64_t channel, run, first, last, step;
};

__device__ static inline channel_share share_of(const channel_grid &g)
{
    const int64_t run = ls_gpu_divide(blockIdx.x, g.groups), first = run * g.run;
    const int64_t last = first + g.run < g.pixels ? first + g.run : g.pixels;
    const int64_t channel = (blockIdx.x - run * g.groups) * g.width + threadIdx.x % g.width;
    return channel_share{channel, run, first + threadIdx.x / g.width,
                         channel < g.channels ? last : 0, blockDim.x / g.width};
}

/* Calls element(i) of f for each element, after begin(channel). */
template <typename F>
__global__ void __launch_bounds__(LS_GPU_THREADS) channels_kernel(F f, channel_grid g)
{
    const channel_share s = share_of(g);
    if (s.channel >= g.channels)
        return;
    f.begin(s.channel);
#pragma unroll 4
    for (int64_t p = s.first; p < s.last; p += s.step)
        f.element(p * g.channels + s.channel);
}

template <typename F>
static int walk_channels(void *stream, const F &f, int64_t pixels, int64_t channels)
{
    enum { PIXELS_OF_BLOCK = 128 };
    if (!pixels || !channels)
        return 0;
    const channel_grid g =
        grid_of(pixels, channels, (pixels + PIXELS_OF_BLOCK - 1) / PIXELS_OF_BLOCK);
    return ls_gpu_launch(stream, g.blocks, LS_GPU_THREADS, channels_kernel<F>, f, g);
}

/* The sums over the runs, by the last block with these channels: several threads per sum, each with
 * a stride over the runs, folded by halves. The first `width` threads return both sums of their
 * channel. */
__device__ static inline void fold_runs(const channel_grid &g, const double *parts, int64_t group,
                                        double *space, double sum[2])
{
    const unsigned thread = threadIdx.x, sums = 2 * g.width, folds = blockDim.x / sums;
    const int64_t channel = group * g.width + thread % g.width;
    const int64_t row = thread % sums / g.width, runs = g.runs;
    double mine = 0;
    if (channel < g.channels) {
#pragma unroll 8
        for (int64_t r = thread / sums; r < runs; r += folds)
            mine += ls_gpu_fetch(&parts[(r * 2 + row) * g.channels + channel]);
    }
    space[thread] = mine;
    __syncthreads();
    for (unsigned half = folds / 2; half; half /= 2) {
        if (thread < half * sums)
            space[thread] += space[thread + half * sums];
        __syncthreads();
    }
    for (int k = 0; k < 2; k++)
        sum[k] = space[thread % g.width + (unsigned)k * g.width];
}

/* Sums: add(i, sum) of f adds an element's two terms, finish(channel, sum) gets the totals; parts
 * [runs, 2, channels]. */
template <typename F>
__global__ void __launch_bounds__(LS_GPU_THREADS)
    channel_sums_kernel(F f, channel_grid g, ls_gpu_parts parts)
{
    __shared__ double space[2 * LS_GPU_THREADS];
    const channel_share s = share_of(g);
    const unsigned thread = threadIdx.x;
    double sum[2] = {0, 0};
    if (s.channel < g.channels) {
        f.begin(s.channel);
#pragma unroll 4
        for (int64_t p = s.first; p < s.last; p += s.step)
            f.add(p * g.channels + s.channel, sum);
    }
    for (int k = 0; k < 2; k++)
        space[(unsigned)k * LS_GPU_THREADS + thread] = sum[k];
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half >= g.width; half /= 2) {
        if (thread < half)
            for (int k = 0; k < 2; k++) {
                double *at = &space[(unsigned)k * LS_GPU_THREADS + thread];
                *at += at[half];
            }
        __syncthreads();
    }
    if (thread < g.width && s.channel < g.channels)
        for (int k = 0; k < 2; k++)
            parts.values[(s.run * 2 + k) * g.channels + s.channel] =
                space[(unsigned)k * LS_GPU_THREADS + thread];
    const int64_t group = blockIdx.x - s.run * g.groups;
    if (!ls_gpu_comes_last(&parts.arrived[group], (unsigned)g.runs))
        return;
    fold_runs(g, parts.values, group, space, sum);
    if (thread < g.width && s.channel < g.channels)
        f.finish(s.channel, sum);
}

/* Number of runs in which the pixels are summed. */
static int64_t runs_of(int64_t pixels)
{
    const int64_t runs = pixels / 512;
    return runs < 1 ? 1 : runs > 256 ? 256 : runs;
}

size_t ls_gpu_bn_parts(int64_t pixels, int64_t channels)
{
    return (size_t)(runs_of(pixels) * 2 * channels);
}

size_t ls_gpu_bn_arrivals(int64_t channels)
{
    return (size_t)grid_of(0, channels, 1).groups;
}

template <typename F>
static int sum_channels(void *stream, const F &f, int64_t pixels, int64_t channels,
                        const ls_gpu_parts *parts)
{
    if (!channels)
        return 0;
    const channel_grid g = grid_of(pixels, channels, runs_of(pixels));
    return ls_gpu_launch(stream, g.blocks, LS_GPU_THREADS, channel_sums_kernel<F>, f, g, *parts);
}

/* ---- Batch normalisation --------------------------------------------------------------------- */

/* A batch's moments of a channel, from its sums. */
__device__ static inline void set_moments(const double sum[2], double count, double epsilon,
                                          float *moments, int64_t channels, int64_t c)
{
    double mean, variance;
    ls_bn_moment(sum[0], sum[1], count, &mean, &variance);
    moments[c] = (float)mean;
    moments[channels + c] = (float)ls_bn_rate(variance, epsilon);
}

struct sums_of_x {
    ls_bn_sums_args a;
    __device__ void begin(int64_t)
    {
    }
    __device__ void add(int64_t i, double sum[2]) const
    {
        const double value = (double)((const float *)a.x)[i];
        sum[0] += value;
        sum[1] += value * value;
    }
    __device__ void finish(int64_t c, const double sum[2]) const
    {
        a.sums[c] = sum[0];
        a.sums[a.channels + c] = sum[1];
        if (a.moments)
            set_moments(sum, a.pixels ? (double)a.pixels : 1, a.epsilon, (float *)a.moments,
                        a.channels, c);
    }
};

int ls_gpu_bn_sums(void *stream, const ls_bn_sums_args *args, const ls_gpu_parts *parts)
{
    const sums_of_x f = {*args};
    return sum_channels(stream, f, args->pixels, args->channels, parts);
}

enum { CHANNEL_THREADS = 64 };

__global__ static void __launch_bounds__(CHANNEL_THREADS) moments_kernel(ls_bn_moments_args args)
{
    for (int64_t c = ls_gpu_first(); c < args.channels; c += ls_gpu_stride()) {
        const double sum[2] = {args.sums[c], args.sums[args.channels + c]};
        set_moments(sum, (double)args.count, args.epsilon, (float *)args.moments, args.channels, c);
    }
}

__global__ static void __launch_bounds__(CHANNEL_THREADS)
    moving_moments_kernel(ls_bn_moving_moments_args args)
{
    const float *mean = (const float *)args.mean, *variance = (const float *)args.variance;
    float *moments = (float *)args.moments;
    for (int64_t c = ls_gpu_first(); c < args.channels; c += ls_gpu_stride()) {
        moments[c] = mean[c];
        moments[args.channels + c] = (float)ls_bn_rate((double)variance[c], args.epsilon);
    }
}

int ls_gpu_bn_moments(void *stream, const ls_bn_moments_args *args)
{
    return ls_gpu_launch(stream, ls_gpu_blocks(args->channels, CHANNEL_THREADS), CHANNEL_THREADS,
                         moments_kernel, *args);
}

int ls_gpu_bn_moving_moments(void *stream, const ls_bn_moving_moments_args *args)
{
    return ls_gpu_launch(stream, ls_gpu_blocks(args->channels, CHANNEL_THREADS), CHANNEL_THREADS,
                         moving_moments_kernel, *args);
}

/* The values of a thread's channel. */
struct bn_channel {
    float mean, rate, scale, bias;
};

template <typename Args> __device__ static inline bn_channel channel_of(const Args &a, int64_t c)
{
    const float *moments = (const float *)a.moments;
    const float rate = moments[a.channels + c];
    return bn_channel{moments[c], rate, ((const float *)a.weight)[c] * rate,
                      ((const float *)a.bias)[c]};
}

struct normalise {
    ls_bn_forward_args a;
    bn_channel of;
    __device__ void begin(int64_t c)
    {
        of = channel_of(a, c);
    }
    __device__ void element(int64_t i) const
    {
        float value = (((const float *)a.x)[i] - of.mean) * of.scale + of.bias;
        if (a.z)
            value += ((const float *)a.z)[i];
        ((float *)a.y)[i] = a.activation == LS_ACTIVATION_RELU ? ls_relu(value) : value;
    }
};

int ls_gpu_bn_forward(void *stream, const ls_bn_forward_args *args)
{
    const normalise f = {*args, {}};
    return walk_channels(stream, f, args->pixels, args->channels);
}

struct sums_of_gradient {
    ls_bn_backward_sums_args a;
    bn_channel of;
    __device__ void begin(int64_t c)
    {
        of = channel_of(a, c);
    }
    __device__ void add(int64_t i, double sum[2]) const
    {
        const float x = ((const float *)a.x)[i] - of.mean;
        float g = ((const float *)a.dy)[i];
        if (a.activation == LS_ACTIVATION_RELU)
            g = ls_relu_mask(a.y ? ((const float *)a.y)[i] : x * of.scale + of.bias, g);
        sum[0] += (double)g;
        sum[1] += (double)g * (double)(x * of.rate);
        if (a.dz)
            ((float *)a.dz)[i] = g;
    }
    __device__ void finish(int64_t c, const double sum[2]) const
    {
        double mean, variance;
        a.sums[c] = sum[0];
        a.sums[a.channels + c] = sum[1];
        ((float *)a.dbias)[c] = (float)sum[0];
        ((float *)a.dweight)[c] = (float)sum[1];
        ls_bn_share(&a, c, &mean, &variance);
        ((float *)a.mean)[c] = (float)mean;
        ((float *)a.variance)[c] = (float)variance;
    }
};

int ls_gpu_bn_backward_sums(void *stream, const ls_bn_backward_sums_args *args,
                            const ls_gpu_parts *parts)
{
    const sums_of_gradient f = {*args, {}};
    return sum_channels(stream, f, args->pixels, args->channels, parts);
}

struct normalise_back {
    ls_bn_backward_args a;
    bn_channel of;
    float mean, mean_with; /* of g, and of g n */
    __device__ void begin(int64_t c)
    {
        of = channel_of(a, c);
        mean = (float)(a.sums[c] / (double)a.count);
        mean_with = (float)(a.sums[a.channels + c] / (double)a.count);
    }
    __device__ void element(int64_t i) const
    {
        const float x = ((const float *)a.x)[i] - of.mean;
        float g = ((const float *)a.dy)[i];
        if (a.activation == LS_ACTIVATION_RELU)
            g = ls_relu_mask(x * of.scale + of.bias, g);
        ((float *)a.dx)[i] = of.scale * (g - mean - x * of.rate * mean_with);
    }
};

int ls_gpu_bn_backward(void *stream, const ls_bn_backward_args *args)
{
    const normalise_back f = {*args, {}, 0, 0};
    return walk_channels(stream, f, args->pixels, args->channels);
}

/* ---- Shortcuts, means, averages -------------------------------------------------------------- */

__device__ static inline int64_t shorter(int64_t side, int64_t stride)
{
    return (side + stride - 1) / stride;
}

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    shortcut_kernel(ls_shortcut_shape s, const float *x, float *y, int64_t count)
{
    const int64_t height = shorter(s.in_height, s.stride), width = shorter(s.in_width, s.stride);
    for (int64_t i = ls_gpu_first(); i < count; i += ls_gpu_stride()) {
        const int64_t pixel = ls_gpu_divide(i, s.outputs), c = i - pixel * s.outputs;
        const int64_t line = ls_gpu_divide(pixel, width), row = ls_gpu_divide(line, height);
        const int64_t from = (row * s.in_height + (line - row * height) * s.stride) * s.in_width +
                             (pixel - line * width) * s.stride;
        y[i] = c < s.channels ? x[from * s.channels + c] : 0;
    }
}

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    shortcut_back_kernel(ls_shortcut_shape s, const float *dy, float *dx, int64_t count)
{
    const int64_t height = shorter(s.in_height, s.stride), width = shorter(s.in_width, s.stride);
    for (int64_t i = ls_gpu_first(); i < count; i += ls_gpu_stride()) {
        const int64_t pixel = ls_gpu_divide(i, s.channels), c = i - pixel * s.channels;
        const int64_t line = ls_gpu_divide(pixel, s.in_width);
        const int64_t row = ls_gpu_divide(line, s.in_height);
        const int64_t y = line - row * s.in_height, x = pixel - line * s.in_width;
        const bool kept = y % s.stride == 0 && x % s.stride == 0;
        const int64_t from = (row * height + y / s.stride) * width + x / s.stride;
        dx[i] = kept ? dy[from * s.outputs + c] : 0;
    }
}

int ls_gpu_shortcut_forward(void *stream, const ls_shortcut_forward_args *args)
{
    const ls_shortcut_shape *s = &args->shape;
    const int64_t height = (s->in_height + s->stride - 1) / s->stride;
    const int64_t width = (s->in_width + s->stride - 1) / s->stride;
    const int64_t count = s->rows * height * width * s->outputs;
    return ls_gpu_launch_over(stream, count, LS_GPU_THREADS, shortcut_kernel, *s,
                              (const float *)args->x, (float *)args->y, count);
}

int ls_gpu_shortcut_backward(void *stream, const ls_shortcut_backward_args *args)
{
    const ls_shortcut_shape *s = &args->shape;
    const int64_t count = s->rows * s->in_height * s->in_width * s->channels;
    return ls_gpu_launch_over(stream, count, LS_GPU_THREADS, shortcut_back_kernel, *s,
                              (const float *)args->dy, (float *)args->dx, count);
}

__global__ static void __launch_bounds__(CHANNEL_THREADS)
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
    return ls_gpu_launch_over(stream, count, CHANNEL_THREADS, mean_pool_kernel, *args);
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

__global__ static void __launch_bounds__(CHANNEL_THREADS) add_sums_kernel(ls_add_sums_args args)
{
    for (int64_t i = ls_gpu_first(); i < args.count; i += ls_gpu_stride())
        args.out[i] = args.b ? args.a[i] + args.b[i] : args.a[i];
}

int ls_gpu_add_sums(void *stream, const ls_add_sums_args *args)
{
    return ls_gpu_launch_over(stream, args->count, CHANNEL_THREADS, add_sums_kernel, *args);
}

int ls_gpu_load_residual(void)
{
    return ls_gpu_load(channels_kernel<normalise>, channels_kernel<normalise_back>,
                       channel_sums_kernel<sums_of_x>, channel_sums_kernel<sums_of_gradient>,
                       moments_kernel, moving_moments_kernel, shortcut_kernel, shortcut_back_kernel,
                       mean_pool_kernel, mean_pool_back_kernel, average_kernel, add_sums_kernel);
}
