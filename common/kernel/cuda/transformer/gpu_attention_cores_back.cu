/* SPDX-License-Identifier: MIT */
/*
 * The gradient of gpu_attention_cores.cu in five products; not yet run on a GPU. A block has keys,
 * and visits the queries from there on: their scores and slopes are computed once, and make up the
 * gradients of keys and values, in registers, and of queries, whose sums are in memory, in a few
 * parts by keys: no two blocks add to the same. A result depends on its own head, T and d only.
 */
#include "common/kernel/cuda/transformer/gpu_attention_cores.cuh"

enum { QUERY_PARTS = 4 }; /* in which the gradient of a query is summed, at most */

/* Keys and values of a block, and some queries with their dy, which slopes replace. */
template <typename N, int WIDTH> struct core_back {
    typedef typename N::T T;
    enum {
        QUERIES = EDGE * CORE_UNIT * 2 / WIDTH,         /* as many as registers allow */
        GROUPS = QUERIES / CORE_UNIT,                   /* of queries among the warps, ... */
        UNITS = WIDTH / CORE_UNIT * GROUPS / CORE_WARPS /* ... and of a warp's channels */
    };
    alignas(CORE_BYTES) T keys[EDGE * WIDTH], values[EDGE * WIDTH];
    union {
        struct {
            alignas(CORE_BYTES) T queries[QUERIES * WIDTH], dy[QUERIES * WIDTH];
        } rows;
        float slopes[QUERIES * EDGE];
    };
};

/* Slopes, whose lines are queries. */
template <typename N> using core_slopes = core_tile<core_numbers<float, N::SHARE_PARTS>, EDGE>;

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
template <typename N, int WIDTH, bool PACKED>
__device__ static inline void add_keys(const attention_place &p, const core_back<N, WIDTH> &s,
                                       int query, bool again, float *array)
{
    typedef core_back<N, WIDTH> back;
    enum { UNITS = back::UNITS };
    const int warp = (int)threadIdx.x / CORE_LANES, lane = core_lane();
    const int row = warp % back::GROUPS * CORE_UNIT;
    const int unit = warp / back::GROUPS * UNITS, units = units_of(p);
    core_part<UNITS *CORE_UNIT> sum = {};
    if (again)
        move_queries<PACKED, false>(p, query + row, unit * CORE_UNIT, array, sum);
#pragma unroll
    for (int t = 0; t < TILE_UNITS; t += N::UNITS) {
        unsigned parts[N::UNITS][N::SHARE_PARTS][4];
#pragma unroll
        for (int i = 0; i < N::UNITS; i++)
            core_slopes<N>::template read<false>(s.slopes, lane, row, (t + i) * CORE_UNIT,
                                                 parts[i]);
#pragma unroll
        for (int u = 0; u < UNITS; u++)
            if (unit + u < units)
                add_terms<N, WIDTH, true>(parts, N::UNITS, lane, s.keys, (unit + u) * CORE_UNIT,
                                          t * CORE_UNIT, sum.of[2 * u], sum.of[2 * u + 1]);
    }
    move_queries<PACKED, true>(p, query + row, unit * CORE_UNIT, array, sum);
}

/* The gradients of 64 keys and values, and what they add to the queries' gradients. */
template <typename N, int WIDTH, bool PACKED>
__device__ static inline void back_keys(const ls_attention_backward_args &a,
                                        const attention_place &p, const float *of_rows, bool again,
                                        float *array, core_back<N, WIDTH> &s)
{
    typedef typename N::T T;
    typedef core_tile<N, WIDTH> tile_of;
    enum { QUERIES = core_back<N, WIDTH>::QUERIES };
    const int units = units_of(p), row = warp_row();
    core_part<WIDTH> dk = {}, dv = {};
    __syncthreads(); /* what was there has been read */
    tile_of::template copy<EDGE, PACKED>(core_qkv<T>(p, a.qkv, 1, p.position), p.d, s.keys);
    tile_of::template copy<EDGE, PACKED>(core_qkv<T>(p, a.qkv, 2, p.position), p.d, s.values);
#pragma unroll 1
    for (int query = p.position; query < p.T; query += QUERIES) {
        core_part<QUERIES> share = {}, slope;
        __syncthreads(); /* the slopes have been read */
        tile_of::template copy<QUERIES, PACKED>(core_qkv<T>(p, a.qkv, 0, query), p.d,
                                                s.rows.queries);
        tile_of::template copy<QUERIES, PACKED>(core_rows_of<T>(p, a.dy, p.C, 0, query), p.d,
                                                s.rows.dy);
        ls_gpu_await_copies();
        __syncthreads();
        add_channels<N, WIDTH>(s.keys, row, s.rows.queries, units, share);
        begin_slopes(a, p, of_rows, query, share, slope);
        add_positions<N>(share, s.rows.dy, units, dv);
        add_channels<N, WIDTH>(s.values, row, s.rows.dy, units, slope);
#pragma unroll
        for (int i = 0; i < QUERIES / 2; i++)
            slope.of[i / 4][i % 4] *= share.of[i / 4][i % 4];
        add_positions<N>(slope, s.rows.queries, units, dk);
        const int lane = core_lane();
        __syncthreads(); /* queries and dy have been read */
#pragma unroll
        for (int i = 0; i < QUERIES / 2; i++)
            s.slopes[core_slopes<N>::place(core_column(lane, i / 4) + i % 2,
                                           core_row(lane, i / 2 % 2))] = slope.of[i / 4][i % 4];
        __syncthreads();
        add_keys<N, WIDTH, PACKED>(p, s, query, again, array);
    }
    put_rows<T, WIDTH, PACKED>(p, a.dqkv, 3 * p.C, p.C, dk, {p.scale, p.scale});
    put_rows<T, WIDTH, PACKED>(p, a.dqkv, 3 * p.C, 2 * p.C, dv, {1, 1});
}

/* Block n of a head's `blocks` has the tiles of keys n, 2 blocks - 1 - n, 2 blocks + n and so on:
 * equally many pairs of tiles. It alone writes part n of the queries' gradients. */
template <typename N, int WIDTH, bool PACKED>
__global__ static void __launch_bounds__(CORE_THREADS, WIDTH == EDGE ? 3 : 2)
    attention_cores_back_kernel(ls_attention_backward_args a, float scale, const float *of_rows,
                                float *parts, int blocks)
{
    __shared__ core_back<N, WIDTH> s;
    attention_place p = place_of(a.shape, scale, blockIdx.x, 1, false);
    const int own = p.position / EDGE;
    float *const array = parts + own * (a.shape.rows * a.shape.steps * a.shape.width);
#pragma unroll 1
    for (int turn = 0;; turn++) {
        p.position = EDGE * (turn * blocks + (turn % 2 ? blocks - 1 - own : own));
        if (p.position >= p.T)
            break;
        back_keys<N, WIDTH, PACKED>(a, p, of_rows, turn > 0, array, s);
    }
}

/* dq = the sum of its parts, of the blocks whose first keys are not behind the query. */
template <typename T>
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
        ((T *)a.dqkv)[i + row * 2 * s.width] = element_of<T>(sum * scale);
    }
}

int64_t ls_gpu_attention_cores_parts(const ls_attention_shape *shape)
{
    const int64_t tiles = attention_tiles(shape);
    return tiles < QUERY_PARTS ? tiles : (int64_t)QUERY_PARTS;
}

int ls_gpu_attention_cores_backward(void *stream, const ls_attention_backward_args *args,
                                    float *of_rows, float *parts, bool tf32)
{
    static void (*const kernels[])(ls_attention_backward_args, float, const float *, float *,
                                   int) = {
        attention_cores_back_kernel<core_stored, EDGE, false>,
        attention_cores_back_kernel<core_stored, EDGE, true>,
        attention_cores_back_kernel<core_stored, 2 * EDGE, false>,
        attention_cores_back_kernel<core_stored, 2 * EDGE, true>,
        attention_cores_back_kernel<core_tf32, EDGE, false>,
        attention_cores_back_kernel<core_tf32, EDGE, true>,
        attention_cores_back_kernel<core_float32, EDGE, false>,
        attention_cores_back_kernel<core_float32, EDGE, true>};
    const ls_attention_shape *s = &args->shape;
    const bool stored = args->stored;
    const int blocks = (int)ls_gpu_attention_cores_parts(s);
    const int64_t all = s->rows * s->heads * blocks, count = s->rows * s->steps * s->width;
    const bool packed = has_chunks(s, stored, args->qkv) && has_chunks(s, stored, args->dy) &&
                        has_chunks(s, stored, args->dqkv);
    if (!all)
        return 0;
    int error = ls_gpu_attention_rows(stream, args, of_rows);
    if (!error)
        error = ls_gpu_launch(stream, (unsigned)all, CORE_THREADS,
                              kernels[core_kernel(s, stored, tf32, packed)], *args, score_scale(s),
                              (const float *)of_rows, parts, blocks);
    return error ? error
           : stored
               ? ls_gpu_launch_over(stream, count, LS_GPU_THREADS, add_query_parts_kernel<uint16_t>,
                                    *args, score_scale(s), (const float *)parts, blocks)
               : ls_gpu_launch_over(stream, count, LS_GPU_THREADS, add_query_parts_kernel<float>,
                                    *args, score_scale(s), (const float *)parts, blocks);
}

int ls_gpu_load_attention_cores_back(void)
{
    return ls_gpu_load(attention_cores_back_kernel<core_stored, EDGE, false>,
                       attention_cores_back_kernel<core_stored, EDGE, true>,
                       attention_cores_back_kernel<core_stored, 2 * EDGE, false>,
                       attention_cores_back_kernel<core_stored, 2 * EDGE, true>,
                       attention_cores_back_kernel<core_tf32, EDGE, false>,
                       attention_cores_back_kernel<core_tf32, EDGE, true>,
                       attention_cores_back_kernel<core_float32, EDGE, false>,
                       attention_cores_back_kernel<core_float32, EDGE, true>,
                       add_query_parts_kernel<uint16_t>, add_query_parts_kernel<float>);
}
