/* SPDX-License-Identifier: MIT */
/*
 * Vector loops of residual networks. Part of vector_loops.c. Channels are the lanes: 16 of them go
 * down a tile of pixels, with each channel's values in registers, so every line of memory is read
 * once. Sums are added in double pixel by pixel, tile by tile.
 */
#pragma once

#include "common/kernel/cpu/vector_lanes.h"

enum { BN_TILE = 64 };

/* `count` is 16, except for the last channels of an odd number. */
LS_ALWAYS lanes channels_get(const float *from, int64_t count)
{
    return count < LS_LANES ? lanes_get_some(from, count, 0) : lanes_get(from);
}

LS_ALWAYS void channels_put(float *to, const lanes *value, int64_t count)
{
    if (count == LS_LANES)
        lanes_put(to, value);
    else
        memcpy(to, value, (size_t)count * sizeof *to);
}

/* Sums of 16 channels in double, in two registers: no processor has a vector of 16 doubles, so
 * compilers keep one in memory, where every addition waits for the store before it. */
typedef double half_wide __attribute__((vector_size(64)));
typedef struct channel_sums {
    half_wide low, high;
} channel_sums;

LS_ALWAYS channel_sums channels_widen(const lanes *value)
{
    const wide_lanes wide = __builtin_convertvector(*value, wide_lanes);
    channel_sums halves;
    memcpy(&halves.low, &wide, sizeof halves.low);
    memcpy(&halves.high, (const char *)&wide + sizeof halves.low, sizeof halves.high);
    return halves;
}

/* Prefetches two pages ahead: the processor's own prefetching ends with a page. */
LS_ALWAYS void channels_ahead(const float *at)
{
    __builtin_prefetch((const void *)((uintptr_t)at + 8192));
}

LS_ALWAYS void channels_add(double *sums, const channel_sums *part, int64_t count)
{
    double each[LS_LANES];
    memcpy(each, &part->low, sizeof part->low);
    memcpy(each + LS_LANES / 2, &part->high, sizeof part->high);
    for (int64_t i = 0; i < count; i++)
        sums[i] += each[i];
}

/* value > 0 ? chosen : 0 */
LS_ALWAYS lanes where_positive(const lanes *value, const lanes *chosen)
{
    return (lanes)((*value > (lanes){0}) & (lanes_mask)*chosen);
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
        for (; c + LS_LANES <= C; c += LS_LANES)                                                   \
            body(a, &(bn_block){p, end, c, LS_LANES, C}, __VA_ARGS__);                             \
        if (c < C)                                                                                 \
            body(a, &(bn_block){p, end, c, C - c, C}, __VA_ARGS__);                                \
    }

LS_ALWAYS void bn_sums_block(const ls_bn_sums_args *a, const bn_block *b, double *sums)
{
    const float *from = (const float *)a->x + b->c;
    channel_sums sum = {{0}, {0}}, squares = {{0}, {0}};
    for (int64_t p = b->p; p < b->end; p++) {
        channels_ahead(from + p * b->channels);
        const lanes x = channels_get(from + p * b->channels, b->count);
        const channel_sums wide = channels_widen(&x);
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
    lanes mean, rate, scale, bias;
} bn_channels;

LS_ALWAYS bn_channels bn_channels_get(const bn_block *b, const float *moments, const float *weight,
                                      const float *bias)
{
    bn_channels of = {.mean = channels_get(moments + b->c, b->count),
                      .rate = channels_get(moments + b->channels + b->c, b->count),
                      .bias = channels_get(bias + b->c, b->count)};
    of.scale = channels_get(weight + b->c, b->count) * of.rate;
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
        lanes y = (channels_get(x + at, b->count) - of.mean) * of.scale + of.bias;
        if (with_z)
            y += channels_get(z + at, b->count);
        if (relu)
            y = where_positive(&y, &y);
        channels_put(out + at, &y, b->count);
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

/* Which elements of dy count: all, those with positive y, or with a positive recomputed output. */
enum bn_mask { BN_ALL, BN_WHERE_Y, BN_WHERE_AGAIN };

LS_ALWAYS void bn_backward_sums_block(const ls_bn_backward_sums_args *a, const bn_block *b,
                                      enum bn_mask mask, bool with_dz, double *sums)
{
    const bn_channels of = bn_channels_get(b, a->moments, a->weight, a->bias);
    const float *from = a->x, *dy = a->dy, *y = a->y;
    float *dz = a->dz;
    channel_sums sum = {{0}, {0}}, with = {{0}, {0}};
    for (int64_t p = b->p; p < b->end; p++) {
        const int64_t at = p * b->channels + b->c;
        channels_ahead(from + at);
        channels_ahead(dy + at);
        if (mask == BN_WHERE_Y)
            channels_ahead(y + at);
        const lanes x = channels_get(from + at, b->count) - of.mean;
        lanes g = channels_get(dy + at, b->count), out = x * of.scale + of.bias;
        if (mask == BN_WHERE_Y)
            out = channels_get(y + at, b->count);
        if (mask != BN_ALL)
            g = where_positive(&out, &g);
        const lanes n = x * of.rate;
        const channel_sums wide = channels_widen(&g), beside = channels_widen(&n);
        sum.low += wide.low;
        sum.high += wide.high;
        with.low += wide.low * beside.low;
        with.high += wide.high * beside.high;
        if (with_dz)
            channels_put(dz + at, &g, b->count);
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
    float means[2][LS_LANES] = {{0}};
    for (int64_t i = 0; i < 2 * b->count; i++) {
        const int64_t row = i / b->count, c = i % b->count;
        means[row][c] = (float)(a->sums[row * b->channels + b->c + c] / (double)a->count);
    }
    const lanes mean_g = lanes_get(means[0]), mean_with = lanes_get(means[1]);
    const float *from = a->x, *dy = a->dy;
    float *to = a->dx;
    for (int64_t p = b->p; p < b->end; p++) {
        const int64_t at = p * b->channels + b->c;
        channels_ahead(from + at);
        channels_ahead(dy + at);
        const lanes x = channels_get(from + at, b->count) - of.mean;
        lanes g = channels_get(dy + at, b->count);
        if (relu) {
            const lanes out = x * of.scale + of.bias;
            g = where_positive(&out, &g);
        }
        const lanes dx = of.scale * (g - mean_g - x * of.rate * mean_with);
        channels_put(to + at, &dx, b->count);
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
