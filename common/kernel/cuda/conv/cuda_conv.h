/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of the cuda table, in three implementations: products of windows (cuda_conv.c), own
 * kernels without windows (cuda_conv_direct.c, cuda_conv_weights.c), and cuDNN's (cuda_conv_dnn.c).
 * cuda_conv_choice.c selects one per operation.
 */
#pragma once

#include "common/kernel/cuda/cuda_kernels.h"

/** A convolution, or a gradient: what it makes (y; dweight and dbias; dx) is not NULL. */
typedef struct ls_conv_task {
    ls_conv_shape shape;
    const float *x, *dy, *weight, *bias;
    bool relu;
    float *y, *dx, *dweight, *dbias;
    const ls_op *forward; /**< as in ls_conv_backward_data_args */
} ls_conv_task;

/* What follows of a shape: pixels of an output, of an input, and of a window. */
static inline int64_t ls_conv_positions(const ls_conv_shape *s)
{
    return s->window.out_height * s->window.out_width;
}

static inline int64_t ls_conv_pixels(const ls_conv_shape *s)
{
    return s->window.in_height * s->window.in_width;
}

static inline int64_t ls_conv_taps(const ls_conv_shape *s)
{
    return s->window.height * s->window.width;
}

/** Weights from [O, C, height, width], as files have them, to [O, height, width, C]; `back`: the
 *  other way. Returns 0, or the cudaError_t of a launch that was refused. */
int ls_conv_swap_taps(void *stream, const ls_conv_shape *shape, bool back, const float *from,
                      float *to);

/** The reordered weights that the task's forward operation leaves, whatever its implementation, for
 * a gradient of the image; aligned to 64 bytes. NULL if the forward operation left none, or had
 * other weights. */
const float *ls_conv_reordered(const ls_conv_task *task);

/* As above, if that operation, which is not NULL, is this implementation's. */
const float *ls_product_reordered(const ls_conv_task *task);
const float *ls_direct_reordered(const ls_conv_task *task);
const float *ls_dnn_reordered(const ls_conv_task *task);

/** cuda_conv.c: any shape. */
ls_status ls_product_conv(ls_kernels *kernels, const ls_conv_task *task, ls_op **out);

/** cuda_conv_direct.c: whether it is made for this task; no gradient of weights. */
bool ls_direct_takes(const ls_kernels *kernels, const ls_conv_task *task);
ls_status ls_direct_conv(ls_kernels *kernels, const ls_conv_task *task, ls_op **out);

/** cuda_conv_weights.c: the gradient of the weights straight from the images; *out is unchanged if
 * there is no kernel for the shape, or the math is not float32. */
ls_status ls_direct_conv_weights(ls_kernels *kernels, const ls_conv_task *task, ls_op **out);

/* cuda_conv_dnn.c; in builds without cuDNN cuda_conv_alone.c, which never finds one. */
/** Loads the library for the table: sets cuda->dnn or, if the library is missing and was not
 * requested, cuda->dnn_absent. */
ls_status ls_dnn_find(cuda_kernels *cuda);
const char *ls_dnn_version_of(const ls_dnn *dnn, char text[32]);

/** By the table's library. If that cannot do it, *why has the reason, and *out is unchanged. */
ls_status ls_dnn_conv(ls_kernels *kernels, const ls_conv_task *task, ls_op **out, const char **why);
