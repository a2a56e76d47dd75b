/* SPDX-License-Identifier: MIT */
/* Part of test_layer_kernels.c, with its tolerances: sequences, their loss, copies of columns. */
#pragma once

#include "common/kernel/tests/kernel_fixture.h"

#define U 0x1p-24

/* rows, steps, inputs, hidden */
static const int64_t lstm_shapes[][4] = {
    {0, 3, 5, 4},   {1, 1, 1, 1},   {2, 3, 5, 16},  {5, 7, 40, 20}, {4, 9, 17, 64},
    {9, 6, 30, 80}, {3, 12, 8, 67}, {8, 5, 64, 64}, {1, 30, 3, 5},
};
enum { LSTM_SHAPES = sizeof lstm_shapes / sizeof *lstm_shapes, LSTM_OUTPUTS = 5 };

/* y, dx, and the gradients of the three variables, by one table; backward in one pass or two. */
static void lstm_by(fixture *f, ls_kernels *k, const ls_lstm_shape *s, bool with_dx, bool apart,
                    float *out[])
{
    const int64_t H = s->hidden, N = s->rows * s->steps, I = s->inputs;
    float *x = randoms(N * I, 1), *ih = randoms(4 * H * I, 2), *hh = randoms(4 * H * H, 3);
    float *bias = randoms(4 * H, 4), *kept = randoms(N * LS_LSTM_KEPT * H, 5);
    float *dy = randoms(s->last ? s->rows * H : N * H, 6);
    for (int64_t i = 0; i < 4 * H * H; i++)
        hh[i] /= sqrtf((float)H);
    apply_lstm_forward(f, k, &(ls_lstm_forward_args){*s, x, ih, hh, bias, kept, out[0]});
    ls_lstm_backward_args args = {*s,   x,    ih,  hh, kept, dy, with_dx ? out[1] : NULL,
                                  NULL, NULL, NULL};
    if (apart) {
        apply_lstm_backward(f, k, &args);
        args = (ls_lstm_backward_args){.shape = *s, .x = x, .kept = kept};
    }
    args.dweight_ih = out[2], args.dweight_hh = out[3], args.dbias = out[4];
    apply_lstm_backward(f, k, &args);
    free(x), free(ih), free(hh), free(bias), free(kept), free(dy);
}

static void check_lstm(fixture *f, const int64_t shape[4], bool last, bool with_dx)
{
    const ls_lstm_shape s = {shape[0], shape[1], shape[2], shape[3], last};
    const int64_t H = s.hidden, N = s.rows * s.steps;
    const int64_t counts[LSTM_OUTPUTS] = {last ? s.rows * H : N * H, N * s.inputs, 4 * H * s.inputs,
                                          4 * H * H, 4 * H};
    static const char *const names[LSTM_OUTPUTS] = {"y", "dx", "dweight_ih", "dweight_hh", "dbias"};
    float *got[LSTM_OUTPUTS], *want[LSTM_OUTPUTS], *apart[LSTM_OUTPUTS];
    for (int i = 0; i < LSTM_OUTPUTS; i++)
        got[i] = randoms(counts[i], 7), want[i] = randoms(counts[i], 7),
        apart[i] = randoms(counts[i], 7);
    lstm_by(f, f->cpu, &s, with_dx, false, got);
    lstm_by(f, f->reference, &s, with_dx, true, want);
    lstm_by(f, f->cpu, &s, with_dx, true, apart);
    for (int i = 0; i < LSTM_OUTPUTS; i++) {
        double largest = 0;
        for (int64_t j = 0; j < counts[i]; j++)
            largest = fmax(largest, fabs((double)want[i][j]));
        compare(names[i], got[i], want[i], NULL,
                4 * (double)(s.inputs + H + 16) * (double)s.steps * U * largest, counts[i]);
        assert_memory_equal(apart[i], got[i], (size_t)counts[i] * sizeof(float));
        free(got[i]), free(want[i]), free(apart[i]);
    }
}

static void test_lstm_forward(void **state)
{
    for (int i = 0; i < LSTM_SHAPES; i++)
        check_lstm(*state, lstm_shapes[i], true, false);
}

static void test_lstm_backward(void **state)
{
    for (int i = 0; i < LSTM_SHAPES; i++)
        check_lstm(*state, lstm_shapes[i], false, true);
}

static void test_logistic_loss(void **state)
{
    fixture *f = *state;
    static const int64_t rows[] = {0, 1, 17, 300};
    for (int i = 0; i < 8; i++) {
        int64_t count = rows[i / 2];
        float *z = randoms(count, 1), *got = randoms(count, 2), *want = randoms(count, 3);
        int32_t *labels = calloc((size_t)count + 1, sizeof *labels);
        double got_loss = -1, want_loss = -2, scale = 1.0 / 77;
        for (int64_t j = 0; j < count; j++) {
            z[j] *= i & 1 ? 200 : 4;
            labels[j] = (int32_t)(j * j % 2);
        }
        ls_logistic_loss_args args = {count, z, labels, scale, got, &got_loss};
        apply_logistic_loss(f, f->cpu, &args);
        args.dlogits = want, args.loss = &want_loss;
        apply_logistic_loss(f, f->reference, &args);
        compare("dlogits", got, want, NULL, 16 * U * scale, count);
        assert_true(fabs(got_loss - want_loss) <= 16 * U * ((double)count * scale + want_loss));
        free(z), free(got), free(want), free(labels);
    }
}

static void test_copy_columns(void **state)
{
    fixture *f = *state;
    static const int64_t sizes[][4] = {{0, 3, 5, 4}, {3, 0, 2, 2}, {7, 5, 5, 9}, {4, 64, 128, 64}};
    for (int i = 0; i < 4; i++) {
        const int64_t *s = sizes[i];
        float *x = randoms(s[0] * s[2], 1), *got = randoms(s[0] * s[3], 2);
        float *want = randoms(s[0] * s[3], 2);
        ls_copy_columns_args args = {s[0], s[1], s[2], s[3], x, got};
        apply_copy_columns(f, f->cpu, &args);
        args.y = want;
        apply_copy_columns(f, f->reference, &args);
        same_bits("copy_columns", got, want, (size_t)(s[0] * s[3] + 1) * sizeof *got);
        free(x), free(got), free(want);
    }
}
