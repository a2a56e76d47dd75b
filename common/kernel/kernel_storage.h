/* SPDX-License-Identifier: MIT */
/* Arguments of operations on values that are stored in bfloat16 (bf16_inline.h). Part of kernel.h,
 * which includes this. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** y = x, of bfloat16. */
typedef struct ls_widen_args {
    int64_t count;     /**< elements */
    const uint16_t *x; /**< [count] */
    void *y;           /**< real [count] */
} ls_widen_args;

/** y = x, rounded to bfloat16 (ls_bf16_of_float). */
typedef struct ls_narrow_args {
    int64_t count; /**< elements */
    const void *x; /**< real [count] */
    uint16_t *y;   /**< [count] */
} ls_narrow_args;

/**
 * c[m,n] = op(a) op(b), then + bias and ReLU, then 0 where `mask` is not above 0. Products of
 * bfloat16 are exact in float32, in which they are added; c is rounded once. A row of c does not
 * depend on m, unless a is transposed (then c is real, without bias, ReLU and mask) or cuBLASLt
 * multiplies.
 */
typedef struct ls_bf16_product_args {
    bool transpose_a, transpose_b; /**< a is [k,m] / b is [n,k] where set */
    int64_t m, n, k;               /**< rows and columns of c, and what is summed over */
    const uint16_t *a, *b;         /**< both factors */
    const uint16_t *bias;          /**< [n]; NULL if there is no bias */
    bool relu;                     /**< of each element of c */
    const uint16_t *mask;          /**< [m,n]; NULL if nothing is masked */
    void *c;                       /**< [m,n] of bfloat16; real, if a is transposed */
} ls_bf16_product_args;

/** sums[c] = sum of x[r,c] over the rows. */
typedef struct ls_bf16_column_sums_args {
    int64_t rows, columns; /**< of x */
    const uint16_t *x;     /**< [rows,columns] */
    void *sums;            /**< real [columns] */
} ls_bf16_column_sums_args;

/** A function of each element: a + b (a, if b is NULL); GELU of a; b times GELU's derivative at a.
 */
typedef enum ls_bf16_function { LS_BF16_ADD, LS_BF16_GELU, LS_BF16_GELU_BACKWARD } ls_bf16_function;

/** y = a function of a and b, computed in float32 and rounded once; y may be a or b. */
typedef struct ls_bf16_elements_args {
    ls_bf16_function function; /**< of each element */
    int64_t count;             /**< elements */
    const uint16_t *a, *b;     /**< [count]; b NULL if there is no second operand */
    uint16_t *y;               /**< [count] */
} ls_bf16_elements_args;

/** Entries of tables that store in bfloat16 (ls_precision); others have NULL. */
#define LS_KERNEL_STORAGE_ENTRIES(X)                                                               \
    X(widen, ls_widen_args)                                                                        \
    X(narrow, ls_narrow_args)

/** Entries of tables with a library that multiplies bfloat16; others have NULL. */
#define LS_KERNEL_BF16_ENTRIES(X)                                                                  \
    X(bf16_product, ls_bf16_product_args)                                                          \
    X(bf16_column_sums, ls_bf16_column_sums_args)
