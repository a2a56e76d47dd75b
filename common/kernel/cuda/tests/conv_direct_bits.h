/* SPDX-License-Identifier: MIT */
/*
 * Convolutions without windows, forward and the gradient of the image: each element must be the
 * chain of fused multiply-adds that its kernel promises, computed here by a plain loop; no
 * tolerance.
 */
#pragma once

#include "common/kernel/cuda/tests/conv_ways.h"

/* What is added to sum number `at` of y, in the order of taps, then channels. */
static float chain_forward(const ls_conv_shape *s, const conv_case *c, int64_t at)
{
    const ls_window *w = &s->window;
    const int64_t o = at % s->outputs, x = at / s->outputs % w->out_width;
    const int64_t y = at / s->outputs / w->out_width % w->out_height;
    const int64_t row = at / out_elements(s), taps = w->height * w->width;
    float sum = 0;
    for (int64_t k = 0; k < taps * s->channels; k++) {
        const int64_t tap = k / s->channels, channel = k % s->channels;
        const int64_t iy = y * w->stride_y - w->top + tap / w->width;
        const int64_t ix = x * w->stride_x - w->left + tap % w->width;
        const bool in = iy >= 0 && iy < w->in_height && ix >= 0 && ix < w->in_width;
        const int64_t pixel = (row * w->in_height + iy) * w->in_width + ix;
        if (in)
            sum = fmaf(c->in[0][pixel * s->channels + channel],
                       c->in[1][(o * s->channels + channel) * taps + tap], sum);
    }
    sum += c->bias[o];
    return sum > 0 ? sum : 0;
}

/* The same of dx, in the order of taps, then outputs. */
static float chain_data(const ls_conv_shape *s, const conv_case *c, int64_t at)
{
    const ls_window *w = &s->window;
    const int64_t channel = at % s->channels, x = at / s->channels % w->in_width;
    const int64_t y = at / s->channels / w->in_width % w->in_height;
    const int64_t row = at / in_elements(s), taps = w->height * w->width;
    float sum = 0;
    for (int64_t k = 0; k < taps * s->outputs; k++) {
        const int64_t tap = k / s->outputs, o = k % s->outputs;
        const int64_t oy = y + w->top - tap / w->width, ox = x + w->left - tap % w->width;
        const bool in = oy >= 0 && oy % w->stride_y == 0 && oy / w->stride_y < w->out_height &&
                        ox >= 0 && ox % w->stride_x == 0 && ox / w->stride_x < w->out_width;
        const int64_t pixel =
            (row * w->out_height + oy / w->stride_y) * w->out_width + ox / w->stride_x;
        if (in)
            sum = fmaf(c->in[0][pixel * s->outputs + o],
                       c->in[1][(o * s->channels + channel) * taps + tap], sum);
    }
    return sum;
}

/* Strides, padding, more outputs than a block has, sums of a part of a slice; then as many
 * positions as give a thread 6 and 8 of them, of each width of a block. The first few have no
 * gradient of the image this way: one channel; windows with fewer pixels than strides. */
static void test_direct(void **state)
{
    enum { FORWARD_ONLY = 2 };
    static const ls_conv_shape shapes[] = {
        {3, 1, 4, {6, 6, 4, 4, 3, 3, 1, 1, 0, 0}},
        {1, 12, 8, {9, 9, 3, 5, 1, 2, 3, 2, 0, 0}},
        {2, 8, 12, {7, 6, 4, 3, 3, 3, 2, 2, 1, 1}},
        {3, 4, 68, {5, 8, 2, 4, 3, 2, 2, 2, 0, 1}},
        {1, 68, 8, {5, 5, 3, 3, 3, 3, 2, 2, 1, 1}},
        {2, 4, 4, {9, 5, 3, 5, 4, 2, 4, 1, 0, 0}},
        {2, 20, 24, {5, 5, 5, 5, 3, 3, 1, 1, 1, 1}},
        {1, 68, 40, {4, 3, 4, 3, 4, 5, 1, 1, 1, 2}},
        {1, 4, 4, {1, 20000, 1, 20000, 1, 2, 1, 1, 0, 1}},
        {1, 20, 20, {1, 10000, 1, 10000, 1, 2, 1, 1, 0, 1}},
        {1, 20, 20, {1, 15000, 1, 15000, 1, 2, 1, 1, 0, 1}},
        {1, 36, 36, {1, 5000, 1, 5000, 1, 2, 1, 1, 0, 1}},
        {1, 36, 36, {1, 7500, 1, 7500, 1, 2, 1, 1, 0, 1}},
    };
    fixture *f = *state;
    cuda_of(f)->way = LS_CONV_DIRECT;
    for (int i = 0; i < 2 * (int)(sizeof shapes / sizeof *shapes); i++) {
        const ls_conv_shape *s = &shapes[i / 2];
        const bool back = i % 2;
        conv_case c;
        must(case_open(f, s, back ? DATA : FORWARD, &c));
        const bool direct = strstr(way_of(&c), ".direct") != NULL;
        assert_int_equal(direct, !back || i / 2 >= FORWARD_ONLY);
        put(f, &c);
        float *want = randoms(c.count, 1);
        for (int64_t k = 0; k < c.count; k++)
            want[k] = back ? chain_data(s, &c, k) : chain_forward(s, &c, k);
        if (direct)
            compare("direct", c.out, want, NULL, 0, c.count);
        free(want);
        case_close(&c);
    }
}
