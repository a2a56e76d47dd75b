/* SPDX-License-Identifier: MIT */
/*
 * Residual networks' operations of the cpu table: vector loops, split over the device's threads by
 * pixels, rows or elements. A sum over pixels is that of the threads' shares, in their order.
 */
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"
#include "common/kernel/step_inline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct residual_op {
    ls_op op;
    const ls_vector_loops *loops;
    ls_device *device;
    int threads;
    int64_t parts;    /* pixels, rows or elements to share */
    int64_t channels; /* of sums; 0: it has none */
    double *shares;   /* [threads, 2, C] */
    void (*part)(const struct residual_op *r, int64_t first, int64_t last, double *sums);
    union {
        ls_bn_sums_args sums;
        ls_bn_moments_args moments;
        ls_bn_moving_moments_args moving_moments;
        ls_bn_forward_args forward;
        ls_bn_backward_sums_args backward_sums;
        ls_bn_backward_args backward;
        ls_shortcut_forward_args shortcut;
        ls_shortcut_backward_args shortcut_back;
        ls_mean_pool_forward_args mean;
        ls_mean_pool_backward_args mean_back;
        ls_moving_average_args average;
        ls_add_sums_args add_sums;
    };
} residual_op;

static void team_part(void *context, int part, int parts)
{
    const residual_op *r = context;
    int64_t first, last;
    ls_cpu_share(r->parts, part, parts, &first, &last);
    r->part(r, first, last, r->shares ? r->shares + part * 2 * r->channels : NULL);
}

static ls_status run(ls_op *op, ls_queue *queue)
{
    (void)queue;
    residual_op *r = (residual_op *)op;
    ls_team_run(r->threads, team_part, r);
    return LS_OK;
}

/* The threads' shares, added up. */
static void run_sums(residual_op *r, double *sums)
{
    const size_t bytes = 2 * (size_t)r->channels * sizeof *sums;
    if (!bytes)
        return;
    memset(r->shares, 0, (size_t)r->threads * bytes);
    ls_team_run(r->threads, team_part, r);
    memcpy(sums, r->shares, bytes);
    for (int64_t t = 1; t < r->threads; t++)
        for (int64_t i = 0; i < 2 * r->channels; i++)
            sums[i] += r->shares[t * 2 * r->channels + i];
}

static void destroy(ls_op *op)
{
    residual_op *r = (residual_op *)op;
    if (r->shares)
        ls_device_release(r->device, r->shares);
    free(r);
}

/* `like` has the arguments, what a part is, how many there are, and the channels of its sums. */
static ls_status make(ls_kernels *kernels, const residual_op *like, const ls_work *work,
                      ls_op **out)
{
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    residual_op *r = malloc(sizeof *r);
    if (!r)
        return ls_fail_memory(like->op.name, sizeof *r);
    *r = *like;
    r->op.run = like->op.run ? like->op.run : run;
    r->op.destroy = destroy;
    r->op.flops = work->flops;
    r->op.bytes = work->bytes;
    r->loops = cpu->loops;
    r->device = kernels->device;
    r->threads = ls_cpu_threads_for(cpu, (int64_t)work->bytes / 4);
    if (r->channels) {
        void *shares;
        const size_t bytes = (size_t)r->threads * 2 * (size_t)r->channels * sizeof(double);
        ls_status status = ls_device_allocate(r->device, LS_MEMORY_WORKSPACE, bytes, &shares);
        if (status) {
            free(r);
            return status;
        }
        r->shares = shares;
        r->op.workspace = bytes;
    }
    *out = &r->op;
    return LS_OK;
}

/* ---- Batch normalisation -------------------------------------------------------------------- */

static void sums_part(const residual_op *r, int64_t first, int64_t last, double *sums)
{
    r->loops->bn_sums(&r->sums, first, last, sums);
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

static ls_status run_bn_sums(ls_op *op, ls_queue *queue)
{
    (void)queue;
    residual_op *r = (residual_op *)op;
    const ls_bn_sums_args *a = &r->sums;
    run_sums(r, a->sums);
    if (a->moments)
        set_moments(a->sums, a->channels, a->pixels ? (double)a->pixels : 1, a->epsilon,
                    a->moments);
    return LS_OK;
}

ls_status ls_cpu_bn_sums(ls_kernels *kernels, const ls_bn_sums_args *a, const ls_work *work,
                         ls_op **out)
{
    const residual_op like = {.op = {.name = "bn_sums.loop", .run = run_bn_sums},
                              .part = sums_part,
                              .parts = a->pixels,
                              .channels = a->channels,
                              .sums = *a};
    return make(kernels, &like, work, out);
}

static ls_status run_bn_moments(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const ls_bn_moments_args *a = &((residual_op *)op)->moments;
    set_moments(a->sums, a->channels, (double)a->count, a->epsilon, a->moments);
    return LS_OK;
}

ls_status ls_cpu_bn_moments(ls_kernels *kernels, const ls_bn_moments_args *a, const ls_work *work,
                            ls_op **out)
{
    const residual_op like = {.op = {.name = "bn_moments.loop", .run = run_bn_moments},
                              .moments = *a};
    return make(kernels, &like, work, out);
}

static ls_status run_bn_moving_moments(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const ls_bn_moving_moments_args *a = &((residual_op *)op)->moving_moments;
    const float *mean = a->mean, *variance = a->variance;
    float *moments = a->moments;
    for (int64_t c = 0; c < a->channels; c++) {
        moments[c] = mean[c];
        moments[a->channels + c] = (float)ls_bn_rate((double)variance[c], a->epsilon);
    }
    return LS_OK;
}

ls_status ls_cpu_bn_moving_moments(ls_kernels *kernels, const ls_bn_moving_moments_args *a,
                                   const ls_work *work, ls_op **out)
{
    const residual_op like = {
        .op = {.name = "bn_moving_moments.loop", .run = run_bn_moving_moments},
        .moving_moments = *a};
    return make(kernels, &like, work, out);
}

static void forward_part(const residual_op *r, int64_t first, int64_t last, double *sums)
{
    (void)sums;
    r->loops->bn_forward(&r->forward, first, last);
}

ls_status ls_cpu_bn_forward(ls_kernels *kernels, const ls_bn_forward_args *a, const ls_work *work,
                            ls_op **out)
{
    const residual_op like = {
        .op.name = "bn_forward.loop", .part = forward_part, .parts = a->pixels, .forward = *a};
    return make(kernels, &like, work, out);
}

static void backward_sums_part(const residual_op *r, int64_t first, int64_t last, double *sums)
{
    r->loops->bn_backward_sums(&r->backward_sums, first, last, sums);
}

static ls_status run_bn_backward_sums(ls_op *op, ls_queue *queue)
{
    (void)queue;
    residual_op *r = (residual_op *)op;
    const ls_bn_backward_sums_args *a = &r->backward_sums;
    run_sums(r, a->sums);
    for (int64_t c = 0; c < a->channels; c++) {
        ((float *)a->dbias)[c] = (float)a->sums[c];
        ((float *)a->dweight)[c] = (float)a->sums[a->channels + c];
        double mean, variance;
        ls_bn_share(a, c, &mean, &variance);
        ((float *)a->mean)[c] = (float)mean;
        ((float *)a->variance)[c] = (float)variance;
    }
    return LS_OK;
}

ls_status ls_cpu_bn_backward_sums(ls_kernels *kernels, const ls_bn_backward_sums_args *a,
                                  const ls_work *work, ls_op **out)
{
    const residual_op like = {.op = {.name = "bn_backward_sums.loop", .run = run_bn_backward_sums},
                              .part = backward_sums_part,
                              .parts = a->pixels,
                              .channels = a->channels,
                              .backward_sums = *a};
    return make(kernels, &like, work, out);
}

static void backward_part(const residual_op *r, int64_t first, int64_t last, double *sums)
{
    (void)sums;
    r->loops->bn_backward(&r->backward, first, last);
}

ls_status ls_cpu_bn_backward(ls_kernels *kernels, const ls_bn_backward_args *a, const ls_work *work,
                             ls_op **out)
{
    const residual_op like = {
        .op.name = "bn_backward.loop", .part = backward_part, .parts = a->pixels, .backward = *a};
    return make(kernels, &like, work, out);
}

/* ---- Shortcuts ------------------------------------------------------------------------------ */

/* Rows of either direction: the pixels that both images have. */
static void shortcut_rows(const ls_shortcut_shape *s, bool forward, const float *from, float *to,
                          const int64_t rows[2])
{
    const int64_t height = (s->in_height + s->stride - 1) / s->stride;
    const int64_t width = (s->in_width + s->stride - 1) / s->stride;
    const int64_t large = s->in_height * s->in_width * s->channels;
    const int64_t small = height * width * s->outputs, whole = forward ? small : large;
    const size_t run = (size_t)s->channels * sizeof *to;
    memset(to + rows[0] * whole, 0, (size_t)((rows[1] - rows[0]) * whole) * sizeof *to);
    for (int64_t i = rows[0] * height * width; i < rows[1] * height * width; i++) {
        const int64_t b = i / (height * width), y = i / width % height, x = i % width;
        const int64_t at = b * large + (y * s->in_width + x) * s->stride * s->channels;
        memcpy(to + (forward ? i * s->outputs : at), from + (forward ? at : i * s->outputs), run);
    }
}

/* What a shortcut writes. */
static size_t shortcut_bytes(const ls_shortcut_shape *s, bool forward)
{
    const int64_t height = (s->in_height + s->stride - 1) / s->stride;
    const int64_t width = (s->in_width + s->stride - 1) / s->stride;
    return (size_t)(s->rows * (forward ? height * width * s->outputs
                                       : s->in_height * s->in_width * s->channels)) *
           sizeof(float);
}

static void shortcut_part(const residual_op *r, int64_t first, int64_t last, double *sums)
{
    (void)sums;
    shortcut_rows(&r->shortcut.shape, true, r->shortcut.x, r->shortcut.y,
                  (const int64_t[]){first, last});
}

ls_status ls_cpu_shortcut_forward(ls_kernels *kernels, const ls_shortcut_forward_args *a,
                                  const ls_work *work, ls_op **out)
{
    const residual_op like = {.op = {.name = "shortcut_forward.loop",
                                     .reorders = 1,
                                     .reordered_bytes = shortcut_bytes(&a->shape, true)},
                              .part = shortcut_part,
                              .parts = a->shape.rows,
                              .shortcut = *a};
    return make(kernels, &like, work, out);
}

static void shortcut_back_part(const residual_op *r, int64_t first, int64_t last, double *sums)
{
    (void)sums;
    shortcut_rows(&r->shortcut_back.shape, false, r->shortcut_back.dy, r->shortcut_back.dx,
                  (const int64_t[]){first, last});
}

ls_status ls_cpu_shortcut_backward(ls_kernels *kernels, const ls_shortcut_backward_args *a,
                                   const ls_work *work, ls_op **out)
{
    const residual_op like = {.op = {.name = "shortcut_backward.loop",
                                     .reorders = 1,
                                     .reordered_bytes = shortcut_bytes(&a->shape, false)},
                              .part = shortcut_back_part,
                              .parts = a->shape.rows,
                              .shortcut_back = *a};
    return make(kernels, &like, work, out);
}

/* ---- Means ---------------------------------------------------------------------------------- */

static void mean_part(const residual_op *r, int64_t first, int64_t last, double *sums)
{
    (void)sums;
    r->loops->mean_pool(&r->mean, first, last);
}

ls_status ls_cpu_mean_pool_forward(ls_kernels *kernels, const ls_mean_pool_forward_args *a,
                                   const ls_work *work, ls_op **out)
{
    const residual_op like = {
        .op.name = "mean_pool_forward.loop", .part = mean_part, .parts = a->rows, .mean = *a};
    return make(kernels, &like, work, out);
}

static void mean_back_part(const residual_op *r, int64_t first, int64_t last, double *sums)
{
    (void)sums;
    r->loops->mean_pool_back(&r->mean_back, first, last);
}

ls_status ls_cpu_mean_pool_backward(ls_kernels *kernels, const ls_mean_pool_backward_args *a,
                                    const ls_work *work, ls_op **out)
{
    const residual_op like = {.op.name = "mean_pool_backward.loop",
                              .part = mean_back_part,
                              .parts = a->rows,
                              .mean_back = *a};
    return make(kernels, &like, work, out);
}

static void average_part(const residual_op *r, int64_t first, int64_t last, double *sums)
{
    const ls_moving_average_args *a = &r->average;
    (void)sums;
    r->loops->moving_average((const float *)a->value + first,
                             (float)(1 - ls_moving_average_decay(a)), (float *)a->average + first,
                             last - first);
}

ls_status ls_cpu_moving_average(ls_kernels *kernels, const ls_moving_average_args *a,
                                const ls_work *work, ls_op **out)
{
    const residual_op like = {
        .op.name = "moving_average.loop", .part = average_part, .parts = a->count, .average = *a};
    return make(kernels, &like, work, out);
}

static ls_status run_add_sums(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const ls_add_sums_args *a = &((residual_op *)op)->add_sums;
    for (int64_t i = 0; i < a->count; i++)
        a->out[i] = a->b ? a->a[i] + a->b[i] : a->a[i];
    return LS_OK;
}

ls_status ls_cpu_add_sums(ls_kernels *kernels, const ls_add_sums_args *a, const ls_work *work,
                          ls_op **out)
{
    const residual_op like = {.op = {.name = "add_sums.loop", .run = run_add_sums}, .add_sums = *a};
    return make(kernels, &like, work, out);
}
