/* SPDX-License-Identifier: MIT */
/*
 * Convolution with global max pool of the cpu table, by vector loops. The image of all positions,
 * for 26x26x32 a hundred times the result's size, is never stored. The device's threads share the
 * rows, or the outputs for the weights' gradient; this changes no bit.
 */
#include "common/kernel/cpu/cpu_kernels.h"

#include <string.h>

static void forward_part(const cpu_part *p)
{
    ls_vector_conv_max loop = *(const ls_vector_conv_max *)p->arguments;
    loop.image = p->own;
    p->loops->conv_max(&loop, p->first, p->last);
}

/* The operation's memory: bias, then filters. */
static ls_status pack(cpu_op *op)
{
    ls_vector_conv_max *loop = (void *)op->arguments;
    const ls_conv_max_forward_args *a = &loop->arguments;
    float *bias = op->memory, *packed = bias + loop->outputs;
    loop->bias = bias;
    loop->packed = packed;
    memset(bias, 0, (size_t)loop->outputs * sizeof *bias);
    if (a->bias && a->shape.outputs)
        memcpy(bias, a->bias, (size_t)a->shape.outputs * sizeof *bias);
    op->loops->pack_filters(&a->shape, a->weight, packed);
    return LS_OK;
}

ls_status ls_cpu_conv_max_forward(ls_kernels *kernels, const ls_conv_max_forward_args *a,
                                  const ls_work *work, ls_op **out)
{
    const ls_conv_shape *s = &a->shape;
    const ls_window *w = &s->window;
    const int64_t height = (w->out_height - 1) * w->stride_y + w->height;
    const int64_t width = (w->out_width - 1) * w->stride_x + w->width;
    const bool pads = w->top || w->left || height > w->in_height || width > w->in_width;
    const ls_vector_conv_max loop = {
        .arguments = *a,
        .outputs = ls_vector_pad(s->outputs),
        .height = height > w->top + w->in_height ? height : w->top + w->in_height,
        .width = width > w->left + w->in_width ? width : w->left + w->in_width};
    const size_t line = (size_t)loop.outputs * sizeof(float);
    const size_t packed = line * (size_t)(w->height * w->width * s->channels);
    const size_t image =
        pads ? (size_t)(loop.height * loop.width * s->channels) * sizeof(float) : 0;
    const cpu_op like = {.op = {.name = "conv_max_forward.loop",
                                .reorders = 1 + pads, /* filters; images, with their padding */
                                .reordered_bytes = packed + (size_t)s->rows * image},
                         .elements = (int64_t)work->flops / 16,
                         .once = pack,
                         .part = forward_part,
                         .shared = s->rows,
                         .memory_bytes = line + packed,
                         .own_bytes = image};
    return ls_cpu_op_open(kernels, &like, &loop, sizeof loop, work, out);
}

LS_CPU_LOOP(conv_max_backward_weights, ls_conv_max_backward_weights_args, conv_max_backward,
            .shared = a->shape.outputs, .elements = (int64_t)work->flops)
