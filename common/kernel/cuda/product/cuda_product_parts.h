/* SPDX-License-Identifier: MIT */
/*
 * What a product consists of, for the two files that make it: cuda_product.c describes and runs it,
 * cuda_product_choice.c chooses its algorithm.
 */
#pragma once

#include "common/kernel/cuda/product/cuda_product.h"

enum { LS_PRODUCT_MATRICES = 3 };

struct ls_cuda_product {
    ls_cuda_product_spec spec;
    cuda_kernels *kernels; /* the table */
    ls_device *device;
    const ls_blas *blas;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layout[LS_PRODUCT_MATRICES]; /* its A, B, and C as D */
    bool tiles; /* computed by ls_gpu_tile_product: the library's things are not used */
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
    void *room;       /* [workspace_room]; NULL if none */
    void *workspace;  /* aligned, inside `room` */
    int32_t pieces;   /* of the sum */
    float *parts;     /* NULL if the sum is not split */
    void *bias_room;  /* NULL if no epilogue is used */
    const void *bias; /* aligned: a copy inside it; or the one of bfloat16 */
};

/** Whether the library adds the bias. */
static inline bool ls_product_has_epilogue(const ls_cuda_product *p)
{
    return p->bias && p->pieces == 1 && !p->tiles;
}

/** How the library gets element type and alignment of a matrix. */
typedef struct ls_product_type {
    cudaDataType_t type;
    uint32_t alignment;
} ls_product_type;

ls_product_type ls_product_type_of(const ls_cuda_product *p, int matrix);

/** Describes the matrices, the bias and the number of pieces to the library. */
ls_status ls_product_lay_out(ls_cuda_product *p, int32_t pieces);

/** The matrices that it was opened with. */
ls_cuda_operands ls_product_operands(const ls_cuda_product *p);

/** c or the pieces = `scale` op(a) op(b), and bias, by tiles also what follows; on the device's
 *  thread. `scale` is 0 or 1. */
cublasStatus_t ls_product_multiply(const ls_cuda_product *p, const ls_cuda_operands *on,
                                   float scale, void *stream);

/** Sets algorithm, pieces and memory. */
ls_status ls_product_choose(ls_cuda_product *p);

void ls_product_release_memory(ls_cuda_product *p);

/** Bytes of its memory. */
size_t ls_product_memory(const ls_cuda_product *p);
