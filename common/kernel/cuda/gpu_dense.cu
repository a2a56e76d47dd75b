/* SPDX-License-Identifier: MIT */
/*
 * Kernels of dense layers beside the library's products: products of a few weights or of no terms,
 * what a product leaves (its pieces, bias, ReLU, mask), column sums (the gradient of a bias). Not
 * yet run on a GPU.
 */
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/element_inline.h"

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

__global__ static void product_kernel(ls_gpu_product p)
{
    const ls_gemm_args &g = p.gemm;
    const float *a = (const float *)g.a, *b = (const float *)g.b;
    const int64_t elements = g.m * g.n, warps = blockDim.x / WARP, lane = threadIdx.x % WARP;
    for (int64_t at = blockIdx.x * warps + threadIdx.x / WARP; at < elements;
         at += gridDim.x * warps) { /* the same turns for all lanes of a warp */
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

/* A block sums up to 32 neighbouring columns: so many that a warp reads whole sectors, and no more
 * than there are, so that narrow matrices have many threads to a column. Row r is in the thread
 * r % threads of its column; these are folded by halves. Where rows are many they are cut into
 * pieces of equal length, whose sums are then added up in the same way. */
enum { SUM_THREADS = 1024 };
static const int64_t PIECE_ROWS = 2048, PIECES_MOST = 256;

/* sums[piece, column] of the rows of each piece. */
__global__ static void column_sums_kernel(const float *x, int64_t rows, int64_t columns,
                                          int64_t piece_rows, unsigned width, float *sums)
{
    __shared__ float space[SUM_THREADS];
    const unsigned thread = threadIdx.x, height = blockDim.x / width;
    const int64_t groups = (columns + width - 1) / width, piece = ls_gpu_divide(blockIdx.x, groups);
    const int64_t column = (blockIdx.x - piece * groups) * width + thread % width;
    const int64_t first = piece * piece_rows;
    const int64_t last = first + piece_rows < rows ? first + piece_rows : rows;
    float sum = 0;
    if (column < columns) {
#pragma unroll 8
        for (int64_t r = first + thread / width; r < last; r += height)
            sum += x[r * columns + column];
    }
    space[thread] = sum;
    __syncthreads();
    for (unsigned half = height / 2; half; half /= 2) {
        if (thread < half * width)
            space[thread] += space[thread + half * width];
        __syncthreads();
    }
    if (thread < width && column < columns)
        sums[piece * columns + column] = space[thread];
}

int64_t ls_gpu_column_pieces(int64_t rows)
{
    const int64_t pieces = rows / PIECE_ROWS;
    return pieces < 2 ? 1 : pieces > PIECES_MOST ? PIECES_MOST : pieces;
}

static int sum_columns(void *stream, const float *x, int64_t rows, int64_t columns, int64_t pieces,
                       float *sums)
{
    unsigned width = 1;
    while (width < WARP && width < columns)
        width *= 2;
    const int64_t groups = (columns + width - 1) / width, piece_rows = (rows + pieces - 1) / pieces;
    return ls_gpu_launch(stream, (unsigned)(groups * pieces), SUM_THREADS, column_sums_kernel, x,
                         rows, columns, piece_rows, width, sums);
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

/* Elements in packs of WIDE. */
template <int WIDE>
__device__ static inline void finish_pack(const ls_gpu_rest &r, int64_t packs, int64_t at)
{
    typedef ls_gpu_pack<float, WIDE> pack;
    pack sum = {}, mask = {};
    if (!r.parts || r.accumulate)
        sum = ((const pack *)r.c)[at];
    for (int p = 0; r.parts && p < r.pieces; p++) {
        const pack part = ((const pack *)r.parts)[p * packs + at];
#pragma unroll
        for (int k = 0; k < WIDE; k++)
            sum.element[k] += part.element[k];
    }
    const float *bias =
        r.bias ? r.bias + at * WIDE - ls_gpu_divide(at * WIDE, r.columns) * r.columns : NULL;
    if (r.mask)
        mask = ((const pack *)r.mask)[at];
#pragma unroll
    for (int k = 0; k < WIDE; k++) {
        float value = bias ? sum.element[k] + bias[k] : sum.element[k];
        value = r.relu ? ls_relu(value) : value;
        sum.element[k] = r.mask ? ls_relu_mask(mask.element[k], value) : value;
    }
    ((pack *)r.c)[at] = sum;
}

template <int WIDE> __global__ void finish_kernel(ls_gpu_rest rest, int64_t packs)
{
    for (int64_t i = ls_gpu_first(); i < packs; i += ls_gpu_stride())
        finish_pack<WIDE>(rest, packs, i);
}

int ls_gpu_finish_product(void *stream, const ls_gpu_rest *rest)
{
    const ls_gpu_rest &r = *rest;
    const int64_t count = r.rows * r.columns;
    const uintptr_t places = (uintptr_t)r.parts | (uintptr_t)r.c | (uintptr_t)r.mask;
    if (!count)
        return 0;
    if ((r.bias ? r.columns : count) % 4 == 0 && places % (4 * sizeof(float)) == 0)
        return ls_gpu_launch(stream, ls_gpu_blocks(count / 4, LS_GPU_THREADS), LS_GPU_THREADS,
                             finish_kernel<4>, r, count / 4);
    return ls_gpu_launch(stream, ls_gpu_blocks(count, LS_GPU_THREADS), LS_GPU_THREADS,
                         finish_kernel<1>, r, count);
}

int ls_gpu_bias(void *stream, float *y, const float *bias, int64_t rows, int64_t columns, bool relu)
{
    const ls_gpu_rest rest = {NULL, 1, rows, columns, false, bias, relu, NULL, y};
    return ls_gpu_finish_product(stream, &rest);
}

int ls_gpu_load_dense(void)
{
    const int errors[] = {
        ls_gpu_load_kernel(product_kernel), ls_gpu_load_kernel(column_sums_kernel),
        ls_gpu_load_kernel(finish_kernel<4>), ls_gpu_load_kernel(finish_kernel<1>)};
    return ls_gpu_first_failure(errors, sizeof errors / sizeof *errors);
}
