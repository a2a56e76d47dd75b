/* SPDX-License-Identifier: MIT */
/*
 * The products of Winograd's convolutions at one of the points: of a few tiles, which stay in the
 * second-level cache, with all weights, a block of sums in registers. Part of vector_winograd.h.
 */
#pragma once

#include "common/kernel/cpu/vector_lanes.h"

enum { AXIS = LS_WINOGRAD_AXIS, TILES = LS_WINOGRAD_TILES, POINT_LANES = AXIS * AXIS * LS_LANES };

/* At one point: tiles in[C / 16, TILES, ., 16] and out[O / 16, TILES, ., 16], of which `count` are
 * used, and weights or sums [C, O]. */
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

/* Outputs o to o + 16 blocks: out = in weights, `rows` tiles at a time; some more are computed. */
LS_ALWAYS void tiles_product(const winograd_point *p, int64_t o, int rows, int blocks)
{
    const int64_t O = p->outputs;
    float *out = p->out + o * TILES * AXIS * AXIS;
    for (int64_t first = 0; first < p->count; first += rows) {
        const float *weight = p->weights + o;
        lanes sum[24];
        LS_WRITE_OUT
        for (int i = 0; i < rows * blocks; i++)
            sum[i] = (lanes){0};
        for (int64_t c = 0; c < p->channels; c += LS_LANES) {
            const float *from = p->in + (c / LS_LANES * TILES + first) * POINT_LANES;
            for (int k = 0; k < LS_LANES; k++) {
                LS_WRITE_OUT
                for (int b = 0; b < blocks; b++) {
                    const lanes value = lanes_get(weight + b * LS_LANES);
                    LS_WRITE_OUT
                    for (int r = 0; r < rows; r++)
                        sum[r * blocks + b] = lanes_fma(lanes_all(from[r * POINT_LANES + k]), value,
                                                        sum[r * blocks + b]);
                }
                weight += O;
            }
        }
        LS_WRITE_OUT
        for (int i = 0; i < rows * blocks; i++)
            lanes_put(out + (i % blocks * TILES + first + i / blocks) * POINT_LANES, &sum[i]);
    }
}

static void point_product(const winograd_point *p)
{
    int64_t o = 0;
    for (; o + 4 * LS_LANES <= p->outputs; o += 4 * LS_LANES)
        tiles_product(p, o, 6, 4);
    for (; o + 2 * LS_LANES <= p->outputs; o += 2 * LS_LANES)
        tiles_product(p, o, 12, 2);
    for (; o < p->outputs; o += LS_LANES)
        tiles_product(p, o, 24, 1);
}

/* Channels c to c + 15, outputs o to o + 16 blocks: sums += the sum over the tiles of in out,
 * `rows` channels at a time. */
LS_ALWAYS void sums_product(const winograd_point *p, int64_t c, int64_t o, int rows, int blocks)
{
    const int64_t O = p->outputs;
    const float *in = p->in + c * TILES * AXIS * AXIS, *out = p->out + o * TILES * AXIS * AXIS;
    for (int first = 0; first < LS_LANES; first += rows) {
        float *sums = p->weights + (c + first) * O + o;
        lanes sum[16];
        LS_WRITE_OUT
        for (int i = 0; i < rows * blocks; i++)
            sum[i] = lanes_get(sums + i / blocks * O + i % blocks * LS_LANES);
        for (int64_t t = 0; t < p->count; t++) {
            const float *from = in + t * POINT_LANES + first, *to = out + t * POINT_LANES;
            LS_WRITE_OUT
            for (int b = 0; b < blocks; b++) {
                const lanes value = lanes_get(to + b * TILES * POINT_LANES);
                LS_WRITE_OUT
                for (int r = 0; r < rows; r++)
                    sum[r * blocks + b] = lanes_fma(lanes_all(from[r]), value, sum[r * blocks + b]);
            }
        }
        LS_WRITE_OUT
        for (int i = 0; i < rows * blocks; i++)
            lanes_put(sums + i / blocks * O + i % blocks * LS_LANES, &sum[i]);
    }
}

static void point_sums(const winograd_point *p, int64_t c)
{
    int64_t o = 0;
    for (; o + 4 * LS_LANES <= p->outputs; o += 4 * LS_LANES)
        sums_product(p, c, o, 4, 4);
    for (; o + 2 * LS_LANES <= p->outputs; o += 2 * LS_LANES)
        sums_product(p, c, o, 8, 2);
    for (; o < p->outputs; o += LS_LANES)
        sums_product(p, c, o, 16, 1);
}
