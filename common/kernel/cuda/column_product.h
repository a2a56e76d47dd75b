/* SPDX-License-Identifier: MIT */
/*
 * Products as cuBLAS has them: matrices stored by columns. A row-major [r,c] is the column-major
 * c x r of the same memory, so a product of rows is the product of columns with its factors
 * exchanged. Pure shapes, no GPU: a test computes them on the host.
 */
#ifndef LS_COMMON_KERNEL_CUDA_COLUMN_PRODUCT_H
#define LS_COMMON_KERNEL_CUDA_COLUMN_PRODUCT_H

#include "common/kernel/kernel.h"

/** c (m x n) = op(a) (m x k) op(b) (k x n), plus c where it accumulates; then bias, then ReLU. */
typedef struct ls_column_product {
    int64_t m, n, k;
    bool transpose_a, transpose_b; /**< a is stored k x m, b n x k */
    const void *a, *b;
    void *c;
    const void *bias; /**< [m], one for each row; NULL: none */
    bool accumulate, relu;
} ls_column_product;

/** Rows of a as stored: the distance between its columns, as nothing is padded. */
static inline int64_t ls_column_rows_of_a(const ls_column_product *p)
{
    return p->transpose_a ? p->k : p->m;
}

static inline int64_t ls_column_rows_of_b(const ls_column_product *p)
{
    return p->transpose_b ? p->n : p->k;
}

static inline ls_column_product ls_column_gemm(const ls_gemm_args *g)
{
    return (ls_column_product){.m = g->n,
                               .n = g->m,
                               .k = g->k,
                               .transpose_a = g->transpose_b,
                               .transpose_b = g->transpose_a,
                               .a = g->b,
                               .b = g->a,
                               .c = g->c,
                               .accumulate = g->accumulate};
}

static inline ls_column_product ls_column_dense_forward(const ls_dense_forward_args *d)
{
    return (ls_column_product){.m = d->outputs,
                               .n = d->rows,
                               .k = d->inputs,
                               .transpose_a = true,
                               .a = d->weight,
                               .b = d->x,
                               .c = d->y,
                               .bias = d->bias,
                               .relu = d->activation == LS_ACTIVATION_RELU};
}

static inline ls_column_product
ls_column_dense_backward_weights(const ls_dense_backward_weights_args *d)
{
    return (ls_column_product){.m = d->inputs,
                               .n = d->outputs,
                               .k = d->rows,
                               .transpose_b = true,
                               .a = d->x,
                               .b = d->dy,
                               .c = d->dweight};
}

/** Without the ReLU's mask. */
static inline ls_column_product ls_column_dense_backward_data(const ls_dense_backward_data_args *d)
{
    return (ls_column_product){
        .m = d->inputs, .n = d->rows, .k = d->outputs, .a = d->weight, .b = d->dy, .c = d->dx};
}

#endif
