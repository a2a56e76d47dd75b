/* SPDX-License-Identifier: MIT */
/*
 * Vector loops of residual networks. Part of vector_loops.c. A vector of channels goes down a
 * tile of pixels, with each channel's values in registers; the tile stays in the cache. Sums are
 * added in double pixel by pixel, tile by tile.
 */
#pragma once

#include "common/kernel/cpu/vector_lanes.h"

enum { BN_TILE = 64 };

/* Prefetches two pages ahead: the processor's own prefetching ends with a page. */
LS_ALWAYS void channels_ahead(const float *at)
{
    __builtin_prefetch((const void *)((uintptr_t)at + 8192));
}

LS_ALWAYS void channels_add(double *sums, const vec_wide *part, int64_t count)
{
    double each[LS_VEC];
    memcpy(each, &part->low, sizeof part->low);
    memcpy(each + LS_VEC / 2, &part->high, sizeof part->high);
    for (int64_t i = 0; i < count; i++)
        sums[i] += each[i];
}

/* Pixels [p, end) of a tile and channels [c, c + count) of each. */
typedef struct bn_block {
    int64_t p, end, c, count, channels;
} bn_block;

/* Calls body(arguments, block, ...) for every block of pixels [first, last). */
#define BN_EACH_BLOCK(a, first, last, body, ...)                                                   \
    for (int64_t p = first; p < last; p += BN_TILE) {                                              \
        const int64_t end = p + BN_TILE < last ? p + BN_TILE : last, C = (a)->channels;            \
        int64_t c = 0;                                                                             \
        for (; c + LS_VEC <= C; c += LS_VEC)                                                       \
            body(a, &(bn_block){p, end, c, LS_VEC, C}, __VA_ARGS__);                               \
        if (c < C)                                                                                 \
            body(a, &(bn_block){p, end, c, C - c, C}, __VA_ARGS__);                                \
    }

LS_ALWAYS void bn_sums_block(const ls_bn_sums_args *a, const bn_block *b, double *sums)
{
    const float *from = (const float *)a->x + b->c;
    vec_wide sum = {{0}, {0}}, squares = {{0}, {0}};
    for (int64_t p = b->p; p < b->end; p++) {
        channels_ahead(from + p * b->channels);
        const vec x = vec_get_part(from + p * b->channels, b->count);
        const vec_wide wide = vec_widen(x);
        sum.low += wide.low;
        sum.high += wide.high;
        squares.low += wide.low * wide.low;
        squares.high += wide.high * wide.high;
    }
    channels_add(sums + b->c, &sum, b->count);
    channels_add(sums + b->channels + b->c, &squares, b->count);
}

static void bn_sums(const ls_bn_sums_args *a, int64_t first, int64_t last, double *sums)
{
    BN_EACH_BLOCK(a, first, last, bn_sums_block, sums)
}

/* Values of the block's channels: mean, 1 / deviation, weight / deviation, bias. */
typedef struct bn_channels {
    vec mean, rate, scale, bias;
} bn_channels;

LS_ALWAYS bn_channels bn_channels_get(const bn_block *b, const float *moments, const float *weight,
                                      const float *bias)
{
    bn_channels of = {.mean = vec_get_part(moments + b->c, b->count),
                      .rate = vec_get_part(moments + b->channels + b->c, b->count),
                      .bias = vec_get_part(bias + b->c, b->count)};
    of.scale = vec_get_part(weight + b->c, b->count) * of.rate;
    return of;
}

LS_ALWAYS void bn_forward_block(const ls_bn_forward_args *a, const bn_block *b, bool with_z,
                                bool relu)
{
    const bn_channels of = bn_channels_get(b, a->moments, a->weight, a->bias);
    const float *x = a->x, *z = a->z;
    float *out = a->y;
    for (int64_t p = b->p; p < b->end; p++) {
        const int64_t at = p * b->channels + b->c;
        channels_ahead(x + at);
        if (with_z)
            channels_ahead(z + at);
        vec y = (vec_get_part(x + at, b->count) - of.mean) * of.scale + of.bias;
        if (with_z)
            y += vec_get_part(z + at, b->count);
        if (relu)
            y = vec_positive(y);
        vec_put_part(out + at, y, b->count);
    }
}

static void bn_forward(const ls_bn_forward_args *a, int64_t first, int64_t last)
{
    const bool relu = a->activation == LS_ACTIVATION_RELU;
    if (a->z && relu) {
        BN_EACH_BLOCK(a, first, last, bn_forward_block, true, true)
    } else if (relu) {
        BN_EACH_BLOCK(a, first, last, bn_forward_block, false, true)
    } else {
        BN_EACH_BLOCK(a, first, last, bn_forward_block, a->z != NULL, false)
    }
}

/* Which elements of dy count: all, elements with positive y, or elements with a positive recomputed
 * output. */
enum bn_mask { BN_ALL, BN_WHERE_Y, BN_WHERE_AGAIN };

LS_ALWAYS void bn_backward_sums_block(const ls_bn_backward_sums_args *a, const bn_block *b,
                                      enum bn_mask mask, bool with_dz, double *sums)
{
    const bn_channels of = bn_channels_get(b, a->moments, a->weight, a->bias);
    const float *from = a->x, *dy = a->dy, *y = a->y;
    float *dz = a->dz;
    vec_wide sum = {{0}, {0}}, with = {{0}, {0}};
    for (int64_t p = b->p; p < b->end; p++) {
        const int64_t at = p * b->channels + b->c;
        channels_ahead(from + at);
        channels_ahead(dy + at);
        if (mask == BN_WHERE_Y)
            channels_ahead(y + at);
        const vec x = vec_get_part(from + at, b->count) - of.mean;
        vec g = vec_get_part(dy + at, b->count), out = x * of.scale + of.bias;
        if (mask == BN_WHERE_Y)
            out = vec_get_part(y + at, b->count);
        if (mask != BN_ALL)
            g = vec_where_positive(out, g);
        const vec n = x * of.rate;
        const vec_wide wide = vec_widen(g), normal = vec_widen(n);
        sum.low += wide.low;
        sum.high += wide.high;
        with.low += wide.low * normal.low;
        with.high += wide.high * normal.high;
        if (with_dz)
            vec_put_part(dz + at, g, b->count);
    }
    channels_add(sums + b->c, &sum, b->count);
    channels_add(sums + b->channels + b->c, &with, b->count);
}

static void bn_backward_sums(const ls_bn_backward_sums_args *a, int64_t first, int64_t last,
                             double *sums)
{
    const enum bn_mask mask = a->activation != LS_ACTIVATION_RELU ? BN_ALL
                              : a->y                              ? BN_WHERE_Y
                                                                  : BN_WHERE_AGAIN;
    if (mask == BN_WHERE_Y && a->dz) {
        BN_EACH_BLOCK(a, first, last, bn_backward_sums_block, BN_WHERE_Y, true, sums)
    } else if (mask == BN_WHERE_AGAIN && !a->dz) {
        BN_EACH_BLOCK(a, first, last, bn_backward_sums_block, BN_WHERE_AGAIN, false, sums)
    } else {
        BN_EACH_BLOCK(a, first, last, bn_backward_sums_block, mask, a->dz != NULL, sums)
    }
}

LS_ALWAYS void bn_backward_block(const ls_bn_backward_args *a, const bn_block *b, bool relu)
{
    const bn_channels of = bn_channels_get(b, a->moments, a->weight, a->bias);
    float means[2][LS_VEC] = {{0}};
    for (int64_t i = 0; i < 2 * b->count; i++) {
        const int64_t row = i / b->count, c = i % b->count;
        means[row][c] = (float)(a->sums[row * b->channels + b->c + c] / (double)a->count);
    }
    const vec mean_g = vec_get(means[0]), mean_with = vec_get(means[1]);
    const float *from = a->x, *dy = a->dy;
    float *to = a->dx;
    for (int64_t p = b->p; p < b->end; p++) {
        const int64_t at = p * b->channels + b->c;
        channels_ahead(from + at);
        channels_ahead(dy + at);
        const vec x = vec_get_part(from + at, b->count) - of.mean;
        vec g = vec_get_part(dy + at, b->count);
        if (relu) {
            const vec out = x * of.scale + of.bias;
            g = vec_where_positive(out, g);
        }
        const vec dx = of.scale * (g - mean_g - x * of.rate * mean_with);
        vec_put_part(to + at, dx, b->count);
    }
}

static void bn_backward(const ls_bn_backward_args *a, int64_t first, int64_t last)
{
    if (a->activation == LS_ACTIVATION_RELU) {
        BN_EACH_BLOCK(a, first, last, bn_backward_block, true)
    } else {
        BN_EACH_BLOCK(a, first, last, bn_backward_block, false)
    }
}

/* Rows of both directions; sums in the order of the pixels. */
static void mean_pool(const ls_mean_pool_forward_args *a, int64_t first, int64_t last)
{
    const int64_t C = a->channels;
    for (int64_t r = first; r < last; r++) {
        const float *restrict x = (const float *)a->x + r * a->pixels * C;
        float *restrict y = (float *)a->y + r * C;
        for (int64_t c = 0; c < C; c++)
            y[c] = x[c];
        for (int64_t p = 1; p < a->pixels; p++)
            for (int64_t c = 0; c < C; c++)
                y[c] += x[p * C + c];
        for (int64_t c = 0; c < C; c++)
            y[c] /= (float)a->pixels;
    }
}

static void mean_pool_back(const ls_mean_pool_backward_args *a, int64_t first, int64_t last)
{
    const int64_t C = a->channels;
    for (int64_t r = first; r < last; r++) {
        const float *restrict dy = (const float *)a->dy + r * C;
        float *restrict dx = (float *)a->dx + r * a->pixels * C;
        for (int64_t c = 0; c < C; c++)
            dx[c] = dy[c] / (float)a->pixels;
        for (int64_t p = 1; p < a->pixels; p++)
            memcpy(dx + p * C, dx, (size_t)C * sizeof *dx);
    }
}

static void moving_average(const float *restrict value, float rate, float *restrict average,
                           int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        average[i] += rate * (value[i] - average[i]);
}
