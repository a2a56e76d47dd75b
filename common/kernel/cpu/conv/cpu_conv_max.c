/* SPDX-License-Identifier: MIT */
/*
 * Convolution with global max pool of the cpu table, by vector loops: the image of all positions,
 * for 26x26x32 a hundred times what comes out, is never written. Rows are split over the device's
 * threads, for the weights' gradient outputs: no split changes a bit.
 */
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"

#include <stdlib.h>
#include <string.h>

typedef struct conv_max_op {
    ls_op op;
    const ls_vector_loops *loops;
    ls_device *device;
    int threads;
    ls_vector_conv_max loop;
    float *scratch; /* bias, packed filters, then an image for each thread */
    size_t image;   /* elements of one */
} conv_max_op;

static void forward_part(void *context, int part, int parts)
{
    const conv_max_op *c = context;
    int64_t first, last;
    ls_vector_conv_max loop = c->loop;
    if (loop.image)
        loop.image += (size_t)part * c->image;
    ls_cpu_share(loop.arguments.shape.rows, part, parts, &first, &last);
    c->loops->conv_max(&loop, first, last);
}

static ls_status run_forward(ls_op *op, ls_queue *queue)
{
    (void)queue;
    conv_max_op *c = (conv_max_op *)op;
    const ls_conv_max_forward_args *a = &c->loop.arguments;
    memset(c->scratch, 0, (size_t)c->loop.outputs * sizeof *c->scratch);
    if (a->bias && a->shape.outputs)
        memcpy(c->scratch, a->bias, (size_t)a->shape.outputs * sizeof *c->scratch);
    c->loops->pack_filters(&a->shape, a->weight, c->scratch + c->loop.outputs);
    ls_team_run(c->threads, forward_part, c);
    return LS_OK;
}

static void destroy(ls_op *op)
{
    conv_max_op *c = (conv_max_op *)op;
    ls_device_release(c->device, c->scratch);
    free(c);
}

static ls_status prepare(conv_max_op *c)
{
    const ls_conv_shape *s = &c->loop.arguments.shape;
    const ls_window *w = &s->window;
    int64_t outputs = ls_vector_pad(s->outputs);
    int64_t height = (w->out_height - 1) * w->stride_y + w->height;
    int64_t width = (w->out_width - 1) * w->stride_x + w->width;
    bool pads = w->top || w->left || height > w->in_height || width > w->in_width;
    c->loop.outputs = outputs;
    c->loop.height = height > w->top + w->in_height ? height : w->top + w->in_height;
    c->loop.width = width > w->left + w->in_width ? width : w->left + w->in_width;
    c->image = pads ? (size_t)(c->loop.height * c->loop.width * s->channels) : 0;
    size_t packed = (size_t)(outputs * w->height * w->width * s->channels);
    size_t elements = (size_t)outputs + packed + (size_t)c->threads * c->image;
    void *scratch;
    LS_TRY(ls_device_allocate(c->device, LS_MEMORY_WORKSPACE, elements * sizeof(float), &scratch));
    c->scratch = scratch;
    c->op.workspace = elements * sizeof(float);
    c->op.reorders = 1 + pads; /* filters; images, with their padding */
    c->op.reordered_bytes = (packed + (size_t)s->rows * c->image) * sizeof(float);
    c->loop.bias = c->scratch;
    c->loop.packed = c->scratch + outputs;
    c->loop.image = pads ? c->scratch + (size_t)outputs + packed : NULL;
    return LS_OK;
}

ls_status ls_cpu_conv_max_forward(ls_kernels *kernels, const ls_conv_max_forward_args *arguments,
                                  const ls_work *work, ls_op **out)
{
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    conv_max_op *c = malloc(sizeof *c);
    if (!c)
        return ls_fail_memory("conv_max_forward", sizeof *c);
    *c = (conv_max_op){.op = {.name = "conv_max_forward.loop",
                              .run = run_forward,
                              .destroy = destroy,
                              .flops = work->flops,
                              .bytes = work->bytes},
                       .loops = cpu->loops,
                       .device = kernels->device,
                       .threads = ls_cpu_threads_for(cpu, (int64_t)work->flops / 16),
                       .loop = {.arguments = *arguments}};
    ls_status status = prepare(c);
    if (status) {
        free(c);
        return status;
    }
    *out = &c->op;
    return LS_OK;
}

typedef struct backward_op {
    const ls_vector_loops *loops;
    int threads;
    ls_conv_max_backward_weights_args arguments;
} backward_op;

static void backward_part(void *context, int part, int parts)
{
    const backward_op *b = context;
    int64_t first, last;
    ls_cpu_share(b->arguments.shape.outputs, part, parts, &first, &last);
    b->loops->conv_max_backward(&b->arguments, first, last);
}

static ls_status run_backward(ls_op *op, ls_queue *queue)
{
    (void)queue;
    backward_op *b = ls_op_arguments(op);
    ls_team_run(b->threads, backward_part, b);
    return LS_OK;
}

ls_status ls_cpu_conv_max_backward_weights(ls_kernels *kernels,
                                           const ls_conv_max_backward_weights_args *arguments,
                                           const ls_work *work, ls_op **out)
{
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    const ls_op like = {.name = "conv_max_backward_weights.loop",
                        .run = run_backward,
                        .flops = work->flops,
                        .bytes = work->bytes};
    const backward_op bound = {cpu->loops, ls_cpu_threads_for(cpu, (int64_t)work->flops),
                               *arguments};
    return ls_op_bind(&like, &bound, sizeof bound, out);
}
