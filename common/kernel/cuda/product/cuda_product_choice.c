/* SPDX-License-Identifier: MIT */
/*
 * Which kernel computes a product, and in how many pieces; see cuda_product.h. Our own and the
 * library's candidates for each number of pieces are sorted by the model's time
 * (cuda_product_cost.h); the first that runs is kept.
 */
#include "common/base/grow.h"
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/product/cuda_product_cost.h"
#include "common/kernel/cuda/product/cuda_product_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Largest workspace of a product: the size that NVIDIA's documentation recommends for Hopper. */
static const uint64_t workspace_most = (uint64_t)32 << 20;

enum {
    CANDIDATES = 32,                        /* of the library's, for a number of pieces */
    PIECES_MOST = 32,                       /* powers of 2 */
    CANDIDATES_MOST = 6 * (CANDIDATES + 1), /* of all numbers of pieces */
    PIECE_TERMS = 48,                       /* the fewest of a piece */
    EMULATED = 132,                         /* multiprocessors where none is known */
    EPILOGUE_ELEMENTS = 1 << 20 /* elements from which another pass costs more than copying the
                                   bias */
};

/* Estimates of how much of float32's time kernels of other arithmetic take, the library's and our
 * own; not yet run on a GPU. */
static const struct shares {
    double library, tiles;
} shares_float32 = {1, 1}, shares_tf32 = {1 / 6.0, 1 / 2.0}, shares_bf16 = {1 / 12.0, 1 / 3.0};

/* How much shorter than the library's first choice another candidate must be by the model, which is
 * off by up to a seventh. */
static const double better = 0.93;

/* A way to compute a product. */
typedef struct candidate {
    int32_t pieces;
    bool tiles; /* our own kernel; else the library's algorithm */
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
    cublasStatus_t status; /* of the latest trial; before it, of the list of candidates */
} candidate_list;

/* ---- Candidates ------------------------------------------------------------------------------ */

/* Whether the sum may have so many pieces, of equal length. */
static bool may_cut(const ls_cuda_product_spec *spec, int32_t pieces)
{
    const int64_t terms = spec->gemm.k / pieces;
    return pieces == 1 || (spec->cut && pieces <= PIECES_MOST && terms >= PIECE_TERMS &&
                           spec->gemm.k == terms * pieces);
}

static ls_status set_preference(const ls_cuda_product *p, cublasLtMatmulPreference_t preference,
                                uint32_t schemes)
{
    const uint32_t alignment[] = {ls_product_type_of(p, 0).alignment,
                                  ls_product_type_of(p, 1).alignment,
                                  ls_product_type_of(p, 2).alignment};
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t bytes;
    } settings[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_most, sizeof workspace_most},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment[0], sizeof *alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment[1], sizeof *alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignment[2], sizeof *alignment},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment[2], sizeof *alignment},
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

/* Its blocks' tile, as ours: the library's rows are our columns. 0 for all other tiles. */
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

static ls_product_size size_of(const ls_cuda_product *p)
{
    const ls_gemm_args *g = &p->spec.gemm;
    return (ls_product_size){g->m, g->n, g->k, p->pieces};
}

static int multiprocessors_of(const ls_cuda_product *p)
{
    const int known = ls_device_describe(p->device)->multiprocessors;
    return known ? known : EMULATED;
}

static struct shares shares_of(const ls_cuda_product *p)
{
    return p->spec.stored                             ? shares_bf16
           : p->kernels->base.math == LS_MATH_FLOAT32 ? shares_float32
                                                      : shares_tf32;
}

/* The cost of a result of the library for the product's present pieces, behind `before` other
 * candidates. Only float32 was measured: all kernels of other arithmetic count as one tile, so that
 * only their pieces follow from the model, and so does a first choice of unknown tile. */
static double cost_of(const ls_cuda_product *p, int before, const cublasLtMatmulAlgo_t *algorithm)
{
    static const ls_product_tile some = {128, 128};
    const ls_product_size size = size_of(p);
    const int processors = multiprocessors_of(p);
    const bool first = before == 0 && p->pieces == 1, measured = shares_of(p).library == 1;
    if (p->spec.any_order)
        return before;
    double cost = ls_product_cost(&size, measured ? tile_of(p, algorithm) : some, processors) *
                  shares_of(p).library;
    if (first && isinf(cost))
        cost = ls_product_cost(&size, some, processors);
    return first ? better * cost : cost;
}

/* Adds a candidate behind all that cost no more. */
static void add_candidate(candidate_list *l, const candidate *added)
{
    int place = l->count++;
    for (; place && l->at[place - 1].cost > added->cost; place--)
        l->at[place] = l->at[place - 1];
    l->at[place] = *added;
}

/* Asks the library for candidates for the product's present pieces. */
static ls_status ask(candidate_list *l, cublasLtMatmulPreference_t preference)
{
    const ls_cuda_product *p = l->product;
    cublasLtMatmulHeuristicResult_t results[CANDIDATES];
    int count = 0;
    const cublasStatus_t status = p->blas->call.cublasLtMatmulAlgoGetHeuristic(
        p->blas->handle, p->desc, p->layout[0], p->layout[1], p->layout[2], p->layout[2],
        preference, CANDIDATES, results, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
        count = 0; /* having no candidate is not a failure */
    else
        LS_TRY(ls_blas_check(p->blas, status, "choose an algorithm"));
    for (int i = 0; i < count; i++)
        if (suits(l, &results[i]))
            add_candidate(l,
                          &(candidate){p->pieces, false, results[i].algo, results[i].workspaceSize,
                                       cost_of(p, l->count, &results[i].algo)});
    return LS_OK;
}

/* Finds out, once for a table, whether our own kernel runs on the current device: not if nothing
 * was compiled for it. */
static ls_status look_for_tiles(const ls_cuda_product *p)
{
    if (p->kernels->tiles != LS_TILES_UNKNOWN)
        return LS_OK;
    const cudaError_t error = (cudaError_t)ls_gpu_load_tile_product();
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction) {
        cudaGetLastError(); /* the next launch must not report it */
        p->kernels->tiles = LS_TILES_ABSENT;
        return LS_OK;
    }
    LS_TRY(ls_cuda_check(ls_device_describe(p->device)->text, "load a product's kernels", error));
    p->kernels->tiles = LS_TILES_HERE;
    return LS_OK;
}

/* Our own kernel, with the product's present pieces, if that fills half of the multiprocessors. */
static void add_tiles(candidate_list *l)
{
    const ls_cuda_product *p = l->product;
    const ls_gemm_args *g = &p->spec.gemm;
    const ls_product_size size = size_of(p);
    const int processors = multiprocessors_of(p);
    const double cost = ls_product_tiles_cost(&size, !g->transpose_a, g->transpose_b, processors) *
                        shares_of(p).tiles;
    if (2 * ls_product_tiles(&size) >= processors && g->m <= INT32_MAX && g->n <= INT32_MAX &&
        g->k <= INT32_MAX)
        add_candidate(l, &(candidate){.pieces = p->pieces, .tiles = true, .cost = cost});
}

static ls_status ask_all(candidate_list *l, cublasLtMatmulPreference_t preference)
{
    const ls_cuda_product_spec *spec = &l->product->spec;
    const cuda_kernels *kernels = l->product->kernels;
    const bool may_tile = !spec->any_order;
    if (may_tile && !spec->stored)
        LS_TRY(look_for_tiles(l->product));
    LS_TRY(set_preference(l->product, preference, l->schemes));
    for (int32_t pieces = 1; may_cut(spec, pieces); pieces *= 2) {
        LS_TRY(ls_product_lay_out(l->product, pieces));
        if (!spec->stored || !kernels->tiles_alone)
            LS_TRY(ask(l, preference));
        if (may_tile && (spec->stored || kernels->tiles == LS_TILES_HERE))
            add_tiles(l);
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
    l->product->tiles = false;
    LS_TRY(ls_blas_check(l->product->blas, call->cublasLtMatmulPreferenceCreate(&preference),
                         "state a preference"));
    ls_status status = ask_all(l, preference);
    call->cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

/* ---- Trials ---------------------------------------------------------------------------------- */

/* Runs on the device's thread. */
static ls_status lay_out_again(void *context)
{
    ls_cuda_product *p = context;
    return ls_product_lay_out(p, p->pieces);
}

static size_t parts_bytes(const ls_cuda_product *p)
{
    return (size_t)p->pieces * (size_t)(p->spec.gemm.m * p->spec.gemm.n) * sizeof(float);
}

/* Kernels for Hopper need a workspace aligned as by cudaMalloc; a pool's pieces may not be. */
enum { WORKSPACE_ALIGNMENT = LS_CUDA_BIAS_ALIGNMENT };

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
 * to, it stays unchanged; otherwise it is overwritten, as by every run. A refusal is not a failure
 * of the device, which the wait would show. */
static ls_status try_out(void *context)
{
    candidate_list *l = context;
    const ls_cuda_operands on = ls_product_operands(l->product);
    l->status = ls_product_multiply(l->product, &on, on.accumulate ? 0 : 1, cudaStreamPerThread);
    if (l->status)
        cudaGetLastError(); /* the status has it; the next launch must not report it */
    return ls_cuda_check(ls_device_describe(l->product->device)->text, "try a product",
                         cudaStreamSynchronize(cudaStreamPerThread));
}

static void release_bias(ls_cuda_product *p)
{
    ls_device_release(p->device, p->bias_room);
    p->bias_room = NULL;
    p->bias = NULL;
}

static void release_workspace(ls_cuda_product *p)
{
    ls_device_release(p->device, p->room);
    ls_device_release(p->device, p->parts);
    p->room = p->workspace = p->parts = NULL;
}

static ls_status take_memory(ls_cuda_product *p)
{
    void *parts;
    release_workspace(p);
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

/* Whether another candidate may run: not if the library has no memory or context, which depends on
 * more than the shape. */
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
        p->tiles = l->at[i].tiles;
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

/* Candidates without split sums are tried first; if none runs, the candidates that the library
 * lists for all schemes. */
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

/* With the library's epilogue where that pays, else or if nothing has it without. */
ls_status ls_product_choose(ls_cuda_product *p)
{
    const ls_gemm_args *g = &p->spec.gemm;
    candidate_list list = {.product = p, .status = CUBLAS_STATUS_NOT_SUPPORTED};
    char shape[96];
    if (p->spec.bias && !p->spec.relu && !p->spec.mask && g->m * g->n >= EPILOGUE_ELEMENTS) {
        LS_TRY(ls_device_allocate(p->device, LS_MEMORY_WORKSPACE, bias_room(p), &p->bias_room));
        p->bias = align_workspace(p->bias_room);
        LS_TRY(choose_of(&list));
        if (!ls_product_has_epilogue(p) || list.status != CUBLAS_STATUS_SUCCESS)
            release_bias(p);
    }
    p->bias = p->spec.stored ? p->spec.stored->bias : p->bias;
    LS_TRY(choose_of(&list)); /* does nothing after a success */
    if (list.status == CUBLAS_STATUS_SUCCESS)
        return LS_OK;
    if (p->spec.stored) { /* our own kernel runs anywhere */
        p->tiles = true;
        p->pieces = 1;
        p->workspace_bytes = 0;
        return take_memory(p);
    }
    snprintf(shape, sizeof shape, "%" PRId64 "x%" PRId64 "x%" PRId64, g->m, g->n, g->k);
    return ls_fail(LS_CODE_MISSING, "cuBLASLt", shape,
                   "cuBLASLt has no algorithm without split-K for this matrix product (%s); try "
                   "another version of cuBLAS",
                   p->blas->call.cublasLtGetStatusString(list.status));
}

void ls_product_release_memory(ls_cuda_product *p)
{
    release_workspace(p);
    release_bias(p);
}

size_t ls_product_memory(const ls_cuda_product *p)
{
    return (p->room ? workspace_room(p) : 0) + (p->parts ? parts_bytes(p) : 0) +
           (p->bias_room ? bias_room(p) : 0);
}
