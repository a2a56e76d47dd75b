/* SPDX-License-Identifier: MIT */
/*
 * The weights' gradient of a convolution over few channels, a model's first, by a vector loop
 * (vector_conv_few.h). oneDNN's vectors of 16 channels would be mostly empty. (128 images 24x24x3,
 * 5x5 to 64, AVX-512, one core of a busy machine: this 5.4 ms, oneDNN 2.6 14 ms, a product of
 * stored windows 6.4 ms without storing them.) The device's threads share the units, which changes
 * no bit.
 */
#include "common/kernel/cpu/cpu_kernels.h"

bool ls_cpu_conv_few(const cpu_kernels *cpu, const ls_conv_shape *s)
{
    const int64_t run = s->window.width * s->channels;
    return s->rows && s->window.out_height && s->window.out_width && s->outputs % 16 == 0 &&
           (run == LS_VECTOR_LEAST || run == LS_VECTOR_FEW) && cpu->loops->fused;
}

static void weights_part(const cpu_part *p)
{
    ls_vector_conv_few loop = *(const ls_vector_conv_few *)p->arguments;
    loop.image = p->own;
    p->loops->conv_few_weights(&loop, p->first, p->last);
}

static ls_status set_sums(cpu_op *op)
{
    ((ls_vector_conv_few *)(void *)op->arguments)->sums = op->memory;
    return LS_OK;
}

ls_status ls_cpu_conv_few_weights(ls_kernels *kernels, const ls_conv_backward_weights_args *a,
                                  const ls_work *work, ls_op **out)
{
    const ls_conv_shape *s = &a->shape;
    const ls_window *w = &s->window;
    const ls_vector_conv_few loop = {.arguments = *a,
                                     .height = (w->out_height - 1) * w->stride_y + w->height,
                                     .width = (w->out_width - 1) * w->stride_x + w->width};
    const int64_t units = w->height * (s->outputs / 16);
    const size_t image = (size_t)(loop.height * loop.width * s->channels) * sizeof(float);
    const int threads = ls_cpu_threads_for((const cpu_kernels *)kernels, (int64_t)work->flops / 16);
    const cpu_op like = {.op = {.name = "conv_backward_weights.loop",
                                .reorders = 1, /* images, with their padding */
                                .reordered_bytes = (size_t)threads * (size_t)s->rows * image},
                         .threads = threads,
                         .once = set_sums,
                         .part = weights_part,
                         .shared = units,
                         .memory_bytes =
                             (size_t)(units * (w->width * s->channels + 1) * 16) * sizeof(float),
                         .own_bytes = image};
    return ls_cpu_op_open(kernels, &like, &loop, sizeof loop, work, out);
}
