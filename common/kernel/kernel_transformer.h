/* SPDX-License-Identifier: MIT */
/*
 * Operations of transformers: the part of the kernel tables that only GPT-2's decoder needs. Part
 * of kernel.h, which says what holds for all. B samples of T positions (`steps`), C channels
 * (`width`), V tokens; a row is a position of a sample, so there are B T rows.
 */
#pragma once

#include <stdint.h>

/** y[r] = weight[x[r]]. A number that is no token makes the op fail. */
typedef struct ls_embedding_forward_args {
    int64_t rows, tokens, width; /**< B T, V, C */
    const void *x;               /**< real [rows]: whole numbers from 0 to V - 1 */
    const void *weight;          /**< real [V,C] */
    void *y;                     /**< real [rows,C] */
} ls_embedding_forward_args;

/** dweight[v] = the sum of dy[r] over the rows whose token is v, in the order of the rows. */
typedef struct ls_embedding_backward_args {
    int64_t rows, tokens, width; /**< B T, V, C */
    const void *x;               /**< real [rows]: tokens, as forward has checked them */
    const void *dy;              /**< real [rows,C] */
    void *dweight;               /**< real [V,C], overwritten */
} ls_embedding_backward_args;

/** y[b] = x[b] + weight: each position's own vector. */
typedef struct ls_positions_forward_args {
    int64_t rows, count; /**< B, and T C */
    const void *x;       /**< real [B,T,C] */
    const void *weight;  /**< real [T,C] */
    void *y;             /**< real [B,T,C] */
} ls_positions_forward_args;

/** dweight = the sum of dy[b] over the samples. */
typedef struct ls_positions_backward_args {
    int64_t rows, count; /**< B, and T C */
    const void *dy;      /**< real [B,T,C] */
    void *dweight;       /**< real [T,C], overwritten */
} ls_positions_backward_args;

/**
 * Layer normalisation (Ba, Kiros and Hinton, arXiv 1607.06450): with mean and variance of a row's C
 * values (the variance divided by C), y = (x - mean) rate weight + bias,
 * rate = 1 / sqrt(variance + epsilon).
 */
typedef struct ls_layer_norm_forward_args {
    int64_t rows, width;       /**< B T, C */
    double epsilon;            /**< see above */
    const void *x;             /**< real [rows,C] */
    const void *weight, *bias; /**< real [C] */
    void *y;                   /**< real [rows,C] */
    void *moments;             /**< real [rows,2]: mean and rate, for backward */
} ls_layer_norm_forward_args;

/**
 * With n = (x - mean) rate and g = dy weight: dx = rate (g - mean of g - n mean of g n), means over
 * the row; dweight = sum over rows of dy n, dbias = sum over rows of dy. Overwrites.
 */
typedef struct ls_layer_norm_backward_args {
    int64_t rows, width;   /**< B T, C */
    const void *x;         /**< real [rows,C] */
    const void *weight;    /**< real [C] */
    const void *moments;   /**< real [rows,2], by forward */
    const void *dy;        /**< real [rows,C] */
    void *dx;              /**< real [rows,C] */
    void *dweight, *dbias; /**< real [C] */
} ls_layer_norm_backward_args;

/** y = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2 (Hendrycks and Gimpel, arXiv 1606.08415, as
 *  GPT-2 has it). */
typedef struct ls_gelu_forward_args {
    int64_t count; /**< elements */
    const void *x; /**< real [count] */
    void *y;       /**< real [count] */
} ls_gelu_forward_args;

/** dx = dy times the derivative at x; dy may be dx. */
typedef struct ls_gelu_backward_args {
    int64_t count;      /**< elements */
    const void *x, *dy; /**< real [count] */
    void *dx;           /**< real [count] */
} ls_gelu_backward_args;

/** Sizes of an attention; the width is H times a head's own. */
typedef struct ls_attention_shape {
    int64_t rows, steps, heads, width; /**< B, T, H, C; the last two at least 1 */
} ls_attention_shape;

/**
 * Causal attention (Vaswani et al., arXiv 1706.03762) of each sample and head, d = C / H:
 * s[p,j] = q[p] k[j] / sqrt(d) for j up to p; y[p] = sum over j of softmax(s[p])[j] v[j]. No matrix
 * of all T^2 scores is in memory (cpu, cuda: blocks, after Dao et al., arXiv 2205.14135).
 */
typedef struct ls_attention_forward_args {
    ls_attention_shape shape; /**< sizes */
    const void *qkv;          /**< real [B,T,3C]: q, k, v, of each H heads of d */
    void *y;                  /**< real [B,T,C] */
    void *sums;               /**< real [B,H,T]: log of the sum of e^s[p], for backward */
} ls_attention_forward_args;

/**
 * With a = softmax(s), g[p,j] = dy[p] v[j] and e[p] = dy[p] y[p]: ds = a (g - e) / sqrt(d);
 * dq = ds k, dk = ds^T q, dv = a^T dy. Overwrites.
 */
typedef struct ls_attention_backward_args {
    ls_attention_shape shape; /**< sizes */
    const void *qkv;          /**< real [B,T,3C] */
    const void *y, *dy;       /**< real [B,T,C] */
    const void *sums;         /**< real [B,H,T], by forward */
    void *dqkv;               /**< real [B,T,3C] */
} ls_attention_backward_args;

/** Entries of this file. */
#define LS_KERNEL_TRANSFORMER_ENTRIES(X)                                                           \
    X(embedding_forward, ls_embedding_forward_args)                                                \
    X(embedding_backward, ls_embedding_backward_args)                                              \
    X(positions_forward, ls_positions_forward_args)                                                \
    X(positions_backward, ls_positions_backward_args)                                              \
    X(layer_norm_forward, ls_layer_norm_forward_args)                                              \
    X(layer_norm_backward, ls_layer_norm_backward_args)                                            \
    X(gelu_forward, ls_gelu_forward_args)                                                          \
    X(gelu_backward, ls_gelu_backward_args)                                                        \
    X(attention_forward, ls_attention_forward_args)                                                \
    X(attention_backward, ls_attention_backward_args)
