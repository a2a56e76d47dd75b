/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of the cuda table: selects the implementation. It is selected when the operation is
 * made, and named in a row's kernels: own kernels without windows where they are made for the shape
 * (cuda_conv_direct.c, cuda_conv_weights.c); otherwise cuDNN where it is faster, installed and
 * supports the shape; otherwise products of windows, also if cuDNN's trial fails on a device that
 * still works, which the table's library then says. With LS_CONVOLUTION_CUDNN all are cuDNN's, and
 * it is an error if it cannot; LS_CONVOLUTION_OWN never uses it. The first convolution that needs
 * the library loads it; an installed library that is broken is an error.
 */
#include "common/kernel/cuda/conv/cuda_conv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Searches once. */
static ls_status find_library(cuda_kernels *cuda)
{
    if (cuda->dnn || cuda->dnn_absent)
        return LS_OK;
    LS_TRY(ls_dnn_find(cuda));
    const size_t used = strlen(cuda->library);
    if (cuda->dnn)
        snprintf(cuda->library + used, sizeof cuda->library - used, ", cuDNN %s",
                 ls_dnn_version_of(cuda->dnn, (char[32]){0}));
    else
        snprintf(cuda->library + used, sizeof cuda->library - used, ", no cuDNN");
    return LS_OK;
}

/* Whether to ask cuDNN; not for an empty convolution. */
static ls_status ask_library(ls_kernels *kernels, const ls_conv_shape *s, bool *out)
{
    cuda_kernels *cuda = (cuda_kernels *)kernels;
    *out = false;
    if (kernels->convolution == LS_CONVOLUTION_OWN || s->rows < 1 || ls_conv_positions(s) < 1)
        return LS_OK;
    LS_TRY(find_library(cuda));
    *out = cuda->dnn != NULL;
    return LS_OK;
}

/* Whether cuDNN is faster than products of windows: a function of the shape, so that the bits are,
 * too. Measured on an H100 (shapes of the models; results/README.md): its gradients of weights are
 * 1.5 to 26 times as slow; where a window has few outputs, or an image few channels, writing the
 * windows costs more than the product. For most of the models' shapes there are kernels without
 * windows. */
static bool is_faster(const ls_conv_task *task)
{
    const ls_conv_shape *s = &task->shape;
    if (task->dweight)
        return false;
    if (task->y)
        return s->outputs <= 32 || s->channels <= 4;
    return s->outputs <= 32 && s->channels >= 16 && s->window.stride_x == 1 &&
           s->window.stride_y == 1;
}

/* Refuses if cuDNN is required and `why` says that it cannot; NULL if it can. */
static ls_status insist(const ls_kernels *kernels, const ls_conv_shape *s, const char *why)
{
    const ls_window *w = &s->window;
    char shape[160];
    if (!why || kernels->convolution != LS_CONVOLUTION_CUDNN)
        return LS_OK;
    snprintf(shape, sizeof shape,
             "%" PRId64 "x%" PRId64 "x%" PRId64 " to %" PRId64 "x%" PRId64 "x%" PRId64,
             w->in_height, w->in_width, s->channels, w->out_height, w->out_width, s->outputs);
    return ls_fail(LS_CODE_MISSING, "cuDNN", shape,
                   "cuDNN cannot compute this convolution, since %s; use --convolution auto or own",
                   why);
}

/* Whether this implementation is asked for, or none. */
static bool is_asked(const ls_kernels *kernels, ls_conv_way way)
{
    const ls_conv_way asked = ((const cuda_kernels *)kernels)->way;
    return asked == way || asked == LS_CONV_FASTEST;
}

/* By own kernels without windows; *out is unchanged if there are none for this task. */
static ls_status try_direct(ls_kernels *kernels, const ls_conv_task *task, ls_op **out)
{
    if (kernels->convolution == LS_CONVOLUTION_CUDNN || !is_asked(kernels, LS_CONV_DIRECT))
        return LS_OK;
    if (task->dweight)
        return ls_direct_conv_weights(kernels, task, out);
    return ls_direct_takes(kernels, task) ? ls_direct_conv(kernels, task, out) : LS_OK;
}

static bool tries_library(const ls_kernels *kernels, const ls_conv_task *task)
{
    const bool asked = ((const cuda_kernels *)kernels)->way == LS_CONV_LIBRARY;
    return asked || kernels->convolution == LS_CONVOLUTION_CUDNN ||
           (is_asked(kernels, LS_CONV_LIBRARY) && is_faster(task));
}

static ls_status choose(ls_kernels *kernels, const ls_conv_task *task, ls_op **out)
{
    const char *why = NULL;
    bool asked = false;
    ls_op *op = NULL;
    LS_TRY(try_direct(kernels, task, &op));
    if (!op && tries_library(kernels, task))
        LS_TRY(ask_library(kernels, &task->shape, &asked));
    if (asked)
        LS_TRY(ls_dnn_conv(kernels, task, &op, &why));
    LS_TRY(insist(kernels, &task->shape, why));
    if (!op)
        LS_TRY(ls_product_conv(kernels, task, &op));
    *out = op;
    return LS_OK;
}

const float *ls_conv_reordered(const ls_conv_task *task)
{
    if (!task->dx || !task->forward)
        return NULL;
    const float *at = ls_product_reordered(task);
    if (!at)
        at = ls_direct_reordered(task);
    return at ? at : ls_dnn_reordered(task);
}

ls_status ls_cuda_conv_forward(ls_kernels *kernels, const ls_conv_forward_args *a, ls_op **out)
{
    const ls_conv_task task = {.shape = a->shape,
                               .x = a->x,
                               .weight = a->weight,
                               .bias = a->bias,
                               .relu = a->activation == LS_ACTIVATION_RELU,
                               .y = a->y};
    return choose(kernels, &task, out);
}

ls_status ls_cuda_conv_backward_weights(ls_kernels *kernels, const ls_conv_backward_weights_args *a,
                                        ls_op **out)
{
    const ls_conv_task task = {
        .shape = a->shape, .x = a->x, .dy = a->dy, .dweight = a->dweight, .dbias = a->dbias};
    return choose(kernels, &task, out);
}

ls_status ls_cuda_conv_backward_data(ls_kernels *kernels, const ls_conv_backward_data_args *a,
                                     ls_op **out)
{
    const ls_conv_task task = {
        .shape = a->shape, .dy = a->dy, .weight = a->weight, .dx = a->dx, .forward = a->forward};
    return choose(kernels, &task, out);
}
