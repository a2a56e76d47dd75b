/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of the cuda table by own kernels that need no windows in memory
 * (gpu_conv_direct.cu): forward, and the gradient of the image. Not yet run on a GPU. The weights,
 * stored as [O,C,height,width], are reordered to channels-last once per run, by the forward pass if
 * there is one. Left to the other implementations: the gradient of the weights; windows of one
 * pixel, which are products of the images themselves; windows of more than 32 pixels, long sums,
 * and channels that cannot be moved four at a time, for which the kernels are not made; TF32.
 */
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/conv/cuda_conv.h"

#include <stdint.h>
#include <stdlib.h>

typedef struct direct_conv {
    ls_op op;
    ls_device *device;
    ls_conv_task t;
    ls_gpu_direct launch;
    float *packed; /* the weights, channels-last; NULL: they are in this order, or lent */
} direct_conv;

static ls_status run(ls_op *op, ls_queue *queue)
{
    const direct_conv *c = (const direct_conv *)op;
    void *stream = ls_queue_native(queue);
    if (c->packed)
        LS_TRY(ls_cuda_launched(
            op, queue, ls_conv_swap_taps(stream, &c->t.shape, false, c->t.weight, c->packed)));
    return ls_cuda_launched(op, queue, ls_gpu_conv_direct(stream, &c->launch));
}

const float *ls_direct_reordered(const ls_conv_task *task)
{
    const direct_conv *c = (const direct_conv *)task->forward;
    return c->op.run == run && c->t.y && c->t.weight == task->weight ? c->packed : NULL;
}

static void destroy(ls_op *op)
{
    direct_conv *c = (direct_conv *)op;
    ls_device_release(c->device, c->packed);
    free(c);
}

/* ---- Which shapes ---------------------------------------------------------------------------- */

static bool begins_on_four(const void *tensor)
{
    return (uintptr_t)tensor % (4 * sizeof(float)) == 0;
}

/* Numbers of elements of everything are ints in the kernels. */
static bool is_small(const ls_conv_shape *s)
{
    const double taps = (double)ls_conv_taps(s), rows = (double)s->rows;
    const double x = rows * (double)ls_conv_pixels(s) * (double)s->channels;
    const double y = rows * (double)ls_conv_positions(s) * (double)s->outputs;
    const double weights = taps * (double)s->channels * (double)s->outputs;
    const double axes = (double)s->window.stride_y * (double)s->window.stride_x;
    const double most = 1 << 30;
    return x < most && y < most && weights < most && axes < most &&
           (double)(s->window.top + s->window.left) < most;
}

bool ls_direct_takes(const ls_kernels *kernels, const ls_conv_task *task)
{
    const ls_conv_shape *s = &task->shape;
    const int64_t taps = ls_conv_taps(s);
    const int64_t from = task->dx ? s->outputs : s->channels;
    const int64_t to = task->dx ? s->channels : s->outputs;
    const int64_t terms = from % 4 == 0 ? taps * from / 4 : taps * from;
    return !task->dweight && kernels->math == LS_MATH_FLOAT32 && is_small(s) && s->rows > 0 &&
           ls_conv_positions(s) > 0 && ls_conv_pixels(s) > 0 && taps > 1 &&
           taps <= LS_GPU_DIRECT_TAPS && from > 0 && to > 0 && to % 4 == 0 &&
           (!task->dx || from % 4 == 0) && terms <= LS_GPU_DIRECT_TERMS &&
           begins_on_four(task->x) && begins_on_four(task->y) && begins_on_four(task->dx) &&
           begins_on_four(task->dy);
}

/* ---- Making one ------------------------------------------------------------------------------ */

static ls_gpu_direct launch_of(const ls_conv_task *task, const float *weight)
{
    const ls_conv_shape *s = &task->shape;
    const ls_window *w = &s->window;
    const ls_gpu_direct_window window = {(int)w->height,   (int)w->width, (int)w->stride_y,
                                         (int)w->stride_x, (int)w->top,   (int)w->left};
    if (task->dx)
        return (ls_gpu_direct){.window = window,
                               .back = true,
                               .rows = (int)s->rows,
                               .from_height = (int)w->out_height,
                               .from_width = (int)w->out_width,
                               .from_channels = (int)s->outputs,
                               .to_height = (int)w->in_height,
                               .to_width = (int)w->in_width,
                               .to_channels = (int)s->channels,
                               .from = task->dy,
                               .weight = weight,
                               .to = task->dx};
    return (ls_gpu_direct){.window = window,
                           .relu = task->relu,
                           .rows = (int)s->rows,
                           .from_height = (int)w->in_height,
                           .from_width = (int)w->in_width,
                           .from_channels = (int)s->channels,
                           .to_height = (int)w->out_height,
                           .to_width = (int)w->out_width,
                           .to_channels = (int)s->outputs,
                           .from = task->x,
                           .weight = weight,
                           .bias = task->bias,
                           .to = task->y};
}

ls_status ls_direct_conv(ls_kernels *kernels, const ls_conv_task *task, ls_op **out)
{
    const ls_conv_shape *s = &task->shape;
    const float *lent = ls_conv_reordered(task);
    direct_conv *c;
    LS_TRY(ls_allocate("convolution", &c, 1, sizeof *c));
    c->op = (ls_op){.name = task->dx ? "conv_backward_data.direct" : "conv_forward.direct",
                    .run = run,
                    .destroy = destroy};
    c->device = kernels->device;
    c->t = *task;
    if (!lent && s->channels > 1) {
        void *memory;
        c->op.workspace = (size_t)(s->outputs * ls_conv_taps(s) * s->channels) * sizeof(float);
        ls_status status =
            ls_device_allocate(c->device, LS_MEMORY_WORKSPACE, c->op.workspace, &memory);
        if (status) {
            free(c);
            return status;
        }
        c->packed = memory;
    }
    c->launch = launch_of(task, lent ? lent : c->packed ? c->packed : task->weight);
    *out = &c->op;
    return LS_OK;
}
