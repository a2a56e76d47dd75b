/* SPDX-License-Identifier: MIT */
/*
 * Operations of images and sequences: the part of the kernel tables that only some models need.
 * Part of kernel.h, which says what holds for all.
 *
 * Images are [B, height, width, channels], channels last: one layout from the first layer to the
 * last, in which oneDNN is as fast as in blocked ones, and a pixel's channels are a run that vector
 * loops and neighbouring threads read. Weights are as files have them,
 * [O, channels, height, width].
 */
#pragma once

#include "common/kernel/kernel_residual.h"
#include "common/kernel/kernel_step.h"

#include <stdbool.h>
#include <stdint.h>

/** How a window moves over an image. Pixel (y, x) of the output is the window whose first pixel is
 *  (y stride_y - top, x stride_x - left) of the input; what lies outside is padding. */
typedef struct ls_window {
    int64_t in_height, in_width;   /**< pixels of the input */
    int64_t out_height, out_width; /**< pixels of the output */
    int64_t height, width;         /**< pixels of the window */
    int64_t stride_y, stride_x;    /**< pixels from one position to the next */
    int64_t top, left;             /**< padding before; what is needed after follows */
} ls_window;

/** [B, in_height, in_width, C] to [B, out_height, out_width, O]. */
typedef struct ls_conv_shape {
    int64_t rows, channels, outputs; /**< B, C, O */
    ls_window window;                /**< of the image */
} ls_conv_shape;

/** y = activation(convolution of x + bias). */
typedef struct ls_conv_forward_args {
    ls_conv_shape shape;      /**< sizes */
    const void *x;            /**< real [B, in_height, in_width, C] */
    const void *weight;       /**< real [O, C, height, width] */
    const void *bias;         /**< real [O]; NULL if none */
    void *y;                  /**< real [B, out_height, out_width, O] */
    ls_activation activation; /**< of each element of y */
} ls_conv_forward_args;

/** The gradients of the weights and the bias. Overwrites. */
typedef struct ls_conv_backward_weights_args {
    ls_conv_shape shape; /**< sizes */
    const void *x;       /**< real [B, in_height, in_width, C] */
    const void *dy;      /**< real [B, out_height, out_width, O] */
    void *dweight;       /**< real [O, C, height, width] */
    void *dbias;         /**< real [O]; NULL if none */
} ls_conv_backward_weights_args;

/** The gradient of x. Overwrites. `forward` is NULL, or this table's conv_forward, not freed before
 * this operation: each run of this follows one of its runs, with unchanged weights. */
typedef struct ls_conv_backward_data_args {
    ls_conv_shape shape;         /**< sizes */
    const void *dy;              /**< real [B, out_height, out_width, O] */
    const void *weight;          /**< real [O, C, height, width] */
    void *dx;                    /**< real [B, in_height, in_width, C] */
    const struct ls_op *forward; /**< what it made of the weights is reused */
} ls_conv_backward_data_args;

/** The maximum of each window, and its position in the image (y in_width + x; the first among
 * equals). Padding is never the maximum. */
typedef struct ls_max_pool_forward_args {
    int64_t rows, channels; /**< B, C */
    ls_window window;       /**< of the image */
    const void *x;          /**< real [B, in_height, in_width, C] */
    void *y;                /**< real [B, out_height, out_width, C] */
    int32_t *argmax;        /**< [B, out_height, out_width, C] */
} ls_max_pool_forward_args;

/** dx of a pixel = the sum of the dy of all windows whose maximum it was, else 0. Overwrites. With
 * `relu_output` (y, if a ReLU made x) a dy counts only where that is positive. */
typedef struct ls_max_pool_backward_args {
    int64_t rows, channels;  /**< B, C */
    ls_window window;        /**< of the image */
    const void *dy;          /**< real [B, out_height, out_width, C] */
    const int32_t *argmax;   /**< [B, out_height, out_width, C] */
    const void *relu_output; /**< real [B, out_height, out_width, C]; NULL means no mask */
    void *dx;                /**< real [B, in_height, in_width, C] */
} ls_max_pool_backward_args;

/**
 * Local response normalisation across channels (Krizhevsky et al. 2012):
 * y[i] = x[i] / s[i]^0.75, s[i] = 1 + alpha * the sum of x[j]^2, |j - i| <= radius.
 */
typedef struct ls_lrn_forward_args {
    int64_t pixels, channels; /**< pixels: of all rows */
    int64_t radius;           /**< channels on each side */
    double alpha;             /**< of the sum of squares */
    const void *x;            /**< real [pixels, C] */
    void *y;                  /**< real [pixels, C] */
} ls_lrn_forward_args;

/** dx[i] = dy[i] / s[i]^0.75 - 1.5 alpha x[i] * the sum of dy[j] x[j] / s[j]^1.75, |j - i| <=
 *  radius. With `relu`, x being a ReLU's output, dx is 0 where x is not positive. */
typedef struct ls_lrn_backward_args {
    int64_t pixels, channels, radius; /**< of all rows; C; as in forward */
    double alpha;                     /**< of the sum of squares */
    bool relu;                        /**< x is one's output */
    const void *x, *dy;               /**< real [pixels, C] */
    void *dx;                         /**< real [pixels, C] */
} ls_lrn_backward_args;

/** y[b,c,r] = x[b,r,c]. */
typedef struct ls_transpose_args {
    int64_t batch, rows, columns; /**< sizes of x */
    const void *x;                /**< real [batch, rows, columns] */
    void *y;                      /**< real [batch, columns, rows] */
} ls_transpose_args;

/**
 * Weight decay's part of the loss: *loss = the sum over the ranges' elements of decay * w^2 / 2,
 * each rounded to a multiple of 2^-44 (ls_decay_part). (The gradient's is the update's:
 * ls_update_range.)
 */
typedef struct ls_weight_decay_args {
    int64_t count;                 /**< elements */
    const void *weight;            /**< real [count] */
    const ls_update_range *ranges; /**< that decay, in order; copied */
    int64_t range_count;           /**< how many ranges */
    double *loss;                  /**< [1] */
} ls_weight_decay_args;

/**
 * Crops of images, each normalised to mean 0 and variance 1: out = (x - mean) / max(sd, 1 /
 * sqrt(n)), where the values x of the crop are 0 to 255 and n = C side^2 is their number. The crop
 * of row i is in the middle, or with `augment` anywhere, and is flipped left to right or not, by
 * Philox4x32-10 of (seed, state->position + offset + i): so a sample of the endless sequence is the
 * same for every replica. Images have a border of `pad` zeros, which a crop may include. (A random
 * brightness is not drawn: subtracting the mean would cancel it.)
 */
typedef struct ls_gather_crops_args {
    int64_t rows, channels;     /**< B, C */
    int64_t in_side, out_side;  /**< pixels of an image, and of a crop */
    const uint8_t *source;      /**< [samples, C, in_side, in_side] */
    const uint32_t *indices;    /**< [B] */
    bool augment;               /**< see above */
    uint64_t seed, offset;      /**< of the draw; of this replica's slice in the batch */
    const ls_step_state *state; /**< argument block of the step */
    void *out;                  /**< real [B, C, out_side, out_side] */
    int64_t pad;                /**< on each side */
    uint64_t samples;           /**< of the source: indices are below */
} ls_gather_crops_args;

/**
 * A convolution followed by a global max: only the maximum over all positions is kept, for each
 * output, and the image between convolution and pool is never stored. `argmax` is the position (y
 * out_width + x) of the maximum; among equals any, the same each time. y[b,o] = activation(max over
 * positions of (bias[o] + window * weight[o])).
 */
typedef struct ls_conv_max_forward_args {
    ls_conv_shape shape;      /**< sizes */
    const void *x;            /**< real [B, in_height, in_width, C] */
    const void *weight;       /**< real [O, C, height, width] */
    const void *bias;         /**< real [O]; NULL if none */
    void *y;                  /**< real [B,O] */
    int32_t *argmax;          /**< [B,O] */
    ls_activation activation; /**< of each element of y */
} ls_conv_max_forward_args;

/** dweight[o] = sum over rows of dy[b,o] * the window at argmax[b,o]; dbias = sums of dy. */
typedef struct ls_conv_max_backward_weights_args {
    ls_conv_shape shape;   /**< sizes */
    const void *x;         /**< real [B, in_height, in_width, C] */
    const void *dy;        /**< real [B,O] */
    const int32_t *argmax; /**< [B,O] */
    void *dweight;         /**< real [O, C, height, width] */
    void *dbias;           /**< real [O]; NULL if none */
} ls_conv_max_backward_weights_args;

/** Sizes of an LSTM over whole sequences; `last`: only the last state comes out. */
typedef struct ls_lstm_shape {
    int64_t rows, steps, inputs, hidden; /**< B, T, I, H; at least 1, but rows may be 0 */
    bool last;                           /**< else all states */
} ls_lstm_shape;

/** Reals that forward keeps for backward: [B, T, LS_LSTM_KEPT, H], laid out as the table likes. */
enum { LS_LSTM_KEPT = 6 };

/**
 * With z = W_ih x_t + W_hh h_(t-1) + bias in four parts of H, in the order i, f, g, o, and states
 * that begin at 0 (Hochreiter and Schmidhuber 1997 with the forget gate of Gers et al. 2000):
 * c_t = sigmoid(f) c_(t-1) + sigmoid(i) tanh(g); h_t = sigmoid(o) tanh(c_t).
 */
typedef struct ls_lstm_forward_args {
    ls_lstm_shape shape;   /**< sizes */
    const void *x;         /**< real [B,T,I] */
    const void *weight_ih; /**< real [4H,I] */
    const void *weight_hh; /**< real [4H,H] */
    const void *bias;      /**< real [4H] */
    void *kept;            /**< real [B,T,6,H] */
    void *y;               /**< real [B,T,H]; last: [B,H] */
} ls_lstm_forward_args;

/** Back-propagation through all steps. Overwrites the gradients; kept is used up. In two passes:
 * the first has NULL gradients of the variables, and leaves in kept what the second reads, which
 * has NULL variables, dy and dx. */
typedef struct ls_lstm_backward_args {
    ls_lstm_shape shape;   /**< sizes */
    const void *x;         /**< real [B,T,I] */
    const void *weight_ih; /**< real [4H,I]; NULL means the second pass */
    const void *weight_hh; /**< real [4H,H] */
    void *kept;            /**< real [B,T,6,H]: by forward; undefined afterwards */
    const void *dy;        /**< real [B,T,H]; last: [B,H] */
    void *dx;              /**< real [B,T,I]; NULL if not wanted */
    void *dweight_ih;      /**< real [4H,I]; NULL means the first pass */
    void *dweight_hh;      /**< real [4H,H] */
    void *dbias;           /**< real [4H] */
} ls_lstm_backward_args;

/**
 * loss = scale * sum over rows of log(1 + e^z) - y z, with y 0 or 1, computed as
 * max(z, 0) - y z + log(1 + e^-|z|); dlogits = scale * (sigmoid(z) - y). Another label fails.
 */
typedef struct ls_logistic_loss_args {
    int64_t rows;          /**< B */
    const void *logits;    /**< real [B] */
    const int32_t *labels; /**< [B] */
    double scale;          /**< 1 / global batch size */
    void *dlogits;         /**< real [B]; NULL means forward only */
    double *loss;          /**< [1], overwritten; NULL if not wanted */
} ls_logistic_loss_args;

/** y[b, 0 to width) = x[b, 0 to width), rows lying x_pitch and y_pitch elements apart. */
typedef struct ls_copy_columns_args {
    int64_t rows, width, x_pitch, y_pitch; /**< B, and elements of a row */
    const void *x;                         /**< real [B, x_pitch] */
    void *y;                               /**< real [B, y_pitch] */
} ls_copy_columns_args;

/** Entries of this file. */
#define LS_KERNEL_IMAGE_ENTRIES(X)                                                                 \
    X(gather_crops, ls_gather_crops_args)                                                          \
    X(conv_forward, ls_conv_forward_args)                                                          \
    X(conv_backward_weights, ls_conv_backward_weights_args)                                        \
    X(conv_backward_data, ls_conv_backward_data_args)                                              \
    X(max_pool_forward, ls_max_pool_forward_args)                                                  \
    X(max_pool_backward, ls_max_pool_backward_args)                                                \
    X(lrn_forward, ls_lrn_forward_args)                                                            \
    X(lrn_backward, ls_lrn_backward_args)                                                          \
    X(transpose, ls_transpose_args)                                                                \
    X(weight_decay, ls_weight_decay_args)                                                          \
    X(conv_max_forward, ls_conv_max_forward_args)                                                  \
    X(conv_max_backward_weights, ls_conv_max_backward_weights_args)                                \
    X(lstm_forward, ls_lstm_forward_args)                                                          \
    X(lstm_backward, ls_lstm_backward_args)                                                        \
    X(logistic_loss, ls_logistic_loss_args)                                                        \
    X(copy_columns, ls_copy_columns_args)

/** Entries that a table may leave out (NULL): models that need them are refused there. */
#define LS_KERNEL_LAYER_ENTRIES(X)                                                                 \
    LS_KERNEL_IMAGE_ENTRIES(X)                                                                     \
    LS_KERNEL_RESIDUAL_ENTRIES(X)
