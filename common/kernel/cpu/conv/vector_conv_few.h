/* SPDX-License-Identifier: MIT */
/*
 * Vector loop of the weights' gradient of a convolution over few channels. Part of vector_loops.c.
 * A unit is one row of the window by 16 outputs. Its elements stay in registers, a block at a time,
 * over all positions of a sample, and are then added to the sums of earlier samples. So each
 * element is a sum with one term per sample, whichever thread computes the unit.
 */
#pragma once

#include "common/kernel/cpu/vector_lanes.h"

/* A sample with its padding. */
static void pad_sample(const ls_vector_conv_few *f, int64_t row)
{
    const ls_window *w = &f->arguments.shape.window;
    const int64_t C = f->arguments.shape.channels, line = w->in_width * C;
    const float *x = (const float *)f->arguments.x + row * w->in_height * line;
    const int64_t lines = f->height - w->top < w->in_height ? f->height - w->top : w->in_height;
    const int64_t columns = f->width - w->left < w->in_width ? f->width - w->left : w->in_width;
    for (int64_t y = 0; y < lines; y++)
        memcpy(f->image + ((y + w->top) * f->width + w->left) * C, x + y * line,
               (size_t)(columns * C) * sizeof *x);
}

/* One sample's part of `taps` taps from `first` on and FEW_VECS vectors of outputs, which begin
 * with dy's; sums [run + 1, 16]. With the bias's, if so many taps are the last. */
LS_ALWAYS void few_block(const ls_vector_conv_few *f, const float *image, const float *dy, int taps,
                         bool bias, float *sums)
{
    const ls_conv_shape *s = &f->arguments.shape;
    const ls_window *w = &s->window;
    vec sum[FEW_TAPS + 1][FEW_VECS];
    LS_WRITE_OUT
    for (int t = 0; t <= taps; t++)
        LS_WRITE_OUT
    for (int v = 0; v < FEW_VECS; v++)
        sum[t][v] = (vec){0};
    for (int64_t y = 0; y < w->out_height; y++) {
        const float *from = image + y * w->stride_y * f->width * s->channels;
        for (int64_t x = 0; x < w->out_width; x++) {
            vec value[FEW_VECS];
            LS_WRITE_OUT
            for (int v = 0; v < FEW_VECS; v++)
                value[v] = vec_get(dy + v * LS_VEC);
            LS_WRITE_OUT
            for (int t = 0; t < taps; t++) {
                const vec tap = vec_all(from[t]);
                LS_WRITE_OUT
                for (int v = 0; v < FEW_VECS; v++)
                    sum[t][v] = vec_fma(tap, value[v], sum[t][v]);
            }
            LS_WRITE_OUT
            for (int v = 0; v < FEW_VECS && bias; v++)
                sum[taps][v] += value[v];
            from += w->stride_x * s->channels;
            dy += s->outputs;
        }
    }
    LS_WRITE_OUT
    for (int t = 0; t < taps + bias; t++)
        LS_WRITE_OUT
    for (int v = 0; v < FEW_VECS; v++) {
        float *to = sums + t * LS_LANES + v * LS_VEC;
        vec_put(to, sum[t][v] + vec_get(to));
    }
}

/* One unit and one sample. */
LS_ALWAYS void few_unit(const ls_vector_conv_few *f, const float *image, const float *dy, int run,
                        float *sums)
{
    const int last = (run - 1) % FEW_TAPS + 1;
    for (int v = 0; v < LS_LANES; v += FEW_VECS * LS_VEC) {
        int t = 0;
        LS_AS_LOOP
        for (; t + FEW_TAPS < run; t += FEW_TAPS)
            few_block(f, image + t, dy + v, FEW_TAPS, false, sums + t * LS_LANES + v);
        few_block(f, image + t, dy + v, last, true, sums + t * LS_LANES + v);
    }
}

/* Stores the unit's elements. */
static void put_unit(const ls_vector_conv_few *f, int64_t ky, int64_t first, const float *sums)
{
    const ls_conv_shape *s = &f->arguments.shape;
    const ls_window *w = &s->window;
    const int64_t C = s->channels, run = w->width * C;
    float *dweight = f->arguments.dweight, *dbias = f->arguments.dbias;
    for (int64_t o = 0; o < LS_LANES; o++) {
        for (int64_t t = 0; t < run; t++)
            dweight[(((first + o) * C + t % C) * w->height + ky) * w->width + t / C] =
                sums[t * LS_LANES + o];
        if (dbias && ky == 0)
            dbias[first + o] = sums[run * LS_LANES + o];
    }
}

static void conv_few_weights(const ls_vector_conv_few *f, int64_t first, int64_t last)
{
    const ls_conv_shape *s = &f->arguments.shape;
    const ls_window *w = &s->window;
    const int64_t blocks = s->outputs / LS_LANES, run = w->width * s->channels;
    const int64_t positions = w->out_height * w->out_width * s->outputs;
    const size_t unit = (size_t)(run + 1) * LS_LANES;
    memset(f->image, 0, (size_t)(f->height * f->width * s->channels) * sizeof *f->image);
    memset(f->sums + (size_t)first * unit, 0, (size_t)(last - first) * unit * sizeof *f->sums);
    for (int64_t r = 0; r < s->rows; r++) {
        pad_sample(f, r);
        for (int64_t u = first; u < last; u++) {
            const float *image = f->image + u / blocks * f->width * s->channels;
            const float *dy =
                (const float *)f->arguments.dy + r * positions + u % blocks * LS_LANES;
            float *sums = f->sums + (size_t)u * unit;
            if (run == LS_VECTOR_FEW)
                few_unit(f, image, dy, LS_VECTOR_FEW, sums);
            else
                few_unit(f, image, dy, LS_VECTOR_LEAST, sums);
        }
    }
    for (int64_t u = first; u < last; u++)
        put_unit(f, u / blocks, u % blocks * LS_LANES, f->sums + (size_t)u * unit);
}
