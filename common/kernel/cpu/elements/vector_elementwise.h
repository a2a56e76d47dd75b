/* SPDX-License-Identifier: MIT */
/*
 * Elementwise vector loops: activations, sums of two arrays, batches, optimizers. Part of
 * vector_loops.c. Written for the compiler's vectoriser; an element's result does not depend on its
 * position, since nothing is contracted or reassociated.
 */
#pragma once

#include "common/base/bf16_inline.h"
#include "common/base/random/order_inline.h"
#include "common/kernel/cpu/vector_lanes.h"

static void relu(const float *x, float *y, int64_t count)
{
    LS_INDEPENDENT
    for (int64_t i = 0; i < count; i++)
        y[i] = ls_relu(x[i]);
}

static void mask(const float *y, const float *dy, float *dx, int64_t count)
{
    LS_INDEPENDENT
    for (int64_t i = 0; i < count; i++) {
        float gradient = dy[i]; /* read in any case: a select, not a branch */
        dx[i] = ls_relu_mask(y[i], gradient);
    }
}

static void add(const float *a, const float *b, float *y, int64_t count)
{
    LS_INDEPENDENT
    for (int64_t i = 0; i < count; i++)
        y[i] = a[i] + b[i];
}

static void widen(const uint16_t *x, float *y, int64_t count)
{
    LS_INDEPENDENT
    for (int64_t i = 0; i < count; i++)
        y[i] = ls_float_of_bf16(x[i]);
}

static void narrow(const float *x, uint16_t *y, int64_t count)
{
    LS_INDEPENDENT
    for (int64_t i = 0; i < count; i++)
        y[i] = ls_bf16_of_float(x[i]);
}

static void fill(float *y, float value, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = value;
}

static void scale(float *y, float factor, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = factor * y[i];
}

static void combine(const ls_combine_args *s, int64_t first, int64_t last)
{
    const float a = (float)s->a, b = (float)s->b, divisor = (float)s->divisor;
    const float *x = s->x, *y = s->y;
    float *out = s->out;
    if (y) {
        LS_INDEPENDENT
        for (int64_t i = first; i < last; i++)
            out[i] = (a * x[i] + b * y[i]) / divisor;
    } else {
        LS_INDEPENDENT
        for (int64_t i = first; i < last; i++)
            out[i] = a * x[i] / divisor;
    }
}

static void add_bias(float *restrict y, const float *restrict bias, int64_t rows, int64_t columns,
                     bool with_relu)
{
    for (int64_t r = 0; r < rows; r++, y += columns) {
        if (bias && with_relu)
            for (int64_t c = 0; c < columns; c++) {
                float sum = y[c] + bias[c];
                y[c] = ls_relu(sum);
            }
        else if (bias)
            for (int64_t c = 0; c < columns; c++)
                y[c] += bias[c];
        else if (with_relu)
            relu(y, y, columns);
    }
}

static void polynomial(const float *restrict x, float *restrict y, int64_t rows)
{
    for (int64_t r = 0; r < rows; r++) {
        y[3 * r] = x[r] * x[r];
        y[3 * r + 1] = x[r];
        y[3 * r + 2] = 1;
    }
}

static void indices(const ls_order_epoch *epoch, uint64_t first, uint64_t count, uint32_t *out)
{
    ls_order_epoch_fill(epoch, first, count, out);
}

static void unit_row(const uint8_t *restrict from, float *restrict to, int64_t width)
{
    for (int64_t i = 0; i < width; i++)
        to[i] = ls_unit_of_byte(from[i]);
}

/* Prefetches the start of a row that will be read soon; the processor prefetches the rest. */
static void prefetch_row(const uint8_t *row, int64_t bytes)
{
    for (int64_t line = 0; line < bytes && line < 2048; line += 64)
        __builtin_prefetch(row + line);
}

static void gather_bytes(const ls_gather_args *g, int64_t first, int64_t last)
{
    enum { AHEAD = 4 }; /* rows between asking for one and reading it */
    const uint8_t *source = g->source;
    for (int64_t r = first; r < first + AHEAD && r < last; r++)
        prefetch_row(source + (size_t)g->indices[r] * (size_t)g->width, g->width);
    for (int64_t r = first; r < last; r++) {
        if (r + AHEAD < last)
            prefetch_row(source + (size_t)g->indices[r + AHEAD] * (size_t)g->width, g->width);
        unit_row(source + (size_t)g->indices[r] * (size_t)g->width, (float *)g->out + r * g->width,
                 g->width);
    }
}

static void gather_one_hot(const ls_gather_args *g, int64_t first, int64_t last)
{
    enum { VALUES = 256 };
    for (int64_t r = first; r < last; r++) {
        const uint8_t *from = (const uint8_t *)g->source + (size_t)g->indices[r] * (size_t)g->width;
        float *to = (float *)g->out + r * g->width * VALUES;
        memset(to, 0, (size_t)(g->width * VALUES) * sizeof *to);
        for (int64_t i = 0; i < g->width; i++)
            to[i * VALUES + from[i]] = 1;
    }
}

static void gather(const ls_gather_args *g, int64_t first, int64_t last)
{
    if (g->type == LS_GATHER_ONE_HOT) {
        gather_one_hot(g, first, last);
        return;
    }
    if (g->type == LS_GATHER_BYTES_TO_UNIT) {
        gather_bytes(g, first, last);
        return;
    }
    /* float to float and int32 to int32 are both copies of four bytes. */
    const uint32_t *restrict source = g->source, *restrict from = g->indices;
    uint32_t *restrict out = g->out;
    if (g->width == 1)
        for (int64_t r = first; r < last; r++)
            out[r] = source[from[r]];
    else
        for (int64_t r = first; r < last; r++)
            memcpy(out + r * g->width, source + (size_t)from[r] * (size_t)g->width,
                   (size_t)g->width * sizeof *out);
}

static void step_sgd(const ls_vector_update *u, int64_t first, int64_t last)
{
    const ls_update_scalars s = u->scalars;
    float *restrict w = u->weight;
    const float *restrict g = u->gradient;
    for (int64_t i = first; i < last; i++)
        w[i] = ls_sgd_weight(&s, w[i], s.clip * g[i]);
}

static void step_momentum(const ls_vector_update *u, int64_t first, int64_t last)
{
    const ls_update_scalars s = u->scalars;
    float *restrict w = u->weight, *restrict v = u->first;
    const float *restrict g = u->gradient;
    for (int64_t i = first; i < last; i++) {
        v[i] = ls_momentum_slot(&s, v[i], s.clip * g[i]);
        w[i] = ls_sgd_weight(&s, w[i], v[i]);
    }
}

static void step_adam(const ls_vector_update *u, int64_t first, int64_t last)
{
    const ls_update_scalars s = u->scalars;
    float *restrict w = u->weight, *restrict m = u->first, *restrict v = u->second;
    const float *restrict g = u->gradient;
    for (int64_t i = first; i < last; i++) {
        const float gradient = s.clip * g[i];
        m[i] = ls_adam_first(&s, m[i], gradient);
        v[i] = ls_square_slot(&s, v[i], gradient);
        w[i] = ls_adam_weight(&s, w[i], m[i], v[i]);
    }
}

static void step_adamw(const ls_vector_update *u, int64_t first, int64_t last)
{
    const ls_update_scalars s = u->scalars;
    float *restrict w = u->weight, *restrict m = u->first, *restrict v = u->second;
    const float *restrict g = u->gradient;
    for (int64_t i = first; i < last; i++) {
        const float gradient = s.clip * g[i];
        m[i] = ls_adam_first(&s, m[i], gradient);
        v[i] = ls_square_slot(&s, v[i], gradient);
        w[i] = ls_adamw_weight(&s, w[i], m[i], v[i]);
    }
}

static void step_rmsprop(const ls_vector_update *u, int64_t first, int64_t last)
{
    const ls_update_scalars s = u->scalars;
    float *restrict w = u->weight, *restrict v = u->first;
    const float *restrict g = u->gradient;
    for (int64_t i = first; i < last; i++) {
        const float gradient = s.clip * g[i];
        v[i] = ls_square_slot(&s, v[i], gradient);
        w[i] = ls_rmsprop_weight(&s, w[i], gradient, v[i]);
    }
}

static void optimizer(const ls_vector_update *u, int64_t first, int64_t last)
{
    static void (*const step[])(const ls_vector_update *, int64_t, int64_t) = {
        [LS_OPTIMIZER_SGD] = step_sgd,         [LS_OPTIMIZER_MOMENTUM] = step_momentum,
        [LS_OPTIMIZER_ADAM] = step_adam,       [LS_OPTIMIZER_ADAMW] = step_adamw,
        [LS_OPTIMIZER_RMSPROP] = step_rmsprop,
    };
    step[u->kind](u, first, last);
}
