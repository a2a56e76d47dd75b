/* SPDX-License-Identifier: MIT */
/*
 * Attention of values stored in bfloat16 on tensor cores, from compute capability 8.0 on: tiles of
 * a head's rows in shared memory, and their products. What is not stored, shares of keys and slopes
 * of scores, is not rounded: a float is the sum of three numbers of bfloat16, so that all products
 * are exact, but for parts below 2^-126. They are added in float32, 16 terms at a time, in the
 * order of positions or channels.
 *
 * A block has 64 positions of one head, a warp 16 of them, whose sums are in its registers.
 */
#pragma once

#include "common/kernel/cuda/transformer/gpu_attention.cuh"

enum {
    CORE_LANES = 32,
    CORE_WARPS = 4,
    CORE_THREADS = CORE_WARPS * CORE_LANES,
    CORE_UNIT = 16, /* rows, terms, and columns of two products */
    CORE_CHUNK = 8, /* elements of 16 bytes */
    CORE_PARTS = 3, /* numbers of bfloat16 of a float */
    TILE_UNITS = EDGE / CORE_UNIT
};

static_assert(EDGE == CORE_WARPS * CORE_UNIT, "a position belongs to a warp");

/* `count` rows of a head, `stride` apart; rows behind them are 0. */
struct stored_rows {
    const uint16_t *at;
    int stride, count;
};

/* Rows of a head in shared memory, lines of up to WIDTH channels, in chunks of eight, whose order
 * in a line depends on the line's number, so that eight lines' chunks are in different banks. */
template <int WIDTH> struct core_tile {
    __device__ static int place(int line, int chunk)
    {
        return line * WIDTH + (chunk ^ line % 8) * CORE_CHUNK;
    }

    /* Begins to copy LINES rows; channels from `channels` to the end of a unit are 0. */
    template <int LINES, bool PACKED>
    __device__ static void copy(const stored_rows &m, int channels, uint16_t *to)
    {
        enum { SIZE = PACKED ? CORE_CHUNK : 1, ITEMS = LINES * WIDTH / SIZE };
        const int end = (channels + CORE_UNIT - 1) / CORE_UNIT * CORE_UNIT;
#pragma unroll 4
        for (int item = (int)ls_gpu_anew(threadIdx.x); item < ITEMS; item += CORE_THREADS) {
            const int line = item / (WIDTH / SIZE), first = item % (WIDTH / SIZE) * SIZE;
            const bool there = line < m.count && first < channels;
            const uint16_t *const from = there ? m.at + (int64_t)line * m.stride + first : m.at;
            uint16_t *const at = to + place(line, first / CORE_CHUNK) + first % CORE_CHUNK;
            if (first >= end)
                continue;
            if (PACKED)
                ls_gpu_copy_ahead<16>((float *)at, (const float *)from, there);
            else
                *at = there ? *from : (uint16_t)0;
        }
    }

    /* 16 edges (rows of the left factor, columns of the right one) by 16 terms, as in
     * gpu_bf16.cu; lines are edges or, if TURNED, terms. */
    template <bool TURNED>
    __device__ static void read(const uint16_t *of, int lane, int edge, int term, unsigned (&to)[4])
    {
        const int line = TURNED ? term + lane % 8 + lane / 16 * 8 : edge + lane % 16;
        const int chunk = TURNED ? edge / CORE_CHUNK + lane / 8 % 2 : term / CORE_CHUNK + lane / 16;
        ls_gpu_read_eights<TURNED>(of + place(line, chunk), to);
    }
};

/* This thread's lane. Computed anew, so that addresses that follow from it stay in registers no
 * longer than a tile is multiplied. */
__device__ static inline int core_lane()
{
    return (int)(ls_gpu_anew(threadIdx.x) % CORE_LANES);
}

/* The first of the warp's rows. */
__device__ static inline int warp_row()
{
    return (int)threadIdx.x / CORE_LANES * CORE_UNIT;
}

/* A warp's 16 rows of a tile: lane l has of each eight columns columns 2 (l % 4) and 2 (l % 4) + 1,
 * of rows l / 4 and then l / 4 + 8. */
template <int COUNT> struct core_part {
    float of[COUNT / 8][4];
};

__device__ static inline int core_row(int lane, int half)
{
    return warp_row() + lane / 4 + half * 8;
}

__device__ static inline int core_column(int lane, int eight)
{
    return eight * 8 + lane % 4 * 2;
}

typedef unsigned core_split[CORE_PARTS][4];

/* Two neighbours of a row as elements `i` of a left factor, each as the sum of three numbers of 8
 * bits: the upper bits first. What is not finite ends as NaN. */
__device__ static inline void split_pair(ls_gpu_pack<float, 2> of, int i, core_split &to)
{
#pragma unroll
    for (int p = 0; p < CORE_PARTS; p++) {
        const uint32_t first = ls_bits_of_float(of.element[0]) & 0xffff0000u;
        const uint32_t second = ls_bits_of_float(of.element[1]) & 0xffff0000u;
        to[p][i] = first >> 16 | second;
        of.element[0] -= ls_float_of_bits(first), of.element[1] -= ls_float_of_bits(second);
    }
}

/* sum += a b, of 16 columns: the lower bits first. */
__device__ static inline void add_split(const core_split &a, const unsigned (&b)[4],
                                        float (&left)[4], float (&right)[4])
{
#pragma unroll
    for (int p = CORE_PARTS - 1; p >= 0; p--) {
        ls_gpu_multiply_bf16(a[p], b[0], b[2], left);
        ls_gpu_multiply_bf16(a[p], b[1], b[3], right);
    }
}

/* sum += a b, where a has a warp's rows and COUNT columns, and b lies in shared memory, a line
 * for each of these columns; `units` of channels. */
template <int WIDTH, int COUNT>
__device__ static inline void add_positions(const core_part<COUNT> &a, const uint16_t *b, int units,
                                            core_part<WIDTH> &sum)
{
    const int lane = core_lane();
#pragma unroll
    for (int t = 0; t < COUNT / CORE_UNIT; t++) {
        core_split parts;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *const two = a.of[2 * t + i / 2] + i % 2 * 2;
            split_pair({{two[0], two[1]}}, i, parts);
        }
#pragma unroll
        for (int u = 0; u < WIDTH / CORE_UNIT; u++) {
            unsigned column[4];
            if (u >= units)
                continue;
            core_tile<WIDTH>::template read<true>(b, lane, u * CORE_UNIT, t * CORE_UNIT, column);
            add_split(parts, column, sum.of[2 * u], sum.of[2 * u + 1]);
        }
    }
}

/* sum += a b^T for one unit of channels: b's lines are the COUNT columns. */
template <int WIDTH, int COUNT>
__device__ static inline void add_unit(const unsigned (&a)[4], int lane, const uint16_t *b,
                                       int unit, core_part<COUNT> &sum)
{
#pragma unroll
    for (int e = 0; e < COUNT / CORE_UNIT; e++) {
        unsigned column[4];
        core_tile<WIDTH>::template read<false>(b, lane, e * CORE_UNIT, unit * CORE_UNIT, column);
        ls_gpu_multiply_bf16(a, column[0], column[2], sum.of[2 * e]);
        ls_gpu_multiply_bf16(a, column[1], column[3], sum.of[2 * e + 1]);
    }
}

/* sum += a b^T over `units` of channels, for 16 lines of a from `row` on. */
template <int WIDTH, int COUNT>
__device__ static inline void add_channels(const uint16_t *a, int row, const uint16_t *b, int units,
                                           core_part<COUNT> &sum)
{
    const int lane = core_lane();
#pragma unroll 1
    for (int u = 0; u < units; u++) {
        unsigned own[4];
        core_tile<WIDTH>::template read<false>(a, lane, row, u * CORE_UNIT, own);
        add_unit<WIDTH>(own, lane, b, u, sum);
    }
}

/* Rows of the head from `position` on of an array of rows of `stride`, at `offset` in each. */
__device__ static inline stored_rows stored_rows_of(const attention_place &p, const void *array,
                                                    int stride, int offset, int position)
{
    return {(const uint16_t *)array + (p.start + position) * stride + (p.offset + offset), stride,
            p.T - position};
}

/* q, k or v (0, 1, 2). */
__device__ static inline stored_rows stored_qkv(const attention_place &p, const void *qkv,
                                                int which, int position)
{
    return stored_rows_of(p, qkv, 3 * p.C, which * p.C, position);
}

/* Rounds a warp's rows, times `factor` of each half of them, and writes them. */
template <int WIDTH, bool PACKED>
__device__ static inline void put_rounded(const attention_place &p, void *array, int stride,
                                          int offset, const core_part<WIDTH> &value,
                                          const float (&factor)[2])
{
    const int lane = core_lane();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int position = p.position + core_row(lane, half);
        if (position >= p.T)
            continue;
        uint16_t *const row =
            (uint16_t *)array + (p.start + position) * stride + (p.offset + offset);
#pragma unroll
        for (int j = 0; j < WIDTH / 8; j++) {
            const int channel = core_column(lane, j);
            ls_gpu_pack<uint16_t, 2> two;
#pragma unroll
            for (int e = 0; e < 2; e++)
                two.element[e] = ls_bf16_of_float(value.of[j][2 * half + e] * factor[half]);
            if (PACKED) {
                if (channel < p.d)
                    *(ls_gpu_pack<uint16_t, 2> *)(row + channel) = two;
            } else
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (channel + e < p.d)
                        row[channel + e] = two.element[e];
        }
    }
}

__device__ static inline int units_of(const attention_place &p)
{
    return (p.d + CORE_UNIT - 1) / CORE_UNIT;
}

/* Whether 16 bytes of rows of a head can be accessed at a time. */
static bool has_chunks(const ls_attention_shape *s, const void *array)
{
    return s->width / s->heads % CORE_CHUNK == 0 &&
           (uintptr_t)array % (CORE_CHUNK * sizeof(uint16_t)) == 0;
}
