/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of stride 1 and their gradients by Winograd's method (vector_winograd.h), with a
 * quarter of the products of a direct one (5x5 windows: a bit more than a third). A few tiles at a
 * time pass through all points, so that they stay in the second-level cache. The device's threads
 * share the tiles, or for the weights' gradient blocks of 16 channels, each with all tiles of dy;
 * this changes no bit. oneDNN computes that gradient if a device has more cores than blocks. It
 * also computes convolutions of a few rows, for which packing weights does not pay, and of more
 * than 128 channels, whose tiles do not fit the cache.
 */
#include "common/kernel/cpu/cpu_kernels.h"

#include <string.h>

enum { POINTS = LS_WINOGRAD_AXIS * LS_WINOGRAD_AXIS, MOST_CHANNELS = 128 };

bool ls_cpu_winograd(const cpu_kernels *cpu, const ls_conv_shape *s)
{
    const ls_window *w = &s->window;
    const bool square = w->height == w->width && (w->height == 3 || w->height == 5);
    if (!cpu->loops->fused || !square || w->stride_y != 1 || w->stride_x != 1 || s->channels % 16 ||
        s->outputs % 16 || s->channels > MOST_CHANNELS || s->outputs > MOST_CHANNELS ||
        w->in_height < 1 || w->in_width < 1)
        return false;
    const int64_t tiles = ls_vector_winograd_tiles(s);
    const int64_t direct = s->rows * w->out_height * w->out_width * w->height * w->width;
    return tiles >= 2 * (int64_t)LS_WINOGRAD_TILES && tiles <= direct / (2 * POINTS);
}

bool ls_cpu_winograd_shared(const cpu_kernels *cpu, const ls_conv_shape *s)
{
    return ls_cpu_winograd(cpu, s) && s->channels / 16 >= cpu->threads;
}

/* With the thread's own memory: input tiles, then output tiles. */
static ls_vector_winograd of_thread(const cpu_part *p)
{
    ls_vector_winograd loop = *(const ls_vector_winograd *)p->arguments;
    loop.in = p->own;
    loop.out = loop.in + POINTS * loop.shape.channels * LS_WINOGRAD_TILES;
    return loop;
}

static void pack_part(const cpu_part *p)
{
    p->loops->winograd_pack(p->arguments, p->first, p->last);
}

static void forward_part(const cpu_part *p)
{
    const ls_vector_winograd loop = of_thread(p);
    const int64_t tiles = ls_vector_winograd_tiles(&loop.shape);
    const int64_t last = p->last * LS_WINOGRAD_TILES;
    p->loops->winograd_forward(&loop, p->first * LS_WINOGRAD_TILES, last < tiles ? last : tiles);
}

static void weights_part(const cpu_part *p)
{
    const ls_vector_winograd loop = of_thread(p);
    p->loops->winograd_weights(&loop, p->first, p->last);
}

/* All threads share the memory of packed weights, or of the sums for their gradient. */
static ls_status begin(cpu_op *op)
{
    ls_vector_winograd *loop = (void *)op->arguments;
    loop->packed = op->memory;
    return loop->dweight ? LS_OK : ls_cpu_op_share(op, loop->shape.channels / 16, pack_part);
}

static ls_status make(ls_kernels *kernels, const char *name, const ls_vector_winograd *loop,
                      const ls_work *work, ls_op **out)
{
    const ls_conv_shape *s = &loop->shape;
    const bool back = loop->dweight != NULL;
    const int64_t tiles = ls_vector_winograd_tiles(s);
    const size_t in = (size_t)(POINTS * s->channels) * sizeof(float);
    const size_t result = (size_t)(POINTS * s->outputs) * sizeof(float);
    const size_t packed = in * (size_t)s->outputs;
    const int threads = ls_cpu_threads_for((const cpu_kernels *)kernels, (int64_t)work->flops / 16);
    const cpu_op like = {
        .op = {.name = name,
               .reorders = 2, /* weights, or their gradient; images, or images and gradients */
               .reordered_bytes =
                   packed + (size_t)tiles * (back ? in + (size_t)threads * result : in)},
        .threads = threads,
        .once = begin,
        .part = back ? weights_part : forward_part,
        .shared = back ? s->channels / 16 : (tiles + LS_WINOGRAD_TILES - 1) / LS_WINOGRAD_TILES,
        .memory_bytes = packed,
        .own_bytes = (in + result) * LS_WINOGRAD_TILES};
    return ls_cpu_op_open(kernels, &like, loop, sizeof *loop, work, out);
}

ls_status ls_cpu_winograd_forward(ls_kernels *kernels, const ls_conv_forward_args *a,
                                  const ls_work *work, ls_op **out)
{
    const ls_vector_winograd loop = {.shape = a->shape,
                                     .relu = a->activation == LS_ACTIVATION_RELU,
                                     .x = a->x,
                                     .weight = a->weight,
                                     .bias = a->bias,
                                     .y = a->y};
    return make(kernels, "conv_forward.winograd", &loop, work, out);
}

ls_status ls_cpu_winograd_weights(ls_kernels *kernels, const ls_conv_backward_weights_args *a,
                                  const ls_work *work, ls_op **out)
{
    const ls_vector_winograd loop = {
        .shape = a->shape, .x = a->x, .dy = a->dy, .dweight = a->dweight, .dbias = a->dbias};
    return make(kernels, "conv_backward_weights.winograd", &loop, work, out);
}

/* dx is the convolution of dy with rotated weights; its padding follows from the forward one's. */
ls_status ls_cpu_winograd_data(ls_kernels *kernels, const ls_conv_backward_data_args *a,
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
    const ls_vector_winograd loop = {
        .shape = shape, .turned = true, .x = a->dy, .weight = a->weight, .y = a->dx};
    return make(kernels, "conv_backward_data.winograd", &loop, work, out);
}
