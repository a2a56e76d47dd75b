/* SPDX-License-Identifier: MIT */
/*
 * Operations of images and sequences: the part of the kernel tables that only some models need.
 * Part of kernel.h, which says what holds for all.
 *
 * Images are [B, height, width, channels], channels last: one layout from the first layer to the
 * last, in which oneDNN and cuDNN are as fast as in blocked ones, and a pixel's channels are a run
 * that vector loops read. Weights are as files have them, [O, channels, height, width].
 */
#ifndef LS_COMMON_KERNEL_KERNEL_LAYERS_H
#define LS_COMMON_KERNEL_KERNEL_LAYERS_H

#include <stdbool.h>
#include <stdint.h>

/** How a window moves over an image. Pixel (y, x) of the output is the window whose first pixel is
 *  (y stride_y - top, x stride_x - left) of the input; what lies outside is padding. */
typedef struct ls_window {
    int64_t in_height, in_width;
    int64_t out_height, out_width;
    int64_t height, width;
    int64_t stride_y, stride_x;
    int64_t top, left; /**< padding before; what is needed after follows */
} ls_window;

/** [B, in_height, in_width, C] to [B, out_height, out_width, O]. */
typedef struct ls_conv_shape {
    int64_t rows, channels, outputs;
    ls_window window;
} ls_conv_shape;

/**
 * A convolution of which only the largest of all positions is kept, for each output: convolution
 * and global max pool in one, without the image between them. `place` is the position
 * (y out_width + x) that was the largest; among equals any, the same each time.
 * y[b,o] = activation(max over positions of (bias[o] + window * weight[o])).
 */
typedef struct ls_conv_max_forward_args {
    ls_conv_shape shape;
    const void *x;      /**< real [B, in_height, in_width, C] */
    const void *weight; /**< real [O, C, height, width] */
    const void *bias;   /**< real [O]; NULL: none */
    void *y;            /**< real [B,O] */
    int32_t *place;     /**< [B,O] */
    ls_activation activation;
} ls_conv_max_forward_args;

/** dweight[o] = sum over rows of dy[b,o] * the window at place[b,o]; dbias = sums of dy. */
typedef struct ls_conv_max_backward_weights_args {
    ls_conv_shape shape;
    const void *x;        /**< real [B, in_height, in_width, C] */
    const void *dy;       /**< real [B,O] */
    const int32_t *place; /**< [B,O] */
    void *dweight;        /**< real [O, C, height, width] */
    void *dbias;          /**< real [O]; NULL: none */
} ls_conv_max_backward_weights_args;

/** Entries that a table may leave out (NULL): models that need them are refused there. */
#define LS_KERNEL_LAYER_ENTRIES(X)                                                                 \
    X(conv_max_forward, ls_conv_max_forward_args)                                                  \
    X(conv_max_backward_weights, ls_conv_max_backward_weights_args)

#endif
