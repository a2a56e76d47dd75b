/* SPDX-License-Identifier: MIT */
/* Two LSTMs as one operation, where a table has it: the bits of each alone. No tolerance. */
#pragma once

#include "common/kernel/tests/kernel_fixture.h"

enum { LSTM_Y, LSTM_DX, LSTM_DIH, LSTM_DHH, LSTM_DBIAS, LSTM_RESULTS };

/* Two LSTMs; what they read is made anew, the same each time. `shared`: of the same weights. */
typedef struct lstm_pair {
    ls_lstm_pair_forward_args forward;
    ls_lstm_pair_backward_args backward;
    float *read[2][6], *result[2][LSTM_RESULTS];
} lstm_pair;

static void count_lstm_results(const ls_lstm_shape *s, int64_t count[LSTM_RESULTS])
{
    const int64_t H = s->hidden, N = s->rows * s->steps;
    count[LSTM_Y] = (s->last ? s->rows : N) * H;
    count[LSTM_DX] = N * s->inputs;
    count[LSTM_DIH] = 4 * H * s->inputs;
    count[LSTM_DHH] = 4 * H * H;
    count[LSTM_DBIAS] = 4 * H;
}

static void open_pair(lstm_pair *p, const ls_lstm_shape *s, bool shared, bool with_dx)
{
    int64_t count[LSTM_RESULTS];
    count_lstm_results(s, count);
    for (int i = 0; i < 2; i++) {
        const uint32_t seed = 20 * (uint32_t)i, weights = shared ? 0 : seed;
        float *const read[] = {randoms(count[LSTM_DX], seed + 1),
                               randoms(count[LSTM_DIH], weights + 2),
                               randoms(count[LSTM_DHH], weights + 3),
                               randoms(count[LSTM_DBIAS], weights + 4),
                               randoms(count[LSTM_Y], seed + 5),
                               randoms(s->rows * s->steps * LS_LSTM_KEPT * s->hidden, 6)};
        float **own = p->read[shared ? 0 : i], **out = p->result[i];
        memcpy(p->read[i], read, sizeof read);
        for (int r = 0; r < LSTM_RESULTS; r++)
            out[r] = randoms(count[r], 7);
        p->forward.of[i] =
            (ls_lstm_forward_args){*s, read[0], own[1], own[2], own[3], read[5], out[LSTM_Y]};
        p->backward.of[i] = (ls_lstm_backward_args){*s,
                                                    read[0],
                                                    own[1],
                                                    own[2],
                                                    read[5],
                                                    read[4],
                                                    with_dx || i ? out[LSTM_DX] : NULL,
                                                    out[LSTM_DIH],
                                                    out[LSTM_DHH],
                                                    out[LSTM_DBIAS]};
    }
}

static void run_pair(fixture *f, const lstm_pair *p, bool joint)
{
    for (int i = 0; i < 2 && !joint; i++) {
        apply_lstm_forward(f, f->cpu, &p->forward.of[i]);
        apply_lstm_backward(f, f->cpu, &p->backward.of[i]);
    }
    if (!joint)
        return;
    apply_lstm_pair_forward(f, f->cpu, &p->forward);
    apply_lstm_pair_backward(f, f->cpu, &p->backward);
}

static void check_pair(fixture *f, const ls_lstm_shape *s, bool shared, bool with_dx)
{
    static const char *const names[] = {"y", "dx", "dweight_ih", "dweight_hh", "dbias"};
    lstm_pair pairs[2];
    int64_t count[LSTM_RESULTS];
    count_lstm_results(s, count);
    for (int joint = 0; joint < 2; joint++) {
        open_pair(&pairs[joint], s, shared, with_dx);
        run_pair(f, &pairs[joint], joint);
    }
    for (int i = 0; i < 2; i++) {
        for (int r = 0; r < LSTM_RESULTS; r++) {
            same_bits(names[r], pairs[1].result[i][r], pairs[0].result[i][r],
                      (size_t)(count[r] + 1) * sizeof(float));
            free(pairs[0].result[i][r]), free(pairs[1].result[i][r]);
        }
        for (int r = 0; r < 6; r++)
            free(pairs[0].read[i][r]), free(pairs[1].read[i][r]);
    }
}

/* Few states and many, one sample a block and four. Tables may be without it. */
static void check_pairs(fixture *f, bool last, bool with_dx)
{
    static const int64_t sides[][4] = {{0, 3, 5, 4},  {1, 1, 1, 1},   {5, 7, 12, 64},
                                       {4, 3, 5, 80}, {513, 2, 3, 7}, {513, 2, 3, 70}};
    for (int i = 0; i < 6 && f->cpu->table->lstm_pair_forward; i++) {
        const ls_lstm_shape s = {sides[i][0], sides[i][1], sides[i][2], sides[i][3], last};
        check_pair(f, &s, last == (i & 1), with_dx);
    }
}

static void test_lstm_pair_forward(void **state)
{
    check_pairs(*state, true, false);
}

static void test_lstm_pair_backward(void **state)
{
    check_pairs(*state, false, true);
}
