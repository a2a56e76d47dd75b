/* SPDX-License-Identifier: MIT */
/*
 * Vector loops of transformers: tokens, layer normalisation, GELU, attention. Part of
 * vector_loops.c.
 *
 * Attention takes a head's queries in blocks of ATTENTION_BLOCK: a block's scores are a product of
 * its queries and all keys up to its last one, and lie in scratch memory, in proportion to T;
 * backward computes them again. Products are vector_product.h's, so an element of dk, dv and dq is
 * one chain in the order of positions. Scores of later keys become 0.
 */
#pragma once

#include "common/base/bf16_inline.h"
#include "common/kernel/cpu/elements/vector_losses.h"
#include "common/kernel/cpu/product/vector_product.h"

/* Sixteen elements; past `count` they are `rest`. */
LS_ALWAYS lanes lanes_of(const float *from, int64_t count, float rest)
{
    return count >= LS_LANES ? lanes_get(from) : lanes_get_some(from, count, rest);
}

/* ---- Tokens --------------------------------------------------------------------------------- */

static int64_t bad_token(const float *x, int64_t rows, int64_t tokens)
{
    for (int64_t r = 0; r < rows; r++)
        if (!(x[r] >= 0 && x[r] < (float)tokens) || x[r] != (float)(int32_t)x[r])
            return r;
    return -1;
}

static void embedding(const ls_embedding_forward_args *e, int64_t first, int64_t last)
{
    const float *x = e->x, *weight = e->weight;
    float *y = e->y;
    for (int64_t r = first; r < last; r++) {
        const int64_t row = (int64_t)x[r] - e->first;
        if (row >= 0 && row < e->tokens)
            memcpy(y + r * e->width, weight + row * e->width, (size_t)e->width * sizeof *y);
        else
            fill(y + r * e->width, -0.0F, e->width);
    }
}

static void embedding_back(const ls_embedding_backward_args *e, int64_t first, int64_t last)
{
    const float *x = e->x, *dy = e->dy;
    float *dweight = e->dweight;
    memset(dweight + first * e->width, 0, (size_t)((last - first) * e->width) * sizeof *dweight);
    for (int64_t r = 0; r < e->rows; r++) {
        const int64_t token = (int64_t)x[r] - e->first;
        if (token >= first && token < last)
            add(dweight + token * e->width, dy + r * e->width, dweight + token * e->width,
                e->width);
    }
}

/* ---- Layer normalisation -------------------------------------------------------------------- */

static void layer_norm(const ls_layer_norm_forward_args *n, int64_t first, int64_t last)
{
    const int64_t C = n->width;
    const float *restrict weight = n->weight, *restrict bias = n->bias;
    for (int64_t r = first; r < last; r++) {
        const float *restrict x = (const float *)n->x + r * C;
        float *restrict y = (float *)n->y + r * C, *moments = (float *)n->moments + 2 * r;
        const float mean = row_sum(x, C) / (float)C;
        lanes squares = {{{0}}};
        for (int64_t c = 0; c < C; c += LS_LANES) {
            lanes value = lanes_of(x + c, C - c, mean);
            LS_WRITE_OUT
            for (int p = 0; p < LS_PARTS; p++) {
                value.part[p] -= vec_all(mean);
                squares.part[p] += value.part[p] * value.part[p];
            }
        }
        const float variance = lanes_sum(&squares) / (float)C;
        const float rate = (float)ls_bn_rate((double)variance, n->epsilon);
        for (int64_t c = 0; c < C; c++)
            y[c] = (x[c] - mean) * rate * weight[c] + bias[c];
        moments[0] = mean;
        moments[1] = rate;
    }
}

/* Group g's part of the rows; dx of them, and their sums of dweight and dbias,
 * [2, ls_vector_pad(C)]. */
static void layer_norm_group(const ls_layer_norm_backward_args *n, int64_t g, float *restrict sums)
{
    const int64_t C = n->width, padded = ls_vector_pad(C);
    const int64_t end = n->rows * (g + 1) / LS_VECTOR_NORM_GROUPS;
    const float *restrict weight = n->weight;
    memset(sums, 0, (size_t)(2 * padded) * sizeof *sums);
    for (int64_t r = n->rows * g / LS_VECTOR_NORM_GROUPS; r < end; r++) {
        const float *restrict x = (const float *)n->x + r * C, *restrict dy =
                                                                   (const float *)n->dy + r * C;
        const float mean = ((const float *)n->moments)[2 * r];
        const float rate = ((const float *)n->moments)[2 * r + 1];
        float *restrict dx = (float *)n->dx + r * C;
        lanes of_g = {{{0}}}, of_gn = {{{0}}};
        for (int64_t c = 0; c < C; c += LS_LANES) {
            const lanes value = lanes_of(x + c, C - c, 0), back = lanes_of(dy + c, C - c, 0);
            const lanes factor = lanes_of(weight + c, C - c, 0);
            LS_WRITE_OUT
            for (int p = 0; p < LS_PARTS; p++) {
                float *dweight = sums + c + p * LS_VEC, *dbias = dweight + padded;
                const vec normal = (value.part[p] - vec_all(mean)) * vec_all(rate);
                const vec product = back.part[p] * factor.part[p];
                of_g.part[p] += product;
                of_gn.part[p] += product * normal;
                vec_put(dweight, vec_get(dweight) + back.part[p] * normal);
                vec_put(dbias, vec_get(dbias) + back.part[p]);
            }
        }
        const float mean_g = lanes_sum(&of_g) / (float)C, mean_gn = lanes_sum(&of_gn) / (float)C;
        for (int64_t c = 0; c < C && !n->adds; c++)
            dx[c] = rate * (dy[c] * weight[c] - mean_g - (x[c] - mean) * rate * mean_gn);
        for (int64_t c = 0; c < C && n->adds; c++) {
            const float more = rate * (dy[c] * weight[c] - mean_g - (x[c] - mean) * rate * mean_gn);
            dx[c] += n->rounds ? ls_float_of_bf16(ls_bf16_of_float(more)) : more;
        }
    }
}

static void layer_norm_back(const ls_layer_norm_backward_args *n, int64_t first, int64_t last,
                            float *sums)
{
    for (int64_t g = first; g < last; g++)
        layer_norm_group(n, g, sums + g * 2 * ls_vector_pad(n->width));
}

/* ---- GELU ----------------------------------------------------------------------------------- */

/* So many elements take a step, then the next one: in one loop over all steps a processor would
 * wait for each of them. */
enum { GELU_BLOCK = 256 };

/* z of up to GELU_BLOCK elements, and e^-|z|. */
LS_ALWAYS void gelu_inner(const float *restrict x, int64_t count, float *restrict z,
                          float *restrict e)
{
    for (int64_t i = 0; i < count; i++) {
        z[i] = ls_gelu_inner(x[i]);
        e[i] = -fabsf(z[i]);
    }
    exponential(e, e, count);
}

static void gelu(const float *restrict x, float *restrict y, int64_t count)
{
    float z[GELU_BLOCK], e[GELU_BLOCK];
    for (int64_t at = 0; at < count; at += GELU_BLOCK) {
        const int64_t some = count - at < GELU_BLOCK ? count - at : GELU_BLOCK;
        gelu_inner(x + at, some, z, e);
        for (int64_t i = 0; i < some; i++)
            y[at + i] = x[at + i] * ls_sigmoid_of(z[i], e[i]);
    }
}

static void gelu_back(const float *x, const float *dy, float *dx, int64_t count)
{
    float z[GELU_BLOCK], e[GELU_BLOCK];
    for (int64_t at = 0; at < count; at += GELU_BLOCK) {
        const int64_t some = count - at < GELU_BLOCK ? count - at : GELU_BLOCK;
        gelu_inner(x + at, some, z, e);
        LS_INDEPENDENT
        for (int64_t i = 0; i < some; i++)
            dx[at + i] = dy[at + i] * ls_gelu_slope_of(x[at + i], z[i], e[i]);
    }
}

/* ---- Dropout -------------------------------------------------------------------------------- */

/* So many Philox blocks take a round, then the next one. */
enum { DROPOUT_BLOCKS = 64 };

/* The words of `count` blocks from number `block` on, four each. */
LS_ALWAYS void random_blocks(ls_random random, uint64_t block, int64_t count,
                             uint32_t words[4 * DROPOUT_BLOCKS])
{
    uint32_t c[4][DROPOUT_BLOCKS];
    uint32_t k0 = (uint32_t)random.seed, k1 = (uint32_t)(random.seed >> 32);
    for (int64_t i = 0; i < count; i++) {
        c[0][i] = (uint32_t)(block + (uint64_t)i);
        c[1][i] = (uint32_t)((block + (uint64_t)i) >> 32);
        c[2][i] = (uint32_t)random.stream;
        c[3][i] = (uint32_t)(random.stream >> 32);
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        for (int64_t i = 0; i < count; i++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * c[0][i],
                           p1 = (uint64_t)0xCD9E8D57u * c[2][i];
            c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
            c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
            c[1][i] = (uint32_t)p1;
            c[3][i] = (uint32_t)p0;
        }
    }
    for (int64_t i = 0; i < count; i++)
        for (int k = 0; k < 4; k++)
            words[4 * i + k] = c[k][i];
}

/* Elements first to last - 1. Element i has number begin + i among all samples' elements. */
static __attribute__((noinline)) void dropout_run(const ls_dropout_args *d, uint64_t begin,
                                                  int64_t first, int64_t last)
{
    const float *x = d->x, factor = d->factor;
    float *y = d->y;
    uint32_t words[4 * DROPOUT_BLOCKS];
    for (int64_t at = first, some; at < last; at += some) {
        const uint64_t index = begin + (uint64_t)at;
        const int64_t skip = (int64_t)(index % 4), room = 4 * DROPOUT_BLOCKS - skip;
        some = last - at < room ? last - at : room;
        if (d->threshold)
            random_blocks(d->random, index / 4, (skip + some + 3) / 4, words);
        for (int64_t i = 0; i < some; i++)
            y[at + i] = !d->threshold || words[skip + i] >= d->threshold ? x[at + i] * factor : 0;
    }
}

/* Whole samples are one run, parts of samples a run each. */
static void dropout(const ls_dropout_args *d, int64_t first, int64_t last)
{
    for (int64_t at = first, end; at < last; at = end) {
        const int64_t row = at / d->width, next = (row + 1) * d->width;
        end = d->whole == d->width || next > last ? last : next;
        dropout_run(d,
                    (*d->first + (uint64_t)row) * (uint64_t)d->whole +
                        (uint64_t)(d->begin - row * d->width),
                    at, end);
    }
}

/* ---- Attention ------------------------------------------------------------------------------ */

/* One head of one sample. Keys and values are copied once, as products read them: in panels, if
 * they are narrow enough for that, and as rows of d. */
typedef struct attention_head {
    int64_t T, C, d, row; /* row: floats of a row of scores */
    int64_t hop, hop_qkv; /* floats to the next head in [T,C], [T,3C]; 0 if last */
    float scale;          /* 1 / sqrt(d) */
    const float *q, *k, *v;
    float *scores, *more, *scratch;          /* [ATTENTION_BLOCK, row] of both, and a product's */
    float *key_panels, *value_panels, *rows; /* rows: of values; backward: of keys */
    bool panels;
} attention_head;

static attention_head attention_open(const ls_attention_shape *s, const float *qkv, int64_t n,
                                     int64_t last, bool backward, float *memory)
{
    const int64_t T = s->steps, C = s->width, d = C / s->heads, row = ls_vector_attention_row(T);
    const bool end = n + 1 == last, sample = (n + 1) % s->heads == 0; /* what comes behind it */
    const float *q = qkv + n / s->heads * T * 3 * C + n % s->heads * d;
    float *copies = memory + 2 * LS_VECTOR_ATTENTION_BLOCK * row + LS_VECTOR_PRODUCT_SCRATCH;
    const attention_head h = {.T = T,
                              .C = C,
                              .d = d,
                              .row = row,
                              .hop = end ? 0 : d + (sample ? T * C - C : 0),
                              .hop_qkv = end ? 0 : d + (sample ? 3 * T * C - C : 0),
                              .scale = 1 / sqrtf((float)d),
                              .q = q,
                              .k = q + C,
                              .v = q + 2 * C,
                              .scores = memory,
                              .more = memory + LS_VECTOR_ATTENTION_BLOCK * row,
                              .scratch = memory + 2 * LS_VECTOR_ATTENTION_BLOCK * row,
                              .rows = copies,
                              .key_panels = copies + T * d,
                              .value_panels = copies + (T + ls_vector_attention_pad(T)) * d,
                              .panels = d <= PRODUCT_DEPTH};
    for (int64_t j = 0; j < T; j++)
        memcpy(h.rows + j * d, (backward ? h.k : h.v) + j * 3 * C, (size_t)d * sizeof *h.rows);
    if (h.panels)
        product_panels(h.k, 3 * C, d, T, h.key_panels);
    if (h.panels && backward)
        product_panels(h.v, 3 * C, d, T, h.value_panels);
    return h;
}

/* Asks for the row that follows row `row` by a block, of rows `pitch` floats apart, or for the next
 * head's, `hop` floats away: memory is slow to find rows of d floats that are so far apart. */
LS_ALWAYS void fetch_after(const attention_head *h, const float *rows, int64_t row, int64_t pitch,
                           int64_t hop)
{
    const int64_t block = LS_VECTOR_ATTENTION_BLOCK < h->T ? LS_VECTOR_ATTENTION_BLOCK : h->T;
    const int64_t next = row + block;
    const int64_t at = next < h->T ? next * pitch : hop + (next - h->T) * pitch;
    for (int64_t i = 0; i < h->d; i += LS_LANES)
        fetch(rows, at + i);
}

/* And for the next head's keys and values, which are read at its beginning. */
LS_ALWAYS void fetch_pairs(const attention_head *h, int64_t row)
{
    for (int64_t i = 0; i < h->d; i += LS_LANES) {
        fetch(h->k, h->hop_qkv + row * 3 * h->C + i);
        fetch(h->v, h->hop_qkv + row * 3 * h->C + i);
    }
}

/* A product of matrices that are parts of larger ones. */
static void product_of_parts(const attention_head *h, const ls_vector_product *p)
{
    product(p, &(ls_vector_share){0, p->gemm.m, 0, p->gemm.n}, h->scratch);
}

/* to[i,j] = a row of `from`, d floats at `from_row`, times a key, or value, j up to i's position.
 */
static void pairs(const attention_head *h, int64_t first, int64_t end, const float *from,
                  int64_t from_row, bool values, float *to)
{
    const float *panels = values ? h->value_panels : h->key_panels;
    product_of_parts(h, &(ls_vector_product){.gemm = {.transpose_b = true,
                                                      .m = end - first,
                                                      .n = end,
                                                      .k = h->d,
                                                      .a = from,
                                                      .b = values ? h->v : h->k,
                                                      .c = to},
                                             .a_row = from_row,
                                             .b_row = 3 * h->C,
                                             .c_row = h->row,
                                             .panels = h->panels ? panels : NULL,
                                             .causal = LS_CAUSAL_COLUMNS,
                                             .diagonal = first});
}

/* c, rows `c_row` apart, = shares of a block's queries times the head's `rows`. */
static void weigh(const attention_head *h, int64_t first, int64_t end, const float *shares,
                  float *c, int64_t c_row)
{
    product_of_parts(
        h, &(ls_vector_product){
               .gemm = {.m = end - first, .n = h->d, .k = end, .a = shares, .b = h->rows, .c = c},
               .a_row = h->row,
               .b_row = h->d,
               .c_row = c_row,
               .in_place = true,
               .a_in_place = h->row == PRODUCT_A_ROW,
               .causal = LS_CAUSAL_BEHIND,
               .diagonal = first});
}

/* The block's part of the gradient of keys or values, c, [T,3C]: shares^T times `from`, which has a
 * row for each query. It is added for keys before the block, which have parts of earlier blocks,
 * and written for the block's own. */
static void spread(const attention_head *h, int64_t first, int64_t end, const float *shares,
                   const float *from, int64_t from_row, float *c)
{
    ls_vector_product p = {.gemm = {.transpose_a = true,
                                    .m = first,
                                    .n = h->d,
                                    .k = end - first,
                                    .a = shares,
                                    .b = from,
                                    .c = c,
                                    .accumulate = true},
                           .a_row = h->row,
                           .b_row = from_row,
                           .c_row = 3 * h->C,
                           .a_in_place = true};
    if (first > 0)
        product_of_parts(h, &p);
    p.gemm.m = end - first;
    p.gemm.a = shares + first;
    p.gemm.c = c + first * 3 * h->C;
    p.gemm.accumulate = false;
    p.causal = LS_CAUSAL_BEFORE;
    product_of_parts(h, &p);
}

/* The first `count` scores of a row belong to keys before the query. Scores behind them become 0 up
 * to `end`, or `rest` in the last vector, so that loops need no partial vector. Returns where the
 * vectors end. */
LS_ALWAYS int64_t end_row(float *row, int64_t count, int64_t end, float rest)
{
    const int64_t whole = ls_vector_pad(count);
    for (int64_t j = count; j < whole; j++)
        row[j] = rest;
    for (int64_t j = whole; j < end; j += LS_VEC)
        vec_put(row + j, (vec){0});
    return whole;
}

/* Queries [first, end) of a head. All rows take a step, then the next one: the steps of a row wait
 * for each other. */
static void attend_block(const attention_head *h, int64_t first, int64_t end, float *y, float *sums)
{
    float largest[LS_VECTOR_ATTENTION_BLOCK], sum[LS_VECTOR_ATTENTION_BLOCK];
    const int64_t queries = end - first;
    const float factor = h->scale;
    pairs(h, first, end, h->q + first * 3 * h->C, 3 * h->C, false, h->scores);
    for (int64_t i = 0; i < queries; i++) {
        float *s = h->scores + i * h->row;
        fetch_after(h, h->q, first + i, 3 * h->C, h->hop_qkv);
        fetch_after(h, y, first + i, h->C, h->hop);
        largest[i] = row_max(s, end_row(s, first + i + 1, end, -INFINITY)) * factor;
    }
    for (int64_t i = 0; i < queries; i++) {
        float *restrict s = h->scores + i * h->row;
        fetch_pairs(h, first + i);
        for (int64_t j = 0; j < ls_vector_pad(first + i + 1); j++)
            s[j] = ls_exp_element(s[j] * factor - largest[i]);
    }
    for (int64_t i = 0; i < queries; i++)
        sum[i] = row_sum(h->scores + i * h->row, ls_vector_pad(first + i + 1));
    for (int64_t i = 0; i < queries; i++)
        sums[first + i] = largest[i] + (float)ls_log_element(sum[i]);
    weigh(h, first, end, h->scores, y + first * h->C, h->C);
    for (int64_t i = 0; i < queries; i++)
        scale(y + (first + i) * h->C, 1 / sum[i], h->d);
}

static void attention(const ls_attention_forward_args *a, int64_t first, int64_t last,
                      float *memory)
{
    const ls_attention_shape *s = &a->shape;
    for (int64_t n = first; n < last; n++) {
        const attention_head h = attention_open(s, a->qkv, n, last, false, memory);
        float *y = (float *)a->y + n / s->heads * h.T * h.C + n % s->heads * h.d;
        for (int64_t p = 0; p < h.T; p += LS_VECTOR_ATTENTION_BLOCK)
            attend_block(&h, p,
                         p + LS_VECTOR_ATTENTION_BLOCK < h.T ? p + LS_VECTOR_ATTENTION_BLOCK : h.T,
                         y, (float *)a->sums + n * h.T);
    }
}

static float dot_product(const float *a, const float *b, int64_t count)
{
    lanes sum = {{{0}}};
    for (int64_t i = 0; i < count; i += LS_LANES) {
        const lanes x = lanes_of(a + i, count - i, 0), y = lanes_of(b + i, count - i, 0);
        LS_WRITE_OUT
        for (int p = 0; p < LS_PARTS; p++)
            sum.part[p] += x.part[p] * y.part[p];
    }
    return lanes_sum(&sum);
}

/* Queries [first, end): their dq, and what they add to dk and dv. y and dy are the head's, and so
 * is dq; dk and dv lie C and 2C behind dq. */
static void attend_back(const attention_head *h, int64_t first, int64_t end, const float *y,
                        const float *dy, const float *sums, float *dq)
{
    float of_y[LS_VECTOR_ATTENTION_BLOCK];
    const int64_t queries = end - first, C = h->C;
    const float *back = dy + first * C, *q = h->q + first * 3 * C;
    pairs(h, first, end, q, 3 * C, false, h->scores);
    pairs(h, first, end, back, C, true, h->more);
    for (int64_t i = 0; i < queries; i++) {
        fetch_after(h, h->q, first + i, 3 * h->C, h->hop_qkv);
        fetch_after(h, y, first + i, h->C, h->hop);
        fetch_after(h, dy, first + i, h->C, h->hop);
        end_row(h->scores + i * h->row, first + i + 1, end, -INFINITY);
        end_row(h->more + i * h->row, first + i + 1, end, 0);
        of_y[i] = dot_product(back + i * C, y + (first + i) * C, h->d);
    }
    for (int64_t i = 0; i < queries; i++) {
        float *restrict s = h->scores + i * h->row, *restrict g = h->more + i * h->row;
        const float e = of_y[i], sum = sums[first + i], factor = h->scale;
        for (int64_t part = 0; part < 3; part++)
            fetch_after(h, dq + part * C, first + i, 3 * C, h->hop_qkv);
        fetch_pairs(h, first + i);
        for (int64_t j = 0; j < ls_vector_pad(first + i + 1); j++) {
            s[j] = ls_exp_element(s[j] * factor - sum);
            g[j] = s[j] * (g[j] - e) * factor;
        }
    }
    weigh(h, first, end, h->more, dq + first * 3 * C, 3 * C);
    spread(h, first, end, h->more, q, 3 * C, dq + C);
    spread(h, first, end, h->scores, back, C, dq + 2 * C);
}

static void attention_back(const ls_attention_backward_args *a, int64_t first, int64_t last,
                           float *memory)
{
    const ls_attention_shape *s = &a->shape;
    for (int64_t n = first; n < last; n++) {
        const attention_head h = attention_open(s, a->qkv, n, last, true, memory);
        const int64_t at = n / s->heads * h.T * h.C + n % s->heads * h.d;
        float *dq = (float *)a->dqkv + (h.q - (const float *)a->qkv);
        for (int64_t p = 0; p < h.T; p += LS_VECTOR_ATTENTION_BLOCK)
            attend_back(&h, p,
                        p + LS_VECTOR_ATTENTION_BLOCK < h.T ? p + LS_VECTOR_ATTENTION_BLOCK : h.T,
                        (const float *)a->y + at, (const float *)a->dy + at,
                        (const float *)a->sums + n * h.T, dq);
    }
}
