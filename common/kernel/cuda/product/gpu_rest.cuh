/* SPDX-License-Identifier: MIT */
/* What own kernels of products share: which tile a block computes, and what follows a product,
 * element by element. */
#pragma once

#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/element_inline.h"

/* Tiles of c, of LS_GPU_TILE_SIDE rows and columns, for each piece of the sum. */
struct ls_gpu_tiling {
    int64_t terms; /* of a piece */
    int row_tiles, column_tiles;
};

/* A tile: its first row and column, and the first term of its piece. */
struct ls_gpu_tile {
    int64_t row, column, term;
    int piece;
};

enum {
    LS_GPU_TILE_SIDE = 128,
    LS_GPU_TILE_NEIGHBOURS = 8 /* rows of tiles that run at the same time */
};

static inline ls_gpu_tiling ls_gpu_tiling_of(int64_t m, int64_t n, int64_t k, int pieces)
{
    enum { SIDE = LS_GPU_TILE_SIDE };
    return {k / pieces, (int)((m + SIDE - 1) / SIDE), (int)((n + SIDE - 1) / SIDE)};
}

/* This block's. */
__device__ static inline ls_gpu_tile ls_gpu_own_tile(const ls_gpu_tiling &p)
{
    enum { SIDE = LS_GPU_TILE_SIDE, NEIGHBOURS = LS_GPU_TILE_NEIGHBOURS };
    const int tiles = p.row_tiles * p.column_tiles, piece = (int)blockIdx.x / tiles;
    const int tile = (int)blockIdx.x % tiles;
    const int top = tile / (NEIGHBOURS * p.column_tiles) * NEIGHBOURS;
    const int height = p.row_tiles - top < NEIGHBOURS ? p.row_tiles - top : NEIGHBOURS;
    const int within = tile - top * p.column_tiles;
    return {(int64_t)(top + within % height) * SIDE, (int64_t)(within / height) * SIDE,
            piece * p.terms, piece};
}

/* Finishes element `at` of c in this column, whose `sum` is known: bias, ReLU and mask. NaN stays,
 * so that a product of infinite factors shows in the loss. */
__device__ static inline float ls_gpu_finish(const ls_gpu_rest &r, int64_t at, int64_t column,
                                             float sum)
{
    if (r.bias)
        sum += r.bias[column];
    sum = r.relu && sum <= 0 ? 0 : sum;
    return r.mask ? ls_relu_mask(r.mask[at], sum) : sum;
}
