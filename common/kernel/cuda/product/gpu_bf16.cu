/* SPDX-License-Identifier: MIT */
/*
 * Products of bfloat16 on tensor cores, from compute capability 8.0 on; not yet run on a GPU. They
 * are exact, and added in float32, in the order of the terms, 16 at a time; so a row of c does not
 * depend on the number of rows.
 *
 * A block computes a tile of c from slices of 32 terms. A slice of both factors lies in shared
 * memory as in global memory: lines of neighbouring elements, in chunks of eight, whose order in a
 * line depends on the line's number, so that eight lines' chunks are in different banks. While a
 * slice is multiplied, the next is copied. Where chunks do not begin on 16 bytes, elements are
 * copied one by one.
 */
#include "common/base/bf16_inline.h"
#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/cuda/product/gpu_rest.cuh"

enum {
    BF16_SIDE = LS_GPU_TILE_SIDE,
    BF16_SLICE = 32, /* terms */
    BF16_THREADS = 256,
    BF16_LANES = 32,
    BF16_CHUNK = 8, /* elements of 16 bytes */
    BF16_UNIT = 16, /* rows, terms, and columns of two products */
    BF16_ROWS = 64,
    BF16_COLUMNS = 32,
    ROW_UNITS = BF16_ROWS / BF16_UNIT,
    COLUMN_UNITS = BF16_COLUMNS / BF16_UNIT
};

static_assert(BF16_SIDE / BF16_ROWS * (BF16_SIDE / BF16_COLUMNS) * BF16_LANES == BF16_THREADS,
              "the warps have the tile");

/* A factor of the product; `edges`: rows of a, or columns of b. */
struct bf16_factor {
    const uint16_t *at;
    int64_t leading, edges;
};

struct bf16_product {
    ls_bf16_product_args args;
    bf16_factor a, b;
    ls_gpu_tiling tiling;
    float *sums; /* c, or its pieces, if a is transposed */
    bool pairs;  /* two columns can be written at once */
};

/* A slice of a factor: lines of edges, or of terms. */
template <bool EDGES> struct bf16_slice {
    enum { LENGTH = EDGES ? BF16_SIDE : BF16_SLICE, LINES = EDGES ? BF16_SLICE : BF16_SIDE };

    /* Where chunk `chunk` of a line is. */
    __device__ static int place(int line, int chunk)
    {
        return line * LENGTH + (chunk ^ (EDGES ? line % 8 : line / 2 % 4)) * BF16_CHUNK;
    }

    /* Begins to copy the slice from `edge` and `term` on; terms from `end` on are 0. */
    template <bool PACKED>
    __device__ static void copy(const bf16_factor &m, int64_t edge, int64_t term, int64_t end,
                                uint16_t *to)
    {
        enum {
            SIZE = PACKED ? BF16_CHUNK : 1,
            ITEMS = LINES * LENGTH / SIZE,
            AT_ONCE = PACKED ? 2 : 4
        };
#pragma unroll AT_ONCE
        for (int item = (int)ls_gpu_anew(threadIdx.x); item < ITEMS; item += BF16_THREADS) {
            const int line = item / (LENGTH / SIZE), first = item % (LENGTH / SIZE) * SIZE;
            const int64_t e = edge + (EDGES ? first : line), t = term + (EDGES ? line : first);
            const bool there = e < m.edges && t < end;
            const uint16_t *const from =
                there ? m.at + (EDGES ? t * m.leading + e : e * m.leading + t) : m.at;
            uint16_t *const at = to + place(line, first / BF16_CHUNK) + first % BF16_CHUNK;
            if (PACKED)
                ls_gpu_copy_ahead<16>((float *)at, (const float *)from, there);
            else
                *at = there ? *from : (uint16_t)0;
        }
    }

    /* Elements of 16 edges and 16 terms, as the tensor cores want them: of edges 0 to 7 and 8 to
     * 15, then of terms 8 to 15 of both. */
    __device__ static void read(const uint16_t *of, int edge, int term, unsigned (&to)[4])
    {
        const int lane = (int)threadIdx.x % BF16_LANES;
        const int line = EDGES ? term + lane % 8 + lane / 16 * 8 : edge + lane % 16;
        const int chunk = EDGES ? edge / BF16_CHUNK + lane / 8 % 2 : term / BF16_CHUNK + lane / 16;
        ls_gpu_read_eights<EDGES>(of + place(line, chunk), to);
    }
};

struct bf16_slices {
    alignas(16) uint16_t a[BF16_SIDE * BF16_SLICE];
    alignas(16) uint16_t b[BF16_SIDE * BF16_SLICE];
};

/* A warp's sums: of each eight columns of 16 rows. */
typedef float warp_sums[ROW_UNITS][2 * COLUMN_UNITS][4];

template <bool A_EDGES, bool B_EDGES>
__device__ static inline void multiply_slice(const bf16_slices &s, int row, int column,
                                             warp_sums &sum)
{
#pragma unroll
    for (int term = 0; term < BF16_SLICE; term += BF16_UNIT) {
        unsigned a[4], b[COLUMN_UNITS][4];
#pragma unroll
        for (int j = 0; j < COLUMN_UNITS; j++)
            bf16_slice<B_EDGES>::read(s.b, column + j * BF16_UNIT, term, b[j]);
#pragma unroll
        for (int i = 0; i < ROW_UNITS; i++) {
            bf16_slice<A_EDGES>::read(s.a, row + i * BF16_UNIT, term, a);
#pragma unroll
            for (int j = 0; j < 2 * COLUMN_UNITS; j++)
                ls_gpu_multiply_bf16(a, b[j / 2][j % 2], b[j / 2][j % 2 + 2], sum[i][j]);
        }
    }
}

/* Two neighbouring sums of a row, the second of which may be outside of c. */
__device__ static inline void leave_sums(const bf16_product &p, float *c, int64_t row,
                                         int64_t column, const float *sum)
{
    const int64_t n = p.args.n, at = row * n + column;
    if (p.pairs)
        *(ls_gpu_pack<float, 2> *)(c + at) = {{sum[0], sum[1]}};
    else
        for (int e = 0; e < 2 && column + e < n; e++)
            c[at + e] = sum[e];
}

/* As above, rounded, with what follows. NaN stays, as in ls_gpu_finish. */
__device__ static inline void leave_rounded(const bf16_product &p, int64_t row, int64_t column,
                                            const float *sum)
{
    const ls_bf16_product_args &s = p.args;
    const int64_t at = row * s.n + column;
    ls_gpu_pack<uint16_t, 2> two;
#pragma unroll
    for (int e = 0; e < 2; e++) {
        const bool there = column + e < s.n;
        float value = sum[e];
        if (s.bias && there)
            value += ls_float_of_bf16(s.bias[column + e]);
        value = s.relu && value <= 0 ? 0 : value;
        two.element[e] =
            s.mask && there && !ls_bf16_passes(s.mask[at + e]) ? 0 : ls_bf16_of_float(value);
    }
    if (p.pairs)
        *(ls_gpu_pack<uint16_t, 2> *)((uint16_t *)s.c + at) = two;
    else
        for (int e = 0; e < 2 && column + e < s.n; e++)
            ((uint16_t *)s.c)[at + e] = two.element[e];
}

template <bool A_EDGES>
__device__ static inline void leave_tile(const bf16_product &p, const ls_gpu_tile &at, int row,
                                         int column, const warp_sums &sum)
{
    const int lane = (int)threadIdx.x % BF16_LANES;
    float *const c = p.sums + at.piece * p.args.m * p.args.n;
#pragma unroll
    for (int i = 0; i < ROW_UNITS; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int64_t r = at.row + row + i * BF16_UNIT + half * 8 + lane / 4;
#pragma unroll
            for (int j = 0; j < 2 * COLUMN_UNITS; j++) {
                const int64_t first = at.column + column + j * 8 + lane % 4 * 2;
                if (r >= p.args.m || first >= p.args.n)
                    continue;
                if (A_EDGES)
                    leave_sums(p, c, r, first, sum[i][j] + 2 * half);
                else
                    leave_rounded(p, r, first, sum[i][j] + 2 * half);
            }
        }
}

template <bool A_EDGES, bool B_EDGES, bool PACKED>
__global__ static void __launch_bounds__(BF16_THREADS, 2) bf16_kernel(bf16_product p)
{
    __shared__ bf16_slices space[2];
    const ls_gpu_tile at = ls_gpu_own_tile(p.tiling);
    const int warp = (int)threadIdx.x / BF16_LANES;
    const int row = warp / (BF16_SIDE / BF16_COLUMNS) * BF16_ROWS;
    const int column = warp % (BF16_SIDE / BF16_COLUMNS) * BF16_COLUMNS;
    const int64_t end = at.term + p.tiling.terms;
    warp_sums sum = {};
    int next = 0; /* of both slices in shared memory */
    /* What is copied behind the last slice is 0, and not read. */
    for (int64_t term = at.term - BF16_SLICE; term < end; term += BF16_SLICE, next ^= 1) {
        ls_gpu_await_copies();
        __syncthreads();
        if (term + BF16_SLICE < end) {
            bf16_slice<A_EDGES>::template copy<PACKED>(p.a, at.row, term + BF16_SLICE, end,
                                                       space[next].a);
            bf16_slice<B_EDGES>::template copy<PACKED>(p.b, at.column, term + BF16_SLICE, end,
                                                       space[next].b);
        }
        if (term >= at.term)
            multiply_slice<A_EDGES, B_EDGES>(space[next ^ 1], row, column, sum);
    }
    leave_tile<A_EDGES>(p, at, row, column, sum);
}

__global__ static void __launch_bounds__(LS_GPU_THREADS) bf16_rest_kernel(ls_gpu_bf16_rest s)
{
    for (int64_t i = ls_gpu_first(); i < s.count; i += ls_gpu_stride()) {
        const uint16_t x = s.from[i];
        const bool cut = s.relu && ls_float_of_bf16(x) <= 0;
        s.to[i] = cut || (s.mask && !ls_bf16_passes(s.mask[i])) ? 0 : x;
    }
}

/* ---- The interface --------------------------------------------------------------------------- */

static bool is_packed(const bf16_factor &m)
{
    return m.leading % BF16_CHUNK == 0 && (uintptr_t)m.at % (BF16_CHUNK * sizeof *m.at) == 0;
}

int ls_gpu_bf16_product(void *stream, const ls_bf16_product_args *s, float *parts, int pieces)
{
#define BF16_KERNELS(a, b) bf16_kernel<a, b, false>, bf16_kernel<a, b, true>
    static void (*const kernels[])(bf16_product) = {
        BF16_KERNELS(false, false), BF16_KERNELS(false, true), BF16_KERNELS(true, false),
        BF16_KERNELS(true, true)};
    const void *const to = parts ? parts : s->c;
    const size_t two = 2 * (s->transpose_a ? sizeof(float) : sizeof(uint16_t));
    const bf16_product p = {*s,
                            {s->a, s->transpose_a ? s->m : s->k, s->m},
                            {s->b, s->transpose_b ? s->k : s->n, s->n},
                            ls_gpu_tiling_of(s->m, s->n, s->k, pieces),
                            (float *)to,
                            s->n % 2 == 0 && (uintptr_t)to % two == 0};
    const bool packed = is_packed(p.a) && is_packed(p.b) && p.tiling.terms % BF16_CHUNK == 0;
    return s->m && s->n
               ? ls_gpu_launch(
                     stream, (unsigned)(p.tiling.row_tiles * p.tiling.column_tiles * pieces),
                     BF16_THREADS, kernels[4 * s->transpose_a + 2 * !s->transpose_b + packed], p)
               : 0;
}

int ls_gpu_finish_bf16(void *stream, const ls_gpu_bf16_rest *rest)
{
    return ls_gpu_launch_over(stream, rest->count, LS_GPU_THREADS, bf16_rest_kernel, *rest);
}

int ls_gpu_load_bf16(void)
{
    return ls_gpu_load(bf16_kernel<false, false, false>, bf16_kernel<false, false, true>,
                       bf16_kernel<false, true, false>, bf16_kernel<false, true, true>,
                       bf16_kernel<true, false, false>, bf16_kernel<true, false, true>,
                       bf16_kernel<true, true, false>, bf16_kernel<true, true, true>,
                       bf16_rest_kernel);
}
