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

LS_ALWAYS vec vec_sigmoid(vec z)
{
    float each[LS_VEC];
    vec_put(each, z);
    for (int j = 0; j < LS_VEC; j++)
        each[j] = ls_sigmoid_element(each[j]);
    return vec_get(each);
}

LS_ALWAYS vec vec_tanh(vec z)
{
    float each[LS_VEC];
    vec_put(each, z);
    for (int j = 0; j < LS_VEC; j++)
        each[j] = ls_tanh_element(each[j]);
    return vec_get(each);
}

/* sum[r][v] = sum over k of a[r * pitch + k] * w[k * step + v * stride], a vector of it. */
LS_ALWAYS void product_block(const float *a, int64_t pitch, int64_t count, const float *w,
                             int64_t step, int64_t stride, int rows, int vecs,
                             vec to[LS_VECTOR_LSTM_ROWS][4])
{
    vec sum[LS_VECTOR_LSTM_ROWS][LSTM_VECS];
    LS_WRITE_OUT
    for (int i = 0; i < rows * vecs; i++)
        sum[i / vecs][i % vecs] = (vec){0};
    for (int64_t k = 0; k < count; k++) {
        vec weight[LSTM_VECS];
        LS_WRITE_OUT
        for (int v = 0; v < vecs; v++)
            weight[v] = vec_get(w + k * step + v * stride);
        LS_WRITE_OUT
        for (int r = 0; r < rows; r++) {
            const vec state = vec_all(a[r * pitch + k]);
            LS_WRITE_OUT
            for (int v = 0; v < vecs; v++)
                sum[r][v] = vec_fma(state, weight[v], sum[r][v]);
        }
    }
    LS_WRITE_OUT
    for (int i = 0; i < rows * vecs; i++)
        to[i / vecs][i % vecs] = sum[i / vecs][i % vecs];
}

/* The cell of one sample at the vector of states from `first` on, of step t; sum[gate] is W_hh h.
 */
LS_ALWAYS void cell_forward(const ls_vector_lstm *l, int64_t row, int64_t t, int64_t first,
                            const vec sum[4])
{
    const int64_t H = l->shape.hidden, at = row * l->shape.steps + t, count = H - first;
    float *gates = l->gates + at * 4 * H + first, *cells = l->cells + at * H + first;
    vec z[4];
    LS_WRITE_OUT
    for (int g = 0; g < 4; g++) {
        z[g] = sum[g] +
               (vec_get_part(gates + g * H, count) + vec_get_part(l->bias + g * H + first, count));
        z[g] = g == 2 ? vec_tanh(z[g]) : vec_sigmoid(z[g]);
        vec_put_part(gates + g * H, z[g], count);
    }
    const vec before = t ? vec_get_part(cells - H, count) : (vec){0};
    const vec c = z[1] * before + z[0] * z[2];
    const vec h = z[3] * vec_tanh(c);
    vec_put_part(cells, c, count);
    if (t + 1 < l->shape.steps)
        vec_put_part(l->previous + (at + 1) * H + first, h, count);
    if (!l->shape.last)
        vec_put_part(l->y + at * H + first, h, count);
    else if (t + 1 == l->shape.steps)
        vec_put_part(l->y + row * H + first, h, count);
}

LS_ALWAYS void forward_rows_of(const ls_vector_lstm *l, int64_t row, int rows)
{
    const int64_t H = l->shape.hidden, T = l->shape.steps, padded = ls_vector_pad(H);
    for (int r = 0; r < rows; r++)
        memset(l->previous + (row + r) * T * H, 0, (size_t)H * sizeof(float));
    for (int64_t t = 0; t < T; t++)
        for (int64_t first = 0; first < H; first += LS_VEC) {
            vec sum[4 / LSTM_VECS][LS_VECTOR_LSTM_ROWS][4];
            LS_AS_LOOP
            for (int g = 0; g < 4; g += LSTM_VECS)
                product_block(l->previous + (row * T + t) * H, T * H, t ? H : 0,
                              l->packed + g * padded + first, 4 * padded, padded, rows, LSTM_VECS,
                              sum[g / LSTM_VECS]);
            LS_AS_LOOP
            for (int r = 0; r < rows; r++) {
                vec gates[4];
                for (int g = 0; g < 4; g++)
                    gates[g] = sum[g / LSTM_VECS][r][g % LSTM_VECS];
                cell_forward(l, row + r, t, first, gates);
            }
        }
}

static void lstm_forward(const ls_vector_lstm *l, int64_t first, int64_t last)
{
    for (; first + LS_VECTOR_LSTM_ROWS <= last; first += LS_VECTOR_LSTM_ROWS)
        forward_rows_of(l, first, LS_VECTOR_LSTM_ROWS);
    for (; first < last; first++)
        forward_rows_of(l, first, 1);
}

/* The cell of one sample backward: dh and dc of step t; dc becomes the gradient of step t - 1. */
LS_ALWAYS void cell_backward(const ls_vector_lstm *l, int64_t row, int64_t t, int64_t first,
                             const float *dh_in, float *dc)
{
    const int64_t H = l->shape.hidden, at = row * l->shape.steps + t, count = H - first;
    const float *gates = l->gates + at * 4 * H + first;
    const float *cells = l->cells + at * H + first;
    float *dz = l->dz + (at - l->dz_row * l->shape.steps) * 4 * H + first;
    const vec i = vec_get_part(gates, count), f = vec_get_part(gates + H, count);
    const vec g = vec_get_part(gates + 2 * H, count), o = vec_get_part(gates + 3 * H, count);
    const vec tc = vec_tanh(vec_get_part(cells, count));
    const vec before = t ? vec_get_part(cells - H, count) : (vec){0};
    vec dh = vec_get(dh_in);
    if (!l->shape.last)
        dh += vec_get_part(l->dy + at * H + first, count);
    else if (t + 1 == l->shape.steps)
        dh += vec_get_part(l->dy + row * H + first, count);
    const vec d = vec_get(dc) + dh * o * (1 - tc * tc);
    vec_put_part(dz, d * g * (i * (1 - i)), count);
    vec_put_part(dz + H, d * before * (f * (1 - f)), count);
    vec_put_part(dz + 2 * H, d * i * (1 - g * g), count);
    vec_put_part(dz + 3 * H, dh * tc * (o * (1 - o)), count);
    vec_put(dc, d * f);
}

/* dh of step t - 1 from the gates' gradients of step t, [rows, padded]. */
LS_ALWAYS void states_backward(const ls_vector_lstm *l, int64_t row, int64_t t, int rows, float *dh)
{
    const int64_t H = l->shape.hidden, T = l->shape.steps, padded = ls_vector_pad(H);
    const float *dz = l->dz + ((row - l->dz_row) * T + t) * 4 * H;
    vec sum[LS_VECTOR_LSTM_ROWS][4];
    int64_t first = 0;
    for (; first + LSTM_VECS * LS_VEC <= padded; first += LSTM_VECS * LS_VEC) {
        product_block(dz, T * 4 * H, 4 * H, l->packed + first, padded, LS_VEC, rows, LSTM_VECS,
                      sum);
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < LSTM_VECS; v++)
                vec_put(dh + r * padded + first + v * LS_VEC, sum[r][v]);
    }
    for (; first < padded; first += LS_VEC) {
        product_block(dz, T * 4 * H, 4 * H, l->packed + first, padded, LS_VEC, rows, 1, sum);
        for (int r = 0; r < rows; r++)
            vec_put(dh + r * padded + first, sum[r][0]);
    }
}

LS_ALWAYS void backward_rows_of(const ls_vector_lstm *l, int64_t row, int rows)
{
    const int64_t H = l->shape.hidden, padded = ls_vector_pad(H);
    float *dh = l->scratch, *dc = l->scratch + LS_VECTOR_LSTM_ROWS * padded;
    memset(l->scratch, 0, (size_t)(2 * LS_VECTOR_LSTM_ROWS * padded) * sizeof *dh);
    for (int64_t t = l->shape.steps; t-- > 0;) {
        for (int r = 0; r < rows; r++)
            for (int64_t first = 0; first < H; first += LS_VEC)
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
