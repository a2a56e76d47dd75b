/* SPDX-License-Identifier: MIT */
/*
 * Products by cuBLASLt; see cuda_product.h. The library's matrices are column-major, ours
 * row-major: our [m,n] is its [n,m]. So it computes c^T = op(b)^T op(a)^T: its A is our b, its B
 * our a, each transposed if ours is. The library's arguments must not depend on where matrices lie:
 * the variables of a part of a model have other addresses than in the whole, and must get the same
 * algorithm. So all are declared with an alignment of 4 bytes, the least that any part has, and no
 * epilogue adds the bias: the heuristic derives its alignment from the bias's address (cublasLt.h,
 * CUBLASLT_MATMUL_DESC_BIAS_POINTER), no preference sets it, and kernels that read 16 bytes at a
 * time fault on others (pytorch, pull request 194497). One kernel after the product applies bias,
 * ReLU and mask, and adds the pieces of a sum.
 */
#include "common/kernel/cuda/product/cuda_product.h"

#include "common/base/grow.h"
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/gpu_kernels.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Largest workspace of a product: the size that NVIDIA's documentation recommends for Hopper. */
static const uint64_t workspace_most = (uint64_t)32 << 20;

enum { MATRICES = 3, CANDIDATES = 32 };

/* The declared alignment of every matrix, in bytes. */
static const uint32_t alignment = sizeof(float);

/* When to split a sum: the fewest terms of a sum for which another kernel pays, and of a piece; the
 * side of a large tile; the most pieces of tiles, about two per multiprocessor of a large GPU, and
 * the most pieces. Of a long sum they may be more, if the tiles alone leave multiprocessors idle (a
 * gradient of weights over many rows): that costs far more than adding the pieces. */
enum {
    CUT_TERMS = 256,
    PIECE_TERMS = 48,
    TILE_SIDE = 64,
    TILES_MOST = 256,
    LONG_TERMS = 512,
    LONG_TILES_MOST = 1024,
    PIECES_MOST = 32
};

struct ls_cuda_product {
    ls_cuda_product_spec spec;
    ls_device *device;
    const ls_blas *blas;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layout[MATRICES]; /* its A, B, and C as D */
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
    void *room;      /* [workspace_room]; NULL: none */
    void *workspace; /* aligned, inside `room` */
    int32_t pieces;  /* of the sum */
    float *parts;    /* NULL: the sum is not split */
};

/* What the heuristic returns for some reduction schemes, without what does not suit, and how far
 * the trial of them is. */
typedef struct candidate_list {
    ls_cuda_product *product;
    uint32_t schemes;
    int count;
    cublasLtMatmulHeuristicResult_t at[CANDIDATES];
    cublasStatus_t status; /* of the latest trial; before the first, of what there is to try */
} candidate_list;

/* ---- Descriptions ---------------------------------------------------------------------------- */

static ls_status set_desc(const ls_cuda_product *p, cublasLtMatmulDescAttributes_t attribute,
                          const void *value, size_t bytes)
{
    return ls_blas_check(
        p->blas, p->blas->call.cublasLtMatmulDescSetAttribute(p->desc, attribute, value, bytes),
        "describe a product");
}

static ls_status describe(ls_cuda_product *p)
{
    const ls_gemm_args *g = &p->spec.gemm;
    const cublasComputeType_t compute =
        p->spec.math == LS_MATH_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const int32_t trans_a = g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t trans_b = g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    LS_TRY(ls_blas_check(p->blas,
                         p->blas->call.cublasLtMatmulDescCreate(&p->desc, compute, CUDA_R_32F),
                         "describe a product"));
    LS_TRY(set_desc(p, CUBLASLT_MATMUL_DESC_TRANSA, &trans_a, sizeof trans_a));
    return set_desc(p, CUBLASLT_MATMUL_DESC_TRANSB, &trans_b, sizeof trans_b);
}

static int32_t pieces_of(const ls_cuda_product_spec *spec)
{
    const ls_gemm_args *g = &spec->gemm;
    const int64_t tiles =
        ((g->m + TILE_SIDE - 1) / TILE_SIDE) * ((g->n + TILE_SIDE - 1) / TILE_SIDE);
    int32_t pieces = 1;
    while (spec->cut && g->k >= CUT_TERMS && tiles <= TILES_MOST && 2 * pieces <= PIECES_MOST &&
           g->k % (2 * pieces) == 0) {
        const int64_t terms = g->k / (2 * pieces);
        if (terms < PIECE_TERMS ||
            2 * pieces * tiles > (terms < LONG_TERMS ? TILES_MOST : LONG_TILES_MOST))
            break;
        pieces *= 2;
    }
    return pieces;
}

/* A row-major matrix in memory; for one per piece, their distance. */
typedef struct matrix_shape {
    int64_t rows, columns, leading, apart;
} matrix_shape;

static ls_status lay_out(ls_cuda_product *p, int matrix, const matrix_shape *s)
{
    cublasLtMatrixLayout_t *layout = &p->layout[matrix];
    LS_TRY(ls_blas_check(p->blas,
                         p->blas->call.cublasLtMatrixLayoutCreate(layout, CUDA_R_32F,
                                                                  (uint64_t)s->columns,
                                                                  (uint64_t)s->rows, s->leading),
                         "describe a matrix"));
    if (p->pieces == 1)
        return LS_OK;
    LS_TRY(ls_blas_check(
        p->blas,
        p->blas->call.cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                       &p->pieces, sizeof p->pieces),
        "describe a matrix"));
    return ls_blas_check(
        p->blas,
        p->blas->call.cublasLtMatrixLayoutSetAttribute(
            *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &s->apart, sizeof s->apart),
        "describe a matrix");
}

/* A piece of a factor is some of its rows or columns, depending on the direction of its terms. */
static ls_status lay_out_all(ls_cuda_product *p)
{
    const ls_gemm_args *g = &p->spec.gemm;
    const int64_t k = g->k / p->pieces;
    const matrix_shape a =
        g->transpose_a ? (matrix_shape){k, g->m, g->m, k * g->m} : (matrix_shape){g->m, k, g->k, k};
    const matrix_shape b =
        g->transpose_b ? (matrix_shape){g->n, k, g->k, k} : (matrix_shape){k, g->n, g->n, k * g->n};
    LS_TRY(lay_out(p, 0, &b));
    LS_TRY(lay_out(p, 1, &a));
    return lay_out(p, 2, &(matrix_shape){g->m, g->n, g->n, g->m * g->n});
}

/* ---- The algorithm --------------------------------------------------------------------------- */

static ls_status set_preference(const ls_cuda_product *p, cublasLtMatmulPreference_t preference,
                                uint32_t schemes)
{
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } settings[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_most, sizeof workspace_most},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment, sizeof alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment, sizeof alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignment, sizeof alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment, sizeof alignment},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        LS_TRY(ls_blas_check(
            p->blas,
            p->blas->call.cublasLtMatmulPreferenceSetAttribute(
                preference, settings[i].attribute, settings[i].value, settings[i].bytes),
            "state a preference"));
    return LS_OK;
}

/* Whether to try a candidate: it fits the workspace, and does not split its sums. The library need
 * not know the number of pieces for each kind of kernel; without a reduction scheme there is one.
 */
static bool suits(const candidate_list *l, const cublasLtMatmulHeuristicResult_t *candidate)
{
    const ls_cuda_product *p = l->product;
    int32_t pieces = 0;
    size_t written;
    if (candidate->state != CUBLAS_STATUS_SUCCESS || candidate->workspaceSize > workspace_most)
        return false;
    if (p->spec.any_order)
        return true;
    if (p->blas->call.cublasLtMatmulAlgoConfigGetAttribute(
            &candidate->algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &pieces, sizeof pieces, &written) !=
        CUBLAS_STATUS_SUCCESS)
        return l->schemes == CUBLASLT_REDUCTION_SCHEME_NONE;
    return pieces <= 1;
}

static ls_status ask(candidate_list *l, cublasLtMatmulPreference_t preference)
{
    const ls_cuda_product *p = l->product;
    int count = 0;
    LS_TRY(set_preference(p, preference, l->schemes));
    const cublasStatus_t status = p->blas->call.cublasLtMatmulAlgoGetHeuristic(
        p->blas->handle, p->desc, p->layout[0], p->layout[1], p->layout[2], p->layout[2],
        preference, CANDIDATES, l->at, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
        count = 0; /* it has none: no failure */
    else
        LS_TRY(ls_blas_check(p->blas, status, "choose an algorithm"));
    for (int i = 0; i < count; i++)
        if (suits(l, &l->at[i]))
            l->at[l->count++] = l->at[i];
    return LS_OK;
}

/* Runs on the device's thread. */
static ls_status list_candidates(void *context)
{
    candidate_list *l = context;
    const ls_blas_functions *call = &l->product->blas->call;
    cublasLtMatmulPreference_t preference;
    l->count = 0;
    LS_TRY(ls_blas_check(l->product->blas, call->cublasLtMatmulPreferenceCreate(&preference),
                         "state a preference"));
    ls_status status = ask(l, preference);
    call->cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

static cublasStatus_t multiply(const ls_cuda_product *p, const ls_cuda_operands *on, float scale,
                               void *stream)
{
    const float before = on->accumulate && !p->parts ? 1 : 0;
    void *c = p->parts ? p->parts : on->c;
    return p->blas->call.cublasLtMatmul(
        p->blas->handle, p->desc, &scale, on->b, p->layout[0], on->a, p->layout[1], &before, c,
        p->layout[2], c, p->layout[2], &p->algorithm, p->workspace, p->workspace_bytes, stream);
}

static ls_status run_multiply(const ls_cuda_product *p, const ls_cuda_operands *on, void *stream)
{
    return ls_blas_check(p->blas, multiply(p, on, 1, stream), "multiply");
}

/* What remains to do after the product; without rows if nothing remains. */
static ls_gpu_rest rest_of(const ls_cuda_product *p, const ls_cuda_operands *on)
{
    const ls_cuda_product_spec *spec = &p->spec;
    if (!(p->parts || spec->bias || spec->relu || spec->mask))
        return (ls_gpu_rest){.rows = 0};
    return (ls_gpu_rest){.parts = p->parts,
                         .pieces = p->pieces,
                         .rows = spec->gemm.m,
                         .columns = spec->gemm.n,
                         .accumulate = on->accumulate,
                         .bias = spec->bias,
                         .relu = spec->relu,
                         .mask = spec->mask,
                         .c = on->c};
}

static ls_cuda_operands own_operands(const ls_cuda_product *p)
{
    const ls_gemm_args *g = &p->spec.gemm;
    return (ls_cuda_operands){.a = g->a, .b = g->b, .c = g->c, .accumulate = g->accumulate};
}

/* Runs on the device's thread. */
static ls_status describe_all(void *context)
{
    ls_cuda_product *p = context;
    LS_TRY(describe(p));
    return lay_out_all(p);
}

static size_t parts_bytes(const ls_cuda_product *p)
{
    return (size_t)p->pieces * (size_t)(p->spec.gemm.m * p->spec.gemm.n) * sizeof(float);
}

/* Kernels for Hopper need a workspace aligned as by cudaMalloc; a pool's pieces may not be. */
enum { WORKSPACE_ALIGNMENT = 256 };

static size_t workspace_room(const ls_cuda_product *p)
{
    return p->workspace_bytes + WORKSPACE_ALIGNMENT;
}

static void *align_workspace(void *room)
{
    return (char *)room + (WORKSPACE_ALIGNMENT - (uintptr_t)room % WORKSPACE_ALIGNMENT);
}

/* Runs the algorithm once, so that the library loads its kernels before any capture. If c is added
 * to, it stays unchanged; otherwise it is overwritten, as by every run. A refusal is no failure of
 * the device, which the wait would show. */
static ls_status try_out(void *context)
{
    candidate_list *l = context;
    const ls_cuda_operands on = own_operands(l->product);
    l->status = multiply(l->product, &on, on.accumulate ? 0 : 1, cudaStreamPerThread);
    if (l->status)
        cudaGetLastError(); /* the status has it; the next launch must not report it */
    return ls_cuda_check(ls_device_describe(l->product->device)->text, "try a product",
                         cudaStreamSynchronize(cudaStreamPerThread));
}

static ls_status take_workspace(ls_cuda_product *p)
{
    ls_device_release(p->device, p->room);
    p->room = p->workspace = NULL;
    if (!p->workspace_bytes)
        return LS_OK;
    LS_TRY(ls_device_allocate(p->device, LS_MEMORY_WORKSPACE, workspace_room(p), &p->room));
    p->workspace = align_workspace(p->room);
    return LS_OK;
}

/* Whether another candidate may run: not if the library lacks memory or its context, which depends
 * on more than the shape. */
static bool may_try_next(cublasStatus_t status)
{
    return status != CUBLAS_STATUS_ALLOC_FAILED && status != CUBLAS_STATUS_NOT_INITIALIZED;
}

/* Keeps the first candidate of the list that runs. */
static ls_status try_candidates(candidate_list *l)
{
    ls_cuda_product *p = l->product;
    for (int i = 0; i < l->count; i++) {
        p->algorithm = l->at[i].algo;
        p->workspace_bytes = l->at[i].workspaceSize;
        LS_TRY(take_workspace(p));
        LS_TRY(ls_device_call(p->device, try_out, l));
        if (l->status == CUBLAS_STATUS_SUCCESS || !may_try_next(l->status))
            return ls_blas_check(p->blas, l->status, "try a product");
    }
    return LS_OK;
}

/* Candidates without split sums are tried first; if none runs, those that the library lists for all
 * schemes. */
static ls_status choose(ls_cuda_product *p)
{
    static const uint32_t schemes[] = {CUBLASLT_REDUCTION_SCHEME_NONE,
                                       CUBLASLT_REDUCTION_SCHEME_MASK};
    const ls_gemm_args *g = &p->spec.gemm;
    candidate_list list = {.product = p, .status = CUBLAS_STATUS_NOT_SUPPORTED};
    char shape[96];
    for (int i = p->spec.any_order; i < 2 && list.status != CUBLAS_STATUS_SUCCESS; i++) {
        list.schemes = schemes[i];
        LS_TRY(ls_device_call(p->device, list_candidates, &list));
        LS_TRY(try_candidates(&list));
    }
    if (list.status == CUBLAS_STATUS_SUCCESS)
        return LS_OK;
    snprintf(shape, sizeof shape, "%" PRId64 "x%" PRId64 "x%" PRId64, g->m, g->n, g->k);
    return ls_fail(LS_CODE_MISSING, "cuBLASLt", shape,
                   "no algorithm that does not split the sums of this product runs (%s); try "
                   "another version of the library",
                   p->blas->call.cublasLtGetStatusString(list.status));
}

/* ---- The interface --------------------------------------------------------------------------- */

ls_status ls_cuda_product_open(ls_device *device, const ls_blas *blas,
                               const ls_cuda_product_spec *spec, ls_cuda_product **out)
{
    void *parts = NULL;
    ls_cuda_product *p;
    LS_TRY(ls_allocate("product", &p, 1, sizeof *p));
    p->spec = *spec;
    p->device = device;
    p->blas = blas;
    p->pieces = pieces_of(spec);
    ls_status status = LS_OK;
    if (p->pieces > 1)
        status = ls_device_allocate(device, LS_MEMORY_WORKSPACE, parts_bytes(p), &parts);
    p->parts = parts;
    if (!status)
        status = ls_device_call(device, describe_all, p);
    if (!status)
        status = choose(p);
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
    for (int i = 0; i < MATRICES; i++)
        if (p->layout[i])
            p->blas->call.cublasLtMatrixLayoutDestroy(p->layout[i]);
    if (p->desc)
        p->blas->call.cublasLtMatmulDescDestroy(p->desc);
    ls_device_release(p->device, p->room);
    ls_device_release(p->device, p->parts);
    free(p);
}

size_t ls_cuda_product_workspace(const ls_cuda_product *p)
{
    return (p->room ? workspace_room(p) : 0) + (p->parts ? parts_bytes(p) : 0);
}

ls_status ls_cuda_product_multiply(const ls_cuda_product *p, ls_queue *queue, ls_gpu_rest *rest)
{
    const ls_cuda_operands on = own_operands(p);
    *rest = rest_of(p, &on);
    return run_multiply(p, &on, ls_queue_native(queue));
}

ls_status ls_cuda_product_run(const ls_cuda_product *p, ls_queue *queue)
{
    const ls_cuda_operands on = own_operands(p);
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
