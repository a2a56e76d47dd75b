/* SPDX-License-Identifier: MIT */
/*
 * The products of Winograd's convolutions at one of the points: of a few tiles, which stay in the
 * second-level cache, with all weights, a block of sums in registers. Part of vector_winograd.h.
 */
#pragma once

#include "common/kernel/cpu/vector_lanes.h"

enum { AXIS = LS_WINOGRAD_AXIS, TILES = LS_WINOGRAD_TILES, POINT_LANES = AXIS * AXIS * LS_LANES };

/* At one point: tiles in[C / 16, TILES, ., 16] and out[O / 16, TILES, ., 16], where the first
 * `count` are used, and weights or sums [C, O]. */
typedef struct winograd_point {
    float *in, *out, *weights;
    int64_t channels, outputs, count;
} winograd_point;

LS_ALWAYS winograd_point point_of(const ls_vector_winograd *w, int64_t number, int64_t count)
{
    const int64_t C = w->shape.channels, O = w->shape.outputs;
    return (winograd_point){w->in + number * LS_LANES,
                            w->out + number * LS_LANES,
                            w->packed + number * C * O,
                            C,
                            O,
                            count};
}

/* Where channel o begins in tiles [C / 16, TILES, 6, 6, 16]. */
LS_ALWAYS int64_t tiles_of(int64_t o)
{
    return o / LS_LANES * TILES * POINT_LANES + o % LS_LANES;
}

/* Tiles `first` to first + rows, outputs o to o + LS_VEC vecs: out = in weights. */
LS_ALWAYS void tiles_block(const winograd_point *p, int64_t first, int64_t o, int rows, int vecs)
{
    const int64_t O = p->outputs;
    const float *weight = p->weights + o;
    float *out = p->out + tiles_of(o) + first * POINT_LANES;
    vec sum[WINOGRAD_SUMS];
    LS_WRITE_OUT
    for (int i = 0; i < rows * vecs; i++)
        sum[i] = (vec){0};
    for (int64_t c = 0; c < p->channels; c += LS_LANES) {
        const float *from = p->in + tiles_of(c) + first * POINT_LANES;
        LS_AS_LOOP
        for (int k = 0; k < LS_LANES; k++) {
            vec value[WINOGRAD_VECS];
            LS_WRITE_OUT
            for (int v = 0; v < vecs; v++)
                value[v] = vec_get(weight + v * LS_VEC);
            LS_WRITE_OUT
            for (int r = 0; r < rows; r++) {
                const vec tile = vec_all(from[r * POINT_LANES + k]);
                LS_WRITE_OUT
                for (int v = 0; v < vecs; v++)
                    sum[r * vecs + v] = vec_fma(tile, value[v], sum[r * vecs + v]);
            }
            weight += O;
        }
    }
    LS_WRITE_OUT
    for (int i = 0; i < rows * vecs; i++)
        vec_put(out + tiles_of(i % vecs * LS_VEC) + i / vecs * POINT_LANES, sum[i]);
}

/* Outputs from o on, as many as `vecs` divide: the weights pass by a few tiles, which stay in the
 * first-level cache. Some more tiles are computed. Returns the first output that is left. */
LS_ALWAYS int64_t tiles_product(const winograd_point *p, int64_t o, int vecs)
{
    const int64_t end = o + (p->outputs - o) / (vecs * LS_VEC) * (vecs * LS_VEC);
    for (int64_t first = 0; first < p->count; first += WINOGRAD_SUMS / vecs)
        for (int64_t at = o; at < end; at += vecs * LS_VEC)
            tiles_block(p, first, at, WINOGRAD_SUMS / vecs, vecs);
    return end;
}

static void point_product(const winograd_point *p)
{
    enum { V = WINOGRAD_VECS, HALF = V > 1 ? V / 2 : 1, QUARTER = V > 3 ? V / 4 : 1 };
    int64_t o = tiles_product(p, 0, V);
    if (HALF * LS_VEC >= LS_LANES && o < p->outputs)
        o = tiles_product(p, o, HALF);
    if (QUARTER * LS_VEC >= LS_LANES && o < p->outputs)
        tiles_product(p, o, QUARTER);
}

/* Channels c to c + rows, outputs o to o + LS_VEC vecs: sums += the sum over the tiles of in out.
 */
LS_ALWAYS void sums_product(const winograd_point *p, int64_t c, int64_t o, int rows, int vecs)
{
    const int64_t O = p->outputs;
    const float *in = p->in + tiles_of(c);
    const float *out = p->out + tiles_of(o);
    float *sums = p->weights + c * O + o;
    vec sum[GRADIENT_SUMS];
    LS_WRITE_OUT
    for (int i = 0; i < rows * vecs; i++)
        sum[i] = vec_get(sums + i / vecs * O + i % vecs * LS_VEC);
    for (int64_t t = 0; t < p->count; t++) {
        const float *from = in + t * POINT_LANES, *to = out + t * POINT_LANES;
        vec value[WINOGRAD_VECS];
        LS_WRITE_OUT
        for (int v = 0; v < vecs; v++)
            value[v] = vec_get(to + tiles_of(v * LS_VEC));
        LS_WRITE_OUT
        for (int r = 0; r < rows; r++) {
            const vec pixel = vec_all(from[r]);
            LS_WRITE_OUT
            for (int v = 0; v < vecs; v++)
                sum[r * vecs + v] = vec_fma(pixel, value[v], sum[r * vecs + v]);
        }
    }
    LS_WRITE_OUT
    for (int i = 0; i < rows * vecs; i++)
        vec_put(sums + i / vecs * O + i % vecs * LS_VEC, sum[i]);
}

/* Channels c to c + 15, as many at a time as the block of sums has rows. */
LS_ALWAYS void sums_of_channels(const winograd_point *p, int64_t c, int64_t o, int vecs)
{
    const int rows = GRADIENT_SUMS / vecs;
    int done = 0;
    LS_AS_LOOP
    for (; done + rows <= LS_LANES; done += rows)
        sums_product(p, c + done, o, rows, vecs);
    if (LS_LANES % rows)
        sums_product(p, c + done, o, LS_LANES % rows, vecs);
}

static void point_sums(const winograd_point *p, int64_t c)
{
    enum { V = WINOGRAD_VECS, HALF = V > 1 ? V / 2 : 1, QUARTER = V > 3 ? V / 4 : 1 };
    int64_t o = 0;
    for (; o + V * LS_VEC <= p->outputs; o += V * LS_VEC)
        sums_of_channels(p, c, o, V);
    for (; HALF * LS_VEC >= LS_LANES && o + HALF * LS_VEC <= p->outputs; o += HALF * LS_VEC)
        sums_of_channels(p, c, o, HALF);
    for (; QUARTER * LS_VEC >= LS_LANES && o < p->outputs; o += QUARTER * LS_VEC)
        sums_of_channels(p, c, o, QUARTER);
}
