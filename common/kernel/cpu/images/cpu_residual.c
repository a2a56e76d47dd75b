/* SPDX-License-Identifier: MIT */
/*
 * Residual networks' operations of the cpu table, and copies of columns: vector loops; the device's
 * threads share the pixels, rows or elements. A sum over pixels adds the threads' partial sums in
 * order.
 */
#include "common/kernel/cpu/cpu_kernels.h"

#include <string.h>

#define BY_BYTES .elements = (int64_t)work->bytes / 4

/* ---- Batch normalisation: sums of a thread are its memory, [2,C] ---------------------------- */

#define SUMS .own_bytes = 2 * (size_t)a->channels * sizeof(double)

static ls_status begin_sums(cpu_op *op)
{
    if (op->memory)
        memset(op->memory, 0, (size_t)op->threads * op->own_bytes);
    return LS_OK;
}

/* Adds the threads' partial sums. */
static void add_shares(const cpu_op *op, double *sums)
{
    const double *shares = op->memory;
    const size_t count = op->own_bytes / sizeof *sums;
    if (count)
        memcpy(sums, shares, op->own_bytes);
    for (size_t i = count; i < (size_t)op->threads * count; i++)
        sums[i % count] += shares[i];
}

static void set_moments(const double *sums, int64_t C, double count, double epsilon, float *moments)
{
    for (int64_t c = 0; c < C; c++) {
        double mean, variance;
        ls_bn_moment(sums[c], sums[C + c], count, &mean, &variance);
        moments[c] = (float)mean;
        moments[C + c] = (float)ls_bn_rate(variance, epsilon);
    }
}

static void sums_part(const cpu_part *p)
{
    p->loops->bn_sums(p->arguments, p->first, p->last, p->own);
}

static void end_sums(cpu_op *op)
{
    const ls_bn_sums_args *a = (const void *)op->arguments;
    add_shares(op, a->sums);
    if (a->moments)
        set_moments(a->sums, a->channels, a->pixels ? (double)a->pixels : 1, a->epsilon,
                    a->moments);
}

LS_CPU_OP(bn_sums, ".loop", ls_bn_sums_args, .once = begin_sums, .part = sums_part, .end = end_sums,
          .shared = a->pixels, BY_BYTES, SUMS)

static ls_status run_moments(cpu_op *op)
{
    const ls_bn_moments_args *a = (const void *)op->arguments;
    set_moments(a->sums, a->channels, (double)a->count, a->epsilon, a->moments);
    return LS_OK;
}

LS_CPU_OP(bn_moments, ".loop", ls_bn_moments_args, .once = run_moments)

static ls_status run_moving_moments(cpu_op *op)
{
    const ls_bn_moving_moments_args *a = (const void *)op->arguments;
    const float *mean = a->mean, *variance = a->variance;
    float *moments = a->moments;
    for (int64_t c = 0; c < a->channels; c++) {
        moments[c] = mean[c];
        moments[a->channels + c] = (float)ls_bn_rate((double)variance[c], a->epsilon);
    }
    return LS_OK;
}

LS_CPU_OP(bn_moving_moments, ".loop", ls_bn_moving_moments_args, .once = run_moving_moments)
LS_CPU_LOOP(bn_forward, ls_bn_forward_args, bn_forward, .shared = a->pixels, BY_BYTES)

static void backward_sums_part(const cpu_part *p)
{
    p->loops->bn_backward_sums(p->arguments, p->first, p->last, p->own);
}

static void end_backward_sums(cpu_op *op)
{
    const ls_bn_backward_sums_args *a = (const void *)op->arguments;
    add_shares(op, a->sums);
    for (int64_t c = 0; c < a->channels; c++) {
        ((float *)a->dbias)[c] = (float)a->sums[c];
        ((float *)a->dweight)[c] = (float)a->sums[a->channels + c];
        double mean, variance;
        ls_bn_share(a, c, &mean, &variance);
        ((float *)a->mean)[c] = (float)mean;
        ((float *)a->variance)[c] = (float)variance;
    }
}

LS_CPU_OP(bn_backward_sums, ".loop", ls_bn_backward_sums_args, .once = begin_sums,
          .part = backward_sums_part, .end = end_backward_sums, .shared = a->pixels, BY_BYTES, SUMS)
LS_CPU_LOOP(bn_backward, ls_bn_backward_args, bn_backward, .shared = a->pixels, BY_BYTES)

/* ---- Shortcuts ------------------------------------------------------------------------------ */

/* Sizes of a row in the larger and the smaller image. */
typedef struct shortcut_sizes {
    int64_t height, width, small, large;
} shortcut_sizes;

static shortcut_sizes sizes_of(const ls_shortcut_shape *s)
{
    const int64_t height = (s->in_height + s->stride - 1) / s->stride;
    const int64_t width = (s->in_width + s->stride - 1) / s->stride;
    return (shortcut_sizes){height, width, height * width * s->outputs,
                            s->in_height * s->in_width * s->channels};
}

/* Rows in either direction: the pixels that both images have. */
static void shortcut_rows(const cpu_part *p, const ls_shortcut_shape *s, bool forward,
                          const float *from, float *to)
{
    const shortcut_sizes z = sizes_of(s);
    const int64_t whole = forward ? z.small : z.large, pixels = z.height * z.width;
    const size_t run = (size_t)s->channels * sizeof *to;
    memset(to + p->first * whole, 0, (size_t)((p->last - p->first) * whole) * sizeof *to);
    for (int64_t i = p->first * pixels; i < p->last * pixels; i++) {
        const int64_t b = i / pixels, y = i / z.width % z.height, x = i % z.width;
        const int64_t at = b * z.large + (y * s->in_width + x) * s->stride * s->channels;
        memcpy(to + (forward ? i * s->outputs : at), from + (forward ? at : i * s->outputs), run);
    }
}

static void shortcut_part(const cpu_part *p)
{
    const ls_shortcut_forward_args *a = p->arguments;
    shortcut_rows(p, &a->shape, true, a->x, a->y);
}

static void shortcut_back_part(const cpu_part *p)
{
    const ls_shortcut_backward_args *a = p->arguments;
    shortcut_rows(p, &a->shape, false, a->dy, a->dx);
}

#define SHORTCUT(entry, args, loop, written)                                                       \
    LS_CPU_OP(entry, ".loop", args, .part = loop, .shared = a->shape.rows, BY_BYTES,               \
              .op.reorders = 1,                                                                    \
              .op.reordered_bytes =                                                                \
                  (size_t)(a->shape.rows * sizes_of(&a->shape).written) * sizeof(float))
SHORTCUT(shortcut_forward, ls_shortcut_forward_args, shortcut_part, small)
SHORTCUT(shortcut_backward, ls_shortcut_backward_args, shortcut_back_part, large)

/* ---- Means, sums, columns ------------------------------------------------------------------- */

LS_CPU_LOOP(mean_pool_forward, ls_mean_pool_forward_args, mean_pool, .shared = a->rows, BY_BYTES)
LS_CPU_LOOP(mean_pool_backward, ls_mean_pool_backward_args, mean_pool_back, .shared = a->rows,
            BY_BYTES)

static void average_part(const cpu_part *p)
{
    const ls_moving_average_args *a = p->arguments;
    p->loops->moving_average((const float *)a->value + p->first,
                             (float)(1 - ls_moving_average_decay(a)),
                             (float *)a->average + p->first, p->last - p->first);
}

LS_CPU_OP(moving_average, ".loop", ls_moving_average_args, .part = average_part, .shared = a->count,
          BY_BYTES)

static ls_status run_add_sums(cpu_op *op)
{
    const ls_add_sums_args *a = (const void *)op->arguments;
    for (int64_t i = 0; i < a->count; i++)
        a->out[i] = a->b ? a->a[i] + a->b[i] : a->a[i];
    return LS_OK;
}

LS_CPU_OP(add_sums, ".loop", ls_add_sums_args, .once = run_add_sums)

static ls_status run_copy(cpu_op *op)
{
    const ls_copy_columns_args *a = (const void *)op->arguments;
    for (int64_t r = 0; r < a->rows && a->width; r++)
        memcpy((float *)a->y + r * a->y_pitch, (const float *)a->x + r * a->x_pitch,
               (size_t)a->width * sizeof(float));
    return LS_OK;
}

LS_CPU_OP(copy_columns, ".memcpy", ls_copy_columns_args, .once = run_copy, .op.reorders = 1,
          .op.reordered_bytes = (size_t)work->bytes / 2)
