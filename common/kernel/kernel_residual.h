/* SPDX-License-Identifier: MIT */
/*
 * Operations of residual networks: batch normalisation (Ioffe and Szegedy 2015), shortcuts, the
 * mean of an image, moving averages. Part of kernel.h, which says what holds for all, and of
 * kernel_layers.h, which says how images lie.
 *
 * Batch normalisation is cut where sums over pixels are complete, so that sums of several replicas
 * can be added in between:
 *
 *     forward    bn_sums; where others' sums were added, bn_moments; bn_forward
 *     backward   bn_backward_sums; bn_backward
 *
 * Sums are double, [2,C]; moments are real [2,C]: the mean, and 1 / sqrt(variance + epsilon).
 */
#pragma once

#include "common/kernel/kernel_step.h"

#include <stdbool.h>
#include <stdint.h>

/** sums[0,c] = sum over pixels of x[p,c], sums[1,c] the sum of x[p,c]^2; and the moments that
 * bn_moments would give for these pixels. */
typedef struct ls_bn_sums_args {
    int64_t pixels, channels; /**< pixels: of all rows */
    const void *x;            /**< real [pixels, C] */
    double *sums;             /**< [2,C] */
    void *moments;            /**< real [2,C]; NULL if not wanted */
    double epsilon;           /**< added to the variance */
} ls_bn_sums_args;

/** Moments of a batch of `count` pixels, from their sums; the variance is the batch's, sum /
 * count. */
typedef struct ls_bn_moments_args {
    int64_t channels, count; /**< C; pixels of the batch */
    double epsilon;          /**< added to the variance */
    const double *sums;      /**< [2,C] */
    void *moments;           /**< real [2,C] */
} ls_bn_moments_args;

/** Moments of the moving statistics, for evaluation. */
typedef struct ls_bn_moving_moments_args {
    int64_t channels;            /**< C */
    double epsilon;              /**< added to the variance */
    const void *mean, *variance; /**< real [C] */
    void *moments;               /**< real [2,C] */
} ls_bn_moving_moments_args;

/** y = activation((x - mean) * (weight / sqrt(variance + epsilon)) + bias + z). */
typedef struct ls_bn_forward_args {
    int64_t pixels, channels; /**< pixels of all rows; C */
    const void *x;            /**< real [pixels, C] */
    const void *moments;      /**< real [2,C] */
    const void *weight;       /**< real [C] */
    const void *bias;         /**< real [C] */
    const void *z;            /**< real [pixels, C], a shortcut; NULL if none */
    void *y;                  /**< real [pixels, C] */
    ls_activation activation; /**< of each element of y */
} ls_bn_forward_args;

/**
 * What backward needs of all pixels. g = dy, or with ReLU dy where the output is positive, else 0;
 * the output is `y`, or, where that is NULL, computed again from x as bn_forward does without z.
 * With n = (x - mean) / sqrt(variance + epsilon): sums[0,c] = sum of g, sums[1,c] = sum of g n;
 * dbias and dweight are the same, rounded. Where `dz` is not NULL it becomes g; it may be dy.
 *
 * And the part of the moving statistics that a batch of `count` pixels has, from its sums by
 * bn_sums, `batch`: mean = share * the batch's mean, variance = share * its unbiased variance
 * (sum / (count - 1); of one pixel 0).
 */
typedef struct ls_bn_backward_sums_args {
    int64_t pixels, channels; /**< pixels of all rows; C */
    const void *x;            /**< real [pixels, C] */
    const void *moments;      /**< real [2,C] */
    const void *weight;       /**< real [C] */
    const void *bias;         /**< real [C] */
    ls_activation activation; /**< as in forward */
    const void *y;            /**< real [pixels, C] or NULL */
    const void *dy;           /**< real [pixels, C] */
    void *dz;                 /**< real [pixels, C] or NULL */
    double *sums;             /**< [2,C] */
    void *dweight;            /**< real [C] */
    void *dbias;              /**< real [C] */
    const double *batch;      /**< [2,C] */
    int64_t count;            /**< pixels of the batch */
    double share;             /**< of the batch in the moving statistics */
    void *mean;               /**< real [C] */
    void *variance;           /**< real [C] */
} ls_bn_backward_sums_args;

/** dx = weight / sqrt(variance + epsilon) * (g - sums[0] / count - n sums[1] / count), `sums` being
 *  of the batch's `count` pixels; g and n as above, without `y`. */
typedef struct ls_bn_backward_args {
    int64_t pixels, channels, count; /**< pixels of all rows; C; pixels of the batch */
    const void *x;                   /**< real [pixels, C] */
    const void *moments;             /**< real [2,C] */
    const void *weight;              /**< real [C] */
    const void *bias;                /**< real [C] */
    ls_activation activation;        /**< as in forward */
    const double *sums;              /**< [2,C] */
    const void *dy;                  /**< real [pixels, C] */
    void *dx;                        /**< real [pixels, C] */
} ls_bn_backward_args;

/** A shortcut to a smaller image of more channels: pixel (y, x) is pixel (y stride, x stride) of
 * the input; channels that the input does not have, the last ones, are 0. */
typedef struct ls_shortcut_shape {
    int64_t rows, in_height, in_width, channels, outputs, stride; /**< outputs >= channels */
} ls_shortcut_shape;

/** Copies the pixels. */
typedef struct ls_shortcut_forward_args {
    ls_shortcut_shape shape; /**< sizes */
    const void *x;           /**< real [B, in_height, in_width, C] */
    void *y;                 /**< real [B, ceil(in_height / stride), ceil(in_width / stride), O] */
} ls_shortcut_forward_args;

/** Copies gradients back; the others are 0. */
typedef struct ls_shortcut_backward_args {
    ls_shortcut_shape shape; /**< sizes */
    const void *dy;          /**< as y */
    void *dx;                /**< as x; overwritten */
} ls_shortcut_backward_args;

/** y[b,c] = the mean of x[b,p,c] over the pixels p. */
typedef struct ls_mean_pool_forward_args {
    int64_t rows, pixels, channels; /**< pixels: of one row, at least 1 */
    const void *x;                  /**< real [B, pixels, C] */
    void *y;                        /**< real [B,C] */
} ls_mean_pool_forward_args;

/** dx[b,p,c] = dy[b,c] / pixels. */
typedef struct ls_mean_pool_backward_args {
    int64_t rows, pixels, channels; /**< B, pixels of one row, C */
    const void *dy;                 /**< real [B,C] */
    void *dx;                       /**< real [B, pixels, C]; overwritten */
} ls_mean_pool_backward_args;

/** average += (1 - d) (value - average), d being `decay`, or with `state` the least of that and
 *  (1 + t) / (10 + t), t = state->step + 1 (TensorFlow's ExponentialMovingAverage). */
typedef struct ls_moving_average_args {
    int64_t count;              /**< elements */
    double decay;               /**< at most */
    const ls_step_state *state; /**< NULL means always `decay` */
    const void *value;          /**< real [count] */
    void *average;              /**< real [count] */
} ls_moving_average_args;

/** out = a + b in double: sums of several parts of a batch. Without b (NULL) a copy; out may be a
 * or b. */
typedef struct ls_add_sums_args {
    int64_t count;       /**< elements */
    const double *a, *b; /**< [count] */
    double *out;         /**< [count] */
} ls_add_sums_args;

/** Entries of this file. */
#define LS_KERNEL_RESIDUAL_ENTRIES(X)                                                              \
    X(bn_sums, ls_bn_sums_args)                                                                    \
    X(bn_moments, ls_bn_moments_args)                                                              \
    X(bn_moving_moments, ls_bn_moving_moments_args)                                                \
    X(bn_forward, ls_bn_forward_args)                                                              \
    X(bn_backward_sums, ls_bn_backward_sums_args)                                                  \
    X(bn_backward, ls_bn_backward_args)                                                            \
    X(shortcut_forward, ls_shortcut_forward_args)                                                  \
    X(shortcut_backward, ls_shortcut_backward_args)                                                \
    X(mean_pool_forward, ls_mean_pool_forward_args)                                                \
    X(mean_pool_backward, ls_mean_pool_backward_args)                                              \
    X(moving_average, ls_moving_average_args)                                                      \
    X(add_sums, ls_add_sums_args)
