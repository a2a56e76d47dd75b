/* SPDX-License-Identifier: MIT */
/*
 * Kernels of causal attention (kernel_transformer.h has the formulas; blocks after Dao et al.,
 * arXiv 2205.14135). A block computes 64 positions of one head of one sample, and of the head's
 * width d up to 64 channels; wider heads have several blocks, each of which computes the scores.
 * Forward it visits the keys up to its queries in tiles of 64, with largest score and sum so far:
 * no matrix of scores is in memory. Backward computes scores again: some blocks have 64 keys each
 * and visit the queries from there on (dk, dv), the others 64 queries and their keys (dq), so
 * nothing is added by several blocks.
 *
 * Products are chains of fused multiply-adds: over positions in order; over channels in order; wide
 * heads in chunks of 64, the block's own chunk last, so that it is in shared memory for the next
 * product. A result depends on its own head, T and d only.
 *
 * Shared memory has three tiles: rows of the block's own positions, of others, and of a second
 * array at the same positions. Shares or slopes replace rows that only their warp still reads. With
 * 48 KB, three or four blocks run at a time on a multiprocessor, and hide each other's loads.
 */
#include "common/kernel/cuda/transformer/gpu_attention.cuh"

enum {
    AT_A_TIME = 4,     /* blocks on a multiprocessor, forward: limits registers to 128 */
    BACK_AT_A_TIME = 3 /* backward: to 168 */
};

struct attention_space {
    tile own, other, more;
};

/* Chunks of a tile's channels: each block has one. */
LS_DEVICE_FN int64_t chunks_of(const ls_attention_shape *s)
{
    return (s->width / s->heads + EDGE - 1) / EDGE;
}

/* Rows of the head from `position` on of an array of rows of `stride`, at `offset` in each. */
template <bool PACKED>
__device__ static inline head_rows<PACKED> rows_of(const attention_place &p, const float *array,
                                                   int stride, int offset, int position)
{
    const float *at = array + (p.start + position) * stride + (p.offset + offset);
    return {at, stride, p.T - position};
}

/* q, k or v (0, 1, 2). */
template <bool PACKED>
__device__ static inline head_rows<PACKED> rows_of_qkv(const attention_place &p, const void *qkv,
                                                       int which, int position)
{
    return rows_of<PACKED>(p, (const float *)qkv, 3 * p.C, which * p.C, position);
}

/* The first channel of the next chunk after `channel`, cyclically. */
__device__ static inline int chunk_after(const attention_place &p, int channel)
{
    return channel + EDGE < p.d ? channel + EDGE : 0;
}

/* sum += a b^T over all channels; the block's own remain in to_a and to_b, which nobody else reads,
 * as for to_a no other warp. `begun`: copies of heads of one chunk have. */
template <bool PACKED>
__device__ static inline void add_channels(const attention_place &p, const head_rows<PACKED> &a,
                                           const head_rows<PACKED> &b, bool begun, tile &to_a,
                                           tile &to_b, part &sum)
{
    for (int first = chunk_after(p, p.channel);; first = chunk_after(p, first)) {
        const int packs = (p.d - first + PACK - 1) / PACK;
        if (!begun) {
            begin_copy(a, first, p.d, to_a);
            begin_copy(b, first, p.d, to_b);
        }
        ls_gpu_await_copies();
        __syncthreads();
        add_pairs(to_a, to_b, packs < PACKS ? (unsigned)packs : (unsigned)PACKS, sum);
        if (first == p.channel)
            return;
        __syncthreads(); /* they have been read */
    }
}

/* Writes a thread's part of 64 rows of 64 channels. */
template <bool PACKED>
__device__ static inline void put_part(const attention_place &p, float *array, int stride,
                                       int offset, const part &value)
{
    const int first = p.position + (int)ls_gpu_anew(thread_row());
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const int position = first + i;
        float *row = array + (p.start + position) * stride + (p.offset + offset);
#pragma unroll
        for (int half = 0; half < COLUMNS / PACK; half++) {
            const int channel = p.channel + (int)column_of(half * PACK);
            pack now;
#pragma unroll
            for (int e = 0; e < PACK; e++)
                now.element[e] = value.of[i][half * PACK + e];
            if (PACKED) {
                if (position < p.T && channel < p.d)
                    *(pack *)(row + channel) = now;
            } else
#pragma unroll
                for (int e = 0; e < PACK; e++)
                    if (position < p.T && channel + e < p.d)
                        row[channel + e] = now.element[e];
        }
    }
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* For each of a thread's rows: the largest product so far, and the sum of e^(score - largest score)
 * over the thread's columns. */
struct running {
    float largest[ROWS], sum[ROWS];
};

/* The value over the 8 threads of a row, in all of them. */
__device__ static inline float largest_of_row(float value)
{
#pragma unroll
    for (int mask = 2; mask < 2 * EDGE / COLUMNS; mask *= 2)
        value = fmaxf(ls_gpu_exchange(value, mask), value);
    return value;
}

__device__ static inline float sum_of_row(float value)
{
#pragma unroll
    for (int mask = 2; mask < 2 * EDGE / COLUMNS; mask *= 2)
        value += ls_gpu_exchange(value, mask);
    return value;
}

/* Products of a tile become shares of the rows' sums so far; y is scaled to the new largest scores.
 * All threads call it. `scale`: of scores to the base of 2. */
__device__ static inline void add_scores(float scale, part &score, running &of, part &y)
{
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        float largest = of.largest[i], sum = 0;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            largest = fmaxf(score.of[i][j], largest);
        largest = largest_of_row(largest);
        const float factor = power_of_two((of.largest[i] - largest) * scale);
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            score.of[i][j] = power_of_two(fmaf(score.of[i][j], scale, -largest * scale));
            sum += score.of[i][j];
            y.of[i][j] *= factor;
        }
        of.sum[i] = of.sum[i] * factor + sum;
        of.largest[i] = largest;
    }
}

/* Divides y by the sums, and writes it; the head's first block writes the sums' logarithms. */
template <bool PACKED>
__device__ static inline void end_rows(const ls_attention_forward_args &a, const attention_place &p,
                                       const running &of, part &y)
{
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const int position = p.position + (int)thread_row() + i;
        const float sum = sum_of_row(of.sum[i]), inverse = 1 / sum;
        if (thread_column() == 0 && p.channel == 0 && position < p.T)
            ((float *)a.sums)[p.sums + position] =
                of.largest[i] * p.scale + (float)ls_log_element(sum);
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            y.of[i][j] *= inverse;
    }
    put_part<PACKED>(p, (float *)a.y, p.C, 0, y);
}

template <bool PACKED>
__global__ static void __launch_bounds__(TILE_THREADS, AT_A_TIME)
    attention_kernel(ls_attention_forward_args a, float scale)
{
    __shared__ attention_space s;
    const attention_place p =
        place_of(a.shape, scale, blockIdx.x, chunks_of(&a.shape), true); /* most keys first */
    const head_rows<PACKED> queries = rows_of_qkv<PACKED>(p, a.qkv, 0, p.position);
    running of;
    part sum = {};
#pragma unroll
    for (int i = 0; i < ROWS; i++)
        of.largest[i] = -INFINITY, of.sum[i] = 0;
    for (int key = 0; key <= p.position; key += EDGE) {
        part score = {};
        __syncthreads(); /* what was there has been read */
        begin_copy(rows_of_qkv<PACKED>(p, a.qkv, 2, key), p.channel, p.d, s.more);
        add_channels(p, queries, rows_of_qkv<PACKED>(p, a.qkv, 1, key), false, s.own, s.other,
                     score);
        if (key == p.position)
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int j = 0; j < COLUMNS; j++)
                    if (column_of(j) > thread_row() + i)
                        score.of[i][j] = -INFINITY;
        add_scores(scale * LOG2_E, score, of, sum);
        ls_gpu_sync_warp(); /* its queries have been read */
        leave_part(score, s.own);
        ls_gpu_sync_warp();
        add_tile(s.own, s.more, sum);
    }
    end_rows<PACKED>(a, p, of, sum);
}

/* Blocks that share the tiles of all heads: at most as many as y has elements. */
static unsigned tile_blocks(const ls_attention_shape *s)
{
    return (unsigned)(s->rows * s->heads * attention_tiles(s) * chunks_of(s));
}

/* Whether 16 bytes of rows of a head can be accessed at a time. */
static bool is_packed(const ls_attention_shape *s, const void *array)
{
    return s->width / s->heads % PACK == 0 && ls_gpu_takes_fours(array);
}

int ls_gpu_attention_forward(void *stream, const ls_attention_forward_args *args)
{
    const ls_attention_shape *s = &args->shape;
    const unsigned blocks = tile_blocks(s);
    const bool packed = blocks && is_packed(s, args->qkv) && is_packed(s, args->y);
    return blocks ? ls_gpu_launch(stream, blocks, TILE_THREADS,
                                  packed ? attention_kernel<true> : attention_kernel<false>, *args,
                                  score_scale(s))
                  : 0;
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* The values at a thread's queries from `query` on: the values of its columns (OF_KEYS), or
 * rows. */
template <bool OF_KEYS> struct of_queries {
    enum { COUNT = OF_KEYS ? COLUMNS : ROWS };
    float at[COUNT];

    __device__ of_queries(const attention_place &p, const float *values, int query)
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const int position = query + (int)(OF_KEYS ? column_of(i) : thread_row() + i);
            at[i] = position < p.T ? values[p.sums + position] : 0;
        }
    }
};

/* Products of queries and keys become shares; `diagonal`: rows and columns are the same
 * positions. */
template <bool OF_KEYS>
__device__ static inline void set_shares(float scale, const of_queries<OF_KEYS> &sum, bool diagonal,
                                         part &share)
{
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            share.of[i][j] =
                power_of_two(fmaf(share.of[i][j], scale, -sum.at[OF_KEYS ? j : i] * LOG2_E));
    if (diagonal)
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                const unsigned row = thread_row() + i, column = column_of(j);
                if (OF_KEYS ? column < row : column > row)
                    share.of[i][j] = 0;
            }
}

/* The gradients of a block's 64 keys and values (OF_KEYS), or queries. */
template <bool OF_KEYS, bool PACKED>
__device__ static inline void back_tile(const ls_attention_backward_args &a, const float *of_rows,
                                        const attention_place &p, attention_space &s)
{
    const float *dy = (const float *)a.dy;
    const int own = p.position, end = OF_KEYS ? p.T : own + 1;
    const head_rows<PACKED> own_rows = rows_of_qkv<PACKED>(p, a.qkv, OF_KEYS ? 1 : 0, own);
    const head_rows<PACKED> own_more =
        OF_KEYS ? rows_of_qkv<PACKED>(p, a.qkv, 2, own) : rows_of<PACKED>(p, dy, p.C, 0, own);
    const bool one_chunk = p.d <= EDGE;
    part d_rows = {}, d_more = {}; /* dk and dv, or dq */
    for (int other = OF_KEYS ? own : 0; other < end; other += EDGE) {
        const head_rows<PACKED> rows = rows_of_qkv<PACKED>(p, a.qkv, OF_KEYS ? 0 : 1, other);
        const head_rows<PACKED> more = OF_KEYS ? rows_of<PACKED>(p, dy, p.C, 0, other)
                                               : rows_of_qkv<PACKED>(p, a.qkv, 2, other);
        const int query = OF_KEYS ? other : own;
        part share = {}, slope;
        const of_queries<OF_KEYS> sum(p, (const float *)a.sums, query);
        __syncthreads(); /* what was there has been read */
        if (one_chunk)
            begin_copy(more, 0, p.d, s.more);
        add_channels(p, own_rows, rows, false, s.own, s.other, share);
        ls_gpu_sync_warp(); /* its own rows have been read */
        if (one_chunk)
            begin_copy(own_more, 0, p.d, s.own);
        const of_queries<OF_KEYS> product(p, of_rows, query);
        set_shares<OF_KEYS>(p.scale * LOG2_E, sum, other == own, share);
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                slope.of[i][j] = -product.at[OF_KEYS ? j : i];
        add_channels(p, own_more, more, one_chunk, s.own, s.more, slope);
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++)
                slope.of[i][j] *= share.of[i][j];
        if (OF_KEYS) {
            ls_gpu_sync_warp(); /* its rows have been read */
            leave_part(share, s.own);
            ls_gpu_sync_warp();
            add_tile(s.own, s.more, d_more);
        }
        ls_gpu_sync_warp();
        leave_part(slope, s.own);
        ls_gpu_sync_warp();
        add_tile(s.own, s.other, d_rows);
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            d_rows.of[i][j] *= p.scale;
    float *dqkv = (float *)a.dqkv;
    put_part<PACKED>(p, dqkv, 3 * p.C, OF_KEYS ? p.C : 0, d_rows);
    if (OF_KEYS)
        put_part<PACKED>(p, dqkv, 3 * p.C, 2 * p.C, d_more);
}

/* The first half of the blocks have keys, the second queries; blocks with most to visit come
 * first. */
template <bool PACKED>
__global__ static void __launch_bounds__(TILE_THREADS, BACK_AT_A_TIME)
    attention_back_kernel(ls_attention_backward_args a, float scale, const float *of_rows,
                          unsigned tiles)
{
    __shared__ attention_space s;
    const int64_t chunks = chunks_of(&a.shape);
    if (blockIdx.x < tiles)
        back_tile<true, PACKED>(a, of_rows, place_of(a.shape, scale, blockIdx.x, chunks, false), s);
    else
        back_tile<false, PACKED>(a, of_rows,
                                 place_of(a.shape, scale, blockIdx.x - tiles, chunks, true), s);
}

/* ---- Row terms --------------------------------------------------------------------------- */

enum { SUM_LANES = 16 };

__device__ static inline float widened(float value)
{
    return value;
}

__device__ static inline float widened(uint16_t value)
{
    return ls_float_of_bf16(value);
}

/* of_rows[head, position] = dy y, a sum over the head's channels: by 16 neighbouring threads,
 * channel c in thread c % 16, folded by halves. */
template <typename T>
__global__ static void __launch_bounds__(LS_GPU_THREADS)
    row_products_kernel(ls_attention_backward_args a, float *of_rows)
{
    const ls_attention_shape &s = a.shape;
    const int64_t d = s.width / s.heads, count = s.rows * s.heads * s.steps;
    const int64_t rows_of_block = LS_GPU_THREADS / SUM_LANES;
    for (int64_t first = blockIdx.x * rows_of_block; first < count;
         first += gridDim.x * rows_of_block) { /* equal iterations in all threads */
        const int64_t i = first + threadIdx.x / SUM_LANES, head = ls_gpu_divide(i, s.steps);
        const int64_t row = ls_gpu_divide(head, s.heads);
        const int64_t at =
            (row * s.steps + i - head * s.steps) * s.width + (head - row * s.heads) * d;
        float sum = 0;
        for (int64_t c = threadIdx.x % SUM_LANES; c < d && i < count; c += SUM_LANES)
            sum += widened(((const T *)a.dy)[at + c]) * widened(((const T *)a.y)[at + c]);
#pragma unroll
        for (int half = SUM_LANES / 2; half; half /= 2)
            sum += ls_gpu_exchange(sum, half);
        if (i < count && threadIdx.x % SUM_LANES == 0)
            of_rows[i] = sum;
    }
}

int ls_gpu_attention_rows(void *stream, const ls_attention_backward_args *args, float *of_rows)
{
    const ls_attention_shape *s = &args->shape;
    const unsigned blocks =
        ls_gpu_blocks(s->rows * s->heads * s->steps, LS_GPU_THREADS / SUM_LANES);
    return args->stored ? ls_gpu_launch(stream, blocks, LS_GPU_THREADS,
                                        row_products_kernel<uint16_t>, *args, of_rows)
                        : ls_gpu_launch(stream, blocks, LS_GPU_THREADS, row_products_kernel<float>,
                                        *args, of_rows);
}

int ls_gpu_attention_backward(void *stream, const ls_attention_backward_args *args, float *of_rows)
{
    const ls_attention_shape *s = &args->shape;
    const unsigned tiles = tile_blocks(s);
    if (!tiles)
        return 0;
    const int error = ls_gpu_attention_rows(stream, args, of_rows);
    const bool packed =
        is_packed(s, args->qkv) && is_packed(s, args->dy) && is_packed(s, args->dqkv);
    return error
               ? error
               : ls_gpu_launch(stream, 2 * tiles, TILE_THREADS,
                               packed ? attention_back_kernel<true> : attention_back_kernel<false>,
                               *args, score_scale(s), (const float *)of_rows, tiles);
}

int ls_gpu_load_attention(void)
{
    return ls_gpu_load(attention_kernel<true>, attention_kernel<false>, row_products_kernel<float>,
                       row_products_kernel<uint16_t>, attention_back_kernel<true>,
                       attention_back_kernel<false>);
}
