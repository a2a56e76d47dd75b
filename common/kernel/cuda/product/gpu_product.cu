/* SPDX-License-Identifier: MIT */
/*
 * Products of float32 matrices on Hopper's tensor cores, in three products of tf32, which has 11
 * bits: x = high + low, up to 2^-23 of x, so x y = high high + high low + low high, and low low, at
 * most 2^-22 of it, is left out. Tensor cores cut sums instead of rounding them, which adds up over
 * a long sum; so no more than 32 terms are summed there, and their sums are added as floats.
 * Method: Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while
 * surpassing the FP32 theoretical peak performance", 2022, arXiv 2203.03341. Where a factor is
 * infinite, the product is NaN. With --math tf32 the product is that of the rounded factors alone,
 * which has not yet run on a GPU.
 *
 * A block computes a tile of c from slices of 32 terms. Two groups of four warps multiply, each for
 * half of the tile's rows: their part of a goes from global memory to registers, since nobody else
 * reads it. A third group splits b, in shared memory, some slices ahead. The fence in front of the
 * tensor cores waits for a thread's reads, too, so the multiplying groups must not need it.
 */
#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/cuda/product/gpu_rest.cuh"

enum {
    SIDE = LS_GPU_TILE_SIDE,
    SLICE = 32, /* terms */
    GROUP_THREADS = 128,
    MULTIPLYING = 2, /* groups */
    PRODUCT_THREADS = (MULTIPLYING + 1) * GROUP_THREADS,
    LANES_OF_WARP = 32,
    WARP_UNIT = 16, /* rows */
    UNIT = LS_GPU_GROUP_TERMS,
    UNITS = SLICE / UNIT,
    AHEAD = 4, /* slices of b in shared memory */
    /* A thread's registers; of the block's no more than of PRODUCT_THREADS * 168. */
    MANY_REGISTERS = 208,
    FEW_REGISTERS = 88
};

static_assert(SIDE == MULTIPLYING * GROUP_THREADS / LANES_OF_WARP * WARP_UNIT,
              "a row belongs to a warp");
static_assert(SIDE * SLICE == LS_GPU_GROUP_FACTOR, "a slice of b is a factor");

/* How a matrix is stored: the terms of a row or column are neighbours, and four can be read at
 * once, or not; or the rows or columns are neighbours. */
enum stored { TERMS_PACKED, TERMS, EDGES };

/* A factor of the product; `edge`: rows of a, or columns of b. */
struct matrix {
    const float *at;
    int64_t leading, edge;
};

/* The elements of an edge from some term on. */
template <stored AS> struct edge_reader {
    const float *at;

    /* Behind the last edge the last is read again: nobody wants its products. */
    __device__ void begin(const matrix &m, int64_t edge, int64_t term)
    {
        const int64_t there = edge < m.edge ? edge : m.edge - 1;
        at = m.at + (AS == EDGES ? term * m.leading + there : there * m.leading + term);
    }

    /* N neighbouring terms from `first` on, 0 behind the last of `left`; ALL: none is. */
    template <bool ALL, int N>
    __device__ void read(int64_t leading, int first, int left, float *to) const
    {
        if (AS == TERMS_PACKED) {
            ls_gpu_pack<float, N> terms = {};
            if (ALL || first < left)
                terms = *(const ls_gpu_pack<float, N> *)(at + first);
#pragma unroll
            for (int e = 0; e < N; e++)
                to[e] = terms.element[e];
        } else
#pragma unroll
            for (int e = 0; e < N; e++)
                to[e] = ALL || first + e < left
                            ? at[AS == EDGES ? (first + e) * leading : first + e]
                            : 0;
    }
};

/* Reads slice after slice of a matrix; a thread reads TERMS_READ terms, of READERS edges. */
template <stored AS, int READERS, int TERMS_READ> struct slice_reader {
    edge_reader<AS> edges[READERS];
    int leading, left;
    float terms[TERMS_READ];

    /* A copy of the leading dimensions, so that no products of them are kept in registers. */
    __device__ int64_t distance() const
    {
        return AS == EDGES ? (int)ls_gpu_anew((unsigned)leading) : 0;
    }

    __device__ void next()
    {
        left -= SLICE;
#pragma unroll
        for (int i = 0; i < READERS; i++)
            edges[i].at += AS == EDGES ? (int64_t)SLICE * leading : (int64_t)SLICE;
    }
};

/* Reads the next slice; its last terms may be missing. */
template <typename READER> __device__ static inline void read_ahead(READER &reader)
{
    if (reader.left >= SLICE)
        reader.template read_slice<true>();
    else
        reader.template read_slice<false>();
    reader.next();
}

/* A number's one or two parts. */
template <int PARTS>
__device__ static inline void split_number(float x, unsigned &high, unsigned &low)
{
    if (PARTS == 2)
        ls_gpu_split_tf32(x, high, low);
    else
        high = ls_gpu_round_tf32(x);
}

/* What this thread multiplies: rows r and r + 8 of its warp's 16 rows, terms 2 t and 2 t + 1 of
 * each eight, as terms t and t + 4 of the tensor cores; r = lane / 4, t = lane % 4. */
template <stored AS, int PARTS> struct rows_reader : slice_reader<AS, 2, 4 * UNITS> {
    unsigned high[UNITS][4], low[UNITS][4]; /* low is unused in one part */

    __device__ rows_reader(const matrix &a, int64_t row, int64_t term, int count)
    {
        this->leading = (int)a.leading;
        this->left = count;
        for (int i = 0; i < 2; i++)
            this->edges[i].begin(a, row + i * WARP_UNIT / 2, term);
    }

    template <bool ALL> __device__ void read_slice()
    {
        const int64_t distance = this->distance();
        const int own = (int)threadIdx.x % 4 * 2;
#pragma unroll
        for (int u = 0; u < UNITS; u++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                this->edges[i].template read<ALL, 2>(distance, u * UNIT + own, this->left,
                                                     this->terms + 4 * u + 2 * i);
    }

    __device__ void split()
    {
#pragma unroll
        for (int u = 0; u < UNITS; u++)
#pragma unroll
            for (int e = 0; e < 4; e++) /* both terms of a row: element i and i + 2 */
                split_number<PARTS>(this->terms[4 * u + e], high[u][e / 2 + e % 2 * 2],
                                    low[u][e / 2 + e % 2 * 2]);
    }
};

/* A slice of b, as the tensor cores read it. */
template <int PARTS> struct split_slice {
    float part[PARTS][LS_GPU_GROUP_FACTOR]; /* high, low */
};

/* What a thread of the third group splits: eight terms of each of four columns, or all of one. */
template <stored AS, int PARTS>
struct columns_reader : slice_reader<AS, AS == EDGES ? 1 : UNITS, SLICE> {
    enum { READERS = AS == EDGES ? 1 : UNITS };

    __device__ static int column(int i)
    {
        const int thread = (int)threadIdx.x % GROUP_THREADS;
        return AS == EDGES ? thread : thread / UNITS + i * (SIDE / UNITS);
    }

    __device__ static int unit(int i)
    {
        return AS == EDGES ? i : (int)threadIdx.x % UNITS;
    }

    __device__ columns_reader(const matrix &b, int64_t first, int64_t term, int count)
    {
        this->leading = (int)b.leading;
        this->left = count;
        for (int i = 0; i < READERS; i++)
            this->edges[i].begin(b, first + column(i), term);
    }

    template <bool ALL> __device__ void read_slice()
    {
        const int64_t distance = this->distance();
#pragma unroll
        for (int i = 0; i < UNITS; i++)
#pragma unroll
            for (int e = 0; e < UNIT; e += 4)
                this->edges[i % READERS].template read<ALL, 4>(
                    distance, unit(i) * UNIT + e, this->left, this->terms + i * UNIT + e);
    }

    /* Terms 0, 2, 4, 6 of eight go to places 0 to 3, the others to 4 to 7: see rows_reader. */
    __device__ void split(split_slice<PARTS> &to) const
    {
#pragma unroll
        for (int i = 0; i < UNITS; i++)
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                ls_gpu_pack<unsigned, 4> high, low;
#pragma unroll
                for (int e = 0; e < 4; e++)
                    split_number<PARTS>(this->terms[i * UNIT + 2 * e + odd], high.element[e],
                                        low.element[e]);
                const int at = ls_gpu_group_place(column(i), unit(i) * UNIT + 4 * odd);
                *(ls_gpu_pack<unsigned, 4> *)(to.part[0] + at) = high;
                if (PARTS == 2)
                    *(ls_gpu_pack<unsigned, 4> *)(to.part[PARTS - 1] + at) = low;
            }
    }
};

template <int PARTS> struct tile_spaces {
    split_slice<PARTS> slices[AHEAD];
    ls_gpu_flag full[AHEAD], empty[AHEAD];
};

struct tile_product {
    ls_gpu_rest rest;
    matrix a, b;
    ls_gpu_tiling tiling;
    float *to;  /* c, or its pieces */
    bool pairs; /* two columns can be written at once */
};

template <stored B, int PARTS>
__device__ static inline void split_columns(const tile_product &p, const ls_gpu_tile &at,
                                            tile_spaces<PARTS> &space, int slices)
{
    columns_reader<B, PARTS> b(p.b, at.column, at.term, (int)p.tiling.terms);
    read_ahead(b);
#pragma unroll 1
    for (int s = 0; s < slices; s++) {
        if (s >= AHEAD)
            ls_gpu_await_flag(space.empty[s % AHEAD], s / AHEAD - 1);
        b.split(space.slices[s % AHEAD]);
        if (s + 1 < slices)
            read_ahead(b);
        ls_gpu_show_group();
        ls_gpu_raise_flag(space.full[s % AHEAD]);
    }
}

/* sum = this warp's rows of the tile; a thread has of c elements as of a, columns 2 t and 2 t + 1
 * of each eight. */
template <stored A, int PARTS>
__device__ static inline void multiply_rows(const tile_product &p, const ls_gpu_tile &at, int row,
                                            tile_spaces<PARTS> &space, int slices,
                                            float (&sum)[LS_GPU_GROUP_SUMS])
{
    float part[LS_GPU_GROUP_SUMS];
    rows_reader<A, PARTS> a(p.a, at.row + row, at.term, (int)p.tiling.terms);
    read_ahead(a);
    a.split();
    if (slices > 1)
        read_ahead(a);
#pragma unroll 1
    for (int s = 0; s < slices; s++) {
        const split_slice<PARTS> &b = space.slices[s % AHEAD];
        ls_gpu_await_flag(space.full[s % AHEAD], s / AHEAD);
        ls_gpu_begin_group();
#pragma unroll
        for (int u = 0; u < UNITS && PARTS == 2; u++) {
            ls_gpu_multiply_group(a.low[u], b.part[0], u, part, u > 0);
            ls_gpu_multiply_group(a.high[u], b.part[PARTS - 1], u, part, true);
        }
#pragma unroll
        for (int u = 0; u < UNITS; u++)
            ls_gpu_multiply_group(a.high[u], b.part[0], u, part, PARTS == 2 || u > 0);
        ls_gpu_await_group(part);
        if (threadIdx.x % LANES_OF_WARP == 0)
            ls_gpu_raise_flag(space.empty[s % AHEAD]);
#pragma unroll
        for (int e = 0; e < LS_GPU_GROUP_SUMS; e++)
            sum[e] += part[e];
        if (s + 1 < slices)
            a.split();
        if (s + 2 < slices)
            read_ahead(a);
    }
}

__device__ static inline void leave_element(const tile_product &p, float *to, int64_t place,
                                            int64_t column, float sum)
{
    const ls_gpu_rest &r = p.rest;
    if (!r.parts && r.accumulate)
        sum += *to;
    *to = r.parts ? sum : ls_gpu_finish(r, place, column, sum);
}

__device__ static inline void leave_rows(const tile_product &p, const ls_gpu_tile &at, int first,
                                         const float (&sum)[LS_GPU_GROUP_SUMS])
{
    const ls_gpu_rest &r = p.rest;
    const bool as_it_is = r.parts || !(r.accumulate || r.bias || r.relu || r.mask);
    float *const to = p.to + (r.parts ? at.piece * r.rows * r.columns : 0);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int64_t row = at.row + first + half * WARP_UNIT / 2;
        if (row >= r.rows)
            continue;
#pragma unroll
        for (int j = 0; j < SIDE / 8; j++) {
            const int64_t column = at.column + j * 8 + threadIdx.x % 4 * 2;
            const int64_t place = row * r.columns + column;
            const float *const two = sum + 4 * j + 2 * half;
            if (as_it_is && p.pairs && column < r.columns) {
                *(ls_gpu_pack<float, 2> *)(to + place) = {{two[0], two[1]}};
                continue;
            }
#pragma unroll
            for (int e = 0; e < 2; e++)
                if (column + e < r.columns)
                    leave_element(p, to + place + e, place + e, column + e, two[e]);
        }
    }
}

template <stored A, stored B, int PARTS>
__global__ static void __launch_bounds__(PRODUCT_THREADS) tile_kernel(tile_product p)
{
    LS_GPU_LARGE_SHARED(tile_spaces<PARTS>, space);
    const ls_gpu_tile at = ls_gpu_own_tile(p.tiling);
    const int warp = (int)threadIdx.x / LANES_OF_WARP, lane = (int)threadIdx.x % LANES_OF_WARP;
    const int slices = (int)((p.tiling.terms + SLICE - 1) / SLICE);
    if (threadIdx.x == 0)
        for (int i = 0; i < AHEAD; i++) {
            ls_gpu_begin_flag(space.full[i], GROUP_THREADS);
            ls_gpu_begin_flag(space.empty[i], MULTIPLYING * GROUP_THREADS / LANES_OF_WARP);
        }
    __syncthreads();
    if (threadIdx.x >= MULTIPLYING * GROUP_THREADS) {
        ls_gpu_fewer_registers<FEW_REGISTERS>();
        split_columns<B, PARTS>(p, at, space, slices);
        return;
    }
    ls_gpu_more_registers<MANY_REGISTERS>();
    const int row = warp * WARP_UNIT + lane / 4;
    float sum[LS_GPU_GROUP_SUMS] = {};
    multiply_rows<A, PARTS>(p, at, row, space, slices, sum);
    leave_rows(p, at, row, sum);
}

/* ---- The interface --------------------------------------------------------------------------- */

static stored how_stored(const matrix &m, bool by_terms, int64_t terms)
{
    const bool packed = m.leading % 4 == 0 && terms % 4 == 0 && ls_gpu_takes_fours(m.at);
    return !by_terms ? EDGES : packed ? TERMS_PACKED : TERMS;
}

/* All ways to store a and b. */
#define TILE_KERNELS(PARTS)                                                                        \
    tile_kernel<TERMS_PACKED, TERMS_PACKED, PARTS>, tile_kernel<TERMS_PACKED, TERMS, PARTS>,       \
        tile_kernel<TERMS_PACKED, EDGES, PARTS>, tile_kernel<TERMS, TERMS_PACKED, PARTS>,          \
        tile_kernel<TERMS, TERMS, PARTS>, tile_kernel<TERMS, EDGES, PARTS>,                        \
        tile_kernel<EDGES, TERMS_PACKED, PARTS>, tile_kernel<EDGES, TERMS, PARTS>,                 \
        tile_kernel<EDGES, EDGES, PARTS>

int ls_gpu_tile_product(void *stream, const ls_gemm_args *g, const ls_gpu_rest *rest, bool tf32)
{
    static void (*const kernels[2][9])(tile_product) = {{TILE_KERNELS(2)}, {TILE_KERNELS(1)}};
    float *const to = rest->parts ? rest->parts : rest->c;
    const tile_product p = {*rest,
                            {(const float *)g->a, g->transpose_a ? g->m : g->k, g->m},
                            {(const float *)g->b, g->transpose_b ? g->k : g->n, g->n},
                            ls_gpu_tiling_of(g->m, g->n, g->k, rest->pieces),
                            to,
                            g->n % 2 == 0 && (uintptr_t)to % (2 * sizeof(float)) == 0};
    const stored a = how_stored(p.a, !g->transpose_a, p.tiling.terms);
    const stored b = how_stored(p.b, g->transpose_b, p.tiling.terms);
    return ls_gpu_launch_with(stream,
                              (unsigned)(p.tiling.row_tiles * p.tiling.column_tiles * rest->pieces),
                              PRODUCT_THREADS, kernels[tf32][3 * a + b],
                              tf32 ? sizeof(tile_spaces<1>) : sizeof(tile_spaces<2>), p);
}

int ls_gpu_load_tile_product(void)
{
    const int error =
        ls_gpu_load_with(sizeof(tile_spaces<2>), tile_kernel<TERMS_PACKED, TERMS_PACKED, 2>,
                         tile_kernel<TERMS_PACKED, TERMS, 2>, tile_kernel<TERMS_PACKED, EDGES, 2>,
                         tile_kernel<TERMS, TERMS_PACKED, 2>, tile_kernel<TERMS, TERMS, 2>,
                         tile_kernel<TERMS, EDGES, 2>, tile_kernel<EDGES, TERMS_PACKED, 2>,
                         tile_kernel<EDGES, TERMS, 2>, tile_kernel<EDGES, EDGES, 2>);
    return error ? error
                 : ls_gpu_load_with(
                       sizeof(tile_spaces<1>), tile_kernel<TERMS_PACKED, TERMS_PACKED, 1>,
                       tile_kernel<TERMS_PACKED, TERMS, 1>, tile_kernel<TERMS_PACKED, EDGES, 1>,
                       tile_kernel<TERMS, TERMS_PACKED, 1>, tile_kernel<TERMS, TERMS, 1>,
                       tile_kernel<TERMS, EDGES, 1>, tile_kernel<EDGES, TERMS_PACKED, 1>,
                       tile_kernel<EDGES, TERMS, 1>, tile_kernel<EDGES, EDGES, 1>);
}
