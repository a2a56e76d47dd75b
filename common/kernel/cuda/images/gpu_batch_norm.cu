/* SPDX-License-Identifier: MIT */
/*
 * Kernels of batch normalisation. A block handles up to 16 neighbouring channels, four a thread,
 * and a run of pixels; a thread first loads several pixels, so that enough of them are on their
 * way, then computes. Sums are in double and in a fixed order, the same at any alignment: over a
 * thread's pixels, over the block's lines, then over the runs by the last block of the same
 * channels. Elements are computed as in the cpu table.
 */
#include "common/kernel/cuda/gpu_images.cuh"
#include "common/kernel/cuda/gpu_shares.cuh"
#include "common/kernel/element_inline.h"

/* ---- Channels down the pixels ---------------------------------------------------------------- */

enum {
    FOUR = 4,          /* channels of a thread */
    WIDTH = 16,        /* of a block, at most */
    LINES_OF_PART = 8, /* whose sums a thread adds: two for each channel, of as many lines */
    LEAST_PARTS = LS_GPU_THREADS / (2 * WIDTH),
    MOST_LINES = LS_GPU_THREADS
};

/* Partition of images [pixels, channels]: blocks of `width` channels, `runs` of pixels; threads of
 * as many `lines` of pixels as there are, with 1 << shift threads each. */
struct channel_grid {
    int64_t pixels, channels, runs, run;  /* run: pixels per run */
    unsigned groups, width, shift, lines; /* groups: of channels */
};

/* Without runs. */
static channel_grid grid_of(int64_t pixels, int64_t channels)
{
    channel_grid g = {pixels, channels, 0, 0, 0, FOUR, 0, LS_GPU_THREADS};
    for (; g.width < WIDTH && g.width < channels; g.width *= 2, g.lines /= 2)
        g.shift++;
    g.groups = (unsigned)((channels + g.width - 1) / g.width);
    return g;
}

static void set_runs(channel_grid *g, int64_t runs)
{
    g->runs = runs;
    g->run = (g->pixels + runs - 1) / runs;
}

/* A thread's channels and pixels: `left` of four channels from `channel` on, number `four` of the
 * block's; pixels from `first`, on `line`, in steps of `lines`, below `last`. */
struct channel_share {
    int64_t run, group, channel, first, last;
    unsigned four, line;
    int left;
};

__device__ static inline channel_share share_of(const channel_grid &g)
{
    channel_share s;
    s.run = blockIdx.x / g.groups;
    s.group = blockIdx.x - s.run * g.groups;
    s.four = threadIdx.x & ((1u << g.shift) - 1);
    s.line = threadIdx.x >> g.shift;
    s.channel = s.group * g.width + s.four * FOUR;
    const int64_t left = g.channels - s.channel, begin = s.run * g.run, end = begin + g.run;
    s.first = begin + s.line;
    s.last = left <= 0 ? 0 : end < g.pixels ? end : g.pixels;
    s.left = left < FOUR ? (int)left : FOUR;
    return s;
}

/* For the F below: loads ROWS pixels from `pixel` on of each of its images; 0 where there is
 * none. */
template <bool FOURS, typename F>
__device__ static inline void load_rows(const F &f, const channel_grid &g, const channel_share &s,
                                        int64_t pixel, ls_gpu_four in[F::ROWS][F::INPUTS])
{
#pragma unroll
    for (int r = 0; r < F::ROWS; r++, pixel += g.lines)
#pragma unroll
        for (int k = 0; k < F::INPUTS; k++) {
            const float *from = f.from[k] + pixel * g.channels + s.channel;
            in[r][k] = {};
            if (!f.from[k] || pixel >= s.last)
                continue;
            in[r][k] = ls_gpu_load_four<FOURS>(from, s.left);
        }
}

/*
 * Visits a thread's elements. F has INPUTS images `from` (NULL if there is none), and `to` (NULL if
 * there is none), which may be one of them; of(c) are a channel's values; element(values, in, j,
 * sum) is the new value of element j of four, and may add to both of its channel's sums.
 */
template <bool FOURS, typename F>
__device__ static inline void walk(const F &f, const channel_grid &g, const channel_share &s,
                                   double sum[FOUR][2])
{
    __shared__ typename F::values shared[WIDTH];
    const int64_t c = s.group * g.width + threadIdx.x;
    typename F::values values[FOUR];
    ls_gpu_four in[F::ROWS][F::INPUTS];
    load_rows<FOURS>(f, g, s, s.first, in);
    if (threadIdx.x < g.width && c < g.channels)
        shared[threadIdx.x] = f.of(c);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < FOUR; j++)
        values[j] = shared[s.four * FOUR + (unsigned)j];
    int64_t pixel = s.first;
    while (pixel < s.last) {
#pragma unroll
        for (int r = 0; r < F::ROWS; r++, pixel += g.lines) {
            ls_gpu_four out;
            if (pixel >= s.last)
                continue;
#pragma unroll
            for (int j = 0; j < FOUR; j++)
                out.element[j] = f.element(values[j], in[r], j, sum[j]);
            float *to = f.to + pixel * g.channels + s.channel;
            if (f.to)
                ls_gpu_store_four<FOURS>(to, out, s.left);
        }
        if (pixel < s.last)
            load_rows<FOURS>(f, g, s, pixel, in);
    }
}

/* Whether a thread can access its four channels at once. */
template <typename F> static bool moves_fours(const F &f, int64_t channels)
{
    bool all = channels % FOUR == 0 && ls_gpu_takes_fours(f.to);
    for (int k = 0; k < F::INPUTS; k++)
        all = all && ls_gpu_takes_fours(f.from[k]);
    return all;
}

template <typename F, bool FOURS>
__global__ void __launch_bounds__(LS_GPU_THREADS) channels_kernel(F f, channel_grid g)
{
    double none[FOUR][2];
    walk<FOURS>(f, g, share_of(g), none);
}

template <typename F>
static int walk_channels(void *stream, const F &f, int64_t pixels, int64_t channels)
{
    if (!pixels || !channels)
        return 0;
    channel_grid g = grid_of(pixels, channels);
    const int64_t pixels_of_block = (int64_t)g.lines * F::ROWS;
    set_runs(&g, (pixels + pixels_of_block - 1) / pixels_of_block);
    return ls_gpu_launch(
        stream, (unsigned)(g.groups * g.runs), LS_GPU_THREADS,
        moves_fours(f, channels) ? channels_kernel<F, true> : channels_kernel<F, false>, f, g);
}

/* Sum number `at` of [parts, sums] in `space`, over the parts that the block's threads have. */
__device__ static inline double sum_parts(const double *space, unsigned sums, unsigned at)
{
    double sum = 0;
    for (; at < LS_GPU_THREADS; at += LEAST_PARTS * sums)
#pragma unroll
        for (unsigned i = 0; i < LEAST_PARTS; i++)
            sum += space[at + i * sums];
    return sum;
}

/* Sums: element() of f adds an element's two terms, finish(channel, sum) gets the totals; parts
 * [groups, runs, 2, width]. */
template <typename F, bool FOURS>
__global__ void __launch_bounds__(LS_GPU_THREADS, 2)
    channel_sums_kernel(F f, channel_grid g, ls_gpu_parts parts)
{
    enum { TOGETHER = 32 };
    __shared__ double space[2 * FOUR * LS_GPU_THREADS + MOST_LINES];
    const channel_share s = share_of(g);
    const unsigned thread = threadIdx.x, sums = 2 * g.width, part = thread >> (g.shift + 3);
    const unsigned at = thread & (sums - 1);
    double sum[FOUR][2] = {}, total = 0;
    walk<FOURS>(f, g, s, sum);
    /* A line's sums lie together, lines one double more apart, to avoid bank conflicts. */
    double *line = space + s.line * (sums + 1) + s.four * FOUR;
#pragma unroll
    for (unsigned j = 0; j < FOUR; j++)
        for (unsigned k = 0; k < 2; k++)
            line[k * g.width + j] = sum[j][k];
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < LINES_OF_PART; i++)
        total += space[(part * LINES_OF_PART + i) * (sums + 1) + at];
    __syncthreads();
    space[thread] = total;
    __syncthreads();
    double *of_group = parts.values + s.group * g.runs * sums;
    if (thread < sums)
        of_group[s.run * sums + thread] = sum_parts(space, sums, thread);
    if (!ls_gpu_comes_last(&parts.arrived[s.group], (unsigned)g.runs))
        return;
    total = 0;
    for (int64_t run = part; run < g.runs;) {
        double several[TOGETHER]; /* on their way at once */
#pragma unroll
        for (int i = 0; i < TOGETHER; i++, run += LS_GPU_THREADS / sums)
            several[i] = run < g.runs ? ls_gpu_fetch(&of_group[run * sums + at]) : 0;
#pragma unroll
        for (int i = 0; i < TOGETHER; i++)
            total += several[i];
    }
    space[thread] = total;
    __syncthreads();
    const int64_t c = s.group * g.width + thread;
    if (thread < g.width && c < g.channels) {
        const double both[] = {sum_parts(space, sums, thread),
                               sum_parts(space, sums, thread + g.width)};
        f.finish(c, both);
    }
}

/* The grid of sums: some blocks for each multiprocessor of a large GPU, if a thread then has two
 * pixels. */
static channel_grid grid_of_sums(int64_t pixels, int64_t channels)
{
    enum { BLOCKS = 256 };
    channel_grid g = grid_of(pixels, channels);
    const int64_t most = g.groups && g.groups < BLOCKS ? BLOCKS / g.groups : 1;
    const int64_t runs = pixels / (2 * g.lines);
    set_runs(&g, runs < 1 ? 1 : runs > most ? most : runs);
    return g;
}

size_t ls_gpu_bn_parts(int64_t pixels, int64_t channels)
{
    const channel_grid g = grid_of_sums(pixels, channels);
    return (size_t)(g.groups * g.runs * 2 * g.width);
}

size_t ls_gpu_bn_arrivals(int64_t channels)
{
    return (size_t)grid_of(0, channels).groups;
}

template <typename F>
static int sum_channels(void *stream, const F &f, int64_t pixels, int64_t channels,
                        const ls_gpu_parts *parts)
{
    if (!channels)
        return 0;
    const channel_grid g = grid_of_sums(pixels, channels);
    return ls_gpu_launch(stream, (unsigned)(g.groups * g.runs), LS_GPU_THREADS,
                         moves_fours(f, channels) ? channel_sums_kernel<F, true>
                                                  : channel_sums_kernel<F, false>,
                         f, g, *parts);
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
    enum { INPUTS = 1, ROWS = 8 };
    struct values {
    };
    ls_bn_sums_args a;
    const float *from[INPUTS];
    float *to;
    __device__ values of(int64_t) const
    {
        return values{};
    }
    __device__ float element(const values &, const ls_gpu_four in[INPUTS], int j,
                             double sum[2]) const
    {
        const double value = (double)in[0].element[j];
        sum[0] += value;
        sum[1] += value * value;
        return 0;
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
    const sums_of_x f = {*args, {(const float *)args->x}, NULL};
    return sum_channels(stream, f, args->pixels, args->channels, parts);
}

__global__ static void __launch_bounds__(LS_GPU_CHANNEL_THREADS)
    moments_kernel(ls_bn_moments_args args)
{
    for (int64_t c = ls_gpu_first(); c < args.channels; c += ls_gpu_stride()) {
        const double sum[2] = {args.sums[c], args.sums[args.channels + c]};
        set_moments(sum, (double)args.count, args.epsilon, (float *)args.moments, args.channels, c);
    }
}

__global__ static void __launch_bounds__(LS_GPU_CHANNEL_THREADS)
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
    return ls_gpu_launch(stream, ls_gpu_blocks(args->channels, LS_GPU_CHANNEL_THREADS),
                         LS_GPU_CHANNEL_THREADS, moments_kernel, *args);
}

int ls_gpu_bn_moving_moments(void *stream, const ls_bn_moving_moments_args *args)
{
    return ls_gpu_launch(stream, ls_gpu_blocks(args->channels, LS_GPU_CHANNEL_THREADS),
                         LS_GPU_CHANNEL_THREADS, moving_moments_kernel, *args);
}

/* The values of a channel. */
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
    enum { INPUTS = 2, ROWS = 2 };
    typedef bn_channel values;
    ls_bn_forward_args a;
    const float *from[INPUTS]; /* x, z */
    float *to;                 /* y */
    __device__ bn_channel of(int64_t c) const
    {
        return channel_of(a, c);
    }
    __device__ float element(const bn_channel &v, const ls_gpu_four in[INPUTS], int j,
                             double *) const
    {
        float value = (in[0].element[j] - v.mean) * v.scale + v.bias;
        if (from[1])
            value += in[1].element[j];
        return a.activation == LS_ACTIVATION_RELU ? ls_relu(value) : value;
    }
};

int ls_gpu_bn_forward(void *stream, const ls_bn_forward_args *args)
{
    const normalise f = {*args, {(const float *)args->x, (const float *)args->z}, (float *)args->y};
    return walk_channels(stream, f, args->pixels, args->channels);
}

struct sums_of_gradient {
    enum { INPUTS = 3, ROWS = 4 };
    typedef bn_channel values;
    ls_bn_backward_sums_args a;
    const float *from[INPUTS]; /* x, dy, y */
    float *to;                 /* dz */
    __device__ bn_channel of(int64_t c) const
    {
        return channel_of(a, c);
    }
    __device__ float element(const bn_channel &v, const ls_gpu_four in[INPUTS], int j,
                             double sum[2]) const
    {
        const float x = in[0].element[j] - v.mean;
        float g = in[1].element[j];
        if (a.activation == LS_ACTIVATION_RELU)
            g = ls_relu_mask(from[2] ? in[2].element[j] : x * v.scale + v.bias, g);
        sum[0] += (double)g;
        sum[1] += (double)g * (double)(x * v.rate);
        return g;
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
    const void *y = args->activation == LS_ACTIVATION_RELU ? args->y : NULL;
    const sums_of_gradient f = {*args,
                                {(const float *)args->x, (const float *)args->dy, (const float *)y},
                                (float *)args->dz};
    return sum_channels(stream, f, args->pixels, args->channels, parts);
}

struct normalise_back {
    enum { INPUTS = 2, ROWS = 2 };
    struct values {
        bn_channel of;
        float mean, mean_with; /* of g, and of g n */
    };
    ls_bn_backward_args a;
    const float *from[INPUTS]; /* x, dy */
    float *to;                 /* dx */
    __device__ values of(int64_t c) const
    {
        return values{channel_of(a, c), (float)(a.sums[c] / (double)a.count),
                      (float)(a.sums[a.channels + c] / (double)a.count)};
    }
    __device__ float element(const values &v, const ls_gpu_four in[INPUTS], int j, double *) const
    {
        const float x = in[0].element[j] - v.of.mean;
        float g = in[1].element[j];
        if (a.activation == LS_ACTIVATION_RELU)
            g = ls_relu_mask(x * v.of.scale + v.of.bias, g);
        return v.of.scale * (g - v.mean - x * v.of.rate * v.mean_with);
    }
};

int ls_gpu_bn_backward(void *stream, const ls_bn_backward_args *args)
{
    const normalise_back f = {
        *args, {(const float *)args->x, (const float *)args->dy}, (float *)args->dx};
    return walk_channels(stream, f, args->pixels, args->channels);
}

int ls_gpu_load_batch_norm(void)
{
    return ls_gpu_load(
        channels_kernel<normalise, true>, channels_kernel<normalise, false>,
        channels_kernel<normalise_back, true>, channels_kernel<normalise_back, false>,
        channel_sums_kernel<sums_of_x, true>, channel_sums_kernel<sums_of_x, false>,
        channel_sums_kernel<sums_of_gradient, true>, channel_sums_kernel<sums_of_gradient, false>,
        moments_kernel, moving_moments_kernel);
}
