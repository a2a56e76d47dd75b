/* SPDX-License-Identifier: MIT */
/*
 * Attention on tensor cores, from compute capability 8.0 on: tiles of a head's rows in shared
 * memory, and their products. Tensor cores multiply bfloat16, which is 8 bits of a float: a float
 * is the sum of three such numbers, but for what is below 2^-126, and of two up to 2^-15 of it.
 * Elements of rows have PARTS of them: one where they are stored in bfloat16; two with --math tf32;
 * three in float32. Shares of keys and slopes of scores, which are never stored, have two in tf32,
 * else three. Products of parts below the last part of the longer factor are left out: at most
 * 2^-14 of a product in tf32, 2^-21 in float32, and none of stored elements.
 *
 * Tensor cores cut sums instead of rounding them, so no more than 32 terms are summed there, the
 * lower parts first; these sums are added as floats, in the order of positions or channels.
 *
 * A block has 64 positions of one head, a warp 16 of them, whose sums are in its registers.
 */
#pragma once

#include "common/kernel/cuda/transformer/gpu_attention.cuh"

enum {
    CORE_LANES = 32,
    CORE_WARPS = 4,
    CORE_THREADS = CORE_WARPS * CORE_LANES,
    CORE_UNIT = 16,  /* rows, terms, and columns of two products */
    CORE_EIGHT = 8,  /* elements whose place in a line changes together */
    CORE_BYTES = 16, /* of an access */
    CORE_UNITS = 2,  /* of terms that are summed at a time, at most */
    TILE_UNITS = EDGE / CORE_UNIT
};

static_assert(EDGE == CORE_WARPS * CORE_UNIT, "a position belongs to a warp");

/* What elements are: of type T, and numbers of bfloat16, PARTS of an element, SHARE_PARTS of a
 * share or slope. */
template <typename TYPE, int OF_ELEMENT> struct core_numbers {
    typedef TYPE T;
    enum {
        PARTS = OF_ELEMENT,
        SHARE_PARTS = PARTS == 2 ? 2 : 3,
        UNITS = PARTS == 1 ? 1 : CORE_UNITS, /* of positions that are summed at a time */
        CHUNK = CORE_BYTES / (int)sizeof(T)  /* elements of an access */
    };
};
typedef core_numbers<uint16_t, 1> core_stored;
typedef core_numbers<float, 2> core_tf32;
typedef core_numbers<float, 3> core_float32;

/* `count` rows of a head, `stride` apart; rows behind them are 0. */
template <typename T> struct core_rows {
    const T *at;
    int stride, count;
};

/* Two neighbours of a row as elements `i` of a factor, each as a sum of numbers of 8 bits: the
 * upper bits first. What is not finite ends as NaN. */
template <int PARTS>
__device__ static inline void split_pair(ls_gpu_pack<float, 2> of, int i, unsigned (&to)[PARTS][4])
{
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        const uint32_t first = ls_bits_of_float(of.element[0]) & 0xffff0000u;
        const uint32_t second = ls_bits_of_float(of.element[1]) & 0xffff0000u;
        to[p][i] = first >> 16 | second;
        of.element[0] -= ls_float_of_bits(first), of.element[1] -= ls_float_of_bits(second);
    }
}

/* Rows of a head in shared memory, lines of WIDTH elements, in eights whose order in a line depends
 * on the line's number, so that what a warp accesses at a time is in different banks: chunks of
 * eight lines; of floats, pairs of four neighbouring lines, and eights of four lines that are two
 * apart. */
template <typename N, int WIDTH> struct core_tile {
    typedef typename N::T T;

    __device__ static int place(int line, int channel)
    {
        return line * WIDTH + (channel ^ (line ^ line / 2) % 8 * CORE_EIGHT);
    }

    /* Begins to copy LINES rows; channels from `channels` to the end of a unit are 0. */
    template <int LINES, bool PACKED>
    __device__ static void copy(const core_rows<T> &m, int channels, T *to)
    {
        enum { SIZE = PACKED ? N::CHUNK : 1, ITEMS = LINES * WIDTH / SIZE };
        const int end = (channels + CORE_UNIT - 1) / CORE_UNIT * CORE_UNIT;
#pragma unroll 4
        for (int item = (int)ls_gpu_anew(threadIdx.x); item < ITEMS; item += CORE_THREADS) {
            const int line = item / (WIDTH / SIZE), first = item % (WIDTH / SIZE) * SIZE;
            const bool there = line < m.count && first < channels;
            const T *const from = there ? m.at + (int64_t)line * m.stride + first : m.at;
            T *const at = to + place(line, first);
            if (first >= end)
                continue;
            if (PACKED)
                ls_gpu_copy_ahead<CORE_BYTES>((float *)at, (const float *)from, there);
            else
                *at = there ? *from : (T)0;
        }
    }

    /* 16 edges (rows of the left factor, columns of the right one) by 16 terms, as in
     * gpu_bf16.cu; lines are edges or, if TURNED, terms. */
    template <bool TURNED>
    __device__ static void read(const uint16_t *of, int lane, int edge, int term,
                                unsigned (&to)[1][4])
    {
        const int line = TURNED ? term + lane % 8 + lane / 16 * 8 : edge + lane % 16;
        const int first = TURNED ? edge + lane / 8 % 2 * 8 : term + lane / 16 * 8;
        ls_gpu_read_eights<TURNED>(of + place(line, first), to[0]);
    }

    template <bool TURNED, int PARTS>
    __device__ static void read(const float *of, int lane, int edge, int term,
                                unsigned (&to)[PARTS][4])
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int e = edge + lane / 4 + i % 2 * 8, t = term + i / 2 * 8 + lane % 4 * 2;
            ls_gpu_pack<float, 2> two;
            if (TURNED)
                two = {{of[place(t, e)], of[place(t + 1, e)]}};
            else
                two = *(const ls_gpu_pack<float, 2> *)(of + place(e, t));
            split_pair(two, i, to);
        }
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

/* sum += a b of 16 terms and 16 columns: the lower parts first. */
template <int A, int B>
__device__ static inline void multiply_parts(const unsigned (&a)[A][4], const unsigned (&b)[B][4],
                                             float (&left)[4], float (&right)[4])
{
#pragma unroll
    for (int last = (A > B ? A : B) - 1; last >= 0; last--)
#pragma unroll
        for (int i = last; i >= 0; i--)
            if (i < A && last - i < B) {
                ls_gpu_multiply_bf16(a[i], b[last - i][0], b[last - i][2], left);
                ls_gpu_multiply_bf16(a[i], b[last - i][1], b[last - i][3], right);
            }
}

/* sum += a b of `count` units of terms from `term` on, and 16 columns from `edge` on. */
template <typename N, int WIDTH, bool TURNED, int UNITS, int PARTS>
__device__ static inline void add_terms(const unsigned (&a)[UNITS][PARTS][4], int count, int lane,
                                        const typename N::T *b, int edge, int term,
                                        float (&left)[4], float (&right)[4])
{
    float part[2][4] = {};
#pragma unroll
    for (int u = 0; u < UNITS; u++) {
        unsigned column[N::PARTS][4];
        if (u >= count)
            continue;
        core_tile<N, WIDTH>::template read<TURNED>(b, lane, edge, term + u * CORE_UNIT, column);
        multiply_parts(a[u], column, part[0], part[1]);
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        left[i] += part[0][i], right[i] += part[1][i];
}

/* sum += a b, where a has a warp's rows and COUNT columns, and b lies in shared memory, a line
 * for each of these columns; `units` of channels. */
template <typename N, int WIDTH, int COUNT>
__device__ static inline void add_positions(const core_part<COUNT> &a, const typename N::T *b,
                                            int units, core_part<WIDTH> &sum)
{
    enum { UNITS = N::UNITS };
    const int lane = core_lane();
#pragma unroll
    for (int t = 0; t < COUNT / CORE_UNIT; t += UNITS) {
        unsigned parts[UNITS][N::SHARE_PARTS][4];
#pragma unroll
        for (int i = 0; i < 4 * UNITS; i++) {
            const float *const two = a.of[2 * t + i / 2] + i % 2 * 2;
            split_pair({{two[0], two[1]}}, i % 4, parts[i / 4]);
        }
#pragma unroll
        for (int u = 0; u < WIDTH / CORE_UNIT; u++)
            if (u < units)
                add_terms<N, WIDTH, true>(parts, UNITS, lane, b, u * CORE_UNIT, t * CORE_UNIT,
                                          sum.of[2 * u], sum.of[2 * u + 1]);
    }
}

/* sum += a b^T over `units` of channels, for 16 lines of a from `row` on; b's lines are the COUNT
 * columns. */
template <typename N, int WIDTH, int COUNT>
__device__ static inline void add_channels(const typename N::T *a, int row, const typename N::T *b,
                                           int units, core_part<COUNT> &sum)
{
    const int lane = core_lane();
#pragma unroll 1
    for (int u = 0; u < units; u += CORE_UNITS) {
        unsigned own[CORE_UNITS][N::PARTS][4] = {};
#pragma unroll
        for (int i = 0; i < CORE_UNITS; i++)
            if (u + i < units)
                core_tile<N, WIDTH>::template read<false>(a, lane, row, (u + i) * CORE_UNIT,
                                                          own[i]);
#pragma unroll
        for (int e = 0; e < COUNT / CORE_UNIT; e++)
            add_terms<N, WIDTH, false>(own, units - u, lane, b, e * CORE_UNIT, u * CORE_UNIT,
                                       sum.of[2 * e], sum.of[2 * e + 1]);
    }
}

/* Rows of the head from `position` on of an array of rows of `stride`, at `offset` in each. */
template <typename T>
__device__ static inline core_rows<T> core_rows_of(const attention_place &p, const void *array,
                                                   int stride, int offset, int position)
{
    return {(const T *)array + (p.start + position) * stride + (p.offset + offset), stride,
            p.T - position};
}

/* q, k or v (0, 1, 2). */
template <typename T>
__device__ static inline core_rows<T> core_qkv(const attention_place &p, const void *qkv, int which,
                                               int position)
{
    return core_rows_of<T>(p, qkv, 3 * p.C, which * p.C, position);
}

/* An element that has this value. */
template <typename T> __device__ static inline T element_of(float value)
{
    return value;
}

template <> __device__ inline uint16_t element_of<uint16_t>(float value)
{
    return ls_bf16_of_float(value);
}

/* Writes a warp's rows, times `factor` of each half of them. */
template <typename T, int WIDTH, bool PACKED>
__device__ static inline void put_rows(const attention_place &p, void *array, int stride,
                                       int offset, const core_part<WIDTH> &value,
                                       const float (&factor)[2])
{
    const int lane = core_lane();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int position = p.position + core_row(lane, half);
        if (position >= p.T)
            continue;
        T *const row = (T *)array + (p.start + position) * stride + (p.offset + offset);
#pragma unroll
        for (int j = 0; j < WIDTH / 8; j++) {
            const int channel = core_column(lane, j);
            ls_gpu_pack<T, 2> two;
#pragma unroll
            for (int e = 0; e < 2; e++)
                two.element[e] = element_of<T>(value.of[j][2 * half + e] * factor[half]);
            if (PACKED) {
                if (channel < p.d)
                    *(ls_gpu_pack<T, 2> *)(row + channel) = two;
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
static bool has_chunks(const ls_attention_shape *s, bool stored, const void *array)
{
    const int64_t chunk = stored ? (int64_t)core_stored::CHUNK : (int64_t)core_float32::CHUNK;
    return s->width / s->heads % chunk == 0 && (uintptr_t)array % CORE_BYTES == 0;
}

/* The place of a kernel among those of stored elements, stored ones of wide heads, TF32 and
 * float32, each not packed and packed. */
static int core_kernel(const ls_attention_shape *s, bool stored, bool tf32, bool packed)
{
    const int kind = !stored ? tf32 ? 2 : 3 : s->width / s->heads > EDGE;
    return 2 * kind + packed;
}
