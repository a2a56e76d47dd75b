/* SPDX-License-Identifier: MIT */
/*
 * Products by cuBLASLt; see cuda_product.h. The library's matrices are column-major, ours
 * row-major: our [m,n] is its [n,m]. So it computes c^T = op(b)^T op(a)^T: its A is our b, its B
 * our a, each transposed if ours is. The library's arguments must not depend on where matrices lie:
 * the variables of a part of a model have other addresses than in the whole, and must get the same
 * algorithm. So all are declared with an alignment of 4 bytes, the least that any part has. The
 * library's epilogue adds a bias alone to a large product, from an aligned copy: the heuristic
 * derives its alignment from the bias's address (cublasLt.h, CUBLASLT_MATMUL_DESC_BIAS_POINTER), no
 * preference sets it, and kernels that read 16 bytes at a time fault on others (pytorch, pull
 * request 194497). Else one kernel after the product applies bias, ReLU and mask, and adds the
 * pieces of a sum.
 */
#include "common/kernel/cuda/product/cuda_product.h"

#include "common/base/grow.h"
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/cuda/product/cuda_product_cost.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Largest workspace of a product: the size that NVIDIA's documentation recommends for Hopper. */
static const uint64_t workspace_most = (uint64_t)32 << 20;

enum {
    MATRICES = 3,
    CANDIDATES = 32,                  /* of a number of pieces */
    PIECES_MOST = 32,                 /* powers of 2 */
    CANDIDATES_MOST = 6 * CANDIDATES, /* of all numbers of pieces */
    PIECE_TERMS = 48,                 /* the fewest of a piece */
    EMULATED = 132,                   /* multiprocessors where none is known */
    EPILOGUE_ELEMENTS = 1 << 20 /* from here on a pass over them costs more than a copied bias */
};

/* The declared alignment of every matrix, in bytes. */
static const uint32_t alignment = sizeof(float);

/* How much shorter than the library's first choice another candidate must be by the model, which is
 * off by up to a seventh. */
static const double better = 0.93;

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
    void *bias_room; /* NULL: no epilogue is used */
    float *bias;     /* aligned, inside it: a copy */
};

/* A way to compute a product. */
typedef struct candidate {
    int32_t pieces;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
    double cost; /* by the model; any_order: the library's order */
} candidate;

/* What the heuristic returns for some reduction schemes and all numbers of pieces, without what
 * does not suit. */
typedef struct candidate_list {
    ls_cuda_product *product;
    uint32_t schemes;
    int count;
    candidate at[CANDIDATES_MOST];
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

/* Whether the library adds the bias. */
static bool has_epilogue(const ls_cuda_product *p)
{
    return p->bias && p->pieces == 1;
}

static ls_status set_epilogue(const ls_cuda_product *p)
{
    const uint32_t epilogue = has_epilogue(p) ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = has_epilogue(p) ? p->bias : NULL;
    LS_TRY(set_desc(p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    return set_desc(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
}

/* Whether the sum may have so many pieces, of equal length. */
static bool may_cut(const ls_cuda_product_spec *spec, int32_t pieces)
{
    const int64_t terms = spec->gemm.k / pieces;
    return pieces == 1 || (spec->cut && pieces <= PIECES_MOST && terms >= PIECE_TERMS &&
                           spec->gemm.k == terms * pieces);
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

static void forget_layouts(ls_cuda_product *p)
{
    for (int i = 0; i < MATRICES; i++) {
        if (p->layout[i])
            p->blas->call.cublasLtMatrixLayoutDestroy(p->layout[i]);
        p->layout[i] = NULL;
    }
}

/* A piece of a factor is some of its rows or columns, depending on the direction of its terms. */
static ls_status lay_out_all(ls_cuda_product *p, int32_t pieces)
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
static bool suits(const candidate_list *l, const cublasLtMatmulHeuristicResult_t *result)
{
    const ls_cuda_product *p = l->product;
    int32_t pieces = 0;
    size_t written;
    if (result->state != CUBLAS_STATUS_SUCCESS || result->workspaceSize > workspace_most)
        return false;
    if (p->spec.any_order)
        return true;
    if (p->blas->call.cublasLtMatmulAlgoConfigGetAttribute(
            &result->algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &pieces, sizeof pieces, &written) !=
        CUBLAS_STATUS_SUCCESS)
        return l->schemes == CUBLASLT_REDUCTION_SCHEME_NONE;
    return pieces <= 1;
}

/* Its blocks' tile, as ours: the library's rows are our columns. Of others than these 0. */
static ls_product_tile tile_of(const ls_cuda_product *p, const cublasLtMatmulAlgo_t *algorithm)
{
    static const struct {
        uint32_t id;
        ls_product_tile tile;
    } known[] = {
#define TILE(n, m)                                                                                 \
    {                                                                                              \
        CUBLASLT_MATMUL_TILE_##n##x##m,                                                            \
        {                                                                                          \
            m, n                                                                                   \
        }                                                                                          \
    }
        TILE(32, 32),  TILE(32, 64),  TILE(64, 32),   TILE(64, 64),   TILE(32, 128),  TILE(128, 32),
        TILE(64, 128), TILE(128, 64), TILE(128, 128), TILE(128, 256), TILE(256, 128),
#undef TILE
    };
    uint32_t id = CUBLASLT_MATMUL_TILE_UNDEFINED;
    size_t written;
    if (p->blas->call.cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID,
                                                           &id, sizeof id,
                                                           &written) != CUBLAS_STATUS_SUCCESS)
        return (ls_product_tile){0, 0};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].id == id)
            return known[i].tile;
    return (ls_product_tile){0, 0};
}

/* Of the library's result number `at` for the product's present pieces. */
static double cost_of(const ls_cuda_product *p, int at, const cublasLtMatmulAlgo_t *algorithm)
{
    const ls_gemm_args *g = &p->spec.gemm;
    const ls_product_size size = {g->m, g->n, g->k, p->pieces};
    const int here = ls_device_describe(p->device)->multiprocessors;
    const bool first = at == 0 && p->pieces == 1;
    if (p->spec.any_order)
        return at;
    return (first ? better : 1) *
           ls_product_cost(&size, tile_of(p, algorithm), here ? here : EMULATED);
}

/* Adds a candidate behind all that cost no more. */
static void add_candidate(candidate_list *l, const candidate *added)
{
    int place = l->count++;
    for (; place && l->at[place - 1].cost > added->cost; place--)
        l->at[place] = l->at[place - 1];
    l->at[place] = *added;
}

/* Of the product's present pieces. */
static ls_status ask(candidate_list *l, cublasLtMatmulPreference_t preference)
{
    const ls_cuda_product *p = l->product;
    cublasLtMatmulHeuristicResult_t results[CANDIDATES];
    int count = 0;
    const cublasStatus_t status = p->blas->call.cublasLtMatmulAlgoGetHeuristic(
        p->blas->handle, p->desc, p->layout[0], p->layout[1], p->layout[2], p->layout[2],
        preference, CANDIDATES, results, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
        count = 0; /* it has none: no failure */
    else
        LS_TRY(ls_blas_check(p->blas, status, "choose an algorithm"));
    for (int i = 0; i < count; i++)
        if (suits(l, &results[i]))
            add_candidate(l, &(candidate){p->pieces, results[i].algo, results[i].workspaceSize,
                                          cost_of(p, i, &results[i].algo)});
    return LS_OK;
}

static ls_status ask_all(candidate_list *l, cublasLtMatmulPreference_t preference)
{
    LS_TRY(set_preference(l->product, preference, l->schemes));
    for (int32_t pieces = 1; may_cut(&l->product->spec, pieces); pieces *= 2) {
        LS_TRY(lay_out_all(l->product, pieces));
        LS_TRY(ask(l, preference));
    }
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
    ls_status status = ask_all(l, preference);
    call->cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

static cublasStatus_t multiply(const ls_cuda_product *p, const ls_cuda_operands *on, float scale,
                               void *stream)
{
    const float before = on->accumulate && !p->parts ? 1 : 0;
    void *c = p->parts ? p->parts : on->c;
    const ls_add_args copy = {.count = p->spec.gemm.n, .a = p->spec.bias, .y = p->bias};
    if (has_epilogue(p) && ls_gpu_add(stream, &copy))
        return CUBLAS_STATUS_EXECUTION_FAILED;
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
    const float *bias = has_epilogue(p) ? NULL : spec->bias;
    if (!(p->parts || bias || spec->relu || spec->mask))
        return (ls_gpu_rest){.rows = 0};
    return (ls_gpu_rest){.parts = p->parts,
                         .pieces = p->pieces,
                         .rows = spec->gemm.m,
                         .columns = spec->gemm.n,
                         .accumulate = on->accumulate,
                         .bias = bias,
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
static ls_status describe_here(void *context)
{
    return describe(context);
}

/* Runs on the device's thread. */
static ls_status lay_out_again(void *context)
{
    ls_cuda_product *p = context;
    return lay_out_all(p, p->pieces);
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

static size_t bias_room(const ls_cuda_product *p)
{
    return (size_t)p->spec.gemm.n * sizeof(float) + WORKSPACE_ALIGNMENT;
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

static void release_memory(ls_cuda_product *p)
{
    ls_device_release(p->device, p->room);
    ls_device_release(p->device, p->parts);
    p->room = p->workspace = p->parts = NULL;
}

static ls_status take_memory(ls_cuda_product *p)
{
    void *parts;
    release_memory(p);
    if (p->pieces > 1) {
        LS_TRY(ls_device_allocate(p->device, LS_MEMORY_WORKSPACE, parts_bytes(p), &parts));
        p->parts = parts;
    }
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
        p->pieces = l->at[i].pieces;
        p->algorithm = l->at[i].algorithm;
        p->workspace_bytes = l->at[i].workspace_bytes;
        LS_TRY(ls_device_call(p->device, lay_out_again, p));
        LS_TRY(take_memory(p));
        LS_TRY(ls_device_call(p->device, try_out, l));
        if (l->status == CUBLAS_STATUS_SUCCESS || !may_try_next(l->status))
            return ls_blas_check(p->blas, l->status, "try a product");
    }
    return LS_OK;
}

/* Candidates without split sums are tried first; if none runs, those that the library lists for all
 * schemes. */
static ls_status choose_of(candidate_list *list)
{
    static const uint32_t schemes[] = {CUBLASLT_REDUCTION_SCHEME_NONE,
                                       CUBLASLT_REDUCTION_SCHEME_MASK};
    ls_cuda_product *p = list->product;
    for (int i = p->spec.any_order; i < 2 && list->status != CUBLAS_STATUS_SUCCESS; i++) {
        list->schemes = schemes[i];
        LS_TRY(ls_device_call(p->device, list_candidates, list));
        LS_TRY(try_candidates(list));
    }
    return LS_OK;
}

static void release_bias(ls_cuda_product *p)
{
    ls_device_release(p->device, p->bias_room);
    p->bias_room = NULL;
    p->bias = NULL;
}

/* With the library's epilogue where that pays, else or if nothing has it without. */
static ls_status choose(ls_cuda_product *p)
{
    const ls_gemm_args *g = &p->spec.gemm;
    candidate_list list = {.product = p, .status = CUBLAS_STATUS_NOT_SUPPORTED};
    char shape[96];
    if (p->spec.bias && !p->spec.relu && !p->spec.mask && g->m * g->n >= EPILOGUE_ELEMENTS) {
        LS_TRY(ls_device_allocate(p->device, LS_MEMORY_WORKSPACE, bias_room(p), &p->bias_room));
        p->bias = align_workspace(p->bias_room);
        LS_TRY(choose_of(&list));
        if (!has_epilogue(p) || list.status != CUBLAS_STATUS_SUCCESS)
            release_bias(p);
    }
    LS_TRY(choose_of(&list)); /* does nothing after a success */
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
    ls_cuda_product *p;
    LS_TRY(ls_allocate("product", &p, 1, sizeof *p));
    p->spec = *spec;
    p->device = device;
    p->blas = blas;
    ls_status status = ls_device_call(device, describe_here, p);
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
    forget_layouts(p);
    if (p->desc)
        p->blas->call.cublasLtMatmulDescDestroy(p->desc);
    release_memory(p);
    release_bias(p);
    free(p);
}

size_t ls_cuda_product_workspace(const ls_cuda_product *p)
{
    return (p->room ? workspace_room(p) : 0) + (p->parts ? parts_bytes(p) : 0) +
           (p->bias_room ? bias_room(p) : 0);
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
