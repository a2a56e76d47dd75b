/* SPDX-License-Identifier: MIT */
/*
 * Matrix products in float32 by our own kernel (gpu_product.cu) where it runs and a model of both
 * (cuda_product_cost.h) finds it faster, else by cuBLASLt. The library's algorithm is the one among
 * the library's candidates that the model finds fastest, that does not split the sum over k, and
 * that runs; nothing is timed. So it is a function of the shape, the layouts and the kind of GPU,
 * independent of the matrices' addresses, and the sums of an element have one order: bits do not
 * depend on the mode, or on whether the model is divided. A product with few output tiles and a
 * long sum would leave most multiprocessors idle: a gradient of weights over many rows, a layer
 * with many inputs and a small batch. If `cut` allows it and the model finds it faster, the sum is
 * split into equal pieces, whose products are one call of the library, and which are then added in
 * order.
 */
#pragma once

#include "common/kernel/cuda/cuda_kernels.h"

/** c = op(a) op(b) (+ c), then + bias, ReLU, and 0 where `mask` is not positive. Sizes above 0. */
typedef struct ls_cuda_product_spec {
    ls_gemm_args gemm;
    const float *bias; /**< [n]; NULL if none */
    bool relu;
    const float *mask; /**< [m,n]; NULL if none */
    bool cut;          /**< its sum may be cut */
    bool any_order;    /**< sums may be split: the library's own first choice, for roofs alone */
    /** The arguments of a product of bfloat16, `gemm` and more; borrowed. Its bias begins at
     * LS_CUDA_BIAS_ALIGNMENT. Only our own kernel applies ReLU and mask. NULL if floats are
     * multiplied. */
    const ls_bf16_product_args *stored;
} ls_cuda_product_spec;

/** At how many bytes a bias begins that the library adds. */
enum { LS_CUDA_BIAS_ALIGNMENT = 256 };

/** At how many bytes the library wants matrices of bfloat16 to begin: a function of their sizes. */
size_t ls_cuda_bf16_alignment(const ls_bf16_product_args *args);

typedef struct ls_cuda_product ls_cuda_product;

/** With the table's arithmetic. Workspace is the device's. */
ls_status ls_cuda_product_open(cuda_kernels *kernels, const ls_cuda_product_spec *spec,
                               ls_cuda_product **out);

/** Takes NULL. */
void ls_cuda_product_close(ls_cuda_product *product);

/** What computes an operation's products: of several the union. */
enum { LS_PRODUCT_LIBRARY = 1, LS_PRODUCT_TILES = 2, LS_PRODUCT_WAYS = 4 };

/** An operation's names by that, as rows and `micro layers` have them; `rest`: "+" and what else
 * runs. Where it is 0, plain kernels do all. */
#define LS_PRODUCT_NAMES(entry, rest)                                                              \
    entry ".cuda", entry ".cublaslt" rest, entry ".tiles" rest, entry ".cublaslt+tiles" rest

/** What computes it; NULL means 0. */
unsigned ls_cuda_product_way(const ls_cuda_product *product);

/** The union of the products of an operation of cuda_dense.c. */
unsigned ls_cuda_dense_ways(const ls_op *op);

/** Bytes of device memory that it holds. */
size_t ls_cuda_product_workspace(const ls_cuda_product *product);

ls_status ls_cuda_product_run(const ls_cuda_product *product, ls_queue *queue);

/** Without what follows, unless our own kernel does that, too; *rest is what remains to do, without
 * rows if nothing remains. */
ls_status ls_cuda_product_multiply(const ls_cuda_product *product, ls_queue *queue,
                                   ls_gpu_rest *rest);

/** Matrices in place of the product's own. */
typedef struct ls_cuda_operands {
    const void *a, *b;
    void *c;
    bool accumulate;
} ls_cuda_operands;

/** Runs it on other matrices of the same sizes. */
ls_status ls_cuda_product_run_on(const ls_cuda_product *product, ls_queue *queue,
                                 const ls_cuda_operands *operands);
