/* SPDX-License-Identifier: MIT */
/*
 * Kernels of dense layers besides the library's products: products of a few weights or without
 * terms, the steps after a product (pieces, bias, ReLU, mask), column sums (a bias's gradient), the
 * backward pass of a layer with few outputs.
 */
#include "common/base/bf16_inline.h"
#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/cuda/product/gpu_rest.cuh"

enum { WARP = 32 };

/* ---- plain_product: a warp for each element, term k in lane k % 32 --------------------------- */

__device__ static inline float finish_element(const ls_gpu_product &p, int64_t at, double sum)
{
    const float *c = (const float *)p.gemm.c;
    if (p.gemm.accumulate)
        sum += (double)c[at];
    if (p.bias)
        sum += (double)p.bias[at % p.gemm.n];
    float value = (float)sum;
    value = p.relu ? ls_relu(value) : value;
    return p.mask ? ls_relu_mask(p.mask[at], value) : value;
}

__global__ static void __launch_bounds__(LS_GPU_THREADS) product_kernel(ls_gpu_product p)
{
    const ls_gemm_args &g = p.gemm;
    const float *a = (const float *)g.a, *b = (const float *)g.b;
    const int64_t elements = g.m * g.n, warps = blockDim.x / WARP, lane = threadIdx.x % WARP;
    for (int64_t at = blockIdx.x * warps + threadIdx.x / WARP; at < elements;
         at += gridDim.x * warps) { /* equally many iterations in all lanes of a warp */
        const int64_t row = at / g.n, column = at % g.n;
        double sum = 0;
        for (int64_t k = lane; k < g.k; k += WARP)
            sum += (double)a[g.transpose_a ? k * g.m + row : row * g.k + k] *
                   (double)b[g.transpose_b ? column * g.k + k : k * g.n + column];
#pragma unroll
        for (int half = WARP / 2; half; half /= 2)
            sum += ls_gpu_exchange(sum, half);
        if (lane == 0)
            ((float *)g.c)[at] = finish_element(p, at, sum);
    }
}

int ls_gpu_plain_product(void *stream, const ls_gpu_product *product)
{
    const int64_t elements = product->gemm.m * product->gemm.n;
    if (!elements)
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(elements, LS_GPU_THREADS / WARP), LS_GPU_THREADS,
                         product_kernel, *product);
}

/* ---- column_sums ----------------------------------------------------------------------------- */

/* A block sums up to 32 neighbouring columns: enough for a warp to read whole sectors, but not more
 * than there are, so that narrow matrices have many threads per column. Row r is added by thread r
 * % threads of its column; the threads' sums are folded by halves. Many rows are split into pieces
 * of equal length, whose sums are then added in the same way. */
enum { SUM_THREADS = 1024 };
static const int64_t PIECE_ROWS = 2048, PIECES_MOST = 256;

template <typename T> struct column_sums {
    const T *x; /* [rows,columns], of float or bfloat16 */
    int64_t rows, columns, piece_rows;
    unsigned width; /* columns per block */
    float *sums;    /* [piece,columns]: over the rows of each piece */
};

__device__ static inline float float_of(float x)
{
    return x;
}

__device__ static inline float float_of(uint16_t x)
{
    return ls_float_of_bf16(x);
}

template <typename T> __device__ static inline void sum_columns_of_block(const column_sums<T> &s)
{
    __shared__ float space[SUM_THREADS];
    const unsigned thread = threadIdx.x, width = s.width, height = SUM_THREADS / width;
    const int64_t groups = (s.columns + width - 1) / width;
    const int64_t piece = ls_gpu_divide(blockIdx.x, groups);
    const int64_t column = (blockIdx.x - piece * groups) * width + thread % width;
    const int64_t first = piece * s.piece_rows;
    const int64_t last = first + s.piece_rows < s.rows ? first + s.piece_rows : s.rows;
    float sum = 0;
    if (column < s.columns) {
#pragma unroll 8
        for (int64_t r = first + thread / width; r < last; r += height)
            sum += float_of(s.x[r * s.columns + column]);
    }
    space[thread] = sum;
    __syncthreads();
    for (unsigned half = height / 2; half; half /= 2) {
        if (thread < half * width)
            space[thread] += space[thread + half * width];
        __syncthreads();
    }
    if (thread < width && column < s.columns)
        s.sums[piece * s.columns + column] = space[thread];
}

template <typename T>
__global__ static void __launch_bounds__(SUM_THREADS) column_sums_kernel(column_sums<T> sums)
{
    sum_columns_of_block(sums);
}

int64_t ls_gpu_column_pieces(int64_t rows)
{
    const int64_t pieces = rows / PIECE_ROWS;
    return pieces < 2 ? 1 : pieces > PIECES_MOST ? PIECES_MOST : pieces;
}

template <typename T>
static column_sums<T> columns_of(const T *x, int64_t rows, int64_t columns, int64_t pieces,
                                 float *sums)
{
    unsigned width = 1;
    while (width < WARP && width < columns)
        width *= 2;
    return {x, rows, columns, (rows + pieces - 1) / pieces, width, sums};
}

template <typename T> static unsigned blocks_of(const column_sums<T> &s, int64_t pieces)
{
    return (unsigned)((s.columns + s.width - 1) / s.width * pieces);
}

template <typename T>
static int sum_columns(void *stream, const T *x, int64_t rows, int64_t columns, int64_t pieces,
                       float *sums)
{
    const column_sums<T> s = columns_of(x, rows, columns, pieces, sums);
    return ls_gpu_launch(stream, blocks_of(s, pieces), SUM_THREADS, column_sums_kernel<T>, s);
}

int ls_gpu_bf16_column_sums(void *stream, const ls_bf16_column_sums_args *args)
{
    return args->columns
               ? sum_columns(stream, args->x, args->rows, args->columns, 1, (float *)args->sums)
               : 0;
}

int ls_gpu_column_sums(void *stream, const float *x, int64_t rows, int64_t columns, float *memory,
                       float *sums)
{
    const int64_t pieces = memory ? ls_gpu_column_pieces(rows) : 1;
    if (!columns)
        return 0;
    if (pieces == 1)
        return sum_columns(stream, x, rows, columns, 1, sums);
    const int error = sum_columns(stream, x, rows, columns, pieces, memory);
    return error ? error : sum_columns(stream, memory, pieces, columns, 1, sums);
}

/* ---- finish_product -------------------------------------------------------------------------- */

__device__ static inline void finish_rest(const ls_gpu_rest &r, int64_t count, int64_t at)
{
    float sum = !r.parts || r.accumulate ? r.c[at] : 0;
    for (int p = 0; r.parts && p < r.pieces; p++)
        sum += r.parts[p * count + at];
    const int64_t column = r.bias ? at - ls_gpu_divide(at, r.columns) * r.columns : 0;
    r.c[at] = ls_gpu_finish(r, at, column, sum);
}

/* By `blocks` blocks of this launch; this one has number `block`. */
__device__ static inline void finish(const ls_gpu_rest &r, unsigned block, unsigned blocks)
{
    const int64_t count = r.rows * r.columns, stride = (int64_t)blocks * blockDim.x;
    for (int64_t i = (int64_t)block * blockDim.x + threadIdx.x; i < count; i += stride)
        finish_rest(r, count, i);
}

__global__ static void __launch_bounds__(LS_GPU_THREADS) rest_kernel(ls_gpu_rest rest)
{
    finish(rest, blockIdx.x, gridDim.x);
}

int ls_gpu_finish_product(void *stream, const ls_gpu_rest *rest)
{
    return ls_gpu_launch_over(stream, rest->rows * rest->columns, LS_GPU_THREADS, rest_kernel,
                              *rest);
}

int ls_gpu_bias(void *stream, float *y, const float *bias, int64_t rows, int64_t columns, bool relu)
{
    const ls_gpu_rest rest = {NULL, 1, rows, columns, false, bias, relu, NULL, y};
    return ls_gpu_finish_product(stream, &rest);
}

/* ---- finish_backward: column sums in the first blocks, then both rests ----------------------- */

struct backward_rest {
    column_sums<float> sums;
    ls_gpu_rest rest[2];
    unsigned blocks[3];
};

__global__ static void __launch_bounds__(SUM_THREADS) finish_backward_kernel(backward_rest b)
{
    unsigned block = blockIdx.x;
    if (block < b.blocks[0]) {
        sum_columns_of_block(b.sums);
        return;
    }
    block -= b.blocks[0];
    if (block < b.blocks[1])
        finish(b.rest[0], block, b.blocks[1]);
    else
        finish(b.rest[1], block - b.blocks[1], b.blocks[2]);
}

int ls_gpu_finish_backward(void *stream, const ls_gpu_backward_rest *rest)
{
    backward_rest b = {columns_of(rest->dy, rest->rows, rest->outputs, 1, rest->dbias),
                       {rest->weights, rest->data},
                       {}};
    b.blocks[0] = rest->dbias ? blocks_of(b.sums, 1) : 0;
    for (int i = 0; i < 2; i++) {
        const int64_t count = b.rest[i].rows * b.rest[i].columns;
        b.blocks[1 + i] = count ? ls_gpu_blocks(count, SUM_THREADS) : 0;
    }
    const unsigned blocks = b.blocks[0] + b.blocks[1] + b.blocks[2];
    return blocks ? ls_gpu_launch(stream, blocks, SUM_THREADS, finish_backward_kernel, b) : 0;
}

/* ---- narrow_backward ------------------------------------------------------------------------- */

/* The first blocks sum over the rows, each for 32 inputs and up to 16 outputs; the bias counts as
 * an input that is always 1. Row r is added by warp r % 16, and the warps' sums are then added in
 * order. The other blocks compute dx, one element per thread, its terms in order. */
enum { NARROW_THREADS = 512, NARROW_OUTPUTS = 16, NARROW_WARPS = NARROW_THREADS / WARP };

struct narrow_backward {
    ls_dense_backward_args args;
    int64_t groups; /* of inputs */
    unsigned sum_blocks;
};

__device__ static inline void narrow_weights(const narrow_backward &n)
{
    __shared__ float space[NARROW_OUTPUTS][NARROW_THREADS];
    const ls_dense_backward_weights_args &w = n.args.weights;
    const float *x = (const float *)w.x, *dy = (const float *)w.dy;
    const int64_t first = blockIdx.x / n.groups * NARROW_OUTPUTS;
    const int64_t group = blockIdx.x % n.groups * WARP;
    const int64_t left = w.outputs - first, most = NARROW_OUTPUTS;
    const int64_t outputs = left < most ? left : most;
    const int64_t column = group + threadIdx.x % WARP;
    float sum[NARROW_OUTPUTS] = {};
    if (column <= w.inputs) {
#pragma unroll 4
        for (int64_t r = threadIdx.x / WARP; r < w.rows; r += NARROW_WARPS) {
            const float value = column < w.inputs ? x[r * w.inputs + column] : 1;
#pragma unroll
            for (int o = 0; o < NARROW_OUTPUTS; o++)
                if (o < outputs)
                    sum[o] += value * dy[r * w.outputs + first + o];
        }
    }
#pragma unroll
    for (int o = 0; o < NARROW_OUTPUTS; o++)
        space[o][threadIdx.x] = sum[o];
    __syncthreads();
    const int64_t o = threadIdx.x / WARP; /* as many warps as outputs */
    if (o >= outputs || column > w.inputs)
        return;
    float all = 0;
    for (int warp = 0; warp < NARROW_WARPS; warp++)
        all += space[o][warp * WARP + threadIdx.x % WARP];
    if (column < w.inputs)
        ((float *)w.dweight)[(first + o) * w.inputs + column] = all;
    else if (w.dbias)
        ((float *)w.dbias)[first + o] = all;
}

__global__ static void __launch_bounds__(NARROW_THREADS) narrow_backward_kernel(narrow_backward n)
{
    if (blockIdx.x < n.sum_blocks) {
        narrow_weights(n);
        return;
    }
    const ls_dense_backward_data_args &d = n.args.data;
    const float *dy = (const float *)d.dy, *w = (const float *)d.weight;
    const float *mask = (const float *)d.relu_output;
    const int64_t elements = d.rows * d.inputs;
    const int64_t stride = (int64_t)(gridDim.x - n.sum_blocks) * NARROW_THREADS;
    for (int64_t at = (int64_t)(blockIdx.x - n.sum_blocks) * NARROW_THREADS + threadIdx.x;
         at < elements; at += stride) {
        const int64_t row = ls_gpu_divide(at, d.inputs), column = at - row * d.inputs;
        float sum = 0;
        for (int64_t o = 0; o < d.outputs; o++)
            sum += dy[row * d.outputs + o] * w[o * d.inputs + column];
        ((float *)d.dx)[at] = mask ? ls_relu_mask(mask[at], sum) : sum;
    }
}

int ls_gpu_narrow_backward(void *stream, const ls_dense_backward_args *args)
{
    const ls_dense_backward_weights_args &w = args->weights;
    const ls_dense_backward_data_args &d = args->data;
    narrow_backward n = {*args, w.inputs / WARP + 1, 0};
    if (w.dweight || w.dbias)
        n.sum_blocks = (unsigned)(n.groups * ((w.outputs + NARROW_OUTPUTS - 1) / NARROW_OUTPUTS));
    const int64_t elements = d.dx ? d.rows * d.inputs : 0;
    const unsigned more = elements ? ls_gpu_blocks(elements, NARROW_THREADS) : 0;
    if (!(n.sum_blocks + more))
        return 0;
    return ls_gpu_launch(stream, n.sum_blocks + more, NARROW_THREADS, narrow_backward_kernel, n);
}

int ls_gpu_load_dense(void)
{
    return ls_gpu_load(product_kernel, column_sums_kernel<float>, column_sums_kernel<uint16_t>,
                       rest_kernel, finish_backward_kernel, narrow_backward_kernel);
}
