/* SPDX-License-Identifier: MIT */
/*
 * The gradient of gpu_attention_bf16.cu in five products; not yet run on a GPU. A block has keys,
 * and visits the queries from there on: their scores and slopes are computed once, and make up the
 * gradients of keys and values, in registers, and of queries, whose sums are in memory, in a few
 * parts by keys: no two blocks add to the same. A result depends on its own head, T and d only.
 */
#include "common/kernel/cuda/transformer/gpu_attention_cores.cuh"

enum { QUERY_PARTS = 4 }; /* in which the gradient of a query is summed, at most */

/* Keys and values of a block, and some queries with their dy, which slopes replace. */
template <int WIDTH> struct core_back {
    enum {
        QUERIES = EDGE * CORE_UNIT * 2 / WIDTH,         /* as many as registers allow */
        GROUPS = QUERIES / CORE_UNIT,                   /* of queries among the warps, ... */
        UNITS = WIDTH / CORE_UNIT * GROUPS / CORE_WARPS /* ... and of a warp's channels */
    };
    alignas(16) uint16_t keys[EDGE * WIDTH], values[EDGE * WIDTH];
    union {
        struct {
            alignas(16) uint16_t queries[QUERIES * WIDTH], dy[QUERIES * WIDTH];
        } rows;
        float slopes[QUERIES * EDGE];
    };
};

/* Where a slope is: writes of four queries by eight keys, and reads of four queries by four pairs
 * of keys, are in different banks. */
__device__ static inline int slope_place(int query, int key)
{
    return query * EDGE + (key ^ (query % 4 ^ query / 2 % 4) * 8);
}

/* Products of keys and queries from `query` on become shares, and slopes begin with the queries'
 * row terms. */
template <int COUNT>
__device__ static inline void
begin_slopes(const ls_attention_backward_args &a, const attention_place &p, const float *of_rows,
             int query, core_part<COUNT> &share, core_part<COUNT> &slope)
{
    const int lane = core_lane();
#pragma unroll
    for (int j = 0; j < COUNT / 8; j++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int position = query + core_column(lane, j) + e;
            const bool there = position < p.T;
            const float sum = there ? ((const float *)a.sums)[p.sums + position] : 0;
            const float term = there ? of_rows[p.sums + position] : 0;
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float &at = share.of[j][2 * half + e];
                at = power_of_two(fmaf(at, p.scale * LOG2_E, -sum * LOG2_E));
                if (p.position + core_row(lane, half) > position)
                    at = 0;
                slope.of[j][2 * half + e] = -term;
            }
        }
}

/* Loads or stores (OUT) a warp's sums of queries' gradients: 16 queries from `first` on,
 * COUNT channels from `channel` on. */
template <bool PACKED, bool OUT, int COUNT>
__device__ static inline void move_queries(const attention_place &p, int first, int channel,
                                           float *array, core_part<COUNT> &sum)
{
    enum { AT_ONCE = PACKED ? 2 : 1 };
    typedef ls_gpu_pack<float, AT_ONCE> together;
    const int lane = core_lane();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int position = first + lane / 4 + half * 8;
        float *const row = array + (p.start + position) * p.C + p.offset;
#pragma unroll
        for (int j = 0; j < COUNT / 8; j++)
#pragma unroll
            for (int e = 0; e < 2; e += AT_ONCE) {
                const int c = channel + core_column(lane, j) + e;
                if (position >= p.T || c >= p.d)
                    continue;
                float *const own = sum.of[j] + 2 * half + e;
                together *const at = (together *)(row + c);
#pragma unroll
                for (int i = 0; i < AT_ONCE && OUT; i++)
                    at->element[i] = own[i];
#pragma unroll
                for (int i = 0; i < AT_ONCE && !OUT; i++)
                    own[i] = at->element[i];
            }
    }
}

/* Adds the block's keys, by their slopes, to gradients of the queries from `query` on, of which
 * `array` has sums of other keys if `again`. Warps divide queries, and channels of wide heads. */
template <int WIDTH, bool PACKED>
__device__ static inline void add_keys(const attention_place &p, const core_back<WIDTH> &s,
                                       int query, bool again, float *array)
{
    enum { UNITS = core_back<WIDTH>::UNITS };
    const int warp = (int)threadIdx.x / CORE_LANES, lane = core_lane();
    const int row = warp % core_back<WIDTH>::GROUPS * CORE_UNIT;
    const int unit = warp / core_back<WIDTH>::GROUPS * UNITS, units = units_of(p);
    core_part<UNITS *CORE_UNIT> sum = {};
    if (again)
        move_queries<PACKED, false>(p, query + row, unit * CORE_UNIT, array, sum);
#pragma unroll
    for (int t = 0; t < TILE_UNITS; t++) {
        core_split parts;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int key = t * CORE_UNIT + i / 2 * 8 + lane % 4 * 2;
            const float *const at = s.slopes + slope_place(row + lane / 4 + i % 2 * 8, key);
            split_pair(*(const ls_gpu_pack<float, 2> *)at, i, parts);
        }
#pragma unroll
        for (int u = 0; u < UNITS; u++) {
            unsigned column[4];
            if (unit + u >= units)
                continue;
            core_tile<WIDTH>::template read<true>(s.keys, lane, (unit + u) * CORE_UNIT,
                                                  t * CORE_UNIT, column);
            add_split(parts, column, sum.of[2 * u], sum.of[2 * u + 1]);
        }
    }
    move_queries<PACKED, true>(p, query + row, unit * CORE_UNIT, array, sum);
}

/* The gradients of 64 keys and values, and what they add to those of queries. */
template <int WIDTH, bool PACKED>
__device__ static inline void back_keys(const ls_attention_backward_args &a,
                                        const attention_place &p, const float *of_rows, bool again,
                                        float *array, core_back<WIDTH> &s)
{
    enum { QUERIES = core_back<WIDTH>::QUERIES };
    typedef core_tile<WIDTH> tile_of;
    const int units = units_of(p), row = warp_row();
    core_part<WIDTH> dk = {}, dv = {};
    __syncthreads(); /* what was there has been read */
    tile_of::template copy<EDGE, PACKED>(stored_qkv(p, a.qkv, 1, p.position), p.d, s.keys);
    tile_of::template copy<EDGE, PACKED>(stored_qkv(p, a.qkv, 2, p.position), p.d, s.values);
#pragma unroll 1
    for (int query = p.position; query < p.T; query += QUERIES) {
        core_part<QUERIES> share = {}, slope;
        __syncthreads(); /* the slopes have been read */
        tile_of::template copy<QUERIES, PACKED>(stored_qkv(p, a.qkv, 0, query), p.d,
                                                s.rows.queries);
        tile_of::template copy<QUERIES, PACKED>(stored_rows_of(p, a.dy, p.C, 0, query), p.d,
                                                s.rows.dy);
        ls_gpu_await_copies();
        __syncthreads();
        add_channels<WIDTH>(s.keys, row, s.rows.queries, units, share);
        begin_slopes(a, p, of_rows, query, share, slope);
        add_positions(share, s.rows.dy, units, dv);
        add_channels<WIDTH>(s.values, row, s.rows.dy, units, slope);
#pragma unroll
        for (int i = 0; i < QUERIES / 2; i++)
            slope.of[i / 4][i % 4] *= share.of[i / 4][i % 4];
        add_positions(slope, s.rows.queries, units, dk);
        const int lane = core_lane();
        __syncthreads(); /* queries and dy have been read */
#pragma unroll
        for (int i = 0; i < QUERIES / 2; i++)
            s.slopes[slope_place(core_column(lane, i / 4) + i % 2, core_row(lane, i / 2 % 2))] =
                slope.of[i / 4][i % 4];
        __syncthreads();
        add_keys<WIDTH, PACKED>(p, s, query, again, array);
    }
    put_rounded<WIDTH, PACKED>(p, a.dqkv, 3 * p.C, p.C, dk, {p.scale, p.scale});
    put_rounded<WIDTH, PACKED>(p, a.dqkv, 3 * p.C, 2 * p.C, dv, {1, 1});
}

/* Block n of a head's `blocks` has the tiles of keys n, 2 blocks - 1 - n, 2 blocks + n and so on:
 * equally many pairs of tiles. It alone writes part n of the queries' gradients. */
template <int WIDTH, bool PACKED>
__global__ static void __launch_bounds__(CORE_THREADS, WIDTH == EDGE ? 3 : 2)
    attention_bf16_back_kernel(ls_attention_backward_args a, float scale, const float *of_rows,
                               float *parts, int blocks)
{
    __shared__ core_back<WIDTH> s;
    attention_place p = place_of(a.shape, scale, blockIdx.x, 1, false);
    const int own = p.position / EDGE;
    float *const array = parts + own * (a.shape.rows * a.shape.steps * a.shape.width);
#pragma unroll 1
    for (int turn = 0;; turn++) {
        p.position = EDGE * (turn * blocks + (turn % 2 ? blocks - 1 - own : own));
        if (p.position >= p.T)
            break;
        back_keys<WIDTH, PACKED>(a, p, of_rows, turn > 0, array, s);
    }
}

/* dq = the sum of its parts, of the blocks whose first keys are not behind the query. */
__global__ static void __launch_bounds__(LS_GPU_THREADS)
    add_query_parts_kernel(ls_attention_backward_args a, float scale, const float *parts,
                           int blocks)
{
    const ls_attention_shape &s = a.shape;
    const int64_t count = s.rows * s.steps * s.width;
    for (int64_t i = ls_gpu_first(); i < count; i += ls_gpu_stride()) {
        const int64_t row = ls_gpu_divide(i, s.width);
        const int64_t position = row - ls_gpu_divide(row, s.steps) * s.steps;
        float sum = parts[i];
        for (int n = 1; n < blocks && n <= position / EDGE; n++)
            sum += parts[n * count + i];
        ((uint16_t *)a.dqkv)[i + row * 2 * s.width] = ls_bf16_of_float(sum * scale);
    }
}

int64_t ls_gpu_attention_bf16_parts(const ls_attention_shape *shape)
{
    const int64_t tiles = attention_tiles(shape);
    return tiles < QUERY_PARTS ? tiles : (int64_t)QUERY_PARTS;
}

int ls_gpu_attention_bf16_backward(void *stream, const ls_attention_backward_args *args,
                                   float *of_rows, float *parts)
{
    static void (*const kernels[])(ls_attention_backward_args, float, const float *, float *,
                                   int) = {
        attention_bf16_back_kernel<EDGE, false>, attention_bf16_back_kernel<EDGE, true>,
        attention_bf16_back_kernel<2 * EDGE, false>, attention_bf16_back_kernel<2 * EDGE, true>};
    const ls_attention_shape *s = &args->shape;
    const int blocks = (int)ls_gpu_attention_bf16_parts(s);
    const int64_t all = s->rows * s->heads * blocks;
    const bool packed =
        has_chunks(s, args->qkv) && has_chunks(s, args->dy) && has_chunks(s, args->dqkv);
    if (!all)
        return 0;
    int error = launch_row_products<uint16_t>(stream, args, of_rows);
    if (!error)
        error = ls_gpu_launch(stream, (unsigned)all, CORE_THREADS,
                              kernels[2 * (s->width / s->heads > EDGE) + packed], *args,
                              score_scale(s), (const float *)of_rows, parts, blocks);
    return error ? error
                 : ls_gpu_launch_over(stream, s->rows * s->steps * s->width, LS_GPU_THREADS,
                                      add_query_parts_kernel, *args, score_scale(s),
                                      (const float *)parts, blocks);
}

int ls_gpu_load_attention_bf16_back(void)
{
    return ls_gpu_load(row_products_kernel<uint16_t>, attention_bf16_back_kernel<EDGE, false>,
                       attention_bf16_back_kernel<EDGE, true>,
                       attention_bf16_back_kernel<2 * EDGE, false>,
                       attention_bf16_back_kernel<2 * EDGE, true>, add_query_parts_kernel);
}
