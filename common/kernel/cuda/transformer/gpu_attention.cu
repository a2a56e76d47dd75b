/* SPDX-License-Identifier: MIT */
/*
 * Kernels of causal attention (kernel_transformer.h has the formulas; blocks after Dao et al.,
 * arXiv 2205.14135). Not yet run on a GPU. A block computes 64 positions of one head of one sample,
 * and of the head's width d up to 64 channels; wider heads have several blocks, each of which
 * computes the scores. Forward it visits the keys up to its queries in tiles of 64, with largest
 * score and sum so far: no matrix of scores is in memory. Backward computes scores again: some
 * blocks have 64 keys each and visit the queries from there on (dk, dv), the others 64 queries and
 * their keys (dq), so nothing is added by several blocks. Products are chains of fused
 * multiply-adds in the order of channels or positions; a result depends on its own head, T and d
 * only.
 *
 * 256 threads are 16 x 16, each with 4 x 4 elements of a tile. Shared memory has a tile's operands,
 * 32 channels of both at a time, or 64 rows of 64 channels; and the tile of shares or slopes that
 * the next product reads.
 */
#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/element_inline.h"

enum {
    EDGE = 64,            /* positions, and channels, of a block */
    SIDE = 4,             /* of a thread's part of a tile */
    DEPTH = EDGE / 2,     /* channels of an operand in shared memory */
    EDGE_ROW = EDGE + 4,  /* floats: rows begin in other banks, at 16 bytes */
    ACROSS = EDGE / SIDE, /* threads of a tile's side */
    ATTENTION_WARP = 32,
    ATTENTION_LANES = 16
};

struct attention_space {
    alignas(16) float operand[EDGE][EDGE_ROW];
    alignas(16) float tile[EDGE][EDGE_ROW];
};

/* `count` rows of d floats, `stride` apart; those behind them are 0. */
struct head_rows {
    const float *at;
    int64_t stride, count;
};

/* A thread's part of a tile. */
struct part {
    float of[SIDE][SIDE];
};

/* This thread's row, or column, of a tile's threads. */
__device__ static inline unsigned thread_row()
{
    return threadIdx.x / ACROSS;
}

__device__ static inline unsigned thread_column()
{
    return threadIdx.x % ACROSS;
}

/* sum += a b^T: one element of each of 64 rows of a, and of b. */
__device__ static inline void add_products(const float *a, const float *b, part &sum)
{
    typedef ls_gpu_pack<float, SIDE> pack;
    const pack x = *(const pack *)(a + SIDE * thread_row());
    const pack y = *(const pack *)(b + SIDE * thread_column());
#pragma unroll
    for (int i = 0; i < SIDE; i++)
#pragma unroll
        for (int j = 0; j < SIDE; j++)
            sum.of[i][j] = fmaf(x.element[i], y.element[j], sum.of[i][j]);
}

/* to[c] = channel first + c of 64 rows. A warp reads 8 channels of 4 rows at a time, and writes
 * them to 32 banks. */
__device__ static inline void load_columns(const head_rows &m, int64_t first, int64_t d,
                                           float to[][EDGE_ROW])
{
    const unsigned warps = LS_GPU_THREADS / ATTENTION_WARP, lane = threadIdx.x % ATTENTION_WARP;
#pragma unroll
    for (unsigned i = 0; i < EDGE * DEPTH / LS_GPU_THREADS; i++) {
        const unsigned piece = threadIdx.x / ATTENTION_WARP + warps * i;
        const unsigned c = piece % (DEPTH / 8) * 8 + lane % 8,
                       r = piece / (DEPTH / 8) * 4 + lane / 8;
        to[c][r] = r < m.count && first + c < d ? m.at[r * m.stride + first + c] : 0;
    }
}

/* sum += a b^T over all channels. */
__device__ static inline void add_pairs(const head_rows &a, const head_rows &b, int64_t d,
                                        attention_space &s, part &sum)
{
    for (int64_t first = 0; first < d; first += DEPTH) {
        const int count = d - first < DEPTH ? (int)(d - first) : (int)DEPTH;
        __syncthreads(); /* what was there has been read */
        load_columns(a, first, d, s.operand);
        load_columns(b, first, d, s.operand + DEPTH);
        __syncthreads();
#pragma unroll 8
        for (int c = 0; c < count; c++)
            add_products(s.operand[c], s.operand[DEPTH + c], sum);
    }
}

/* The tile, its columns as rows. */
__device__ static inline void leave_tile(const part &value, attention_space &s)
{
    typedef ls_gpu_pack<float, SIDE> pack;
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
        pack column;
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            column.element[i] = value.of[i][j];
        *(pack *)&s.tile[SIDE * thread_column() + j][SIDE * thread_row()] = column;
    }
}

/* sum += the tile that was left times 64 channels of as many rows as it has columns. */
__device__ static inline void add_tile(const head_rows &rows, int64_t channel, int64_t d,
                                       attention_space &s, part &sum)
{
    const int count = rows.count < EDGE ? (int)rows.count : (int)EDGE;
    __syncthreads(); /* the operands have been read, the tile is written */
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < EDGE * EDGE; i += LS_GPU_THREADS) {
        const int r = (int)i / EDGE, c = (int)i % EDGE;
        s.operand[r][c] = r < count && channel + c < d ? rows.at[r * rows.stride + channel + c] : 0;
    }
    __syncthreads();
#pragma unroll 8
    for (int r = 0; r < count; r++)
        add_products(s.tile[r], s.operand[r], sum);
}

/* A block's head, and the first of its positions and channels. */
struct attention_place {
    int64_t T, C, d, head, position, channel;
    int64_t start;  /* of the head's elements in an array [B,T,C], in units of C */
    int64_t offset; /* of the head in a row */
    float scale;    /* of scores */
};

/* Block number `block` of those that share the tiles of all heads. */
__device__ static inline attention_place place_of(const ls_attention_shape &s, float scale,
                                                  int64_t block, bool last_first)
{
    const int64_t d = s.width / s.heads, chunks = (d + EDGE - 1) / EDGE, heads = s.rows * s.heads;
    const int64_t item = ls_gpu_divide(block, chunks), tile = ls_gpu_divide(item, heads);
    const int64_t head = item - tile * heads, row = ls_gpu_divide(head, s.heads);
    const int64_t tiles = (s.steps + EDGE - 1) / EDGE;
    attention_place p;
    p.T = s.steps, p.C = s.width, p.d = d, p.head = head;
    p.position = (last_first ? tiles - 1 - tile : tile) * EDGE;
    p.channel = (block - item * chunks) * EDGE;
    p.start = row * s.steps;
    p.offset = (head - row * s.heads) * d;
    p.scale = scale;
    return p;
}

/* Rows of the head from `position` on of an array of rows of `stride`, at `offset` in each. */
__device__ static inline head_rows rows_of(const attention_place &p, const float *array,
                                           int64_t stride, int64_t offset, int64_t position)
{
    const float *at = array + (p.start + position) * stride + p.offset + offset;
    return head_rows{at, stride, p.T - position};
}

/* q, k or v (0, 1, 2). */
__device__ static inline head_rows rows_of_qkv(const attention_place &p, const void *qkv, int which,
                                               int64_t position)
{
    return rows_of(p, (const float *)qkv, 3 * p.C, which * p.C, position);
}

/* Writes a thread's part of 64 rows of 64 channels. */
__device__ static inline void put_part(const attention_place &p, float *array, int64_t stride,
                                       int64_t offset, const part &value)
{
#pragma unroll
    for (int i = 0; i < SIDE; i++)
#pragma unroll
        for (int j = 0; j < SIDE; j++) {
            const int64_t position = p.position + SIDE * thread_row() + i;
            const int64_t channel = p.channel + SIDE * thread_column() + j;
            if (position < p.T && channel < p.d)
                array[(p.start + position) * stride + p.offset + offset + channel] = value.of[i][j];
        }
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Of a thread's rows: the largest score so far, and the sum of e^(score - largest). */
struct running {
    float largest[SIDE], sum[SIDE];
};

/* Scores of row i of a thread's part become shares of the row's sum so far; y's row is scaled to
 * the new largest score. All threads call it. `earlier`: keys up to the query, from the part's
 * first on. */
__device__ static inline void add_scores(int i, int64_t earlier, float scale, part &score,
                                         running &of, part &y)
{
    float largest = of.largest[i], sum = 0;
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
        score.of[i][j] = j < earlier ? score.of[i][j] * scale : -INFINITY;
        largest = score.of[i][j] > largest ? score.of[i][j] : largest;
    }
#pragma unroll
    for (int half = ACROSS / 2; half; half /= 2) {
        const float other = ls_gpu_exchange(largest, half);
        largest = other > largest ? other : largest;
    }
    const float factor = ls_exp_element(of.largest[i] - largest);
#pragma unroll
    for (int j = 0; j < SIDE; j++) {
        score.of[i][j] = ls_exp_element(score.of[i][j] - largest);
        sum += score.of[i][j];
    }
#pragma unroll
    for (int half = ACROSS / 2; half; half /= 2)
        sum += ls_gpu_exchange(sum, half);
    of.sum[i] = of.sum[i] * factor + sum;
    of.largest[i] = largest;
#pragma unroll
    for (int j = 0; j < SIDE; j++)
        y.of[i][j] *= factor;
}

/* Divides y by the sums, and writes it; the head's first block writes the sums' logarithms. */
__device__ static inline void end_rows(const ls_attention_forward_args &a, const attention_place &p,
                                       const running &of, part &y)
{
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        const int64_t position = p.position + SIDE * thread_row() + i;
        const float inverse = 1 / of.sum[i];
        if (thread_column() == 0 && p.channel == 0 && position < p.T)
            ((float *)a.sums)[p.head * p.T + position] =
                of.largest[i] + (float)ls_log_element(of.sum[i]);
#pragma unroll
        for (int j = 0; j < SIDE; j++)
            y.of[i][j] *= inverse;
    }
    put_part(p, (float *)a.y, p.C, 0, y);
}

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    attention_kernel(ls_attention_forward_args a, float scale)
{
    __shared__ attention_space s;
    const attention_place p = place_of(a.shape, scale, blockIdx.x, true); /* most keys first */
    running of;
    part y = {};
#pragma unroll
    for (int i = 0; i < SIDE; i++)
        of.largest[i] = -INFINITY, of.sum[i] = 0;
    for (int64_t key = 0; key <= p.position; key += EDGE) {
        part score = {};
        add_pairs(rows_of_qkv(p, a.qkv, 0, p.position), rows_of_qkv(p, a.qkv, 1, key), p.d, s,
                  score);
        const int64_t queries = p.position + SIDE * thread_row(),
                      keys = key + SIDE * thread_column();
#pragma unroll
        for (int i = 0; i < SIDE; i++)
            add_scores(i, queries + i + 1 - keys, p.scale, score, of, y);
        leave_tile(score, s);
        add_tile(rows_of_qkv(p, a.qkv, 2, key), p.channel, p.d, s, y);
    }
    end_rows(a, p, of, y);
}

/* Blocks that share the tiles of all heads: far fewer than there are elements in memory. */
static unsigned tile_blocks(const ls_attention_shape *s)
{
    const int64_t chunks = (s->width / s->heads + EDGE - 1) / EDGE;
    return (unsigned)(s->rows * s->heads * ((s->steps + EDGE - 1) / EDGE) * chunks);
}

static float score_scale(const ls_attention_shape *s)
{
    return 1 / sqrtf((float)(s->width / s->heads));
}

int ls_gpu_attention_forward(void *stream, const ls_attention_forward_args *args)
{
    const unsigned blocks = tile_blocks(&args->shape);
    return blocks ? ls_gpu_launch(stream, blocks, LS_GPU_THREADS, attention_kernel, *args,
                                  score_scale(&args->shape))
                  : 0;
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* of_rows[head, position] = dy y, a sum over the head's channels: by 16 neighbouring threads,
 * channel c in thread c % 16, folded by halves. */
__global__ static void __launch_bounds__(LS_GPU_THREADS)
    row_products_kernel(ls_attention_backward_args a, float *of_rows)
{
    const ls_attention_shape &s = a.shape;
    const int64_t d = s.width / s.heads, count = s.rows * s.heads * s.steps;
    const int64_t rows_of_block = LS_GPU_THREADS / ATTENTION_LANES;
    for (int64_t first = blockIdx.x * rows_of_block; first < count;
         first += gridDim.x * rows_of_block) { /* equal iterations in all threads */
        const int64_t i = first + threadIdx.x / ATTENTION_LANES, head = ls_gpu_divide(i, s.steps);
        const int64_t row = ls_gpu_divide(head, s.heads);
        const int64_t at =
            (row * s.steps + i - head * s.steps) * s.width + (head - row * s.heads) * d;
        float sum = 0;
        for (int64_t c = threadIdx.x % ATTENTION_LANES; c < d && i < count; c += ATTENTION_LANES)
            sum += ((const float *)a.dy)[at + c] * ((const float *)a.y)[at + c];
#pragma unroll
        for (int half = ATTENTION_LANES / 2; half; half /= 2)
            sum += ls_gpu_exchange(sum, half);
        if (i < count && threadIdx.x % ATTENTION_LANES == 0)
            of_rows[i] = sum;
    }
}

/* A tile's shares a = softmax(s) and slopes ds from its products of queries and keys (`share`) and
 * of dy and values (`slope`); OF_KEYS: its rows are keys from `row` on, its columns queries from
 * `column` on, else the other way. */
template <bool OF_KEYS>
__device__ static inline void set_slopes(const attention_place &p, const float *sums,
                                         const float *of_rows, int64_t row, int64_t column,
                                         part &share, part &slope)
{
    const int64_t rows = row + SIDE * thread_row(), columns = column + SIDE * thread_column();
    float sum[SIDE], e[SIDE];
#pragma unroll
    for (int i = 0; i < SIDE; i++) {
        const int64_t query = (OF_KEYS ? columns : rows) + i;
        sum[i] = query < p.T ? sums[p.head * p.T + query] : 0;
        e[i] = query < p.T ? of_rows[p.head * p.T + query] : 0;
    }
#pragma unroll
    for (int i = 0; i < SIDE; i++)
#pragma unroll
        for (int j = 0; j < SIDE; j++) {
            const int of = OF_KEYS ? j : i;
            const bool counts = OF_KEYS ? rows + i <= columns + j : columns + j <= rows + i;
            const float a = counts ? ls_exp_element(share.of[i][j] * p.scale - sum[of]) : 0;
            slope.of[i][j] = a * (slope.of[i][j] - e[of]) * p.scale;
            share.of[i][j] = a;
        }
}

/* The gradients of a block's 64 keys and values (OF_KEYS), or queries. */
template <bool OF_KEYS>
__device__ static inline void back_tile(const ls_attention_backward_args &a, const float *of_rows,
                                        const attention_place &p, attention_space &s)
{
    const float *dy = (const float *)a.dy, *sums = (const float *)a.sums;
    const int64_t own = p.position, end = OF_KEYS ? p.T : own + 1;
    const head_rows own_dy = rows_of(p, dy, p.C, 0, own);
    const head_rows own_rows = rows_of_qkv(p, a.qkv, OF_KEYS ? 1 : 0, own);
    const head_rows own_more = OF_KEYS ? rows_of_qkv(p, a.qkv, 2, own) : own_dy;
    part d_rows = {}, d_more = {}; /* dk and dv, or dq */
    for (int64_t other = OF_KEYS ? own : 0; other < end; other += EDGE) {
        const head_rows rows = rows_of_qkv(p, a.qkv, OF_KEYS ? 0 : 1, other);
        const head_rows more =
            OF_KEYS ? rows_of(p, dy, p.C, 0, other) : rows_of_qkv(p, a.qkv, 2, other);
        part share = {}, slope = {};
        add_pairs(own_rows, rows, p.d, s, share);
        add_pairs(own_more, more, p.d, s, slope);
        set_slopes<OF_KEYS>(p, sums, of_rows, own, other, share, slope);
        if (OF_KEYS) {
            leave_tile(share, s);
            add_tile(more, p.channel, p.d, s, d_more);
            __syncthreads(); /* the shares have been read */
        }
        leave_tile(slope, s);
        add_tile(rows, p.channel, p.d, s, d_rows);
    }
    float *dqkv = (float *)a.dqkv;
    put_part(p, dqkv, 3 * p.C, OF_KEYS ? p.C : 0, d_rows);
    if (OF_KEYS)
        put_part(p, dqkv, 3 * p.C, 2 * p.C, d_more);
}

/* The first half of the blocks have keys, the second queries; those with most to visit first. */
__global__ static void __launch_bounds__(LS_GPU_THREADS)
    attention_back_kernel(ls_attention_backward_args a, float scale, const float *of_rows,
                          unsigned tiles)
{
    __shared__ attention_space s;
    if (blockIdx.x < tiles)
        back_tile<true>(a, of_rows, place_of(a.shape, scale, blockIdx.x, false), s);
    else
        back_tile<false>(a, of_rows, place_of(a.shape, scale, blockIdx.x - tiles, true), s);
}

int ls_gpu_attention_backward(void *stream, const ls_attention_backward_args *args, float *of_rows)
{
    const unsigned tiles = tile_blocks(&args->shape);
    const int64_t rows = args->shape.rows * args->shape.heads * args->shape.steps;
    if (!tiles)
        return 0;
    const int error = ls_gpu_launch(stream, ls_gpu_blocks(rows, LS_GPU_THREADS / ATTENTION_LANES),
                                    LS_GPU_THREADS, row_products_kernel, *args, of_rows);
    return error ? error
                 : ls_gpu_launch(stream, 2 * tiles, LS_GPU_THREADS, attention_back_kernel, *args,
                                 score_scale(&args->shape), (const float *)of_rows, tiles);
}

int ls_gpu_load_attention(void)
{
    return ls_gpu_load(attention_kernel, row_products_kernel, attention_back_kernel);
}
