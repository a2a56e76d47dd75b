/* SPDX-License-Identifier: MIT */
/*
 * Vector loops of dense layers: sums over columns, and products too small for a library call. Part
 * of vector_loops.c. Forward and backward to the data: each element is one sum in the order of the
 * indices, so a row does not depend on the others. Backward to the weights: row r is added in lane
 * r % 16.
 */
#pragma once

#include "common/kernel/cpu/elements/vector_elementwise.h"
#include "common/kernel/cpu/vector_lanes.h"

/* Rows [0, count), a multiple of four, of `vecs` vectors of columns: part[r % 4] = the sums. */
LS_ALWAYS void column_block(const float *x, int64_t count, int64_t columns, int vecs,
                            float part[4][COLUMN_VECS * LS_VEC])
{
    vec sum[4 * COLUMN_VECS];
    LS_WRITE_OUT
    for (int i = 0; i < 4 * vecs; i++)
        sum[i] = (vec){0};
    for (int64_t r = 0; r < count; r += 4) {
        const float *row = x + r * columns;
        LS_WRITE_OUT
        for (int i = 0; i < 4 * vecs; i++)
            sum[i] += vec_get(row + i / vecs * columns + i % vecs * LS_VEC);
    }
    LS_WRITE_OUT
    for (int i = 0; i < 4 * vecs; i++)
        vec_put(part[i / vecs] + i % vecs * LS_VEC, sum[i]);
}

/* Column c: row r is added to sum r % 4; then (0 + 1) + (2 + 3). Every column is summed alike. */
static void column_sums(const float *x, int64_t rows, int64_t columns, int64_t first, int64_t last,
                        float *sums)
{
    for (int64_t c = first, width; c < last; c += width) {
        const int vecs = last - c > LS_VEC ? COLUMN_VECS : 1;
        /* A load may include the next rows' elements; after the last rows there is nothing to
         * load. */
        const int64_t over = c + vecs * LS_VEC - columns;
        const int64_t after = over > 0 ? (over + columns - 1) / columns : 0;
        int64_t r = rows > after ? (rows - after) / 4 * 4 : 0;
        float part[4][COLUMN_VECS * LS_VEC];
        width = last - c < vecs * LS_VEC ? last - c : vecs * LS_VEC;
        if (vecs == COLUMN_VECS)
            column_block(x + c, r, columns, COLUMN_VECS, part);
        else
            column_block(x + c, r, columns, 1, part);
        for (; r < rows; r++)
            for (int64_t j = 0; j < width; j++)
                part[r % 4][j] += x[r * columns + c + j];
        for (int64_t j = 0; j < width; j++)
            sums[c + j] = (part[0][j] + part[1][j]) + (part[2][j] + part[3][j]);
    }
}

/* `inputs` and `outputs` are constants if the caller passes constants. */
static inline __attribute__((always_inline)) void forward_rows(const ls_dense_forward_args *d,
                                                               int64_t inputs, int64_t outputs)
{
    const float *restrict x = d->x, *restrict weight = d->weight, *restrict bias = d->bias;
    float *restrict y = d->y;
    const int64_t rows = d->rows;
    for (int64_t o = 0; o < outputs; o++) {
        const float add_to = bias ? bias[o] : 0;
        for (int64_t r = 0; r < rows; r++) {
            float sum = 0;
            for (int64_t i = 0; i < inputs; i++)
                sum += x[r * inputs + i] * weight[o * inputs + i];
            y[r * outputs + o] = sum + add_to;
        }
    }
}

static void dense_forward(const ls_dense_forward_args *d)
{
    if (d->outputs == 1 && d->inputs == 3)
        forward_rows(d, 3, 1);
    else if (d->outputs == 1 && d->inputs == 1)
        forward_rows(d, 1, 1);
    else
        forward_rows(d, d->inputs, d->outputs);
    if (d->activation == LS_ACTIVATION_RELU)
        relu(d->y, d->y, d->rows * d->outputs);
}

enum { DENSE_CHUNK = 128 }; /* rows whose products are stored at a time */

/* The sum over the rows of dy[r,o] x[r,i], or for i == `inputs` of dy[r,o]. */
static void weights_of_output(const ls_dense_backward_weights_args *d, int64_t o, int64_t i,
                              float *total)
{
    const int64_t inputs = d->inputs, outputs = d->outputs;
    const float *restrict x = d->x, *restrict dy = d->dy;
    lanes sum = {{{0}}};
    for (int64_t first = 0; first < d->rows; first += DENSE_CHUNK) {
        float product[DENSE_CHUNK];
        int64_t rows = d->rows - first < DENSE_CHUNK ? d->rows - first : DENSE_CHUNK, r;
        const float *restrict a = dy + first * outputs + o;
        const float *restrict b = x + first * inputs + i;
        if (i < inputs)
            for (r = 0; r < rows; r++)
                product[r] = a[r * outputs] * b[r * inputs];
        else
            for (r = 0; r < rows; r++)
                product[r] = a[r * outputs];
        for (; r % LS_LANES; r++)
            product[r] = 0;
        for (r = 0; r < rows; r += LS_LANES) {
            const lanes next = lanes_get(product + r);
            lanes_add(&sum, &next);
        }
    }
    *total = lanes_sum(&sum);
}

/* The three columns of LS_VEC rows of three. With 8 or 4 elements, a column's have different
 * positions in their vectors: they are taken together, then put in order. */
LS_ALWAYS void columns_of_three(const float *x, vec column[3])
{
    const vec a = vec_get(x), b = vec_get(x + LS_VEC), c = vec_get(x + 2 * LS_VEC);
#if defined(__AVX512F__)
    const vec ab0 = LS_SHUFFLE(a, b, 0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 0, 0, 0, 0, 0);
    const vec ab1 = LS_SHUFFLE(a, b, 1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 0, 0, 0, 0, 0);
    const vec ab2 = LS_SHUFFLE(a, b, 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 0, 0, 0, 0, 0, 0);
    column[0] = LS_SHUFFLE(ab0, c, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 20, 23, 26, 29);
    column[1] = LS_SHUFFLE(ab1, c, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 18, 21, 24, 27, 30);
    column[2] = LS_SHUFFLE(ab2, c, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 19, 22, 25, 28, 31);
#elif defined(__AVX2__)
    const vec ab0 = LS_SHUFFLE(a, b, 0, 9, 2, 3, 12, 5, 6, 15);
    const vec of0 = LS_SHUFFLE(ab0, c, 0, 1, 10, 3, 4, 13, 6, 7);
    column[0] = LS_SHUFFLE(of0, of0, 0, 3, 6, 1, 4, 7, 2, 5);
    const vec ab1 = LS_SHUFFLE(a, b, 0, 1, 10, 3, 4, 13, 6, 7);
    const vec of1 = LS_SHUFFLE(ab1, c, 8, 1, 2, 11, 4, 5, 14, 7);
    column[1] = LS_SHUFFLE(of1, of1, 1, 4, 7, 2, 5, 0, 3, 6);
    const vec ab2 = LS_SHUFFLE(a, b, 8, 1, 2, 11, 4, 5, 14, 7);
    const vec of2 = LS_SHUFFLE(ab2, c, 0, 9, 2, 3, 12, 5, 6, 15);
    column[2] = LS_SHUFFLE(of2, of2, 2, 5, 0, 3, 6, 1, 4, 7);
#else
    const vec ab0 = LS_SHUFFLE(a, b, 0, 1, 6, 3);
    const vec of0 = LS_SHUFFLE(ab0, c, 0, 5, 2, 3);
    column[0] = LS_SHUFFLE(of0, of0, 0, 3, 2, 1);
    const vec ab1 = LS_SHUFFLE(a, b, 4, 1, 2, 7);
    const vec of1 = LS_SHUFFLE(ab1, c, 0, 1, 6, 3);
    column[1] = LS_SHUFFLE(of1, of1, 1, 0, 3, 2);
    const vec ab2 = LS_SHUFFLE(a, b, 0, 5, 2, 3);
    const vec of2 = LS_SHUFFLE(ab2, c, 4, 1, 2, 7);
    column[2] = LS_SHUFFLE(of2, of2, 2, 1, 0, 3);
#endif
}

/* The sums of weights_of_output, for one output and three inputs: the polynomial model's. */
static void weights_of_three(const float *x, const float *dy, int64_t rows, float *dweight,
                             float *dbias)
{
    vec sum[4][LS_PARTS] = {{{0}}};
    for (int64_t r = 0; r < rows; r += LS_LANES) {
        float tail_x[3 * LS_LANES], tail_dy[LS_LANES];
        const float *from = x + 3 * r, *g = dy + r;
        if (r + LS_LANES > rows) {
            memset(tail_x, 0, sizeof tail_x);
            memset(tail_dy, 0, sizeof tail_dy);
            memcpy(tail_x, from, (size_t)(3 * (rows - r)) * sizeof *from);
            memcpy(tail_dy, g, (size_t)(rows - r) * sizeof *g);
            from = tail_x;
            g = tail_dy;
        }
        LS_WRITE_OUT
        for (int p = 0; p < LS_PARTS; p++) {
            const vec part = vec_get(g + p * LS_VEC);
            vec column[3];
            columns_of_three(from + 3 * p * LS_VEC, column);
            LS_WRITE_OUT
            for (int i = 0; i < 3; i++)
                sum[i][p] += part * column[i];
            sum[3][p] += part;
        }
    }
    for (int i = 0; i < 4; i++) {
        lanes all;
        memcpy(&all, sum[i], sizeof all);
        if (i < 3)
            dweight[i] = lanes_sum(&all);
        else if (dbias)
            *dbias = lanes_sum(&all);
    }
}

static void dense_backward_weights(const ls_dense_backward_weights_args *d)
{
    float *dweight = d->dweight, *dbias = d->dbias;
    const int64_t inputs = d->inputs, outputs = d->outputs;
    if (outputs == 1 && inputs == 3) {
        weights_of_three(d->x, d->dy, d->rows, dweight, dbias);
        return;
    }
    for (int64_t o = 0; o < outputs; o++) {
        for (int64_t i = 0; i < inputs; i++)
            weights_of_output(d, o, i, dweight + o * inputs + i);
        if (dbias)
            weights_of_output(d, o, inputs, dbias + o);
    }
}

static void dense_backward_data(const ls_dense_backward_data_args *d)
{
    const float *restrict dy = d->dy, *restrict weight = d->weight;
    const float *relu_output = d->relu_output;
    float *restrict dx = d->dx;
    for (int64_t r = 0; r < d->rows; r++)
        for (int64_t i = 0; i < d->inputs; i++) {
            float sum = 0;
            for (int64_t o = 0; o < d->outputs; o++)
                sum += dy[r * d->outputs + o] * weight[o * d->inputs + i];
            dx[r * d->inputs + i] = !relu_output || relu_output[r * d->inputs + i] > 0 ? sum : 0;
        }
}

static void gemm(const ls_gemm_args *g)
{
    const float *restrict a = g->a, *restrict b = g->b;
    float *restrict c = g->c;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < g->k; k++)
                sum += a[g->transpose_a ? k * g->m + i : i * g->k + k] *
                       b[g->transpose_b ? j * g->k + k : k * g->n + j];
            c[i * g->n + j] = g->accumulate ? c[i * g->n + j] + sum : sum;
        }
}
