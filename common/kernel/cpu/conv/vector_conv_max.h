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
 * `vecs` vectors of outputs of one sample, written with 0 in what is padded. A window is `height`
 * runs of `run` elements; if both are constants, the filters stay in registers.
 */
LS_ALWAYS void conv_max_block(const ls_vector_conv_max *m, const float *image, int64_t first,
                              int vecs, int64_t height, int64_t run, float *values,
                              int32_t *positions)
{
    const ls_window *w = &m->arguments.shape.window;
    const int64_t channels = m->arguments.shape.channels, outputs = m->outputs;
    const int64_t line = m->width * channels;
    const float *packed = m->packed + first;
    vec most[CONV_MAX_WIDE];
    vec_int argmax[CONV_MAX_WIDE];
    LS_WRITE_OUT
    for (int k = 0; k < vecs; k++) {
        most[k] = vec_all(-INFINITY);
        argmax[k] = (vec_int){0};
    }
    for (int64_t oy = 0; oy < w->out_height; oy++)
        for (int64_t ox = 0; ox < w->out_width; ox++) {
            const float *from = image + (oy * w->stride_y) * line + ox * w->stride_x * channels;
            const vec_int at = vec_all_int((int32_t)(oy * w->out_width + ox));
            vec sum[CONV_MAX_WIDE];
            LS_WRITE_OUT
            for (int k = 0; k < vecs; k++)
                sum[k] = vec_get(m->bias + first + k * LS_VEC);
            for (int64_t ky = 0; ky < height; ky++)
                for (int64_t j = 0; j < run; j++) {
                    const vec pixel = vec_all(from[ky * line + j]);
                    LS_WRITE_OUT
                    for (int k = 0; k < vecs; k++)
                        sum[k] = vec_fma(
                            pixel, vec_get(packed + (ky * run + j) * outputs + k * LS_VEC), sum[k]);
                }
            LS_WRITE_OUT
            for (int k = 0; k < vecs; k++) {
                const vec_where greater = vec_greater(sum[k], most[k]);
                most[k] = vec_choose(greater, sum[k], most[k]);
                argmax[k] = vec_choose_int(greater, at, argmax[k]);
            }
        }
    LS_WRITE_OUT
    for (int k = 0; k < vecs; k++) {
        vec_put(values + k * LS_VEC, most[k]);
        vec_put_int(positions + k * LS_VEC, argmax[k]);
    }
}

static void conv_max(const ls_vector_conv_max *m, int64_t first, int64_t last)
{
    enum { MOST = CONV_MAX_WIDE * LS_VEC, FEW = CONV_MAX_VECS * LS_VEC };
    const ls_conv_max_forward_args *a = &m->arguments;
    const ls_window *w = &a->shape.window;
    const int64_t outputs = a->shape.outputs, run = w->width * a->shape.channels;
    for (int64_t r = first; r < last; r++) {
        const float *image = padded_image(m, r);
        float *y = (float *)a->y + r * outputs;
        int32_t *argmax = a->argmax + r * outputs;
        for (int64_t o = 0, step; o < outputs; o += step) {
            float values[MOST];
            int32_t positions[MOST];
            step = MOST;
            if (w->height == 3 && run == 3 && o + FEW <= m->outputs)
                conv_max_block(m, image, o, CONV_MAX_VECS, 3, 3, values, positions), step = FEW;
            else if (o + MOST <= m->outputs)
                conv_max_block(m, image, o, CONV_MAX_WIDE, w->height, run, values, positions);
            else
                conv_max_block(m, image, o, 1, w->height, run, values, positions), step = LS_VEC;
            for (int64_t i = 0; i < step && o + i < outputs; i++) {
                bool cut = a->activation == LS_ACTIVATION_RELU && !(values[i] > 0);
                y[o + i] = cut ? 0 : values[i];
                argmax[o + i] = positions[i];
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

/* Adds a row's part of the gradient of output o: dy times the window at that position. Only taps
 * inside the image count: rows [y0, y1) and columns [x0, x1) of the window. */
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
