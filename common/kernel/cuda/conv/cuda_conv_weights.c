/* SPDX-License-Identifier: MIT */
/*
 * The gradient of a convolution's weights and bias by gpu_conv_weights.cu, which reads images and
 * gradients in their stored layout and writes the weights in their stored order: no windows, no
 * reordering. Workspace: what the blocks of a chunk leave of each weight, a few MB, tens of MB in
 * the widest layers.
 */
#include "common/kernel/cuda/conv/cuda_conv.h"

#include <stdlib.h>

typedef struct weights_op {
    ls_op op;
    ls_device *device;
    ls_gpu_conv_weights args;
    void *memory;
} weights_op;

static ls_status run(ls_op *op, ls_queue *queue)
{
    const weights_op *w = (const weights_op *)op;
    return ls_cuda_launched(op, queue, ls_gpu_conv_weights_run(ls_queue_native(queue), &w->args));
}

static void destroy(ls_op *op)
{
    weights_op *w = (weights_op *)op;
    ls_device_release(w->device, w->memory);
    free(w);
}

ls_status ls_direct_conv_weights(ls_kernels *kernels, const ls_conv_task *task, ls_op **out)
{
    ls_gpu_conv_weights args;
    weights_op *w;
    if (kernels->math != LS_MATH_FLOAT32 || !ls_gpu_conv_weights_plan(&task->shape, &args))
        return LS_OK;
    LS_TRY(ls_allocate("convolution", &w, 1, sizeof *w));
    w->op = (ls_op){.name = "conv_backward_weights.direct", .run = run, .destroy = destroy};
    w->op.workspace =
        (size_t)(args.chunks * args.column_tiles * args.output_tiles * args.part_floats) *
        sizeof(float);
    w->device = kernels->device;
    ls_status status =
        ls_device_allocate(w->device, LS_MEMORY_WORKSPACE, w->op.workspace, &w->memory);
    if (status) {
        free(w);
        return status;
    }
    w->args = args;
    w->args.x = task->x;
    w->args.dy = task->dy;
    w->args.dweight = task->dweight;
    w->args.dbias = task->dbias;
    w->args.parts = w->memory;
    *out = &w->op;
    return LS_OK;
}
