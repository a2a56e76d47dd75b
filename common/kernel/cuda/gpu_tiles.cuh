/* SPDX-License-Identifier: MIT */
/*
 * Tiles of 64 x 64 floats in shared memory, and their products, for attention: a warp has 16 rows
 * of a tile, a thread 4 rows and 8 columns, so a step of depth 4 has 12 reads of 16 bytes for 128
 * multiply-adds. A tile is a copy of its rows in global memory, with their layout, both for
 * products over its columns and over its rows.
 */
#pragma once

#include "common/device/cuda/gpu_launch.cuh"

enum {
    EDGE = 64,           /* positions, and channels, of a block */
    PACK = 4,            /* floats of an access */
    PACKS = EDGE / PACK, /* of a tile's row */
    ROWS = PACK,         /* of a thread's part of a tile */
    COLUMNS = 2 * PACK,  /* of it: a pack in each half of the tile's columns */
    TILE_WARP = 32,
    WARP_ROWS = 16,
    TILE_THREADS = TILE_WARP * EDGE / WARP_ROWS,
    BANK_PACKS = 8 /* in a row of all banks */
};

typedef ls_gpu_pack<float, PACK> pack;

struct tile {
    pack of[EDGE][PACKS];
};

/* `count` rows of floats, `stride` apart; rows behind them are 0. PACKED: 16 bytes can be accessed
 * at a time. */
template <bool PACKED> struct head_rows {
    const float *at;
    int stride, count;
};

/* A thread's part of a tile. */
struct part {
    float of[ROWS][COLUMNS];
};

/* The first of this thread's rows and columns. A read of four rows, or of eight columns, has lanes
 * 2 i and 2 i + 1 in equal columns: pairs and halves of a warp then share accesses. */
__device__ static inline unsigned thread_row()
{
    const unsigned lane = threadIdx.x % TILE_WARP;
    return threadIdx.x / TILE_WARP * WARP_ROWS + ROWS * (lane % 2 + lane / 16 * 2);
}

__device__ static inline unsigned thread_column()
{
    return PACK * (threadIdx.x / 2 % (EDGE / COLUMNS));
}

/* Column j of a thread's part. */
__device__ static inline unsigned column_of(int j)
{
    return thread_column() + (unsigned)j % PACK + (unsigned)j / PACK * (EDGE / 2);
}

/* Where pack p of a row is: packs of equal number in every fourth row are in other banks. */
__device__ static inline unsigned place_of_pack(unsigned row, unsigned p)
{
    return p ^ row / PACK % BANK_PACKS;
}

/* Begins to copy channels from `first` to `end` of 64 rows, each warp its own parts. */
template <bool PACKED>
__device__ static inline void begin_copy(const head_rows<PACKED> &m, int first, int end, tile &to)
{
    const unsigned thread = ls_gpu_anew(threadIdx.x), p = thread % PACKS;
    const unsigned first_row = thread / TILE_WARP * WARP_ROWS;
    const unsigned row = first_row + thread % TILE_WARP / PACKS; /* 0 or 1 */
    const int c = first + PACK * (int)p, count = m.count - (int)row;
    const float *at = m.at + (int64_t)row * m.stride + c;
#pragma unroll
    for (unsigned i = 0; i < WARP_ROWS; i += TILE_WARP / PACKS) {
        float *const place = to.of[row + i][place_of_pack(first_row + i, p)].element;
        if (PACKED)
            ls_gpu_copy_ahead<sizeof(pack)>(place, at, (int)i < (c < end ? count : 0));
        else
#pragma unroll
            for (int e = 0; e < PACK; e++)
                ls_gpu_copy_ahead<sizeof(float)>(place + e, at + e,
                                                 (int)i < (c + e < end ? count : 0));
        at += (int64_t)(TILE_WARP / PACKS) * m.stride;
    }
}

enum { BYTES = sizeof(pack), ROW_BYTES = PACKS * BYTES };

/* The pack that is `bytes` behind the first of a tile. */
__device__ static inline const pack &pack_at(const tile &of, unsigned bytes)
{
    return *(const pack *)((const char *)&of + bytes);
}

/* sum += a b^T, the first `packs` packs of their rows. */
__device__ static inline void add_pairs(const tile &a, const tile &b, unsigned packs, part &sum)
{
    const unsigned row = thread_row(), column = thread_column();
    const unsigned at_row = row * ROW_BYTES + place_of_pack(row, 0) * BYTES,
                   at_column = column * ROW_BYTES + place_of_pack(column, 0) * BYTES;
#pragma unroll 1
    for (unsigned p = 0; p < packs * BYTES; p += BYTES) { /* place_of_pack is an exclusive or */
        pack x[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            x[i] = pack_at(a, (at_row ^ p) + i * ROW_BYTES);
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            const pack y = pack_at(b, (at_column ^ p) + (column_of(j) - column) * ROW_BYTES);
#pragma unroll
            for (int e = 0; e < PACK; e++)
#pragma unroll
                for (int i = 0; i < ROWS; i++)
                    sum.of[i][j] = fmaf(x[i].element[e], y.element[e], sum.of[i][j]);
        }
    }
}

/* Writes a thread's part of a tile. */
__device__ static inline void leave_part(const part &value, tile &to)
{
    const unsigned row = thread_row(), p = thread_column() / PACK;
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int half = 0; half < COLUMNS / PACK; half++) {
            pack columns;
#pragma unroll
            for (int e = 0; e < PACK; e++)
                columns.element[e] = value.of[i][half * PACK + e];
            to.of[row + i][place_of_pack(row, p) + half * PACKS / 2] = columns;
        }
}

/* sum += a b. */
__device__ static inline void add_tile(const tile &a, const tile &b, part &sum)
{
    const unsigned row = thread_row(), column = thread_column() / PACK * BYTES;
    const unsigned at_row = row * ROW_BYTES + place_of_pack(row, 0) * BYTES;
#pragma unroll 1
    for (unsigned p = 0; p < ROW_BYTES; p += BYTES) {
        const unsigned at = p * (PACK * PACKS) + (column ^ p % (BANK_PACKS * BYTES));
        pack x[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            x[i] = pack_at(a, (at_row ^ p) + i * ROW_BYTES);
#pragma unroll
        for (int e = 0; e < PACK; e++)
#pragma unroll
            for (int half = 0; half < COLUMNS / PACK; half++) {
                const pack y = pack_at(b, at + e * ROW_BYTES + half * ROW_BYTES / 2);
#pragma unroll
                for (int i = 0; i < ROWS; i++)
#pragma unroll
                    for (int j = 0; j < PACK; j++)
                        sum.of[i][half * PACK + j] =
                            fmaf(x[i].element[e], y.element[j], sum.of[i][half * PACK + j]);
            }
    }
}
