/* SPDX-License-Identifier: MIT */
/*
 * Kernels that move elements: transposition, columns, crops of images. Bits as in the cpu table.
 */
#include "common/kernel/crop_draw.h"
#include "common/kernel/cuda/gpu_shares.cuh"

/* ---- transpose: tiles of 32 x 32 by way of shared memory, both sides in whole lines ---------- */

enum { TILE = 32, TILE_LINES = LS_GPU_THREADS / TILE };

/* Transposes [rows, columns]; tile number `at` begins at (row, column). */
__global__ static void __launch_bounds__(LS_GPU_THREADS)
    transpose_kernel(ls_transpose_args args, int64_t tiles_down, int64_t tiles_across)
{
    __shared__ float tile[TILE][TILE + 1]; /* one more column, to avoid bank conflicts */
    const int64_t size = args.rows * args.columns, all = args.batch * tiles_down * tiles_across;
    const int lane = (int)threadIdx.x % TILE, line = (int)threadIdx.x / TILE;
    for (int64_t at = blockIdx.x; at < all; at += gridDim.x) {
        const int64_t down = ls_gpu_divide(at, tiles_across);
        const int64_t batch = ls_gpu_divide(down, tiles_down);
        const int64_t row = (down - batch * tiles_down) * TILE;
        const int64_t column = (at - down * tiles_across) * TILE;
        const float *x = (const float *)args.x + batch * size;
        float *y = (float *)args.y + batch * size;
        for (int r = line; r < TILE; r += TILE_LINES)
            if (row + r < args.rows && column + lane < args.columns)
                tile[r][lane] = x[(row + r) * args.columns + column + lane];
        __syncthreads();
        for (int c = line; c < TILE; c += TILE_LINES)
            if (column + c < args.columns && row + lane < args.rows)
                y[(column + c) * args.rows + row + lane] = tile[lane][c];
        __syncthreads();
    }
}

int ls_gpu_transpose(void *stream, const ls_transpose_args *args)
{
    const int64_t down = (args->rows + TILE - 1) / TILE, across = (args->columns + TILE - 1) / TILE;
    if (!args->batch || !down || !across)
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(args->batch * down * across, 1), LS_GPU_THREADS,
                         transpose_kernel, *args, down, across);
}

/* ---- copy_columns ---------------------------------------------------------------------------- */

__global__ static void __launch_bounds__(LS_GPU_THREADS) columns_kernel(ls_copy_columns_args args)
{
    const int64_t count = args.rows * args.width;
    for (int64_t i = ls_gpu_first(); i < count; i += ls_gpu_stride()) {
        const int64_t row = ls_gpu_divide(i, args.width), column = i - row * args.width;
        ((float *)args.y)[row * args.y_pitch + column] =
            ((const float *)args.x)[row * args.x_pitch + column];
    }
}

int ls_gpu_copy_columns(void *stream, const ls_copy_columns_args *args)
{
    return ls_gpu_launch_over(stream, args->rows * args->width, LS_GPU_THREADS, columns_kernel,
                              *args);
}

/* ---- gather_crops: a block for each image ---------------------------------------------------- */

/* Element i of the crop, by the position read: flipped or not. */
__device__ static inline float crop_element(const ls_gather_crops_args &args, const uint8_t *image,
                                            const ls_crop &crop, int64_t i)
{
    const int64_t side = args.out_side, line = ls_gpu_divide(i, side), x = i - line * side;
    const int64_t channel = ls_gpu_divide(line, side), y = line - channel * side;
    const int64_t row = crop.y + y, column = crop.x + (crop.flip ? side - 1 - x : x);
    if (row < 0 || row >= args.in_side || column < 0 || column >= args.in_side)
        return 0; /* the border */
    return (float)image[(channel * args.in_side + row) * args.in_side + column];
}

/* Sums of bytes and of their squares are integers: exact in any order. */
__global__ static void __launch_bounds__(LS_GPU_THREADS)
    crops_kernel(ls_gather_crops_args args, ls_random random)
{
    __shared__ unsigned long long space[LS_GPU_THREADS];
    __shared__ float shift, factor;
    const int64_t n = args.channels * args.out_side * args.out_side;
    for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
        const ls_crop crop = ls_crop_draw(&args, random, row);
        const uint8_t *image =
            args.source + (int64_t)args.indices[row] * args.channels * args.in_side * args.in_side;
        unsigned long long total = 0, squares = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const unsigned value = (unsigned)crop_element(args, image, crop, i);
            total += value;
            squares += value * value;
        }
        total = ls_gpu_block_sum(total, space);
        __syncthreads();
        squares = ls_gpu_block_sum(squares, space);
        if (threadIdx.x == 0) {
            const double mean = (double)total / (double)n, least = 1 / sqrt((double)n);
            const double deviation = sqrt((double)squares / (double)n - mean * mean);
            shift = (float)mean;
            factor = (float)(1 / (deviation > least ? deviation : least));
        }
        __syncthreads();
        float *out = (float *)args.out + row * n;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            out[i] = (crop_element(args, image, crop, i) - shift) * factor;
        __syncthreads();
    }
}

int ls_gpu_gather_crops(void *stream, const ls_gather_crops_args *args, ls_random random)
{
    if (!args->rows)
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(args->rows, 1), LS_GPU_THREADS, crops_kernel, *args,
                         random);
}

int ls_gpu_load_layout(void)
{
    return ls_gpu_load(transpose_kernel, columns_kernel, crops_kernel);
}
