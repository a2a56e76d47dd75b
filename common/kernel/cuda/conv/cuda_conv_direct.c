/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of the cuda table by own kernels that need no windows in memory
 * (gpu_conv_direct.cu): forward, and the gradient of the image. The weights, stored as
 * [O,C,height,width], are reordered to channels-last once per run, by the forward pass if there is
 * one. Left to the other implementations: the gradient of the weights; windows of one pixel, which
 * are products of the images themselves; windows of more than 32 pixels, long sums, and channels
 * that cannot be moved four at a time, for which the kernels are not made; TF32.
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
    float *packed; /* the weights, channels-last; NULL if they are in this order, or lent */
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

/* Whether the kernels' numbers suffice for its elements, and, for a gradient, each class of
 * positions has positions and taps. */
static bool is_small(const ls_conv_shape *s, bool back)
{
    const ls_window *w = &s->window;
    const double rows = (double)s->rows, most = 1 << 30;
    const double x = rows * (double)ls_conv_pixels(s) * (double)s->channels;
    const double y = rows * (double)ls_conv_positions(s) * (double)s->outputs;
    const double weights = (double)ls_conv_taps(s) * (double)s->channels * (double)s->outputs;
    const bool classes = w->stride_y * w->stride_x <= LS_GPU_DIRECT_CLASSES &&
                         w->stride_y <= w->height && w->stride_x <= w->width &&
                         w->stride_y <= w->in_height && w->stride_x <= w->in_width;
    return x < most && y < most && weights < most && (classes || !back);
}

bool ls_direct_takes(const ls_kernels *kernels, const ls_conv_task *task)
{
    const ls_conv_shape *s = &task->shape;
    const int64_t taps = ls_conv_taps(s);
    const int64_t from = task->dx ? s->outputs : s->channels;
    const int64_t to = task->dx ? s->channels : s->outputs;
    const int64_t terms = from % 4 == 0 ? taps * from / 4 : taps * from;
    return !task->dweight && kernels->math == LS_MATH_FLOAT32 && s->rows > 0 &&
           ls_conv_positions(s) > 0 && ls_conv_pixels(s) > 0 && taps > 1 &&
           taps <= LS_GPU_DIRECT_TAPS && is_small(s, task->dx != NULL) && from > 0 && to > 0 &&
           to % 4 == 0 && (!task->dx || from % 4 == 0) && terms <= LS_GPU_DIRECT_TERMS &&
           (s->channels % 4 || ls_gpu_takes_fours(task->x)) && ls_gpu_takes_fours(task->y) &&
           ls_gpu_takes_fours(task->dx) && ls_gpu_takes_fours(task->dy);
}

/* ---- Making one ------------------------------------------------------------------------------ */

/* The positions on an axis of y: one class. */
static ls_gpu_direct_axis axis_forward(int64_t out, int64_t window, int64_t stride, int64_t before)
{
    return (ls_gpu_direct_axis){.positions = (int)out,
                                .step = 1,
                                .taps = (int)window,
                                .spacing = (int)stride,
                                .at = (int)-before};
}

/* The positions of dx in class `number` of `stride`: tap t of position p reads y at (p + before -
 * t) / stride, if that is an integer. */
static ls_gpu_direct_axis axis_back(int64_t in, int64_t window, int64_t stride, int64_t before,
                                    int64_t number)
{
    const int64_t tap = (number + before) % stride;
    return (ls_gpu_direct_axis){.positions = (int)((in - number + stride - 1) / stride),
                                .first = (int)number,
                                .step = (int)stride,
                                .taps = (int)((window - tap + stride - 1) / stride),
                                .tap = (int)tap,
                                .spacing = 1,
                                .at = (int)((number + before - tap) / stride)};
}

static void set_classes(const ls_conv_task *task, ls_gpu_direct *d)
{
    const ls_window *w = &task->shape.window;
    const int64_t across = d->back ? w->stride_x : 1;
    d->count = d->back ? (int)(w->stride_y * w->stride_x) : 1;
    for (int64_t i = 0; i < d->count; i++) {
        ls_gpu_direct_class *c = &d->classes[i];
        if (d->back) {
            c->y = axis_back(w->in_height, w->height, w->stride_y, w->top, i / across);
            c->x = axis_back(w->in_width, w->width, w->stride_x, w->left, i % across);
        } else {
            c->y = axis_forward(w->out_height, w->height, w->stride_y, w->top);
            c->x = axis_forward(w->out_width, w->width, w->stride_x, w->left);
        }
        c->positions = (int)task->shape.rows * c->y.positions * c->x.positions;
        c->terms = c->y.taps * c->x.taps * d->from_channels;
    }
}

static ls_gpu_direct launch_of(const ls_conv_task *task, const float *weight)
{
    const ls_conv_shape *s = &task->shape;
    const ls_window *w = &s->window;
    ls_gpu_direct d = {.back = task->dx != NULL,
                       .relu = task->relu,
                       .taps = (int)ls_conv_taps(s),
                       .width = (int)w->width,
                       .weight = weight,
                       .bias = task->bias};
    const int in[] = {(int)w->in_height, (int)w->in_width, (int)s->channels};
    const int out[] = {(int)w->out_height, (int)w->out_width, (int)s->outputs};
    const int *from = d.back ? out : in, *to = d.back ? in : out;
    d.from_height = from[0], d.from_width = from[1], d.from_channels = from[2];
    d.to_height = to[0], d.to_width = to[1], d.to_channels = to[2];
    d.from = d.back ? task->dy : task->x;
    d.to = d.back ? task->dx : task->y;
    set_classes(task, &d);
    return d;
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
