/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of stride 1 and their gradients by Winograd's method (vector_winograd.h), which
 * takes a quarter of the products of a direct one (5x5 windows: a bit more than a third).
 *
 * A few tiles go through all points together, so that they stay in the second-level cache. Tiles
 * are split over the device's threads, for the weights' gradient blocks of 16 channels, each with
 * all tiles of dy: no split changes a bit. Where a device has more cores than blocks that gradient
 * is left to oneDNN, and so are convolutions of a few rows, for which packing weights does not pay,
 * and of more than 128 channels, whose tiles leave the cache.
 */
#include "common/base/hooks.h"
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"

#include <stdlib.h>
#include <string.h>

enum { POINTS = LS_WINOGRAD_AXIS * LS_WINOGRAD_AXIS, MOST_CHANNELS = 128 };

typedef struct winograd_op {
    ls_op op;
    const ls_vector_loops *loops;
    ls_device *device;
    int threads;
    ls_vector_winograd loop;
    float *scratch; /* packed weights or sums, then tiles in and out for each thread */
} winograd_op;

bool ls_cpu_winograd(const cpu_kernels *cpu, const ls_conv_shape *s)
{
    const ls_window *w = &s->window;
    const bool square = w->height == w->width && (w->height == 3 || w->height == 5);
    if (strcmp(cpu->loops->isa, "avx512") != 0 || !square || w->stride_y != 1 || w->stride_x != 1 ||
        s->channels % 16 || s->outputs % 16 || s->channels > MOST_CHANNELS ||
        s->outputs > MOST_CHANNELS || w->in_height < 1 || w->in_width < 1)
        return false;
    const int64_t tiles = ls_vector_winograd_tiles(s);
    const int64_t direct = s->rows * w->out_height * w->out_width * w->height * w->width;
    return tiles >= 2 * (int64_t)LS_WINOGRAD_TILES && tiles <= direct / (2 * POINTS);
}

bool ls_cpu_winograd_shared(const cpu_kernels *cpu, const ls_conv_shape *s)
{
    return ls_cpu_winograd(cpu, s) && s->channels / 16 >= cpu->threads;
}

static ls_vector_winograd of_thread(const winograd_op *w, int part)
{
    const int64_t in = POINTS * w->loop.shape.channels * LS_WINOGRAD_TILES;
    const int64_t out = POINTS * w->loop.shape.outputs * LS_WINOGRAD_TILES;
    ls_vector_winograd loop = w->loop;
    loop.in += part * (in + out);
    loop.out = loop.in + in;
    return loop;
}

static void pack_part(void *context, int part, int parts)
{
    const winograd_op *w = context;
    int64_t first, last;
    ls_cpu_share(w->loop.shape.channels / 16, part, parts, &first, &last);
    w->loops->winograd_pack(&w->loop, first, last);
}

static void forward_part(void *context, int part, int parts)
{
    const winograd_op *w = context;
    const ls_vector_winograd loop = of_thread(w, part);
    const int64_t tiles = ls_vector_winograd_tiles(&loop.shape);
    int64_t first, last;
    ls_cpu_share((tiles + LS_WINOGRAD_TILES - 1) / LS_WINOGRAD_TILES, part, parts, &first, &last);
    first *= LS_WINOGRAD_TILES;
    last *= LS_WINOGRAD_TILES;
    w->loops->winograd_forward(&loop, first, last < tiles ? last : tiles);
}

static ls_status run_forward(ls_op *op, ls_queue *queue)
{
    (void)queue;
    winograd_op *w = (winograd_op *)op;
    ls_team_run(w->threads, pack_part, w);
    ls_team_run(w->threads, forward_part, w);
    return LS_OK;
}

static void weights_part(void *context, int part, int parts)
{
    const winograd_op *w = context;
    const ls_vector_winograd loop = of_thread(w, part);
    int64_t first, last;
    ls_cpu_share(loop.shape.channels / 16, part, parts, &first, &last);
    w->loops->winograd_weights(&loop, first, last);
}

static ls_status run_weights(ls_op *op, ls_queue *queue)
{
    (void)queue;
    winograd_op *w = (winograd_op *)op;
    ls_team_run(w->threads, weights_part, w);
    return LS_OK;
}

static void destroy(ls_op *op)
{
    winograd_op *w = (winograd_op *)op;
    ls_device_release(w->device, w->scratch);
    free(w);
}

static ls_status prepare(winograd_op *w)
{
    const ls_conv_shape *s = &w->loop.shape;
    const size_t packed = (size_t)(POINTS * s->channels * s->outputs);
    const size_t in = (size_t)(POINTS * s->channels), out = (size_t)(POINTS * s->outputs);
    const size_t elements = packed + (size_t)w->threads * (in + out) * LS_WINOGRAD_TILES;
    const size_t tiles = (size_t)ls_vector_winograd_tiles(s);
    void *scratch;
    LS_TRY(ls_device_allocate(w->device, LS_MEMORY_WORKSPACE, elements * sizeof(float), &scratch));
    w->scratch = scratch;
    w->loop.packed = w->scratch;
    w->loop.in = w->scratch + packed;
    w->op.workspace = elements * sizeof(float);
    w->op.reorders = 2; /* weights, or their gradient; images, or images and gradients, to tiles */
    w->op.reordered_bytes =
        (packed + tiles * (w->loop.dweight ? in + (size_t)w->threads * out : in)) * sizeof(float);
    return LS_OK;
}

/* `like` has what differs between the directions. */
static ls_status make(const cpu_kernels *cpu, const winograd_op *like, const ls_work *work,
                      ls_op **out)
{
    winograd_op *w = malloc(sizeof *w);
    if (!w)
        return ls_fail_memory(like->op.name, sizeof *w);
    *w = *like;
    w->op.destroy = destroy;
    w->op.flops = work->flops;
    w->op.bytes = work->bytes;
    w->loops = cpu->loops;
    w->device = cpu->base.device;
    w->threads = ls_cpu_threads_for(cpu, (int64_t)work->flops / 16);
    ls_status status = prepare(w);
    if (status) {
        free(w);
        return status;
    }
    *out = &w->op;
    return LS_OK;
}

ls_status ls_cpu_winograd_forward(const cpu_kernels *cpu, const ls_conv_forward_args *a,
                                  const ls_work *work, ls_op **out)
{
    const winograd_op like = {.op = {.name = "conv_forward.winograd", .run = run_forward},
                              .loop = {.shape = a->shape,
                                       .relu = a->activation == LS_ACTIVATION_RELU,
                                       .x = a->x,
                                       .weight = a->weight,
                                       .bias = a->bias,
                                       .y = a->y}};
    return make(cpu, &like, work, out);
}

ls_status ls_cpu_winograd_weights(const cpu_kernels *cpu, const ls_conv_backward_weights_args *a,
                                  const ls_work *work, ls_op **out)
{
    const winograd_op like = {
        .op = {.name = "conv_backward_weights.winograd", .run = run_weights},
        .loop = {
            .shape = a->shape, .x = a->x, .dy = a->dy, .dweight = a->dweight, .dbias = a->dbias}};
    return make(cpu, &like, work, out);
}

/* dx is the convolution of dy with the weights turned, the padding what the other's leaves. */
ls_status ls_cpu_winograd_data(const cpu_kernels *cpu, const ls_conv_backward_data_args *a,
                               const ls_work *work, ls_op **out)
{
    const ls_window *w = &a->shape.window;
    const ls_conv_shape shape = {.rows = a->shape.rows,
                                 .channels = a->shape.outputs,
                                 .outputs = a->shape.channels,
                                 .window = {.in_height = w->out_height,
                                            .in_width = w->out_width,
                                            .out_height = w->in_height,
                                            .out_width = w->in_width,
                                            .height = w->height,
                                            .width = w->width,
                                            .stride_y = 1,
                                            .stride_x = 1,
                                            .top = w->height - 1 - w->top,
                                            .left = w->width - 1 - w->left}};
    const winograd_op like = {.op = {.name = "conv_backward_data.winograd", .run = run_forward},
                              .loop = {.shape = shape,
                                       .turned = !LS_PLANTED(not_turned),
                                       .x = a->dy,
                                       .weight = a->weight,
                                       .y = a->dx}};
    return make(cpu, &like, work, out);
}
