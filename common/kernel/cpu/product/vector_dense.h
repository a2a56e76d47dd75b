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

/* Column c: row r is added to sum r % 4; then (0 + 1) + (2 + 3). The same for every column. */
static void column_sums(const float *x, int64_t rows, int64_t columns, int64_t first, int64_t last,
                        float *sums)
{
    const int64_t end = rows * columns;
    for (int64_t c = first; c < last; c += LS_LANES) {
        int64_t width = last - c < LS_LANES ? last - c : LS_LANES, r = 0;
        float part[4][LS_LANES];
        lanes sum[4] = {{0}, {0}, {0}, {0}};
        /* A load may include the next row's elements; only the last rows have none after them. */
        for (; r + 4 <= rows && (r + 3) * columns + c + LS_LANES <= end; r += 4)
            for (int k = 0; k < 4; k++)
                sum[k] += lanes_get(x + (r + k) * columns + c);
        for (int k = 0; k < 4; k++)
            lanes_put(part[k], &sum[k]);
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
    lanes sum = {0};
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
        for (r = 0; r < rows; r += LS_LANES)
            sum += lanes_get(product + r);
    }
    *total = lanes_sum(&sum);
}

/* gcc splits such shuffles into single elements if vectors are narrower than 16 lanes. */
#if defined(__clang__) || defined(__AVX512F__)
enum { WIDE_SHUFFLES = 1 };
#else
enum { WIDE_SHUFFLES = 0 };
#endif

/* The three columns of 16 rows of three. */
static inline __attribute__((always_inline)) void columns_of_three(const float *x, lanes column[3])
{
    const lanes a = lanes_get(x), b = lanes_get(x + 16), c = lanes_get(x + 32);
    const lanes ab0 = LS_SHUFFLE(a, b, 0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 0, 0, 0, 0, 0);
    const lanes ab1 = LS_SHUFFLE(a, b, 1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 0, 0, 0, 0, 0);
    const lanes ab2 = LS_SHUFFLE(a, b, 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 0, 0, 0, 0, 0, 0);
    column[0] = LS_SHUFFLE(ab0, c, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 20, 23, 26, 29);
    column[1] = LS_SHUFFLE(ab1, c, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 18, 21, 24, 27, 30);
    column[2] = LS_SHUFFLE(ab2, c, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 19, 22, 25, 28, 31);
}

/* The same sums as weights_of_output's, of one output and three inputs: the polynomial model's. */
static void weights_of_three(const float *x, const float *dy, int64_t rows, float *dweight,
                             float *dbias)
{
    float tail_x[3 * LS_LANES] = {0};
    lanes column[3], g, sum[4] = {{0}, {0}, {0}, {0}};
    int64_t r = 0;
    for (; r < rows; r += LS_LANES) {
        if (r + LS_LANES <= rows) {
            g = lanes_get(dy + r);
            columns_of_three(x + 3 * r, column);
        } else {
            g = lanes_get_some(dy + r, rows - r, 0);
            for (int64_t i = 0; i < 3 * (rows - r); i++)
                tail_x[i] = x[3 * r + i];
            columns_of_three(tail_x, column);
        }
        for (int i = 0; i < 3; i++)
            sum[i] += g * column[i];
        sum[3] += g;
    }
    for (int i = 0; i < 3; i++)
        dweight[i] = lanes_sum(&sum[i]);
    if (dbias)
        *dbias = lanes_sum(&sum[3]);
}

static void dense_backward_weights(const ls_dense_backward_weights_args *d)
{
    float *dweight = d->dweight, *dbias = d->dbias;
    const int64_t inputs = d->inputs, outputs = d->outputs;
    if (WIDE_SHUFFLES && outputs == 1 && inputs == 3) {
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
