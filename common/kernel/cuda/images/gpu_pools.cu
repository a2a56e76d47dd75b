/* SPDX-License-Identifier: MIT */
/*
 * Kernels of max pools and of local response normalisation, with the bits of the cpu table. Images
 * are channels-last, so neighbouring threads have neighbouring channels, four each. The backward
 * pool gathers: a thread has some pixels of the input and visits the windows that cover them, in
 * order, so threads never add to the same element, and every element is written.
 */
#include "common/kernel/cuda/gpu_images.cuh"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/element_inline.h"

/* ---- Max pool -------------------------------------------------------------------------------- */

template <int WIDE>
__global__ void __launch_bounds__(LS_GPU_THREADS)
    pool_kernel(ls_max_pool_forward_args args, int64_t packs)
{
    enum { TOGETHER = 3 }; /* pixels of a line that are on their way at once */
    typedef ls_gpu_pack<float, WIDE> pack;
    typedef ls_gpu_pack<int32_t, WIDE> places;
    const ls_window &w = args.window;
    for (int64_t i = ls_gpu_first(); i < packs; i += ls_gpu_stride()) {
        const ls_gpu_position out =
            ls_gpu_position_of<WIDE>(i, w.out_height, w.out_width, args.channels);
        const float *image = (const float *)args.x +
                             out.row * w.in_height * w.in_width * args.channels + out.channel;
        const int64_t top = out.y * w.stride_y - w.top, left = out.x * w.stride_x - w.left;
        const int64_t end = left + w.width < w.in_width ? left + w.width : w.in_width;
        pack largest = {};
        places at;
        for (int e = 0; e < WIDE; e++)
            at.element[e] = -1;
        for (int64_t y = top < 0 ? 0 : top; y < top + w.height && y < w.in_height; y++)
            for (int64_t x = left < 0 ? 0 : left; x < end; x += TOGETHER) {
                const int64_t pixel = y * w.in_width + x;
                pack value[TOGETHER];
#pragma unroll
                for (int k = 0; k < TOGETHER; k++)
                    if (x + k < end)
                        value[k] = *(const pack *)(image + (pixel + k) * args.channels);
#pragma unroll
                for (int k = 0; k < TOGETHER; k++)
#pragma unroll
                    for (int e = 0; e < WIDE; e++)
                        if (x + k < end &&
                            (at.element[e] < 0 || value[k].element[e] > largest.element[e])) {
                            largest.element[e] = value[k].element[e];
                            at.element[e] = (int32_t)pixel + k;
                        }
            }
        ((pack *)args.y)[i] = largest;
        ((places *)args.argmax)[i] = at;
    }
}

/*
 * In the backward pool a thread has the pixels from where one window begins to where the next does,
 * down and across. An image has `down` times `across` such areas. Their windows begin there or up
 * to `reach` areas before.
 */
struct pool_grid {
    int64_t down, across, packs;
    int reach_y, reach_x;
};

static int64_t pool_starts(int64_t pixels, int64_t border, int64_t stride)
{
    return (pixels + border + stride - 1) / stride;
}

template <int WIDE>
__global__ void __launch_bounds__(LS_GPU_THREADS)
    pool_back_kernel(ls_max_pool_backward_args args, pool_grid g)
{
    enum { SIDE = 2, TOGETHER = 2 }; /* pixels at once; windows that are on their way at once */
    typedef ls_gpu_pack<float, WIDE> pack;
    typedef ls_gpu_pack<int32_t, WIDE> places;
    const ls_window &w = args.window;
    const int height = (int)w.in_height, width = (int)w.in_width;
    for (int64_t i = ls_gpu_first(); i < g.packs; i += ls_gpu_stride()) {
        const ls_gpu_position in = ls_gpu_position_of<WIDE>(i, g.down, g.across, args.channels);
        const int y = (int)in.y, x = (int)in.x; /* of the last window */
        const int last_y = y < w.out_height ? y : (int)w.out_height - 1;
        const int last_x = x < w.out_width ? x : (int)w.out_width - 1;
        const int first_y = y > g.reach_y ? y - g.reach_y : 0;
        const int first_x = x > g.reach_x ? x - g.reach_x : 0;
        for (int down = 0; down < w.stride_y; down += SIDE)
            for (int across = 0; across < w.stride_x; across += SIDE) {
                const int top = y * (int)w.stride_y - (int)w.top + down;
                const int left = x * (int)w.stride_x - (int)w.left + across;
                const int pixel = top * width + left;
                pack sum[SIDE * SIDE] = {};
                for (int oy = first_y; oy <= last_y; oy++)
                    for (int ox = first_x; ox <= last_x; ox += TOGETHER) {
                        const int64_t from =
                            ((in.row * w.out_height + oy) * w.out_width + ox) * args.channels +
                            in.channel;
                        pack dy[TOGETHER], output[TOGETHER];
                        places at[TOGETHER];
#pragma unroll
                        for (int k = 0; k < TOGETHER; k++)
                            if (ox + k <= last_x) {
                                const int64_t of = from + k * args.channels;
                                at[k] = *(const places *)(args.argmax + of);
                                dy[k] = *(const pack *)((const float *)args.dy + of);
                                if (args.relu_output)
                                    output[k] =
                                        *(const pack *)((const float *)args.relu_output + of);
                            }
#pragma unroll
                        for (int k = 0; k < TOGETHER; k++)
#pragma unroll
                            for (int e = 0; e < WIDE; e++) {
                                const bool counts = ox + k <= last_x &&
                                                    (!args.relu_output || output[k].element[e] > 0);
                                const int of = counts ? at[k].element[e] - pixel : -1;
#pragma unroll
                                for (int s = 0; s < SIDE * SIDE; s++)
                                    if (counts && of == s / SIDE * width + s % SIDE)
                                        sum[s].element[e] += dy[k].element[e];
                            }
                    }
#pragma unroll
                for (int s = 0; s < SIDE * SIDE; s++) {
                    const int to_y = top + s / SIDE, to_x = left + s % SIDE;
                    const int64_t to = (in.row * height + to_y) * width + to_x;
                    if (down + s / SIDE < w.stride_y && across + s % SIDE < w.stride_x &&
                        to_y >= 0 && to_y < height && to_x >= 0 && to_x < width)
                        ((pack *)args.dx)[(to * args.channels + in.channel) / WIDE] = sum[s];
                }
            }
    }
}

int ls_gpu_max_pool_forward(void *stream, const ls_max_pool_forward_args *args)
{
    const ls_window *w = &args->window;
    const bool fours =
        ls_gpu_moves_fours(args->channels, args->x, args->y) && ls_gpu_takes_fours(args->argmax);
    const int64_t packs =
        args->rows * w->out_height * w->out_width * args->channels / (fours ? 4 : 1);
    return ls_gpu_launch_over(stream, packs, LS_GPU_THREADS,
                              fours ? pool_kernel<4> : pool_kernel<1>, *args, packs);
}

int ls_gpu_max_pool_backward(void *stream, const ls_max_pool_backward_args *args)
{
    const ls_window *w = &args->window;
    const bool fours = ls_gpu_moves_fours(args->channels, args->dy, args->dx) &&
                       ls_gpu_takes_fours(args->argmax) && ls_gpu_takes_fours(args->relu_output);
    pool_grid g = {pool_starts(w->in_height, w->top, w->stride_y),
                   pool_starts(w->in_width, w->left, w->stride_x), 0,
                   (int)((w->height - 1) / w->stride_y), (int)((w->width - 1) / w->stride_x)};
    g.packs = args->rows * g.down * g.across * args->channels / (fours ? 4 : 1);
    return ls_gpu_launch_over(stream, g.packs, LS_GPU_THREADS,
                              fours ? pool_back_kernel<4> : pool_back_kernel<1>, *args, g);
}

/* ---- Local response normalisation ------------------------------------------------------------ */

/*
 * A thread has four channels of a pixel, a block a run of such packs: whole pixels, if it has
 * threads for one; otherwise it also reads as many packs before and behind as the radius reaches
 * (backward twice as many, whose terms need their neighbours' sums). A sum has the terms of the cpu
 * table in its order; where a channel is missing, a 0 is added, which changes no bit.
 */
enum { LRN_REACH = (LS_GPU_LRN_RADIUS_MOST + 3) / 4 };

struct lrn_grid {
    int64_t channels, count; /* count: of packs in all pixels */
    int packs, radius;       /* packs: of a pixel */
    int reach, run, halo;    /* in packs; halo: read before and behind a run */
};

/* A pack: its number in its pixel, its first element, and how many channels it has. */
struct lrn_pack {
    int64_t first;
    int number, left;
};

__device__ static inline lrn_pack lrn_pack_of(const lrn_grid &g, int64_t i)
{
    const int64_t pixel = ls_gpu_divide(i, g.packs);
    const int number = (int)(i - pixel * g.packs), left = (int)g.channels - 4 * number;
    return lrn_pack{pixel * g.channels + 4 * number, number, left < 4 ? left : 4};
}

/* The place of a run's item t: the run's own items come first. */
__device__ static inline int lrn_place(int t, int run, int halo)
{
    return t < run ? halo + t : t < run + halo ? t - run : t;
}

/* The sums of the values within `radius` channels of each of *value, which is pack `number` of its
 * pixel. */
__device__ static inline ls_gpu_four lrn_sum(const lrn_grid &g, const ls_gpu_four *value,
                                             int number)
{
    ls_gpu_four sum = {};
    for (int p = -g.reach; p <= g.reach; p++) {
        ls_gpu_four of = {};
        if ((unsigned)(number + p) < (unsigned)g.packs)
            of = value[p];
#pragma unroll
        for (int e = 0; e < 4; e++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                if ((unsigned)(4 * p + j - e + g.radius) <= 2 * (unsigned)g.radius)
                    sum.element[e] += of.element[j];
    }
    return sum;
}

__device__ static inline ls_gpu_four squares(const ls_gpu_four &x)
{
    ls_gpu_four square;
#pragma unroll
    for (int e = 0; e < 4; e++)
        square.element[e] = x.element[e] * x.element[e];
    return square;
}

template <bool FOURS>
__global__ void __launch_bounds__(LS_GPU_THREADS) lrn_kernel(ls_lrn_forward_args args, lrn_grid g)
{
    __shared__ ls_gpu_four square[LS_GPU_THREADS + 2 * LRN_REACH];
    const float alpha = (float)args.alpha;
    for (int64_t first = (int64_t)blockIdx.x * g.run; first < g.count;
         first += (int64_t)gridDim.x * g.run) { /* equally many iterations in all threads */
        ls_gpu_four x = {};
        lrn_pack own = {};
#pragma unroll 1
        for (int t = (int)threadIdx.x; t < g.run + 2 * g.halo; t += LS_GPU_THREADS) {
            const int place = lrn_place(t, g.run, g.halo);
            const int64_t i = first - g.halo + place;
            if (i < 0 || i >= g.count)
                continue;
            const lrn_pack pack = lrn_pack_of(g, i);
            const ls_gpu_four value =
                ls_gpu_load_four<FOURS>((const float *)args.x + pack.first, pack.left);
            square[place] = squares(value);
            if (t < g.run)
                x = value, own = pack;
        }
        __syncthreads();
        if (own.left) {
            ls_gpu_four y = lrn_sum(g, &square[g.halo + (int)threadIdx.x], own.number);
#pragma unroll
            for (int e = 0; e < 4; e++)
                y.element[e] = x.element[e] * ls_lrn_power(1.0f + alpha * y.element[e]);
            ls_gpu_store_four<FOURS>((float *)args.y + own.first, y, own.left);
        }
        __syncthreads();
    }
}

template <bool FOURS>
__global__ void __launch_bounds__(LS_GPU_THREADS)
    lrn_back_kernel(ls_lrn_backward_args args, lrn_grid g)
{
    __shared__ ls_gpu_four square[LS_GPU_THREADS + 4 * LRN_REACH],
        term[LS_GPU_THREADS + 2 * LRN_REACH];
    const float *all_x = (const float *)args.x, *all_dy = (const float *)args.dy;
    const float alpha = (float)args.alpha, factor = (float)(1.5 * args.alpha);
    for (int64_t first = (int64_t)blockIdx.x * g.run; first < g.count;
         first += (int64_t)gridDim.x * g.run) {
        ls_gpu_four x = {}, dy = {}, power = {}; /* power: times dy */
        lrn_pack own = {};
#pragma unroll 1
        for (int t = (int)threadIdx.x; t < g.run + 4 * g.halo; t += LS_GPU_THREADS) {
            const int place = lrn_place(t, g.run, 2 * g.halo);
            const int64_t i = first - 2 * g.halo + place;
            if (i < 0 || i >= g.count)
                continue;
            const lrn_pack pack = lrn_pack_of(g, i);
            const ls_gpu_four value = ls_gpu_load_four<FOURS>(all_x + pack.first, pack.left);
            if (t < g.run) {
                x = value, own = pack;
                dy = ls_gpu_load_four<FOURS>(all_dy + pack.first, pack.left);
            }
            square[place] = squares(value);
        }
        __syncthreads();
#pragma unroll 1
        for (int t = (int)threadIdx.x; t < g.run + 2 * g.halo; t += LS_GPU_THREADS) {
            const int place = lrn_place(t, g.run, g.halo);
            const int64_t i = first - g.halo + place;
            if (i < 0 || i >= g.count)
                continue;
            const bool of_run = t < g.run;
            const lrn_pack pack = of_run ? own : lrn_pack_of(g, i);
            const ls_gpu_four value =
                of_run ? x : ls_gpu_load_four<FOURS>(all_x + pack.first, pack.left);
            ls_gpu_four scaled =
                of_run ? dy : ls_gpu_load_four<FOURS>(all_dy + pack.first, pack.left);
            const ls_gpu_four sum = lrn_sum(g, &square[g.halo + place], pack.number);
            ls_gpu_four out;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float s = 1.0f + alpha * sum.element[e];
                scaled.element[e] = ls_lrn_power(s) * scaled.element[e];
                out.element[e] =
                    FOURS || e < pack.left ? scaled.element[e] * value.element[e] / s : 0;
            }
            term[place] = out;
            if (of_run)
                power = scaled;
        }
        __syncthreads();
        if (own.left) {
            ls_gpu_four dx = lrn_sum(g, &term[g.halo + (int)threadIdx.x], own.number);
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float value = power.element[e] - factor * x.element[e] * dx.element[e];
                dx.element[e] = !args.relu || x.element[e] > 0 ? value : 0;
            }
            ls_gpu_store_four<FOURS>((float *)args.dx + own.first, dx, own.left);
        }
        __syncthreads();
    }
}

static lrn_grid lrn_grid_of(int64_t pixels, int64_t channels, int radius)
{
    lrn_grid g = {};
    g.channels = channels;
    g.packs = (int)((channels + 3) / 4);
    g.count = pixels * g.packs;
    g.radius = radius;
    g.reach = (radius + 3) / 4;
    const bool whole = g.packs && g.packs <= LS_GPU_THREADS;
    g.run = LS_GPU_THREADS;
    if (whole)
        g.run = LS_GPU_THREADS / g.packs * g.packs;
    g.halo = whole ? 0 : g.reach;
    return g;
}

int ls_gpu_lrn_forward(void *stream, const ls_lrn_forward_args *args, int radius)
{
    const lrn_grid g = lrn_grid_of(args->pixels, args->channels, radius);
    if (!g.count)
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(g.count, g.run), LS_GPU_THREADS,
                         ls_gpu_moves_fours(args->channels, args->x, args->y) ? lrn_kernel<true>
                                                                              : lrn_kernel<false>,
                         *args, g);
}

int ls_gpu_lrn_backward(void *stream, const ls_lrn_backward_args *args, int radius)
{
    const lrn_grid g = lrn_grid_of(args->pixels, args->channels, radius);
    const bool fours =
        ls_gpu_moves_fours(args->channels, args->x, args->dx) && ls_gpu_takes_fours(args->dy);
    if (!g.count)
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(g.count, g.run), LS_GPU_THREADS,
                         fours ? lrn_back_kernel<true> : lrn_back_kernel<false>, *args, g);
}

int ls_gpu_load_pools(void)
{
    return ls_gpu_load(pool_kernel<4>, pool_kernel<1>, pool_back_kernel<4>, pool_back_kernel<1>,
                       lrn_kernel<true>, lrn_kernel<false>, lrn_back_kernel<true>,
                       lrn_back_kernel<false>);
}
