/* SPDX-License-Identifier: MIT */
/*
 * The weights' gradient of a convolution over few channels, the first of a model: by a vector loop
 * (vector_conv_few.h), in place of oneDNN's, whose vectors of 16 channels are mostly empty there.
 * (128 images 24x24x3, 5x5 to 64, AVX-512, one core of a busy machine, in ms: this 5.4, oneDNN 2.6
 * 14, a product of windows written out 6.4 without their writing.) Units are split over the
 * device's threads, which changes no bit.
 */
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"

#include <stdlib.h>
#include <string.h>

typedef struct few_op {
    ls_op op;
    const ls_vector_loops *loops;
    ls_device *device;
    int threads;
    ls_vector_conv_few loop;
    float *scratch; /* sums, then an image for each thread */
    size_t image;   /* elements of one */
} few_op;

bool ls_cpu_conv_few(const cpu_kernels *cpu, const ls_conv_shape *s)
{
    const int64_t run = s->window.width * s->channels;
    return s->rows > 0 && s->outputs % 16 == 0 && (run == 9 || run == LS_VECTOR_FEW) &&
           !strcmp(cpu->loops->isa, "avx512");
}

static int64_t units(const ls_conv_shape *s)
{
    return s->window.height * (s->outputs / 16);
}

static void weights_part(void *context, int part, int parts)
{
    const few_op *f = context;
    int64_t first, last;
    ls_vector_conv_few loop = f->loop;
    loop.image += (size_t)part * f->image;
    ls_cpu_share(units(&loop.arguments.shape), part, parts, &first, &last);
    f->loops->conv_few_weights(&loop, first, last);
}

static ls_status run_weights(ls_op *op, ls_queue *queue)
{
    (void)queue;
    few_op *f = (few_op *)op;
    ls_team_run(f->threads, weights_part, f);
    return LS_OK;
}

static void destroy(ls_op *op)
{
    few_op *f = (few_op *)op;
    ls_device_release(f->device, f->scratch);
    free(f);
}

static ls_status prepare(few_op *f)
{
    const ls_conv_shape *s = &f->loop.arguments.shape;
    const ls_window *w = &s->window;
    void *scratch;
    f->loop.height = (w->out_height - 1) * w->stride_y + w->height;
    f->loop.width = (w->out_width - 1) * w->stride_x + w->width;
    f->image = (size_t)(f->loop.height * f->loop.width * s->channels);
    const size_t sums = (size_t)(units(s) * (w->width * s->channels + 1) * 16);
    const size_t elements = sums + (size_t)f->threads * f->image;
    LS_TRY(ls_device_allocate(f->device, LS_MEMORY_WORKSPACE, elements * sizeof(float), &scratch));
    f->scratch = scratch;
    f->op.workspace = elements * sizeof(float);
    f->op.reorders = 1; /* images, with their padding */
    f->op.reordered_bytes = (size_t)f->threads * (size_t)s->rows * f->image * sizeof(float);
    f->loop.sums = f->scratch;
    f->loop.image = f->scratch + sums;
    return LS_OK;
}

ls_status ls_cpu_conv_few_weights(const cpu_kernels *cpu, const ls_conv_backward_weights_args *a,
                                  const ls_work *work, ls_op **out)
{
    few_op *f = malloc(sizeof *f);
    if (!f)
        return ls_fail_memory("conv_backward_weights", sizeof *f);
    *f = (few_op){.op = {.name = "conv_backward_weights.loop",
                         .run = run_weights,
                         .destroy = destroy,
                         .flops = work->flops,
                         .bytes = work->bytes},
                  .loops = cpu->loops,
                  .device = cpu->base.device,
                  .threads = ls_cpu_threads_for(cpu, (int64_t)work->flops / 16),
                  .loop = {.arguments = *a}};
    ls_status status = prepare(f);
    if (status) {
        free(f);
        return status;
    }
    *out = &f->op;
    return LS_OK;
}
