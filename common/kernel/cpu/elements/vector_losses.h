/* SPDX-License-Identifier: MIT */
/*
 * Vector loops of the losses. Part of vector_loops.c. Softmax cross-entropy, a tile of rows at a
 * time: shift each row by its largest element; compute the exponential of the whole tile as one run
 * of elements (so rows of 10 have no remainders); sum each row in 16 lanes; scale. The logarithms
 * of a tile's sums are computed together.
 */
#pragma once

#include "common/kernel/cpu/vector_lanes.h"

#include <math.h>

static void exponential(const float *x, float *y, int64_t count)
{
    LS_INDEPENDENT
    for (int64_t i = 0; i < count; i++)
        y[i] = ls_exp_element(x[i]);
}

static void logarithm(const float *x, double *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = ls_log_element(x[i]);
}

/* `ragged`: -1 is a label, too. */
static int64_t bad_label(const int32_t *labels, int64_t rows, int64_t classes, bool ragged)
{
    const uint32_t more = ragged;
    uint32_t limit = classes > INT32_MAX ? (uint32_t)INT32_MAX + 1 : (uint32_t)classes, bad = 0;
    limit += more;
    for (int64_t r = 0; r < rows; r++)
        bad |= (uint32_t)((uint32_t)labels[r] + more >= limit);
    for (int64_t r = 0; bad && r < rows; r++)
        if ((uint32_t)labels[r] + more >= limit)
            return r;
    return -1;
}

static inline float row_max(const float *z, int64_t count)
{
    float largest = z[0];
    int64_t i = 0;
    if (count >= LS_LANES) {
        lanes most = lanes_get(z);
        for (i = LS_LANES; i + LS_LANES <= count; i += LS_LANES) {
            const lanes next = lanes_get(z + i);
            lanes_max(&most, &next);
        }
        largest = lanes_largest(&most);
    }
    for (; i < count; i++)
        largest = z[i] > largest ? z[i] : largest;
    return largest;
}

static inline float row_sum(const float *x, int64_t count)
{
    lanes sum = {{{0}}};
    for (int64_t i = 0; i < count; i += LS_LANES) {
        const lanes next =
            i + LS_LANES <= count ? lanes_get(x + i) : lanes_get_some(x + i, count - i, 0);
        lanes_add(&sum, &next);
    }
    return lanes_sum(&sum);
}

/* One tile; returns the sum of its rows' losses added to `total`, one after the other. */
static double softmax_tile(const ls_vector_softmax *s, int64_t first, int64_t rows, double total)
{
    const int64_t classes = s->classes;
    const float *z = s->logits + first * classes;
    const int32_t *labels = s->labels + first;
    float *e = s->dlogits ? s->dlogits + first * classes : s->tile;
    float at_label[LS_VECTOR_TILE_ROWS], sum[LS_VECTOR_TILE_ROWS];
    double logarithms[LS_VECTOR_TILE_ROWS];
    for (int64_t r = 0; r < rows; r++) {
        const float *restrict from = z + r * classes;
        float *restrict to = e + r * classes;
        float largest = row_max(from, classes);
        for (int64_t c = 0; c < classes; c++)
            to[c] = from[c] - largest;
        at_label[r] = labels[r] < 0 ? 0 : to[labels[r]];
    }
    exponential(e, e, rows * classes);
    for (int64_t r = 0; r < rows; r++)
        sum[r] = row_sum(e + r * classes, classes);
    logarithm(sum, logarithms, rows);
    for (int64_t r = 0; r < rows; r++)
        total += labels[r] < 0 ? 0 : logarithms[r] - (double)at_label[r];
    if (s->dlogits)
        for (int64_t r = 0; r < rows; r++) {
            float *to = e + r * classes, factor = labels[r] < 0 ? 0 : s->scale / sum[r];
            for (int64_t c = 0; c < classes; c++)
                to[c] *= factor;
            if (labels[r] >= 0)
                to[labels[r]] -= s->scale;
        }
    return total;
}

/* Up to so many classes, 16 rows are worked on at a time, one in each lane. */
enum { NARROW_CLASSES = 32 };

/* The loss of up to 16 rows of a few classes; as softmax_tile, but transposed: no row has ends. */
static double softmax_narrow(const ls_vector_softmax *s, int64_t first, int64_t rows, double total)
{
    const int64_t classes = s->classes;
    const float *z = s->logits + first * classes;
    const int32_t *labels = s->labels + first;
    float padded[NARROW_CLASSES * LS_LANES], e[NARROW_CLASSES * LS_LANES];
    float at_label[LS_LANES], sums[LS_LANES];
    double logarithms[LS_LANES];
    if (rows < LS_LANES) {
        memset(padded, 0, sizeof padded);
        memcpy(padded, z, (size_t)(rows * classes) * sizeof *z);
        z = padded;
    }
    int64_t c = 0;
    do { /* at least one class: a label has been found in range */
        for (int64_t r = 0; r < LS_LANES; r++)
            e[c * LS_LANES + r] = z[r * classes + c];
    } while (++c < classes);
    for (int v = 0; v < LS_LANES; v += LS_VEC) {
        vec largest = vec_get(e + v);
        for (c = 1; c < classes; c++) {
            const vec next = vec_get(e + c * LS_LANES + v);
            largest = vec_choose(vec_greater(next, largest), next, largest);
        }
        for (c = 0; c < classes; c++)
            vec_put(e + c * LS_LANES + v, vec_get(e + c * LS_LANES + v) - largest);
    }
    for (int64_t r = 0; r < rows; r++)
        at_label[r] = labels[r] < 0 ? 0 : e[labels[r] * LS_LANES + r];
    exponential(e, e, classes * LS_LANES);
    for (int v = 0; v < LS_LANES; v += LS_VEC) {
        vec sum = {0};
        for (c = 0; c < classes; c++)
            sum += vec_get(e + c * LS_LANES + v);
        vec_put(sums + v, sum);
    }
    logarithm(sums, logarithms, LS_LANES);
    for (int64_t r = 0; r < rows; r++)
        total += labels[r] < 0 ? 0 : logarithms[r] - (double)at_label[r];
    if (!s->dlogits)
        return total;
    for (int v = 0; v < LS_LANES; v += LS_VEC) {
        const vec factor = vec_all(s->scale) / vec_get(sums + v);
        for (c = 0; c < classes; c++)
            vec_put(e + c * LS_LANES + v, vec_get(e + c * LS_LANES + v) * factor);
    }
    for (int64_t r = 0; r < rows; r++)
        if (labels[r] >= 0)
            e[labels[r] * LS_LANES + r] -= s->scale;
    float *to = s->dlogits + first * classes;
    for (int64_t r = 0; r < rows; r++)
        for (c = 0; c < classes; c++)
            to[r * classes + c] = labels[r] < 0 ? 0 : e[c * LS_LANES + r];
    return total;
}

static double softmax(const ls_vector_softmax *s)
{
    const bool narrow = s->classes <= NARROW_CLASSES;
    const int64_t step = narrow ? LS_LANES : ls_vector_tile_rows(s->classes);
    double total = 0;
    for (int64_t first = 0; first < s->rows; first += step) {
        int64_t rows = s->rows - first < step ? s->rows - first : step;
        total =
            narrow ? softmax_narrow(s, first, rows, total) : softmax_tile(s, first, rows, total);
    }
    return total;
}

/* Rows of softmax_part. `own`: memory of a row, where the terms are not wanted. */
static void softmax_part(const ls_softmax_part_args *s, int64_t first, int64_t last, float *own)
{
    const int64_t classes = s->classes;
    for (int64_t r = first; r < last; r++) {
        const float *restrict z = (const float *)s->logits + r * classes;
        float *restrict e = s->terms ? (float *)s->terms + r * classes : own;
        float *part = (float *)s->part + r * LS_SOFTMAX_PART;
        const int64_t label = s->labels[r] - s->first;
        const float largest = row_max(z, classes);
        int64_t best = 0;
        while (s->largest && best + 1 < classes && z[best] != largest)
            best++;
        for (int64_t c = 0; c < classes && !s->largest; c++)
            e[c] = z[c] - largest;
        if (!s->largest)
            exponential(e, e, classes);
        part[0] = largest;
        part[1] = s->largest ? (float)(s->first + best) : row_sum(e, classes);
        part[2] = s->labels[r] >= 0 && label >= 0 && label < classes ? z[label] : 0;
    }
}

static double softmax_whole_loss(const ls_softmax_whole_args *s)
{
    double total = 0;
    for (int64_t r = 0; r < s->rows; r++) {
        const ls_softmax_row row = ls_softmax_join(s->parts, s->rows, s->slices, r);
        total +=
            s->labels[r] < 0 ? 0 : ls_log_element(row.sum) - (double)(row.at_label - row.largest);
    }
    return total;
}

static void softmax_whole(const ls_softmax_whole_args *s, int64_t first, int64_t last)
{
    const float scale_of_targets = (float)ls_loss_scale(s->scale_at, s->scale);
    for (int64_t r = first; r < last; r++) {
        const ls_softmax_row row = ls_softmax_join(s->parts, s->rows, s->slices, r);
        const float scale = s->labels[r] < 0 ? 0 : scale_of_targets;
        const float factor = ls_softmax_factor(s->parts, s->slice * s->rows + r, row, scale);
        const int64_t label = s->labels[r] - s->first;
        float *to = (float *)s->dlogits + r * s->classes;
        for (int64_t c = 0; c < s->classes; c++)
            to[c] *= factor;
        if (label >= 0 && label < s->classes)
            to[label] -= scale;
    }
}

static uint64_t count_parts(const ls_count_parts_args *a, int64_t rows)
{
    const float *parts = a->parts;
    uint64_t correct = 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t best = r;
        for (int64_t i = r + a->rows; i < a->slices * a->rows; i += a->rows)
            best = parts[3 * i] > parts[3 * best] ? i : best;
        correct += (int64_t)parts[3 * best + 1] == a->labels[r];
    }
    return correct;
}

static double squared_error(const float *restrict y, const float *restrict target, float factor,
                            float *restrict dy, int64_t count)
{
    lanes_wide sum = {{{{0}, {0}}}};
    int64_t i = 0;
    for (; i + LS_LANES <= count; i += LS_LANES) {
        lanes difference;
        LS_WRITE_OUT
        for (int p = 0; p < LS_PARTS; p++) {
            const int64_t at = i + p * LS_VEC;
            difference.part[p] = vec_get(y + at) - vec_get(target + at);
            if (dy)
                vec_put(dy + at, vec_all(factor) * difference.part[p]);
        }
        lanes_add_square(&sum, &difference);
    }
    if (i < count) {
        float difference[LS_LANES] = {0};
        for (int64_t j = 0; j < count - i; j++) {
            difference[j] = y[i + j] - target[i + j];
            if (dy)
                dy[i + j] = factor * difference[j];
        }
        const lanes rest = lanes_get(difference);
        lanes_add_square(&sum, &rest);
    }
    return lanes_sum_wide(&sum);
}

static uint64_t count_correct(const float *logits, const int32_t *labels, int64_t rows,
                              int64_t classes)
{
    uint64_t correct = 0;
    for (int64_t r = 0; r < rows && classes; r++) {
        const float *z = logits + r * classes;
        int64_t best = 0;
        for (int64_t c = 1; c < classes; c++)
            best = z[c] > z[best] ? c : best;
        correct += classes == 1 ? (z[0] > 0) == (labels[r] == 1) : best == labels[r];
    }
    return correct;
}
