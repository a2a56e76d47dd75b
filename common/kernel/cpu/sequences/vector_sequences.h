/* SPDX-License-Identifier: MIT */
/*
 * Vector loops of sequences: an LSTM's recurrence, and the logistic loss. Part of vector_loops.c.
 *
 * A few samples go through all steps together, so that their states stay in the first-level cache
 * and no thread waits for another; the recurrent weights stay in the second. The product of a step
 * and the cell's functions are one pass. Each element is one sum in the order of the indices: a
 * sample does not depend on the others.
 */
#pragma once

#include "common/kernel/cpu/elements/vector_losses.h"

static void pack_recurrent(const float *weight, int64_t hidden, bool backward, float *packed)
{
    const int64_t padded = ls_vector_pad(hidden);
    memset(packed, 0, (size_t)(4 * hidden * padded) * sizeof *packed);
    for (int64_t k = 0; k < 4 * hidden; k++)
        for (int64_t j = 0; j < hidden; j++) {
            const int64_t gate = k / hidden, at = k % hidden;
            packed[backward ? k * padded + j : (j * 4 + gate) * padded + at] =
                weight[k * hidden + j];
        }
}

/* Up to 16 floats; the lanes behind `count` are 0, or left as they are in memory. */
static inline __attribute__((always_inline)) lanes get_part(const float *from, int64_t count)
{
    return count >= LS_LANES ? lanes_get(from) : lanes_get_some(from, count, 0);
}

static inline __attribute__((always_inline)) void put_part(float *to, const float *from,
                                                           int64_t count)
{
    if (count >= LS_LANES)
        memcpy(to, from, LS_LANES * sizeof *to);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = from[i];
}

/* sum[r][b] = sum over k of a[r * pitch + k] * w[k * step + b * apart], 16 lanes of it. */
static inline __attribute__((always_inline)) void
product_block(const float *a, int64_t pitch, int64_t count, const float *w, const int64_t step,
              const int64_t apart, int rows, int blocks, lanes sum[LS_VECTOR_LSTM_ROWS][4])
{
    for (int r = 0; r < rows; r++)
        for (int b = 0; b < blocks; b++)
            sum[r][b] = (lanes){0};
    for (int64_t k = 0; k < count; k++)
        for (int b = 0; b < blocks; b++) {
            const lanes weight = lanes_get(w + k * step + b * apart);
            for (int r = 0; r < rows; r++)
                sum[r][b] = lanes_fma(lanes_all(a[r * pitch + k]), weight, sum[r][b]);
        }
}

/* The cell of one sample at states [first, first + 16) of step t; sum[gate] is W_hh h. */
static inline __attribute__((always_inline)) void
cell_forward(const ls_vector_lstm *l, int64_t row, int64_t t, int64_t first, const lanes sum[4])
{
    const int64_t H = l->shape.hidden, at = row * l->shape.steps + t;
    const int64_t count = H - first < LS_LANES ? H - first : LS_LANES;
    float *gates = l->gates + at * 4 * H + first, *cells = l->cells + at * H + first;
    float z[4][LS_LANES], c[LS_LANES] = {0}, h[LS_LANES];
    for (int g = 0; g < 4; g++) {
        lanes whole =
            sum[g] + (get_part(gates + g * H, count) + get_part(l->bias + g * H + first, count));
        lanes_put(z[g], &whole);
    }
    if (t) {
        lanes before = get_part(cells - H, count);
        lanes_put(c, &before);
    }
    for (int j = 0; j < LS_LANES; j++) {
        z[0][j] = ls_sigmoid_element(z[0][j]);
        z[1][j] = ls_sigmoid_element(z[1][j]);
        z[2][j] = ls_tanh_element(z[2][j]);
        z[3][j] = ls_sigmoid_element(z[3][j]);
        c[j] = z[1][j] * c[j] + z[0][j] * z[2][j];
        h[j] = z[3][j] * ls_tanh_element(c[j]);
    }
    for (int g = 0; g < 4; g++)
        put_part(gates + g * H, z[g], count);
    put_part(cells, c, count);
    if (t + 1 < l->shape.steps)
        put_part(l->previous + (at + 1) * H + first, h, count);
    if (!l->shape.last)
        put_part(l->y + at * H + first, h, count);
    else if (t + 1 == l->shape.steps)
        put_part(l->y + row * H + first, h, count);
}

static inline __attribute__((always_inline)) void forward_rows_of(const ls_vector_lstm *l,
                                                                  int64_t row, int rows)
{
    const int64_t H = l->shape.hidden, T = l->shape.steps, padded = ls_vector_pad(H);
    for (int r = 0; r < rows; r++)
        memset(l->previous + (row + r) * T * H, 0, (size_t)H * sizeof(float));
    for (int64_t t = 0; t < T; t++)
        for (int64_t first = 0; first < H; first += LS_LANES) {
            lanes sum[LS_VECTOR_LSTM_ROWS][4];
            product_block(l->previous + (row * T + t) * H, T * H, t ? H : 0, l->packed + first,
                          4 * padded, padded, rows, 4, sum);
            for (int r = 0; r < rows; r++)
                cell_forward(l, row + r, t, first, sum[r]);
        }
}

static void lstm_forward(const ls_vector_lstm *l, int64_t first, int64_t last)
{
    for (; first + LS_VECTOR_LSTM_ROWS <= last; first += LS_VECTOR_LSTM_ROWS)
        forward_rows_of(l, first, LS_VECTOR_LSTM_ROWS);
    for (; first < last; first++)
        forward_rows_of(l, first, 1);
}

/* The cell of one sample backward: dh and dc of step t; dc becomes that of t - 1. */
static inline __attribute__((always_inline)) void cell_backward(const ls_vector_lstm *l,
                                                                int64_t row, int64_t t,
                                                                int64_t first, const float *dh_in,
                                                                float *dc)
{
    const int64_t H = l->shape.hidden, at = row * l->shape.steps + t;
    const int64_t count = H - first < LS_LANES ? H - first : LS_LANES;
    const float *gates = l->gates + at * 4 * H + first;
    const float *cells = l->cells + at * H + first;
    float *dz = l->dz + (at - l->dz_row * l->shape.steps) * 4 * H + first;
    float z[4][LS_LANES], c[LS_LANES], before[LS_LANES] = {0}, dh[LS_LANES];
    lanes part, sum = lanes_get(dh_in);
    for (int g = 0; g < 4; g++) {
        part = get_part(gates + g * H, count);
        lanes_put(z[g], &part);
    }
    part = get_part(cells, count);
    lanes_put(c, &part);
    if (t) {
        part = get_part(cells - H, count);
        lanes_put(before, &part);
    }
    if (!l->shape.last)
        sum += get_part(l->dy + at * H + first, count);
    else if (t + 1 == l->shape.steps)
        sum += get_part(l->dy + row * H + first, count);
    lanes_put(dh, &sum);
    for (int j = 0; j < LS_LANES; j++) {
        const float i = z[0][j], f = z[1][j], g = z[2][j], o = z[3][j], tc = ls_tanh_element(c[j]);
        const float d = dc[j] + dh[j] * o * (1 - tc * tc);
        z[0][j] = d * g * (i * (1 - i));
        z[1][j] = d * before[j] * (f * (1 - f));
        z[2][j] = d * i * (1 - g * g);
        z[3][j] = dh[j] * tc * (o * (1 - o));
        dc[j] = d * f;
    }
    for (int g = 0; g < 4; g++)
        put_part(dz + g * H, z[g], count);
}

/* dh of step t - 1 from the gates' gradients of step t, [rows, padded]. */
static inline __attribute__((always_inline)) void
states_backward(const ls_vector_lstm *l, int64_t row, int64_t t, int rows, float *dh)
{
    const int64_t H = l->shape.hidden, T = l->shape.steps, padded = ls_vector_pad(H);
    const float *dz = l->dz + ((row - l->dz_row) * T + t) * 4 * H;
    lanes sum[LS_VECTOR_LSTM_ROWS][4];
    int64_t first = 0;
    for (; first + 4 * LS_LANES <= padded; first += 4 * LS_LANES) {
        product_block(dz, T * 4 * H, 4 * H, l->packed + first, padded, LS_LANES, rows, 4, sum);
        for (int r = 0; r < rows; r++)
            for (int b = 0; b < 4; b++)
                lanes_put(dh + r * padded + first + b * LS_LANES, &sum[r][b]);
    }
    for (; first < padded; first += LS_LANES) {
        product_block(dz, T * 4 * H, 4 * H, l->packed + first, padded, LS_LANES, rows, 1, sum);
        for (int r = 0; r < rows; r++)
            lanes_put(dh + r * padded + first, &sum[r][0]);
    }
}

static inline __attribute__((always_inline)) void backward_rows_of(const ls_vector_lstm *l,
                                                                   int64_t row, int rows)
{
    const int64_t H = l->shape.hidden, padded = ls_vector_pad(H);
    float *dh = l->scratch, *dc = l->scratch + LS_VECTOR_LSTM_ROWS * padded;
    memset(l->scratch, 0, (size_t)(2 * LS_VECTOR_LSTM_ROWS * padded) * sizeof *dh);
    for (int64_t t = l->shape.steps; t-- > 0;) {
        for (int r = 0; r < rows; r++)
            for (int64_t first = 0; first < H; first += LS_LANES)
                cell_backward(l, row + r, t, first, dh + r * padded + first,
                              dc + r * padded + first);
        if (t)
            states_backward(l, row, t, rows, dh);
    }
}

static void lstm_backward(const ls_vector_lstm *l, int64_t first, int64_t last)
{
    for (; first + LS_VECTOR_LSTM_ROWS <= last; first += LS_VECTOR_LSTM_ROWS)
        backward_rows_of(l, first, LS_VECTOR_LSTM_ROWS);
    for (; first < last; first++)
        backward_rows_of(l, first, 1);
}

static double logistic(const ls_logistic_loss_args *a)
{
    const float *logits = a->logits, scale = (float)a->scale;
    float *dlogits = a->dlogits;
    double total = 0;
    for (int64_t r = 0; r < a->rows; r++) {
        const float z = logits[r], y = (float)a->labels[r];
        total += (double)(z > 0 ? z : 0) - (double)(y * z) +
                 ls_log_element(1.0f + ls_exp_element(-fabsf(z)));
        if (dlogits)
            dlogits[r] = scale * (ls_sigmoid_element(z) - y);
    }
    return total;
}
