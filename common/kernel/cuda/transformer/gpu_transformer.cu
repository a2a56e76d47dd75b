/* SPDX-License-Identifier: MIT */
/*
 * Kernels of tokens, positions and layer normalisation; all have the cpu table's bits. An
 * embedding's gradient sorts the rows by token, equal ones in their order, by counting the rows
 * before each; then a thread adds an element's rows in that order: no atomics, and tokens that no
 * row has become 0 in the same launch. A row's mean and variance are sums over 16 neighbouring
 * threads, channel c in thread c % 16, folded by halves; sums over rows are in 32 groups of rows,
 * added in order.
 */
#include "common/base/bf16_inline.h"
#include "common/kernel/cuda/gpu_shares.cuh"
#include "common/kernel/element_inline.h"

/* ---- Tokens ---------------------------------------------------------------------------------- */

enum {
    SORT_WARP = 32,
    SORTED_TOGETHER = 4, /* rows of a warp; of a block: */
    SORTED_ROWS = LS_GPU_THREADS / SORT_WARP * SORTED_TOGETHER,
    MANY_TOKENS = 8192 /* warps that fill a GPU */
};

using token_four = ls_gpu_pack<float, 4>;

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    embedding_kernel(ls_embedding_forward_args a, ls_gpu_fault fault)
{
    const float *x = (const float *)a.x, *weight = (const float *)a.weight;
    for (int64_t i = ls_gpu_first(); i < a.rows * a.width; i += ls_gpu_stride()) {
        const int64_t row = ls_gpu_divide(i, a.width), c = i - row * a.width;
        const int64_t token = ls_token((double)x[row], a.all ? a.all : a.tokens);
        const int64_t slot = token - a.first;
        ((float *)a.y)[i] = token < 0                      ? NAN
                            : slot >= 0 && slot < a.tokens ? weight[slot * a.width + c]
                                                           : -0.0F;
        if (token < 0 && c == 0)
            ls_gpu_tell_host(fault.word, fault.value);
    }
}

int ls_gpu_embedding_forward(void *stream, const ls_embedding_forward_args *args,
                             ls_gpu_fault fault)
{
    return ls_gpu_launch_over(stream, args->rows * args->width, LS_GPU_THREADS, embedding_kernel,
                              *args, fault);
}

/* before[j] counts the rows in `at` that come before row j of the warp's own. */
template <bool EARLIER>
__device__ static inline void count_before(float at, const float *token, int *before)
{
#pragma unroll
    for (int j = 0; j < SORTED_TOGETHER; j++)
        before[j] += EARLIER ? at <= token[j] : at < token[j];
}

/* Counts them among rows [first, end), fours of rows from `first` on; EARLIER: they come before the
 * warp's own rows, and so do equal ones. */
template <bool EARLIER>
__device__ static inline void count_rows(const float *x, int64_t first, int64_t end, bool fours,
                                         const float *token, int *before)
{
    const int lane = threadIdx.x % SORT_WARP;
    const int64_t whole = fours ? (end - first) / 4 : 0;
#pragma unroll 2
    for (int64_t i = lane; i < whole; i += SORT_WARP) {
        const token_four at = ((const token_four *)(x + first))[i];
#pragma unroll
        for (int k = 0; k < 4; k++)
            count_before<EARLIER>(at.element[k], token, before);
    }
    for (int64_t r = first + 4 * whole + lane; r < end; r += SORT_WARP)
        count_before<EARLIER>(x[r], token, before);
}

/* sorted[i] = the row that comes as number i. Invalid tokens leave places unchanged. A warp has
 * four rows. */
__global__ static void __launch_bounds__(LS_GPU_THREADS)
    sort_kernel(const float *x, int64_t rows, bool fours, int64_t *sorted)
{
    const int64_t warp = threadIdx.x / SORT_WARP;
    for (int64_t all = (int64_t)blockIdx.x * SORTED_ROWS; all < rows;
         all += (int64_t)gridDim.x * SORTED_ROWS) { /* equal iterations in all threads */
        const int64_t first = all + warp * SORTED_TOGETHER, left = rows - first;
        const int held = left < SORTED_TOGETHER ? left < 0 ? 0 : (int)left : SORTED_TOGETHER;
        float token[SORTED_TOGETHER];
        int before[SORTED_TOGETHER] = {};
#pragma unroll
        for (int j = 0; j < SORTED_TOGETHER; j++)
            token[j] = j < held ? x[first + j] : 0;
        if (held) {
            count_rows<true>(x, 0, first, fours, token, before);
            count_rows<false>(x, first + held, rows, fours, token, before);
        }
#pragma unroll
        for (int j = 0; j < SORTED_TOGETHER; j++) {
#pragma unroll
            for (int half = SORT_WARP / 2; half; half /= 2)
                before[j] += ls_gpu_exchange(before[j], half);
#pragma unroll
            for (int i = 0; i < SORTED_TOGETHER; i++)
                before[j] += i < held && (i < j ? token[i] <= token[j] : token[i] < token[j]);
            if (j < held && threadIdx.x % SORT_WARP == 0)
                sorted[before[j]] = first + j;
        }
    }
}

/* By a warp: the first of the sorted rows from number `first` on whose token is `token` or more.
 * Each lane looks at the last row of a 32nd of the rows that are left. */
__device__ static inline int64_t find_token(const ls_embedding_backward_args &a,
                                            const int64_t *sorted, int64_t first, int64_t token)
{
    for (int64_t left = a.rows - first; left > 0;) {
        const int64_t share = (left + SORT_WARP - 1) / SORT_WARP;
        const int64_t at = (threadIdx.x % SORT_WARP + 1) * share - 1;
        int below = at < left && ((const float *)a.x)[sorted[first + at]] < (float)token;
#pragma unroll
        for (int half = SORT_WARP / 2; half; half /= 2)
            below += ls_gpu_exchange(below, half);
        first += below * share;
        left -= below * share;
        left = left < share - 1 ? left : share - 1;
    }
    return first;
}

/* A warp adds the rows of a token, in one of `parts` of the channels, N neighbouring ones a
 * thread. */
template <int N>
__global__ void __launch_bounds__(LS_GPU_THREADS)
    token_sums_kernel(ls_embedding_backward_args a, int64_t parts, const int64_t *sorted)
{
    using some = ls_gpu_pack<float, N>;
    const float *x = (const float *)a.x, *dy = (const float *)a.dy;
    const int64_t warps = ls_gpu_stride() / SORT_WARP;
    for (int64_t i = ls_gpu_first() / SORT_WARP; i < a.tokens * parts; i += warps) {
        const int64_t token = ls_gpu_divide(i, parts), part = i - token * parts;
        const int64_t wanted = a.first + token, begin = find_token(a, sorted, 0, wanted);
        const bool occurs = begin < a.rows && x[sorted[begin]] == (float)wanted;
        const int64_t end = occurs ? find_token(a, sorted, begin, wanted + 1) : begin;
        for (int64_t c = (part * SORT_WARP + threadIdx.x % SORT_WARP) * N; c < a.width;
             c += parts * SORT_WARP * N) {
            some sum = {};
#pragma unroll 8
            for (int64_t k = begin; k < end; k++) {
                const some value = *(const some *)(dy + sorted[k] * a.width + c);
#pragma unroll
                for (int j = 0; j < N; j++)
                    sum.element[j] += value.element[j];
            }
            *(some *)((float *)a.dweight + token * a.width + c) = sum;
        }
    }
}

/* A token's warp has all channels, if there are many tokens; else it has as few as possible. */
template <int N>
static int launch_token_sums(void *stream, const ls_embedding_backward_args *args,
                             const int64_t *sorted)
{
    const int64_t whole = (args->width + SORT_WARP * N - 1) / (SORT_WARP * N);
    const int64_t parts = args->tokens < MANY_TOKENS ? whole : 1;
    return ls_gpu_launch_over(stream, args->tokens * parts * SORT_WARP, LS_GPU_THREADS,
                              token_sums_kernel<N>, *args, parts, sorted);
}

int ls_gpu_embedding_backward(void *stream, const ls_embedding_backward_args *args, int64_t *sorted)
{
    const float *x = (const float *)args->x;
    const int error =
        args->rows ? ls_gpu_launch(stream, ls_gpu_blocks(args->rows, SORTED_ROWS), LS_GPU_THREADS,
                                   sort_kernel, x, args->rows, ls_gpu_takes_fours(x), sorted)
                   : 0;
    if (error || !args->tokens || !args->width)
        return error;
    const bool fours =
        args->width % 4 == 0 && ls_gpu_takes_fours(args->dy) && ls_gpu_takes_fours(args->dweight);
    return (fours ? launch_token_sums<4> : launch_token_sums<1>)(stream, args, sorted);
}

/* ---- Positions ------------------------------------------------------------------------------- */

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    positions_kernel(ls_positions_forward_args a)
{
    const float *x = (const float *)a.x, *weight = (const float *)a.weight;
    for (int64_t i = ls_gpu_first(); i < a.rows * a.count; i += ls_gpu_stride())
        ((float *)a.y)[i] = x[i] + weight[i - ls_gpu_divide(i, a.count) * a.count];
}

/* Sample b is added to sum b % 4. */
__global__ static void __launch_bounds__(LS_GPU_THREADS)
    positions_back_kernel(ls_positions_backward_args a)
{
    const float *dy = (const float *)a.dy;
    for (int64_t i = ls_gpu_first(); i < a.count; i += ls_gpu_stride()) {
        float sum[4] = {};
        for (int64_t b = 0; b < a.rows; b += 4)
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (b + k < a.rows)
                    sum[k] += dy[(b + k) * a.count + i];
        ((float *)a.dweight)[i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
}

int ls_gpu_positions_forward(void *stream, const ls_positions_forward_args *args)
{
    return ls_gpu_launch_over(stream, args->rows * args->count, LS_GPU_THREADS, positions_kernel,
                              *args);
}

int ls_gpu_positions_backward(void *stream, const ls_positions_backward_args *args)
{
    return ls_gpu_launch_over(stream, args->count, LS_GPU_THREADS, positions_back_kernel, *args);
}

/* ---- Layer normalisation --------------------------------------------------------------------- */

enum {
    NORM_LANES = 16,
    NORM_ROWS = LS_GPU_THREADS / NORM_LANES, /* of a block */
    /* channels of a lane in registers, for rows of 384, 768 */
    NORM_KEPT = 24,
    NORM_KEPT_WIDE = 48,
    NORM_READ = 8, /* elements of dx that are read at a time */
    NORM_GROUPS = 32,
    NORM_WARP = 32, /* channels of a block that sums over rows; a group per warp */
    NORM_WARPS = LS_GPU_THREADS / NORM_WARP,
    NORM_SHARES = NORM_GROUPS / NORM_WARPS,   /* blocks that have the same channels */
    NORM_PARTS = 2 * NORM_GROUPS * NORM_WARP, /* sums that such blocks leave */
    NORM_FLIGHT = 20                          /* rows of a thread whose loads are in flight */
};

/* The sum over a row's threads, in all of them. */
__device__ static inline float sum_lanes(float sum)
{
#pragma unroll
    for (int half = NORM_LANES / 2; half; half /= 2)
        sum += ls_gpu_exchange(sum, half);
    return sum;
}

/* By 16 neighbouring threads; C is 0 in threads without a row, which are called, too. Where a row
 * ends, 0 is added to sums, which keeps their bits. */
template <int KEPT>
__device__ static inline void normalise_row(const ls_layer_norm_forward_args &n, int64_t row, int C)
{
    const float *weight = (const float *)n.weight, *bias = (const float *)n.bias;
    const float *x = (const float *)n.x + row * n.width;
    float *y = (float *)n.y + row * n.width, *moments = (float *)n.moments + 2 * row;
    const int lane = threadIdx.x % NORM_LANES, behind = KEPT * NORM_LANES + lane;
    float kept[KEPT], sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        const int c = i * NORM_LANES + lane;
        kept[i] = c < C ? x[c] : 0;
    }
#pragma unroll
    for (int i = 0; i < KEPT; i++)
        sum += kept[i];
#pragma unroll 4
    for (int c = behind; c < C; c += NORM_LANES)
        sum += x[c];
    const float mean = sum_lanes(sum) / (float)n.width;
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        kept[i] = kept[i] - mean;
        squares += i * NORM_LANES + lane < C ? kept[i] * kept[i] : 0;
    }
#pragma unroll 4
    for (int c = behind; c < C; c += NORM_LANES)
        squares += (x[c] - mean) * (x[c] - mean);
    const float variance = sum_lanes(squares) / (float)n.width;
    const float rate = (float)ls_bn_rate((double)variance, n.epsilon);
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
        const int c = i * NORM_LANES + lane;
        if (c < C)
            y[c] = kept[i] * rate * weight[c] + bias[c];
    }
#pragma unroll 4
    for (int c = behind; c < C; c += NORM_LANES)
        y[c] = (x[c] - mean) * rate * weight[c] + bias[c];
    if (C && lane == 0) {
        moments[0] = mean;
        moments[1] = rate;
    }
}

template <int KEPT>
__global__ void __launch_bounds__(LS_GPU_THREADS, KEPT > NORM_KEPT ? 2 : 4)
    norm_kernel(ls_layer_norm_forward_args n)
{
    for (int64_t first = (int64_t)blockIdx.x * NORM_ROWS; first < n.rows;
         first += (int64_t)gridDim.x * NORM_ROWS) { /* equal iterations in all threads */
        const int64_t row = first + threadIdx.x / NORM_LANES;
        normalise_row<KEPT>(n, row < n.rows ? row : 0, row < n.rows ? (int)n.width : 0);
    }
}

int ls_gpu_layer_norm_forward(void *stream, const ls_layer_norm_forward_args *args)
{
    if (!args->rows)
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(args->rows, NORM_ROWS), LS_GPU_THREADS,
                         args->width <= NORM_KEPT * NORM_LANES ? norm_kernel<NORM_KEPT>
                                                               : norm_kernel<NORM_KEPT_WIDE>,
                         *args);
}

/* An element of dx, and what is added to it. */
__device__ static inline float norm_sum(const ls_layer_norm_backward_args &n, float dx, float more)
{
    if (!n.adds)
        return more;
    return dx + (n.rounds ? ls_float_of_bf16(ls_bf16_of_float(more)) : more);
}

/* dx of a row, by 16 neighbouring threads; C as above. */
__device__ static inline void normalise_row_back(const ls_layer_norm_backward_args &n, int64_t row,
                                                 int C)
{
    const float *weight = (const float *)n.weight, *moments = (const float *)n.moments + 2 * row;
    const float *x = (const float *)n.x + row * n.width, *dy = (const float *)n.dy + row * n.width;
    float *dx = (float *)n.dx + row * n.width;
    const float mean = C ? moments[0] : 0, rate = C ? moments[1] : 0;
    const int lane = threadIdx.x % NORM_LANES, behind = NORM_KEPT * NORM_LANES + lane;
    float g[NORM_KEPT], normal[NORM_KEPT], of_g = 0, of_gn = 0;
#pragma unroll
    for (int i = 0; i < NORM_KEPT; i++) {
        const int c = i * NORM_LANES + lane;
        g[i] = c < C ? dy[c] : 0;
        normal[i] = c < C ? x[c] : mean;
    }
#pragma unroll
    for (int i = 0; i < NORM_KEPT; i++) {
        const int c = i * NORM_LANES + lane;
        g[i] *= c < C ? weight[c] : 0;
        normal[i] = (normal[i] - mean) * rate;
        of_g += g[i];
        of_gn += c < C ? g[i] * normal[i] : 0;
    }
#pragma unroll 4
    for (int c = behind; c < C; c += NORM_LANES) {
        const float more = dy[c] * weight[c];
        of_g += more;
        of_gn += more * ((x[c] - mean) * rate);
    }
    const float mean_g = sum_lanes(of_g) / (float)n.width;
    const float mean_gn = sum_lanes(of_gn) / (float)n.width;
#pragma unroll
    for (int i = 0; i < NORM_KEPT; i++)
        g[i] = rate * (g[i] - mean_g - normal[i] * mean_gn);
#pragma unroll
    for (int begin = 0; begin < NORM_KEPT; begin += NORM_READ) {
#pragma unroll
        for (int i = begin; i < begin + NORM_READ; i++) {
            const int c = i * NORM_LANES + lane;
            normal[i] = n.adds && c < C ? dx[c] : 0; /* loads before stores */
        }
#pragma unroll
        for (int i = begin; i < begin + NORM_READ; i++) {
            const int c = i * NORM_LANES + lane;
            if (c < C)
                dx[c] = norm_sum(n, normal[i], g[i]);
        }
    }
#pragma unroll 4
    for (int c = behind; c < C; c += NORM_LANES) {
        const float more = rate * (dy[c] * weight[c] - mean_g - (x[c] - mean) * rate * mean_gn);
        dx[c] = norm_sum(n, n.adds ? dx[c] : 0, more);
    }
}

/* The first row of a group. */
__device__ static inline int64_t norm_group(const ls_layer_norm_backward_args &n, int64_t group)
{
    return n.rows * group / NORM_GROUPS;
}

/* Sums of dweight and dbias over a group's rows, in order, by a warp; each thread has a channel. */
__device__ static inline void norm_group_sums(const ls_layer_norm_backward_args &n, int64_t c,
                                              int64_t group, double *dweight, double *dbias)
{
    __shared__ float space[NORM_WARPS][2 * NORM_FLIGHT];
    float *moments = space[threadIdx.x / NORM_WARP];
    const int64_t end = norm_group(n, group + 1), width = n.width;
    const float *x = (const float *)n.x + c, *dy = (const float *)n.dy + c;
    float sum = 0, sum_of_dy = 0;
    for (int64_t r = norm_group(n, group); r < end; r += NORM_FLIGHT) {
        const int rows = end - r < NORM_FLIGHT ? (int)(end - r) : NORM_FLIGHT;
        float at[NORM_FLIGHT], back[NORM_FLIGHT];
#pragma unroll
        for (int i = 0; i < NORM_FLIGHT; i++) {
            const bool there = i < rows && c < width;
            at[i] = there ? x[(r + i) * width] : 0;
            back[i] = there ? dy[(r + i) * width] : 0;
        }
        const int lane = threadIdx.x % NORM_WARP;
        for (int i = lane; i < 2 * rows; i += NORM_WARP)
            moments[i] = ((const float *)n.moments)[2 * r + i];
        ls_gpu_sync_warp();
#pragma unroll
        for (int i = 0; i < NORM_FLIGHT; i++)
            if (i < rows) {
                sum += back[i] * ((at[i] - moments[2 * i]) * moments[2 * i + 1]);
                sum_of_dy += back[i];
            }
        ls_gpu_sync_warp();
    }
    *dweight = (double)sum;
    *dbias = (double)sum_of_dy;
}

/* dweight and dbias of 32 channels, with the other blocks that have them: each leaves the sums of
 * its groups, a warp a group; the last one to do so adds all groups in order. */
__device__ static inline void norm_sums(const ls_layer_norm_backward_args &n,
                                        const ls_gpu_parts &parts)
{
    const int64_t tile = blockIdx.x / NORM_SHARES, share = blockIdx.x % NORM_SHARES;
    const int lane = threadIdx.x % NORM_WARP, warp = threadIdx.x / NORM_WARP;
    const int64_t c = tile * NORM_WARP + lane, group = share * NORM_WARPS + warp;
    double *dweight = parts.values + tile * NORM_PARTS + lane;
    double *dbias = dweight + NORM_GROUPS * NORM_WARP;
    norm_group_sums(n, c, group, &dweight[group * NORM_WARP], &dbias[group * NORM_WARP]);
    if (!ls_gpu_comes_last(&parts.arrived[tile], NORM_SHARES) || warp >= 2 || c >= n.width)
        return;
    const double *of = warp ? dbias : dweight;
    float sum = (float)ls_gpu_fetch(of);
#pragma unroll 8
    for (int g = 1; g < NORM_GROUPS; g++)
        sum += (float)ls_gpu_fetch(&of[g * NORM_WARP]);
    ((float *)(warp ? n.dbias : n.dweight))[c] = sum;
}

/* The first blocks add over the rows; the others compute dx, block by block of another group, as
 * the first ones read them: about then, so that memory is read once. */
__global__ static void __launch_bounds__(LS_GPU_THREADS, 3)
    norm_back_kernel(ls_layer_norm_backward_args n, unsigned sum_blocks, ls_gpu_parts parts)
{
    if (blockIdx.x < sum_blocks) {
        norm_sums(n, parts);
        return;
    }
    const unsigned block = blockIdx.x - sum_blocks, blocks = gridDim.x - sum_blocks;
    const int64_t group = block % NORM_GROUPS, begin = norm_group(n, group);
    const unsigned rows = (unsigned)(norm_group(n, group + 1) - begin);
    for (unsigned first = block / NORM_GROUPS * NORM_ROWS; first < rows;
         first += blocks / NORM_GROUPS * NORM_ROWS) { /* equal iterations in all threads */
        const unsigned row = first + threadIdx.x / NORM_LANES;
        normalise_row_back(n, row < rows ? begin + row : 0, row < rows ? (int)n.width : 0);
    }
}

size_t ls_gpu_layer_norm_arrivals(int64_t width)
{
    return (size_t)((width + NORM_WARP - 1) / NORM_WARP);
}

size_t ls_gpu_layer_norm_parts(int64_t width)
{
    return NORM_PARTS * ls_gpu_layer_norm_arrivals(width);
}

int ls_gpu_layer_norm_backward(void *stream, const ls_layer_norm_backward_args *args,
                               const ls_gpu_parts *parts)
{
    const unsigned sum_blocks = NORM_SHARES * (unsigned)ls_gpu_layer_norm_arrivals(args->width);
    const unsigned blocks_of_group = ls_gpu_blocks(args->rows, NORM_GROUPS * NORM_ROWS);
    return ls_gpu_launch(stream, sum_blocks + NORM_GROUPS * blocks_of_group, LS_GPU_THREADS,
                         norm_back_kernel, *args, sum_blocks, *parts);
}

int ls_gpu_load_transformer(void)
{
    return ls_gpu_load(embedding_kernel, sort_kernel, token_sums_kernel<1>, token_sums_kernel<4>,
                       positions_kernel, positions_back_kernel, norm_kernel<NORM_KEPT>,
                       norm_kernel<NORM_KEPT_WIDE>, norm_back_kernel);
}
