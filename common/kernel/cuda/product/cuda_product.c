/* SPDX-License-Identifier: MIT */
/*
 * Products by cuBLASLt or in tiles; see cuda_product.h. The library's matrices are column-major,
 * ours row-major: our [m,n] is its [n,m]. So it computes c^T = op(b)^T op(a)^T: its A is our b, its
 * B our a, each transposed if ours is. The library's arguments must not depend on where matrices
 * lie: the variables of a part of a model have other addresses than in the whole, and must get the
 * same algorithm. So all are declared with an alignment of 4 bytes, the least that any part has.
 * The library's epilogue adds a bias alone to a large product, from an aligned copy: the heuristic
 * derives its alignment from the bias's address (cublasLt.h, CUBLASLT_MATMUL_DESC_BIAS_POINTER), no
 * preference sets it, and kernels that read 16 bytes at a time fault on others (pytorch, pull
 * request 194497). Our own kernel does what follows itself, unless its sum has pieces. Else one
 * kernel after the product applies bias, ReLU and mask, and adds the pieces of a sum.
 */
#include "common/kernel/cuda/product/cuda_product_parts.h"

#include "common/base/grow.h"
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/gpu_kernels.h"

#include <stdint.h>
#include <stdlib.h>

/* ---- Descriptions ---------------------------------------------------------------------------- */

static ls_status set_desc(const ls_cuda_product *p, cublasLtMatmulDescAttributes_t attribute,
                          const void *value, size_t bytes)
{
    return ls_blas_check(
        p->blas, p->blas->call.cublasLtMatmulDescSetAttribute(p->desc, attribute, value, bytes),
        "describe a product");
}

/* Runs on the device's thread. */
static ls_status describe(void *context)
{
    ls_cuda_product *p = context;
    const ls_gemm_args *g = &p->spec.gemm;
    const cublasComputeType_t compute =
        p->kernels->base.math == LS_MATH_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const int32_t trans_a = g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t trans_b = g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    LS_TRY(ls_blas_check(p->blas,
                         p->blas->call.cublasLtMatmulDescCreate(&p->desc, compute, CUDA_R_32F),
                         "describe a product"));
    LS_TRY(set_desc(p, CUBLASLT_MATMUL_DESC_TRANSA, &trans_a, sizeof trans_a));
    return set_desc(p, CUBLASLT_MATMUL_DESC_TRANSB, &trans_b, sizeof trans_b);
}

static ls_status set_epilogue(const ls_cuda_product *p)
{
    const uint32_t epilogue =
        ls_product_has_epilogue(p) ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = ls_product_has_epilogue(p) ? p->bias : NULL;
    LS_TRY(set_desc(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    return set_desc(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

/* A row-major matrix in memory; for one per piece, their distance. */
typedef struct matrix_shape {
    int64_t rows, columns, leading, batch_stride;
} matrix_shape;

size_t ls_cuda_bf16_alignment(const ls_bf16_product_args *a)
{
    enum { CHUNK = 8 };
    const int64_t lead_a = a->transpose_a ? a->m : a->k, lead_b = a->transpose_b ? a->k : a->n;
    return lead_a % CHUNK || lead_b % CHUNK || a->n % CHUNK ? sizeof *a->a : CHUNK * sizeof *a->a;
}

ls_product_type ls_product_type_of(const ls_cuda_product *p, int matrix)
{
    const ls_bf16_product_args *stored = p->spec.stored;
    if (!stored)
        return (ls_product_type){CUDA_R_32F, sizeof(float)};
    const bool real = matrix == LS_PRODUCT_MATRICES - 1 && stored->transpose_a;
    const uint32_t alignment = (uint32_t)ls_cuda_bf16_alignment(stored);
    return (ls_product_type){real ? CUDA_R_32F : CUDA_R_16BF,
                             real && alignment < sizeof(float) ? sizeof(float) : alignment};
}

static ls_status lay_out(ls_cuda_product *p, int matrix, const matrix_shape *s)
{
    const cudaDataType_t type = ls_product_type_of(p, matrix).type;
    cublasLtMatrixLayout_t *layout = &p->layout[matrix];
    LS_TRY(ls_blas_check(p->blas,
                         p->blas->call.cublasLtMatrixLayoutCreate(
                             layout, type, (uint64_t)s->columns, (uint64_t)s->rows, s->leading),
                         "describe a matrix"));
    if (p->pieces == 1)
        return LS_OK;
    LS_TRY(ls_blas_check(
        p->blas,
        p->blas->call.cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                       &p->pieces, sizeof p->pieces),
        "describe a matrix"));
    return ls_blas_check(p->blas,
                         p->blas->call.cublasLtMatrixLayoutSetAttribute(
                             *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &s->batch_stride,
                             sizeof s->batch_stride),
                         "describe a matrix");
}

static void forget_layouts(ls_cuda_product *p)
{
    for (int i = 0; i < LS_PRODUCT_MATRICES; i++) {
        if (p->layout[i])
            p->blas->call.cublasLtMatrixLayoutDestroy(p->layout[i]);
        p->layout[i] = NULL;
    }
}

/* A piece of a factor is some of its rows or columns, depending on the direction of its terms. */
ls_status ls_product_lay_out(ls_cuda_product *p, int32_t pieces)
{
    const ls_gemm_args *g = &p->spec.gemm;
    forget_layouts(p);
    p->pieces = pieces;
    LS_TRY(set_epilogue(p));
    const int64_t k = g->k / p->pieces;
    const matrix_shape a =
        g->transpose_a ? (matrix_shape){k, g->m, g->m, k * g->m} : (matrix_shape){g->m, k, g->k, k};
    const matrix_shape b =
        g->transpose_b ? (matrix_shape){g->n, k, g->k, k} : (matrix_shape){k, g->n, g->n, k * g->n};
    LS_TRY(lay_out(p, 0, &b));
    LS_TRY(lay_out(p, 1, &a));
    return lay_out(p, 2, &(matrix_shape){g->m, g->n, g->n, g->m * g->n});
}

static ls_gpu_rest all_of(const ls_cuda_product *p, const ls_cuda_operands *on)
{
    const ls_cuda_product_spec *spec = &p->spec;
    return (ls_gpu_rest){.parts = p->parts,
                         .pieces = p->pieces,
                         .rows = spec->gemm.m,
                         .columns = spec->gemm.n,
                         .accumulate = on->accumulate,
                         .bias = ls_product_has_epilogue(p) ? NULL : spec->bias,
                         .relu = spec->relu,
                         .mask = spec->mask,
                         .c = on->c};
}

static cublasStatus_t multiply_tiles(const ls_cuda_product *p, const ls_cuda_operands *on,
                                     void *stream)
{
    ls_gemm_args gemm = p->spec.gemm;
    const ls_gpu_rest rest = all_of(p, on);
    gemm.a = on->a;
    gemm.b = on->b;
    const bool tf32 = p->kernels->base.math == LS_MATH_TF32;
    const int error = p->spec.stored
                          ? ls_gpu_bf16_product(stream, p->spec.stored, p->parts, p->pieces)
                          : ls_gpu_tile_product(stream, &gemm, &rest, tf32);
    return error ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t ls_product_multiply(const ls_cuda_product *p, const ls_cuda_operands *on,
                                   float scale, void *stream)
{
    const float before = on->accumulate && !p->parts ? 1 : 0;
    void *c = p->parts ? p->parts : on->c;
    if (p->tiles && scale == 0 && !p->parts) /* c stays, and the kernels are loaded */
        return CUBLAS_STATUS_SUCCESS;
    if (p->tiles)
        return multiply_tiles(p, on, stream);
    const ls_add_args copy = {
        .count = p->spec.gemm.n, .a = p->spec.bias, .y = (void *)(uintptr_t)p->bias};
    if (copy.a && ls_product_has_epilogue(p) && ls_gpu_add(stream, &copy))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return p->blas->call.cublasLtMatmul(
        p->blas->handle, p->desc, &scale, on->b, p->layout[0], on->a, p->layout[1], &before, c,
        p->layout[2], c, p->layout[2], &p->algorithm, p->workspace, p->workspace_bytes, stream);
}

static ls_status run_multiply(const ls_cuda_product *p, const ls_cuda_operands *on, void *stream)
{
    return ls_blas_check(p->blas, ls_product_multiply(p, on, 1, stream), "multiply");
}

/* What remains to do after the product; without rows if nothing remains. */
static ls_gpu_rest rest_of(const ls_cuda_product *p, const ls_cuda_operands *on)
{
    const ls_gpu_rest all = all_of(p, on);
    const bool done = p->tiles || !(all.bias || all.relu || all.mask);
    return !p->parts && done ? (ls_gpu_rest){.rows = 0} : all;
}

ls_cuda_operands ls_product_operands(const ls_cuda_product *p)
{
    const ls_gemm_args *g = &p->spec.gemm;
    return (ls_cuda_operands){.a = g->a, .b = g->b, .c = g->c, .accumulate = g->accumulate};
}

/* ---- The interface --------------------------------------------------------------------------- */

ls_status ls_cuda_product_open(cuda_kernels *kernels, const ls_cuda_product_spec *spec,
                               ls_cuda_product **out)
{
    ls_cuda_product *p;
    LS_TRY(ls_allocate("product", &p, 1, sizeof *p));
    p->spec = *spec;
    p->kernels = kernels;
    p->device = kernels->base.device;
    p->blas = &kernels->blas;
    ls_status status = ls_device_call(p->device, describe, p);
    if (!status)
        status = ls_product_choose(p);
    if (status) {
        ls_cuda_product_close(p);
        return status;
    }
    *out = p;
    return LS_OK;
}

void ls_cuda_product_close(ls_cuda_product *p)
{
    if (!p)
        return;
    forget_layouts(p);
    if (p->desc)
        p->blas->call.cublasLtMatmulDescDestroy(p->desc);
    ls_product_release_memory(p);
    free(p);
}

unsigned ls_cuda_product_way(const ls_cuda_product *p)
{
    return !p ? 0 : p->tiles ? LS_PRODUCT_TILES : LS_PRODUCT_LIBRARY;
}

size_t ls_cuda_product_workspace(const ls_cuda_product *p)
{
    return ls_product_memory(p);
}

ls_status ls_cuda_product_multiply(const ls_cuda_product *p, ls_queue *queue, ls_gpu_rest *rest)
{
    const ls_cuda_operands on = ls_product_operands(p);
    *rest = rest_of(p, &on);
    return run_multiply(p, &on, ls_queue_native(queue));
}

ls_status ls_cuda_product_run(const ls_cuda_product *p, ls_queue *queue)
{
    const ls_cuda_operands on = ls_product_operands(p);
    return ls_cuda_product_run_on(p, queue, &on);
}

ls_status ls_cuda_product_run_on(const ls_cuda_product *p, ls_queue *queue,
                                 const ls_cuda_operands *on)
{
    const ls_gpu_rest rest = rest_of(p, on);
    LS_TRY(run_multiply(p, on, ls_queue_native(queue)));
    return ls_cuda_check(ls_device_describe(p->device)->text, "finish a product",
                         (cudaError_t)ls_gpu_finish_product(ls_queue_native(queue), &rest));
}
