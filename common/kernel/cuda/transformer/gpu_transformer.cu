/* SPDX-License-Identifier: MIT */
/*
 * Kernels of tokens, positions and layer normalisation; all have the bits of the cpu table. An
 * embedding's gradient sorts the rows by token, equal ones in their order, by counting those before
 * each, a warp a row; then a thread adds an element's rows in that order: no atomics, and tokens
 * that no row has become 0 in the same launch. A row's mean and variance are sums over 16
 * neighbouring threads, channel c in thread c % 16, folded by halves; sums over rows are in 32
 * groups of rows, added in order.
 */
#include "common/kernel/cuda/gpu_shares.cuh"
#include "common/kernel/element_inline.h"

/* ---- Tokens ---------------------------------------------------------------------------------- */

enum { SORT_WARP = 32, SORTED_ROWS = LS_GPU_THREADS / SORT_WARP /* of a block */ };

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    embedding_kernel(ls_embedding_forward_args a, ls_gpu_fault fault)
{
    const float *x = (const float *)a.x, *weight = (const float *)a.weight;
    for (int64_t i = ls_gpu_first(); i < a.rows * a.width; i += ls_gpu_stride()) {
        const int64_t row = ls_gpu_divide(i, a.width), c = i - row * a.width;
        const int64_t token = ls_token((double)x[row], a.tokens);
        ((float *)a.y)[i] = token < 0 ? NAN : weight[token * a.width + c];
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

/* sorted[i] = the row that comes as number i. What is no token leaves places as they are. */
__global__ static void __launch_bounds__(LS_GPU_THREADS)
    sort_kernel(const float *x, int64_t rows, int64_t *sorted)
{
    for (int64_t first = (int64_t)blockIdx.x * SORTED_ROWS; first < rows;
         first += (int64_t)gridDim.x * SORTED_ROWS) { /* equal iterations in all threads */
        const int64_t row = first + threadIdx.x / SORT_WARP;
        const float token = row < rows ? x[row] : 0;
        int64_t before = 0;
#pragma unroll 8
        for (int64_t r = threadIdx.x % SORT_WARP; r < rows; r += SORT_WARP)
            before += x[r] < token || (x[r] == token && r < row);
#pragma unroll
        for (int half = SORT_WARP / 2; half; half /= 2)
            before += ls_gpu_exchange(before, half);
        if (row < rows && threadIdx.x % SORT_WARP == 0)
            sorted[before] = row;
    }
}

/* The first of the sorted rows from number `first` on whose token is `token` or more. */
__device__ static inline int64_t find_token(const ls_embedding_backward_args &a,
                                            const int64_t *sorted, int64_t first, int64_t token)
{
    int64_t end = a.rows;
    while (first < end) {
        const int64_t middle = first + (end - first) / 2;
        if (((const float *)a.x)[sorted[middle]] < (float)token)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    token_sums_kernel(ls_embedding_backward_args a, const int64_t *sorted)
{
    const float *x = (const float *)a.x, *dy = (const float *)a.dy;
    for (int64_t i = ls_gpu_first(); i < a.tokens * a.width; i += ls_gpu_stride()) {
        const int64_t token = ls_gpu_divide(i, a.width), c = i - token * a.width;
        const int64_t begin = find_token(a, sorted, 0, token);
        const bool occurs = begin < a.rows && x[sorted[begin]] == (float)token;
        const int64_t end = occurs ? find_token(a, sorted, begin, token + 1) : begin;
        float sum = 0;
#pragma unroll 8
        for (int64_t k = begin; k < end; k++)
            sum += dy[sorted[k] * a.width + c];
        ((float *)a.dweight)[i] = sum;
    }
}

int ls_gpu_embedding_backward(void *stream, const ls_embedding_backward_args *args, int64_t *sorted)
{
    const int error =
        args->rows ? ls_gpu_launch(stream, ls_gpu_blocks(args->rows, SORTED_ROWS), LS_GPU_THREADS,
                                   sort_kernel, (const float *)args->x, args->rows, sorted)
                   : 0;
    return error ? error
                 : ls_gpu_launch_over(stream, args->tokens * args->width, LS_GPU_THREADS,
                                      token_sums_kernel, *args, (const int64_t *)sorted);
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
    NORM_GROUPS = 32,
    NORM_THREADS = NORM_LANES * NORM_GROUPS,
    NORM_CHANNELS =
        8,           /* of a block that adds over the rows: 32 bytes, the least that memory reads */
    NORM_FLIGHT = 16 /* rows of a thread whose loads are in flight */
};

/* The sum over a row's threads, in all of them. */
__device__ static inline float sum_lanes(float sum)
{
#pragma unroll
    for (int half = NORM_LANES / 2; half; half /= 2)
        sum += ls_gpu_exchange(sum, half);
    return sum;
}

/* By 16 neighbouring threads; C is 0 in those without a row, which are called, too. */
__device__ static inline void normalise_row(const ls_layer_norm_forward_args &n, int64_t row,
                                            int64_t C)
{
    const float *weight = (const float *)n.weight, *bias = (const float *)n.bias;
    const float *x = (const float *)n.x + row * n.width;
    float *y = (float *)n.y + row * n.width, *moments = (float *)n.moments + 2 * row;
    const int64_t lane = threadIdx.x % NORM_LANES;
    float sum = 0, squares = 0;
#pragma unroll 4
    for (int64_t c = lane; c < C; c += NORM_LANES)
        sum += x[c];
    const float mean = sum_lanes(sum) / (float)n.width;
#pragma unroll 4
    for (int64_t c = lane; c < C; c += NORM_LANES)
        squares += (x[c] - mean) * (x[c] - mean);
    const float variance = sum_lanes(squares) / (float)n.width;
    const float rate = (float)ls_bn_rate((double)variance, n.epsilon);
#pragma unroll 4
    for (int64_t c = lane; c < C; c += NORM_LANES)
        y[c] = (x[c] - mean) * rate * weight[c] + bias[c];
    if (C && lane == 0) {
        moments[0] = mean;
        moments[1] = rate;
    }
}

__global__ static void __launch_bounds__(LS_GPU_THREADS) norm_kernel(ls_layer_norm_forward_args n)
{
    const int64_t rows_of_block = LS_GPU_THREADS / NORM_LANES;
    for (int64_t first = blockIdx.x * rows_of_block; first < n.rows;
         first += gridDim.x * rows_of_block) { /* equal iterations in all threads */
        const int64_t row = first + threadIdx.x / NORM_LANES;
        normalise_row(n, row < n.rows ? row : 0, row < n.rows ? n.width : 0);
    }
}

int ls_gpu_layer_norm_forward(void *stream, const ls_layer_norm_forward_args *args)
{
    if (!args->rows)
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(args->rows, LS_GPU_THREADS / NORM_LANES),
                         LS_GPU_THREADS, norm_kernel, *args);
}

/* dx of a row, by 16 neighbouring threads; C as above. */
__device__ static inline void normalise_row_back(const ls_layer_norm_backward_args &n, int64_t row,
                                                 int64_t C)
{
    const float *weight = (const float *)n.weight, *moments = (const float *)n.moments + 2 * row;
    const float *x = (const float *)n.x + row * n.width, *dy = (const float *)n.dy + row * n.width;
    float *dx = (float *)n.dx + row * n.width;
    const float mean = moments[0], rate = moments[1];
    float of_g = 0, of_gn = 0;
#pragma unroll 4
    for (int64_t c = threadIdx.x % NORM_LANES; c < C; c += NORM_LANES) {
        const float g = dy[c] * weight[c];
        of_g += g;
        of_gn += g * ((x[c] - mean) * rate);
    }
    const float mean_g = sum_lanes(of_g) / (float)n.width;
    const float mean_gn = sum_lanes(of_gn) / (float)n.width;
#pragma unroll 4
    for (int64_t c = threadIdx.x % NORM_LANES; c < C; c += NORM_LANES)
        dx[c] = rate * (dy[c] * weight[c] - mean_g - (x[c] - mean) * rate * mean_gn);
}

/* dweight and dbias of 8 channels, from channel `first` on: a thread adds a group's rows of its
 * channel in order, then one the groups. Half the threads have none, so that twice as many
 * multiprocessors take part. */
__device__ static inline void norm_sums(const ls_layer_norm_backward_args &n, int64_t first)
{
    __shared__ float space[2][NORM_GROUPS][NORM_CHANNELS];
    const int64_t lane = threadIdx.x % NORM_CHANNELS, group = threadIdx.x / NORM_CHANNELS;
    const int64_t c = first + lane;
    const bool adds = group < NORM_GROUPS && c < n.width;
    const int64_t end = n.rows * (group + 1) / NORM_GROUPS;
    const float *x = (const float *)n.x, *dy = (const float *)n.dy;
    const float *moments = (const float *)n.moments;
    float dweight = 0, dbias = 0;
    int64_t r = n.rows * group / NORM_GROUPS;
    for (; adds && r < end; r += NORM_FLIGHT) {
        float at[NORM_FLIGHT], back[NORM_FLIGHT], mean[NORM_FLIGHT], rate[NORM_FLIGHT];
#pragma unroll
        for (int i = 0; i < NORM_FLIGHT; i++) { /* behind the end: rows that are not added */
            const int64_t row = r + i < end ? r + i : r;
            at[i] = x[row * n.width + c], back[i] = dy[row * n.width + c];
            mean[i] = moments[2 * row], rate[i] = moments[2 * row + 1];
        }
#pragma unroll
        for (int i = 0; i < NORM_FLIGHT; i++)
            if (r + i < end) {
                dweight += back[i] * ((at[i] - mean[i]) * rate[i]);
                dbias += back[i];
            }
    }
    if (group < NORM_GROUPS) {
        space[0][group][lane] = dweight;
        space[1][group][lane] = dbias;
    }
    __syncthreads();
    if (group >= 2 || c >= n.width) /* group: dweight, dbias */
        return;
    float sum = space[group][0][lane];
    for (int g = 1; g < NORM_GROUPS; g++)
        sum += space[group][g][lane];
    ((float *)(group ? n.dbias : n.dweight))[c] = sum;
}

/* The first blocks add over the rows, each for 8 channels; the others compute dx. */
__global__ static void __launch_bounds__(NORM_THREADS)
    norm_back_kernel(ls_layer_norm_backward_args n, unsigned sum_blocks)
{
    const int64_t rows_of_block = NORM_THREADS / NORM_LANES, others = gridDim.x - sum_blocks;
    if (blockIdx.x < sum_blocks) {
        norm_sums(n, (int64_t)blockIdx.x * NORM_CHANNELS);
        return;
    }
    for (int64_t first = (blockIdx.x - sum_blocks) * rows_of_block; first < n.rows;
         first += others * rows_of_block) { /* equal iterations in all threads */
        const int64_t row = first + threadIdx.x / NORM_LANES;
        normalise_row_back(n, row < n.rows ? row : 0, row < n.rows ? n.width : 0);
    }
}

int ls_gpu_layer_norm_backward(void *stream, const ls_layer_norm_backward_args *args)
{
    const unsigned sum_blocks = (unsigned)((args->width + NORM_CHANNELS - 1) / NORM_CHANNELS);
    return ls_gpu_launch(stream, sum_blocks + ls_gpu_blocks(args->rows, NORM_THREADS / NORM_LANES),
                         NORM_THREADS, norm_back_kernel, *args, sum_blocks);
}

int ls_gpu_load_transformer(void)
{
    return ls_gpu_load(embedding_kernel, sort_kernel, token_sums_kernel, positions_kernel,
                       positions_back_kernel, norm_kernel, norm_back_kernel);
}
