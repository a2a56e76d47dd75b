/* SPDX-License-Identifier: MIT */
/*
 * Operations of transformers: the part of the kernel tables that only GPT-2's decoder needs. Part
 * of kernel.h, which says what holds for all. B samples of T positions (`steps`), C channels
 * (`width`), V tokens; a row is a position of a sample, so there are B T rows.
 */
#pragma once

#include "common/base/random/philox.h"
#include "common/kernel/kernel_step.h"

#include <stdbool.h>
#include <stdint.h>

/** y[r] = weight[x[r]]. An invalid token makes the op fail. With `all`, the weight has the rows of
 * tokens `first` to first + tokens - 1 of so many, and y is -0.0 for the others: a sum of such
 * slices has the row's bits. */
typedef struct ls_embedding_forward_args {
    int64_t rows, tokens, width; /**< B T, V, C */
    const void *x;               /**< real [rows]: whole numbers from 0 to V - 1 */
    const void *weight;          /**< real [V,C] */
    void *y;                     /**< real [rows,C] */
    int64_t first, all;          /**< see above; 0 if the weight has all tokens */
} ls_embedding_forward_args;

/** dweight[v] = the sum of dy[r] over the rows whose token is first + v, in the order of the rows.
 */
typedef struct ls_embedding_backward_args {
    int64_t rows, tokens, width; /**< B T, V, C */
    const void *x;               /**< real [rows]: tokens, as forward has checked them */
    const void *dy;              /**< real [rows,C] */
    void *dweight;               /**< real [V,C], overwritten */
    int64_t first;               /**< token of the first row of dweight */
} ls_embedding_backward_args;

/* Softmax cross-entropy (kernel.h) of classes that are cut into slices, each with separate logits:
 * what softmax_part leaves of every slice, three reals a row, softmax_whole makes a loss of, and a
 * slice's gradient (Shoeybi et al., arXiv 1909.08053, section 3). */

enum { LS_SOFTMAX_PART = 3 };

/**
 * part[r] = (m, s, z): m the largest of the row's logits here, s the sum of e^(logit - m), z the
 * label's logit, or 0 where another slice has the label. With `largest`, s is the number of the
 * first class that has m. A label outside of all classes makes the op fail.
 */
typedef struct ls_softmax_part_args {
    int64_t rows, classes; /**< B T, and classes of this slice, at least 1 */
    int64_t first, all;    /**< number of its first class, and how many the slices have, V */
    const void *logits;    /**< real [rows,classes] */
    const int32_t *labels; /**< [rows]: from 0 to all - 1 */
    bool ragged;           /**< a label may be -1, which means no target */
    bool largest;          /**< see above */
    void *terms;           /**< real [rows,classes]: e^(logit - m); NULL if not wanted. May not be
                                logits */
    void *part;            /**< real [rows,3] */
} ls_softmax_part_args;

/**
 * With M the largest m of a row and S the sum of s e^(m - M) over the slices, in their order:
 * loss = scale * sum over rows of log S - (z - M), where z is the sum of the slices';
 * dlogits = scale * (terms e^(m - M) / S - onehot). With `scale_at` as in kernel.h.
 */
typedef struct ls_softmax_whole_args {
    int64_t rows, slices;   /**< B T, and how many slices, at least 1 */
    const void *parts;      /**< real [slices,rows,3], by softmax_part */
    double scale;           /**< 1 / global batch size */
    const double *scale_at; /**< [1] what takes its place; or NULL */
    double *loss;           /**< [1], overwritten; NULL if not wanted */
    int64_t slice;          /**< whose gradient is wanted, ... */
    int64_t classes, first; /**< ... its classes, and the number of the first */
    const int32_t *labels;  /**< [rows] */
    void *dlogits;          /**< real [rows,classes]: terms, which become the gradient; NULL if not
                                 wanted */
} ls_softmax_whole_args;

/** count_correct of such slices: a row is right if its label has the largest logit, the first among
 * equals. */
typedef struct ls_count_parts_args {
    int64_t rows, slices;       /**< B times targets, and slices */
    int64_t targets;            /**< rows of one sample, at least 1 */
    const void *parts;          /**< real [slices,rows,3], by softmax_part with `largest` */
    const int32_t *labels;      /**< [rows] */
    const ls_step_state *state; /**< argument block of the step */
    uint64_t samples;           /**< of the set */
    uint64_t *correct;          /**< [1] */
} ls_count_parts_args;

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
 * the row; dweight = sum over rows of dy n, dbias = sum over rows of dy. Overwrites, or adds to dx.
 */
typedef struct ls_layer_norm_backward_args {
    int64_t rows, width;   /**< B T, C */
    const void *x;         /**< real [rows,C] */
    const void *weight;    /**< real [C] */
    const void *moments;   /**< real [rows,2], by forward */
    const void *dy;        /**< real [rows,C] */
    void *dx;              /**< real [rows,C] */
    void *dweight, *dbias; /**< real [C] */
    bool adds;             /**< to dx, which is otherwise overwritten */
    bool rounds;           /**< what is added to dx, to bfloat16 */
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
    bool stored;              /**< all but `sums` in bfloat16 (attends_bf16) */
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
    bool stored;              /**< as forward */
} ls_attention_backward_args;

/**
 * Inverted dropout, forward (y of x) and backward (dx of dy) alike: element e of row r stays, times
 * `factor`, if bits(index) >= threshold, and is 0 else, with index = (*first + r) whole + begin +
 * e: the element's number in the endless sequence of whole samples (philox.h).
 */
typedef struct ls_dropout_args {
    int64_t rows, width;   /**< B, elements of a sample here */
    int64_t whole, begin;  /**< elements of the whole sample; the number of the first one here */
    ls_random random;      /**< stream of the site */
    const uint64_t *first; /**< [1] position of row 0 (set_first) */
    uint32_t threshold;    /**< share that is dropped, times 2^32; 0 means y = x factor */
    float factor;          /**< 1 / (1 - share) */
    const void *x;         /**< real [B,width] */
    void *y;               /**< real [B,width]; may be x */
} ls_dropout_args;

/** Entries of this file. */
#define LS_KERNEL_TRANSFORMER_ENTRIES(X)                                                           \
    X(embedding_forward, ls_embedding_forward_args)                                                \
    X(embedding_backward, ls_embedding_backward_args)                                              \
    X(softmax_part, ls_softmax_part_args)                                                          \
    X(softmax_whole, ls_softmax_whole_args)                                                        \
    X(count_parts, ls_count_parts_args)                                                            \
    X(positions_forward, ls_positions_forward_args)                                                \
    X(positions_backward, ls_positions_backward_args)                                              \
    X(layer_norm_forward, ls_layer_norm_forward_args)                                              \
    X(layer_norm_backward, ls_layer_norm_backward_args)                                            \
    X(gelu_forward, ls_gelu_forward_args)                                                          \
    X(gelu_backward, ls_gelu_backward_args)                                                        \
    X(dropout, ls_dropout_args)                                                                    \
    X(attention_forward, ls_attention_forward_args)                                                \
    X(attention_backward, ls_attention_backward_args)
