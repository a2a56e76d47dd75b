/* SPDX-License-Identifier: MIT */
/*
 * Matrix products: c = op(a) op(b) (+ c), [M,K] by [K,N]; part of vector_loops.c. An element is one
 * chain of fused multiply-adds in the order of k, from 0 or from c: so the bits are equal on every
 * instruction set, whatever the rest of the matrices and whoever computes it.
 *
 * After Goto and van de Geijn (https://doi.org/10.1145/1356052.1356053): a block of b,
 * PRODUCT_DEPTH by PRODUCT_WIDTH, is copied into panels as wide as a tile of sums, and stays in the
 * second-level cache; a panel of a, as many rows as a tile, stays in the first; a tile is held in
 * registers over PRODUCT_DEPTH. Between blocks of k the chains are in c.
 */
#pragma once

#include "common/kernel/cpu/vector_lanes.h"

enum {
    PRODUCT_COLUMNS = LS_VEC * PRODUCT_VECS,
    PRODUCT_DEPTH = LS_VECTOR_PRODUCT_DEPTH,
    PRODUCT_WIDTH = LS_VECTOR_PRODUCT_WIDTH,
    PRODUCT_A_ROW = LS_VECTOR_PRODUCT_ROW,
    PRODUCT_TURNED = 16, /* columns of a transposed a in a panel: a line's */
};
_Static_assert(PRODUCT_ROWS % 2 == 0 && PRODUCT_ROWS <= 14, "tile_of has the numbers of rows");
_Static_assert(PRODUCT_WIDTH % PRODUCT_COLUMNS == 0, "a block has whole panels");
typedef float four __attribute__((vector_size(16)));
typedef float four_load __attribute__((vector_size(16), aligned(4), may_alias));

/* ---- A tile -------------------------------------------------------------------------------- */

typedef struct product_tile {
    const float *a;    /* (row, k) at `row * PRODUCT_A_ROW + k`; transposed: `k * a_step + row` */
    const float *b;    /* depth rows, `b_row` apart */
    float *c;          /* rows, `c_row` apart */
    const float *bias; /* added to the finished chains; NULL if none */
    int64_t depth, a_step, b_row, c_row;
    bool add; /* the chains go on from c; else from 0 */
} product_tile;

LS_ALWAYS void tile_sums(const product_tile *t, int rows, bool transposed)
{
    const int64_t row = transposed ? 1 : PRODUCT_A_ROW, step = transposed ? t->a_step : 1;
    const float *a = t->a, *b = t->b;
    float *c = t->c;
    vec sum[PRODUCT_ROWS][PRODUCT_VECS];
    if (t->add) {
        LS_WRITE_OUT
        for (int i = 0; i < rows; i++)
            LS_WRITE_OUT
        for (int v = 0; v < PRODUCT_VECS; v++)
            sum[i][v] = vec_get(c + i * t->c_row + v * LS_VEC);
    } else {
        LS_WRITE_OUT
        for (int i = 0; i < rows; i++)
            LS_WRITE_OUT
        for (int v = 0; v < PRODUCT_VECS; v++)
            sum[i][v] = (vec){0};
    }
    for (int64_t k = 0; k < t->depth; k++, a += step, b += t->b_row) {
        vec value[PRODUCT_VECS];
        LS_WRITE_OUT
        for (int v = 0; v < PRODUCT_VECS; v++)
            value[v] = vec_get(b + v * LS_VEC);
        LS_WRITE_OUT
        for (int i = 0; i < rows; i++)
            LS_WRITE_OUT
        for (int v = 0; v < PRODUCT_VECS; v++)
            sum[i][v] = vec_fma(vec_all(a[i * row]), value[v], sum[i][v]);
    }
    if (t->bias) {
        LS_WRITE_OUT
        for (int i = 0; i < rows; i++)
            LS_WRITE_OUT
        for (int v = 0; v < PRODUCT_VECS; v++)
            sum[i][v] += vec_get(t->bias + v * LS_VEC);
    }
    LS_WRITE_OUT
    for (int i = 0; i < rows; i++)
        LS_WRITE_OUT
    for (int v = 0; v < PRODUCT_VECS; v++)
        vec_put(c + i * t->c_row + v * LS_VEC, sum[i][v]);
}

/* Rows in pairs, whose number is a constant in each call, so that the sums are in registers. */
LS_ALWAYS void tile_of(const product_tile *t, int64_t rows, bool transposed)
{
    if (rows <= 2)
        tile_sums(t, 2, transposed);
    else if (rows <= 4)
        tile_sums(t, 4, transposed);
    else if (PRODUCT_ROWS >= 6 && rows <= 6)
        tile_sums(t, 6, transposed);
    else if (PRODUCT_ROWS >= 8 && rows <= 8)
        tile_sums(t, 8, transposed);
    else if (PRODUCT_ROWS >= 10 && rows <= 10)
        tile_sums(t, 10, transposed);
    else if (PRODUCT_ROWS >= 12 && rows <= 12)
        tile_sums(t, 12, transposed);
    else if (PRODUCT_ROWS >= 14)
        tile_sums(t, 14, transposed);
}

static __attribute__((noinline)) void tile_straight(const product_tile *t, int64_t rows)
{
    tile_of(t, rows, false);
}

static __attribute__((noinline)) void tile_transposed(const product_tile *t, int64_t rows)
{
    tile_of(t, rows, true);
}

/* ---- Copies -------------------------------------------------------------------------------- */

/* to[i, j] = from[j, i], four by four. */
LS_ALWAYS void turn_four(const float *from, int64_t from_row, float *to, int64_t to_row)
{
    const four a = *(const four_load *)from, b = *(const four_load *)(from + from_row);
    const four c = *(const four_load *)(from + 2 * from_row);
    const four d = *(const four_load *)(from + 3 * from_row);
    const four ab0 = LS_SHUFFLE(a, b, 0, 4, 1, 5), ab2 = LS_SHUFFLE(a, b, 2, 6, 3, 7);
    const four cd0 = LS_SHUFFLE(c, d, 0, 4, 1, 5), cd2 = LS_SHUFFLE(c, d, 2, 6, 3, 7);
    *(four_load *)to = LS_SHUFFLE(ab0, cd0, 0, 1, 4, 5);
    *(four_load *)(to + to_row) = LS_SHUFFLE(ab0, cd0, 2, 3, 6, 7);
    *(four_load *)(to + 2 * to_row) = LS_SHUFFLE(ab2, cd2, 0, 1, 4, 5);
    *(four_load *)(to + 3 * to_row) = LS_SHUFFLE(ab2, cd2, 2, 3, 6, 7);
}

/* A panel of PRODUCT_COLUMNS columns of b. The first `columns` exist; the others are 0. `b` is its
 * first element: columns are rows of `row` elements. */
static void panel_turned(const float *b, int64_t row, int64_t depth, int64_t columns, float *panel)
{
    int64_t k = 0;
    if (columns == PRODUCT_COLUMNS)
        for (; k + 16 <= depth; k += 16) /* whole lines of the cache */
            for (int j = 0; j < PRODUCT_COLUMNS; j += 4)
                LS_WRITE_OUT
    for (int i = 0; i < 16; i += 4)
        turn_four(b + j * row + k + i, row, panel + (k + i) * PRODUCT_COLUMNS + j, PRODUCT_COLUMNS);
    for (; k < depth; k++)
        for (int64_t j = 0; j < PRODUCT_COLUMNS; j++)
            panel[k * PRODUCT_COLUMNS + j] = j < columns ? b[j * row + k] : 0;
}

/* Asks for the line with an element of an array, which may lie outside of it: it is not read. */
LS_ALWAYS void fetch(const float *array, int64_t element)
{
    __builtin_prefetch((const void *)((uintptr_t)array + (uintptr_t)element * sizeof *array));
}

/* Rows of b that are asked for before they are copied. */
enum { PRODUCT_AHEAD = 8 };

/* Panels of `columns` columns of b, row by row. */
static void panels_straight(const float *b, int64_t row, int64_t depth, int64_t columns,
                            float *panels)
{
    if (columns == 0)
        return;
    for (int64_t k = 0; k < depth; k++) {
        float *to = panels + k * PRODUCT_COLUMNS;
        int64_t j = 0;
        for (int64_t i = 0; i < columns; i += LS_LANES)
            fetch(b, (k + PRODUCT_AHEAD) * row + i);
        for (; j + PRODUCT_COLUMNS <= columns; j += PRODUCT_COLUMNS, to += depth * PRODUCT_COLUMNS)
            for (int v = 0; v < PRODUCT_COLUMNS; v += LS_VEC)
                vec_put(to + v, vec_get(b + k * row + j + v));
        for (int64_t i = 0; i < PRODUCT_COLUMNS && j < columns; i++)
            to[i] = j + i < columns ? b[k * row + j + i] : 0;
    }
}

/* Panels of all columns of a transposed b, [columns, depth], whose rows are `row` apart. */
static void product_panels(const float *b, int64_t row, int64_t depth, int64_t columns,
                           float *panels)
{
    for (int64_t j = 0; j < columns; j += PRODUCT_COLUMNS)
        panel_turned(b + j * row, row, depth,
                     columns - j < PRODUCT_COLUMNS ? columns - j : PRODUCT_COLUMNS,
                     panels + j * depth);
}

/* ---- Blocks -------------------------------------------------------------------------------- */

/* The block of b that is in `panels`, and what it adds to. */
typedef struct b_block {
    const ls_vector_product *product;
    int64_t k, depth, column, columns; /* where it begins, and its size */
    int64_t a_row, b_row, c_row;       /* elements from one row in memory to the next */
    int64_t a_step;                    /* and of a transposed a, where tiles read it */
    bool in_place;                     /* whole panels are read where they are */
    const float *panels;               /* of b */
    float *copies, *rows;              /* memory of copied panels of b, unless copied before; and
                                          of a */
} b_block;

static void copy_block(const b_block *k)
{
    const ls_gemm_args *g = &k->product->gemm;
    const float *b = g->b;
    if (!g->transpose_b) {
        const int64_t whole = k->in_place ? k->columns / PRODUCT_COLUMNS * PRODUCT_COLUMNS : 0;
        panels_straight(b + k->k * k->b_row + k->column + whole, k->b_row, k->depth,
                        k->columns - whole, k->copies + whole * k->depth);
        return;
    }
    for (int64_t j = 0; j < k->columns; j += PRODUCT_COLUMNS) {
        const int64_t left = k->columns - j;
        panel_turned(b + (k->column + j) * k->b_row + k->k, k->b_row, k->depth,
                     left < PRODUCT_COLUMNS ? left : PRODUCT_COLUMNS, k->copies + j * k->depth);
    }
}

/* A call would take longer than a short row. */
LS_ALWAYS void copy_row(const float *from, float *to, int64_t count)
{
    int64_t i = 0;
    for (; i + LS_VEC <= count; i += LS_VEC)
        vec_put(to + i, vec_get(from + i));
    if (i < count)
        memcpy(to + i, from + i, (size_t)(count - i) * sizeof *to);
}

static void copy_rows(const b_block *k, int64_t first, int64_t count)
{
    const ls_gemm_args *g = &k->product->gemm;
    const float *a = g->a;
    if (!g->transpose_a) {
        for (int64_t i = 0; i < count; i++)
            copy_row(a + (first + i) * k->a_row + k->k, k->rows + i * PRODUCT_A_ROW, k->depth);
    } else if (first + PRODUCT_TURNED <= k->a_row) { /* a begins a row */
        for (int64_t i = 0; i < k->depth; i++)
            for (int v = 0; v < PRODUCT_TURNED; v += LS_VEC)
                vec_put(k->rows + i * PRODUCT_TURNED + v,
                        vec_get(a + (k->k + i) * k->a_row + first + v));
    } else {
        for (int64_t i = 0; i < k->depth; i++)
            for (int64_t r = 0; r < count; r++)
                k->rows[i * PRODUCT_TURNED + r] = a[(k->k + i) * k->a_row + first + r];
    }
}

/* Prefetches a part of the `count` rows from `first` on, which copy_rows will copy next. */
static void fetch_rows(const b_block *k, int64_t first, int64_t count, int64_t part, int64_t parts)
{
    const ls_gemm_args *g = &k->product->gemm;
    const float *a = g->a;
    if (!g->transpose_a)
        for (int64_t i = part; i < count; i += parts)
            for (int64_t d = 0; d < k->depth; d += LS_LANES)
                fetch(a, (first + i) * k->a_row + k->k + d);
    else if (count > 0)
        for (int64_t d = part; d < k->depth; d += parts)
            fetch(a, (k->k + d) * k->a_row + first);
}

/* After the last block of k: what follows the product and its bias, of a tile. */
static void finish_tile(const ls_vector_product *p, int64_t row, int64_t rows, int64_t column,
                        int64_t columns)
{
    const int64_t n = p->gemm.n;
    for (int64_t i = row; i < row + rows; i++) {
        float *restrict c = (float *)p->gemm.c + i * n + column;
        if (p->relu)
            for (int64_t j = 0; j < columns; j++)
                c[j] = ls_relu(c[j]);
        if (p->mask) {
            const float *mask = p->mask + i * n + column;
            for (int64_t j = 0; j < columns; j++)
                c[j] = ls_relu_mask(mask[j], c[j]);
        }
    }
}

/* A tile of fewer columns than a panel or an odd number of rows, by way of a whole one. */
static void part_tile(const product_tile *like, int64_t rows, int64_t columns, bool transposed)
{
    float whole[PRODUCT_ROWS * PRODUCT_COLUMNS] = {0};
    product_tile t = *like;
    t.c = whole;
    t.c_row = PRODUCT_COLUMNS;
    t.bias = NULL;
    for (int64_t i = 0; i < rows && t.add; i++)
        for (int64_t j = 0; j < PRODUCT_COLUMNS; j++)
            whole[i * PRODUCT_COLUMNS + j] = j < columns ? like->c[i * like->c_row + j] : 0;
    (transposed ? tile_transposed : tile_straight)(&t, rows);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            like->c[i * like->c_row + j] =
                whole[i * PRODUCT_COLUMNS + j] + (like->bias ? like->bias[j] : -0.0F);
}

/* The part of the block that rows [row, row + rows) need, at most a tile's; the rest is 0. */
typedef struct block_part {
    int64_t first, end; /* of its depth */
    int64_t columns;    /* that the rows need; whole panels are computed */
} block_part;

static block_part part_of(const b_block *k, int64_t row, int64_t rows)
{
    const ls_vector_product *p = k->product;
    const int64_t position = row + p->diagonal, next = position + rows;
    block_part part = {0, k->depth, k->columns};
    if (p->causal == LS_CAUSAL_COLUMNS && next - k->column < part.columns)
        part.columns = next - k->column;
    if (p->causal == LS_CAUSAL_BEHIND && next - k->k < part.end)
        part.end = next - k->k;
    if (p->causal == LS_CAUSAL_BEFORE && position > k->k)
        part.first = position - k->k;
    return part;
}

/* Rows [row, row + rows) of c, at most a tile's, over the block; a: their panel. Meanwhile asks for
 * the `ahead` rows from `next` on. */
static __attribute__((noinline)) void block_rows(const b_block *k, int64_t row, int64_t rows,
                                                 const float *a, int64_t next, int64_t ahead)
{
    const ls_vector_product *p = k->product;
    const ls_gemm_args *g = &p->gemm;
    const block_part part = part_of(k, row, rows);
    const int64_t panels = (part.columns + PRODUCT_COLUMNS - 1) / PRODUCT_COLUMNS;
    product_tile t = {.a = a + part.first * (g->transpose_a ? k->a_step : 1),
                      .depth = part.end - part.first,
                      .a_step = k->a_step,
                      .c_row = k->c_row,
                      .add = g->accumulate || k->k > 0};
    const bool last = k->k + k->depth == g->k;
    /* How many terms of 0 a chain has behind its last one depends on the tile; this one makes all
     * of them the same: without it a -0 that was flushed may become 0, or not. */
    static const float zeros[PRODUCT_COLUMNS];
    for (int64_t j = 0; j < part.columns; j += PRODUCT_COLUMNS) {
        const bool whole = j + PRODUCT_COLUMNS <= k->columns, in_place = k->in_place && whole;
        const int64_t columns = whole ? PRODUCT_COLUMNS : k->columns - j;
        fetch_rows(k, next, ahead, j / PRODUCT_COLUMNS, panels);
        t.b_row = in_place ? k->b_row : PRODUCT_COLUMNS;
        t.b = (in_place ? (const float *)g->b + k->k * k->b_row + k->column + j
                        : k->panels + j * k->depth) +
              part.first * t.b_row;
        t.c = (float *)g->c + row * k->c_row + k->column + j;
        t.bias = NULL;
        if (last && p->bias)
            t.bias = p->bias + k->column + j;
        else if (last && p->causal == LS_CAUSAL_BEHIND)
            t.bias = zeros;
        if (!whole || rows % 2)
            part_tile(&t, rows, columns, g->transpose_a);
        else
            (g->transpose_a ? tile_transposed : tile_straight)(&t, rows);
        if (last && (p->relu || p->mask))
            finish_tile(p, row, rows, k->column + j, columns);
    }
}

/* The size of part `i` of `parts` nearly equal ones; *first: where it begins. */
static int64_t product_part(int64_t size, int64_t parts, int64_t i, int64_t *first)
{
    *first = size / parts * i + (i < size % parts ? i : size % parts);
    return size / parts + (i < size % parts);
}

/* All rows of the share over the block, in pairs, in nearly equal tiles. A panel of a transposed a
 * has the rows of several tiles, if they are that small. */
static void block_product(const b_block *k, const ls_vector_share *share, int64_t tiles)
{
    const bool turned = k->product->gemm.transpose_a, in_place = k->product->a_in_place;
    const float *a = k->product->gemm.a;
    const int64_t rows = share->last_row - share->first_row;
    int64_t copied = 0, end = 0; /* rows that are in the panel */
    if (!k->product->panels)
        copy_block(k);
    for (int64_t i = 0; i < tiles; i++) {
        int64_t pair, count = 2 * product_part((rows + 1) / 2, tiles, i, &pair);
        if (2 * pair + count > rows)
            count--;
        const int64_t row = share->first_row + 2 * pair;
        if (in_place) {
            block_rows(k, row, count,
                       turned ? a + k->k * k->a_row + row : a + row * k->a_row + k->k, 0, 0);
            continue;
        }
        int64_t ahead = 0;
        if (!turned || row + count > end) {
            copied = row;
            end = row + (turned ? PRODUCT_TURNED : count);
            end = end < share->last_row ? end : share->last_row;
            copy_rows(k, row, end - row);
            ahead = share->last_row - end < end - row ? share->last_row - end : end - row;
        }
        block_rows(k, row, count, k->rows + (row - copied), end, ahead);
    }
}

/* Up to so many tiles of rows read b where it is: a copy would cost more than it saves. */
enum { PRODUCT_IN_PLACE = 3 };

static void product(const ls_vector_product *p, const ls_vector_share *share, float *scratch)
{
    const int64_t depths = (p->gemm.k + PRODUCT_DEPTH - 1) / PRODUCT_DEPTH;
    const int64_t rows = share->last_row - share->first_row;
    const int64_t columns = share->last_column - share->first_column;
    const int64_t tiles = (rows + PRODUCT_ROWS - 1) / PRODUCT_ROWS;
    const int64_t panels = (columns + PRODUCT_COLUMNS - 1) / PRODUCT_COLUMNS;
    const int64_t widths = (columns + PRODUCT_WIDTH - 1) / PRODUCT_WIDTH;
    const ls_gemm_args *g = &p->gemm;
    b_block k = {.product = p,
                 .a_row = p->a_row         ? p->a_row
                          : g->transpose_a ? g->m
                                           : g->k,
                 .b_row = p->b_row         ? p->b_row
                          : g->transpose_b ? g->k
                                           : g->n,
                 .c_row = p->c_row ? p->c_row : g->n,
                 .a_step = p->a_in_place ? p->a_row : PRODUCT_TURNED,
                 .in_place = !p->gemm.transpose_b && (p->in_place || tiles <= PRODUCT_IN_PLACE),
                 .rows = scratch,
                 .panels = scratch + PRODUCT_A_ROW * PRODUCT_TURNED,
                 .copies = scratch + PRODUCT_A_ROW * PRODUCT_TURNED};
    for (int64_t w = 0; w < widths; w++) {
        int64_t first, count = product_part(panels, widths, w, &first);
        k.column = share->first_column + first * PRODUCT_COLUMNS;
        k.columns = count * PRODUCT_COLUMNS;
        if (k.column + k.columns > share->last_column)
            k.columns = share->last_column - k.column;
        for (int64_t d = 0; d < depths; d++) {
            k.depth = product_part(p->gemm.k, depths, d, &k.k);
            if (p->panels)
                k.panels = p->panels + k.column * k.depth;
            block_product(&k, share, tiles);
        }
    }
}
