/* SPDX-License-Identifier: MIT */
/*
 * What the cuda table guarantees for convolutions with a global max, whichever kernel a shape gets:
 * the bits of sums in the order of the taps, then the bias, and the first of equal positions;
 * gradients in the order of rows, thread by thread, folded by halves.
 */
#pragma once

#include "common/kernel/tests/kernel_fixture.h"

enum { CONV_MAX_THREADS = 256 };

/* A tap's pixel; 0 in the padding. Taps are numbered as in the weights. */
static float pixel_at(const ls_conv_shape *s, const float *image, int64_t place, int64_t tap)
{
    const ls_window *w = &s->window;
    const int64_t y = place / w->out_width * w->stride_y - w->top + tap / w->width % w->height;
    const int64_t x = place % w->out_width * w->stride_x - w->left + tap % w->width;
    if (y < 0 || y >= w->in_height || x < 0 || x >= w->in_width)
        return 0;
    return image[(y * w->in_width + x) * s->channels + tap / w->width / w->height];
}

static void largest_of(const ls_conv_shape *s, const float *image, const float *weight, float bias,
                       float *value, int32_t *place)
{
    *value = -INFINITY, *place = 0;
    for (int32_t at = 0; at < s->window.out_height * s->window.out_width; at++) {
        float sum = 0;
        for (int64_t tap = 0; tap < filter_elements(s); tap++)
            sum = fmaf(pixel_at(s, image, at, tap), weight[tap], sum);
        if (sum + bias > *value)
            *value = sum + bias, *place = at;
    }
}

static void check_conv_max_forward_bits(fixture *f, const ls_conv_shape *s)
{
    const int64_t taps = filter_elements(s), count = s->rows * s->outputs;
    float *x = randoms(s->rows * in_elements(s), 1), *weight = randoms(s->outputs * taps, 2);
    float *bias = randoms(s->outputs, 3), *y[] = {randoms(count, 4), randoms(count, 5)};
    int32_t *place[] = {calloc((size_t)count + 1, 4), calloc((size_t)count + 1, 4)};
    apply_conv_max_forward(
        f, f->cpu,
        &(ls_conv_max_forward_args){*s, x, weight, bias, y[0], place[0], LS_ACTIVATION_NONE});
    for (int64_t i = 0; i < count; i++)
        largest_of(s, x + i / s->outputs * in_elements(s), weight + i % s->outputs * taps,
                   bias[i % s->outputs], &y[1][i], &place[1][i]);
    same_bits("conv_max", y[0], y[1], (size_t)count * sizeof **y);
    same_bits("places", place[0], place[1], (size_t)count * sizeof **place);
    free(x), free(weight), free(bias), free(y[0]), free(y[1]), free(place[0]), free(place[1]);
}

/* The sum over rows of dy times a tap of the window that was the largest; tap -1: of dy. */
static float gradient_of(const ls_conv_shape *s, const float *x, const float *dy,
                         const int32_t *place, int64_t output, int64_t tap)
{
    float sums[CONV_MAX_THREADS] = {0};
    for (int64_t row = 0; row < s->rows; row++) {
        const int64_t at = row * s->outputs + output;
        const float *image = x + row * in_elements(s);
        float *sum = &sums[row % CONV_MAX_THREADS];
        if (dy[at] < 0 || dy[at] > 0)
            *sum = tap < 0 ? *sum + dy[at] : fmaf(dy[at], pixel_at(s, image, place[at], tap), *sum);
    }
    for (int half = CONV_MAX_THREADS / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

static void check_conv_max_backward_bits(fixture *f, const ls_conv_shape *s)
{
    const int64_t taps = filter_elements(s), weights = s->outputs * taps;
    const int64_t positions = s->window.out_height * s->window.out_width;
    const int64_t count = s->rows * s->outputs;
    float *x = randoms(s->rows * in_elements(s), 1), *dy = randoms(count, 2);
    float *dweight[] = {randoms(weights, 3), randoms(weights, 4)};
    float *dbias[] = {randoms(s->outputs, 5), randoms(s->outputs, 6)};
    int32_t *place = calloc((size_t)count + 1, sizeof *place);
    for (int64_t i = 0; i < count; i++) {
        place[i] = (int32_t)(i * 7 % positions);
        dy[i] = i % 3 ? dy[i] : 0; /* as after a ReLU */
    }
    apply_conv_max_backward_weights(
        f, f->cpu, &(ls_conv_max_backward_weights_args){*s, x, dy, place, dweight[0], dbias[0]});
    for (int64_t i = 0; i < weights; i++)
        dweight[1][i] = gradient_of(s, x, dy, place, i / taps, i % taps);
    for (int64_t i = 0; i < s->outputs; i++)
        dbias[1][i] = gradient_of(s, x, dy, place, i, -1);
    same_bits("dweight", dweight[0], dweight[1], (size_t)weights * sizeof **dweight);
    same_bits("dbias", dbias[0], dbias[1], (size_t)s->outputs * sizeof **dbias);
    free(x), free(dy), free(place);
    for (int k = 0; k < 2; k++)
        free(dweight[k]), free(dbias[k]);
}

/* 3 x 3 windows of one channel and stride 1, with and without padding; images that shared memory
 * holds, of few taps and many; and larger ones. */
static void test_conv_max_bits(void **state)
{
    static const ls_conv_shape shapes[] = {
        {3, 1, 32, {28, 28, 26, 26, 3, 3, 1, 1, 0, 0}},
        {300, 1, 5, {4, 9, 4, 9, 3, 3, 1, 1, 1, 1}},
        {2, 1, 33, {9, 20, 4, 18, 3, 3, 2, 1, 0, 0}},
        {3, 1, 31, {11, 12, 9, 6, 3, 3, 1, 2, 0, 1}},
        {2, 3, 40, {9, 17, 9, 17, 5, 5, 1, 1, 2, 2}},
        {2, 3, 8, {20, 19, 7, 9, 2, 3, 3, 2, 0, 0}},
        {2, 1, 3, {70, 66, 70, 66, 3, 3, 1, 1, 1, 1}},
        {2, 3, 33, {41, 41, 20, 20, 4, 3, 2, 2, 1, 0}},
        {1, 40, 5, {12, 17, 12, 17, 3, 3, 1, 1, 1, 1}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_conv_max_forward_bits(*state, &shapes[i]);
        check_conv_max_backward_bits(*state, &shapes[i]);
    }
}
