/* SPDX-License-Identifier: MIT */
/*
 * Vector loops of images. Part of vector_loops.c. A pixel's channels or outputs are the lanes, so
 * no sample depends on the others, and each element is one sum in the order of the taps.
 */
#pragma once

#include "common/kernel/cpu/vector_lanes.h"

#include <math.h>

static void pack_filters(const ls_conv_shape *s, const float *weight, float *packed)
{
    const int64_t taps = s->window.height * s->window.width, outputs = ls_vector_pad(s->outputs);
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t c = 0; c < s->channels; c++)
            for (int64_t t = 0; t < taps; t++)
                packed[(t * s->channels + c) * outputs + o] =
                    o < s->outputs ? weight[(o * s->channels + c) * taps + t] : 0;
}

/* ---- Convolution and global max ------------------------------------------------------------- */

/* One sample with its padding, as windows see it. */
static const float *padded_image(const ls_vector_conv_max *m, int64_t row)
{
    const ls_window *w = &m->arguments.shape.window;
    const int64_t channels = m->arguments.shape.channels, line = w->in_width * channels;
    const float *x = (const float *)m->arguments.x + row * w->in_height * line;
    if (!m->image)
        return x;
    memset(m->image, 0, (size_t)(m->height * m->width * channels) * sizeof *x);
    for (int64_t y = 0; y < w->in_height; y++)
        memcpy(m->image + ((y + w->top) * m->width + w->left) * channels, x + y * line,
               (size_t)line * sizeof *x);
    return m->image;
}

/*
 * 16 or 32 outputs (`blocks` of 16) of one sample. A window is `height` runs of `run` elements; if
 * these are constants, the filters stay in registers.
 */
static inline __attribute__((always_inline)) void
conv_max_block(const ls_vector_conv_max *m, const float *image, int64_t first, int blocks,
               int64_t height, int64_t run, lanes *most, lanes_mask *argmax)
{
    const ls_window *w = &m->arguments.shape.window;
    const int64_t channels = m->arguments.shape.channels, outputs = m->outputs;
    const int64_t line = m->width * channels;
    const float *packed = m->packed + first;
    for (int k = 0; k < blocks; k++) {
        most[k] = -INFINITY - (lanes){0};
        argmax[k] = (lanes_mask){0};
    }
    for (int64_t oy = 0; oy < w->out_height; oy++)
        for (int64_t ox = 0; ox < w->out_width; ox++) {
            const float *from = image + (oy * w->stride_y) * line + ox * w->stride_x * channels;
            const int32_t at = (int32_t)(oy * w->out_width + ox);
            lanes sum[2] = {lanes_get(m->bias + first), {0}};
            if (blocks > 1)
                sum[1] = lanes_get(m->bias + first + LS_LANES);
            for (int64_t ky = 0; ky < height; ky++)
                for (int64_t j = 0; j < run; j++)
                    for (int k = 0; k < blocks; k++)
                        sum[k] = lanes_fma(
                            lanes_all(from[ky * line + j]),
                            lanes_get(packed + (ky * run + j) * outputs + k * LS_LANES), sum[k]);
            for (int k = 0; k < blocks; k++) {
                lanes_mask greater = sum[k] > most[k];
                most[k] =
                    (lanes)((greater & (lanes_mask)sum[k]) | (~greater & (lanes_mask)most[k]));
                argmax[k] = (greater & at) | (~greater & argmax[k]);
            }
        }
}

static void conv_max(const ls_vector_conv_max *m, int64_t first, int64_t last)
{
    const ls_conv_max_forward_args *a = &m->arguments;
    const ls_window *w = &a->shape.window;
    const int64_t outputs = a->shape.outputs, run = w->width * a->shape.channels;
    for (int64_t r = first; r < last; r++) {
        const float *image = padded_image(m, r);
        float *y = (float *)a->y + r * outputs;
        int32_t *argmax = a->argmax + r * outputs;
        for (int64_t o = 0; o < outputs; o += 2 * LS_LANES) {
            const int blocks = outputs - o > LS_LANES ? 2 : 1;
            const int64_t count = outputs - o < 2 * LS_LANES ? outputs - o : 2 * LS_LANES;
            lanes most[2];
            lanes_mask at[2];
            float values[2 * LS_LANES];
            int32_t places[2 * LS_LANES];
            if (blocks == 2 && w->height == 3 && run == 3)
                conv_max_block(m, image, o, 2, 3, 3, most, at);
            else
                conv_max_block(m, image, o, blocks, w->height, run, most, at);
            memcpy(values, most, (size_t)blocks * sizeof *most);
            memcpy(places, at, (size_t)blocks * sizeof *at);
            for (int64_t i = 0; i < count; i++) {
                bool cut = a->activation == LS_ACTIVATION_RELU && !(values[i] > 0);
                y[o + i] = cut ? 0 : values[i];
                argmax[o + i] = places[i];
            }
        }
    }
}

/* dweight += dy times the taps of rows [y[0], y[1]) and columns [x[0], x[1]) of a window. */
static inline __attribute__((always_inline)) void add_taps(const float *image, int64_t line,
                                                           const int64_t y[2], const int64_t x[2],
                                                           int64_t channels, const ls_window *w,
                                                           float dy, float *dweight)
{
    const int64_t taps = w->height * w->width;
    for (int64_t ky = y[0]; ky < y[1]; ky++)
        for (int64_t kx = x[0]; kx < x[1]; kx++)
            for (int64_t c = 0; c < channels; c++)
                dweight[c * taps + ky * w->width + kx] += dy * image[ky * line + kx * channels + c];
}

/* Adds a row's part of the gradient of output o: dy times the window at that position, of which
 * only taps inside the image count, rows [y0, y1) and columns [x0, x1) of it. */
static inline void conv_max_add(const ls_conv_max_backward_weights_args *a, int64_t r, int64_t o,
                                float dy)
{
    const ls_conv_shape *s = &a->shape;
    const ls_window *w = &s->window;
    const int64_t C = s->channels, line = w->in_width * C;
    const int32_t argmax = a->argmax[r * s->outputs + o], width = (int32_t)w->out_width;
    const int64_t y = argmax / width * w->stride_y - w->top;
    const int64_t x = argmax % width * w->stride_x - w->left;
    const int64_t ys[2] = {y < 0 ? -y : 0,
                           y + w->height > w->in_height ? w->in_height - y : w->height};
    const int64_t xs[2] = {x < 0 ? -x : 0, x + w->width > w->in_width ? w->in_width - x : w->width};
    const float *image = (const float *)a->x + (r * w->in_height + y) * line + x * C;
    float *dweight = (float *)a->dweight + o * w->height * w->width * C;
    static const int64_t whole[2] = {0, 3};
    if (C == 1 && w->height == 3 && w->width == 3 && !ys[0] && !xs[0] && ys[1] == 3 && xs[1] == 3)
        add_taps(image, line, whole, whole, 1, &(ls_window){.height = 3, .width = 3}, dy, dweight);
    else
        add_taps(image, line, ys, xs, C, w, dy, dweight);
}

/* Rows in order, so that one image after another is in the cache. If the ReLU was 0, nothing is
 * added. */
static void conv_max_backward(const ls_conv_max_backward_weights_args *a, int64_t first,
                              int64_t last)
{
    const ls_conv_shape *s = &a->shape;
    const int64_t weights = s->window.height * s->window.width * s->channels;
    float *dweight = a->dweight, *dbias = a->dbias;
    memset(dweight + first * weights, 0, (size_t)((last - first) * weights) * sizeof *dweight);
    if (dbias)
        memset(dbias + first, 0, (size_t)(last - first) * sizeof *dbias);
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t o = first; o < last; o++) {
            const float dy = ((const float *)a->dy)[r * s->outputs + o];
            if (dy == 0)
                continue;
            if (dbias)
                dbias[o] += dy;
            conv_max_add(a, r, o, dy);
        }
}
