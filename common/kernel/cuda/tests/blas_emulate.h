/* SPDX-License-Identifier: MIT */
/*
 * cuBLASLt's functions that the cuda table calls, as loops on host memory, following the library's
 * documentation: column-major matrices, D = op(A) op(B) + beta C. Sums in double. Of
 * epilogues there is the bias, whose address must be a multiple of 256: the heuristic must not get
 * to see another. Its heuristic returns candidates that must be
 * rejected before the right one: one that splits its sums, one that failed, one that does not tell
 * in how many pieces it splits them, nor its tile, and two that cannot run. The tile of others is
 * of 64 x 64. It first returns none without split sums if the number of terms is divisible by 3.
 * The arguments are recorded. Matrices are of floats, or factors, and maybe D with the bias, of
 * bfloat16. For matrices that are all declared with an alignment of 16 bytes it
 * returns an algorithm with other bits: sums in float.
 */
#pragma once

#include "common/base/bf16_inline.h"
#include "common/kernel/cuda/cuda_blas.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct blas_desc {
    cublasComputeType_t compute;
    int32_t transpose_a, transpose_b;
    uint32_t epilogue;
    const void *bias;
} blas_desc;

typedef struct blas_layout {
    uint64_t rows, columns;
    int64_t leading;
    int32_t batch;
    int64_t apart;
    cudaDataType type;
} blas_layout;

typedef struct blas_preference {
    uint64_t workspace;
    uint32_t schemes, alignment[4];
} blas_preference;

/* In the algorithm's opaque words: how many pieces a sum is split into, and how much workspace. */
typedef struct blas_algorithm {
    int32_t pieces;
    bool silent;           /* about the pieces */
    cublasStatus_t status; /* of a product */
    uint32_t alignment[4];
} blas_algorithm;

enum { BLAS_EMULATED_WORKSPACE = 4096 };

/* The heuristic's arguments, for the latest calls. */
typedef struct blas_question {
    blas_desc desc;
    blas_layout layout[3];
    blas_preference preference;
} blas_question;

static struct {
    blas_question latest[64];
    size_t count;
} blas_asked;

/* Into how many pieces a product may split its sums, and the latest one has. */
static struct {
    int32_t allowed;
    _Atomic int32_t latest;
} blas_pieces = {.allowed = 1};

/* Products so far, those with an epilogue, those that were refused, and whether they are only
 * counted: checked, but not computed. */
static struct {
    _Atomic uint64_t products, epilogues, refused;
    cublasStatus_t first; /* of those that were refused */
    bool only;
} blas_counted;

/* A test's own failure of every product. */
static cublasStatus_t blas_failure = CUBLAS_STATUS_SUCCESS;

static size_t blas_get_version(void)
{
    return CUBLAS_VERSION;
}

static const char *blas_get_status_string(cublasStatus_t status)
{
    (void)status;
    return "CUBLAS_STATUS_OF_THE_EMULATION";
}

static cublasStatus_t blas_create(cublasLtHandle_t *handle)
{
    static char one;
    *handle = (cublasLtHandle_t)&one;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t blas_destroy(cublasLtHandle_t handle)
{
    (void)handle;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t blas_desc_create(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                       cudaDataType_t scale)
{
    blas_desc *desc = calloc(1, sizeof *desc);
    if (scale != CUDA_R_32F ||
        (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32))
        return CUBLAS_STATUS_INVALID_VALUE;
    desc->compute = compute;
    desc->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    *out = (cublasLtMatmulDesc_t)(void *)desc;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t blas_desc_destroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t blas_desc_set(cublasLtMatmulDesc_t out,
                                    cublasLtMatmulDescAttributes_t attribute, const void *value,
                                    size_t bytes)
{
    blas_desc *desc = (blas_desc *)(void *)out;
    const struct {
        cublasLtMatmulDescAttributes_t attribute;
        void *place;
        size_t bytes;
    } known[] = {
        {CUBLASLT_MATMUL_DESC_TRANSA, &desc->transpose_a, sizeof desc->transpose_a},
        {CUBLASLT_MATMUL_DESC_TRANSB, &desc->transpose_b, sizeof desc->transpose_b},
        {CUBLASLT_MATMUL_DESC_EPILOGUE, &desc->epilogue, sizeof desc->epilogue},
        {CUBLASLT_MATMUL_DESC_BIAS_POINTER, (void *)&desc->bias, sizeof desc->bias},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == attribute && known[i].bytes == bytes) {
            memcpy(known[i].place, value, bytes);
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t blas_layout_create(cublasLtMatrixLayout_t *out, cudaDataType type,
                                         uint64_t rows, uint64_t columns, int64_t leading)
{
    blas_layout *layout = calloc(1, sizeof *layout);
    if ((type != CUDA_R_32F && type != CUDA_R_16BF) || leading < (int64_t)rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    *layout = (blas_layout){rows, columns, leading, 1, 0, type};
    *out = (cublasLtMatrixLayout_t)(void *)layout;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t blas_layout_destroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t blas_layout_set(cublasLtMatrixLayout_t out,
                                      cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                      size_t bytes)
{
    blas_layout *layout = (blas_layout *)(void *)out;
    if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && bytes == sizeof layout->batch)
        memcpy(&layout->batch, value, bytes);
    else if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET &&
             bytes == sizeof layout->apart)
        memcpy(&layout->apart, value, bytes);
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t blas_preference_create(cublasLtMatmulPreference_t *out)
{
    blas_preference *preference = calloc(1, sizeof *preference);
    preference->schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
    for (int i = 0; i < 4; i++)
        preference->alignment[i] = 256;
    *out = (cublasLtMatmulPreference_t)(void *)preference;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t blas_preference_destroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t blas_preference_set(cublasLtMatmulPreference_t out,
                                          cublasLtMatmulPreferenceAttributes_t attribute,
                                          const void *value, size_t bytes)
{
    blas_preference *preference = (blas_preference *)(void *)out;
    void *place = &preference->workspace;
    size_t wanted = sizeof(uint32_t);
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        wanted = sizeof(uint64_t);
    else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        place = &preference->schemes;
    else if (attribute >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
             attribute <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)
        place = &preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    if (bytes != wanted)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(place, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* Whether the description has an aligned bias if, and only if, its epilogue adds one. */
static bool blas_has_epilogue(const blas_desc *desc)
{
    return desc->epilogue == CUBLASLT_EPILOGUE_BIAS
               ? desc->bias && (uintptr_t)desc->bias % 256 == 0
               : desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT && !desc->bias;
}

/* Whether op(A) [m,k], op(B) [k,n] and D [m,n] fit each other. */
static bool blas_fits(const blas_desc *desc, const blas_layout *a, const blas_layout *b,
                      const blas_layout *d, uint64_t *terms)
{
    *terms = desc->transpose_a ? a->rows : a->columns;
    return a->type == b->type && (d->type == a->type || d->type == CUDA_R_32F) &&
           blas_has_epilogue(desc) && a->batch == d->batch && b->batch == d->batch &&
           (desc->transpose_a ? a->columns : a->rows) == d->rows &&
           (desc->transpose_b ? b->columns : b->rows) == *terms &&
           (desc->transpose_b ? b->rows : b->columns) == d->columns;
}

static cublasStatus_t blas_heuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc_,
                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                     cublasLtMatmulPreference_t preference_, int most,
                                     cublasLtMatmulHeuristicResult_t *out, int *count)
{
    const blas_desc *desc = (const blas_desc *)(void *)desc_;
    const blas_preference *preference = (const blas_preference *)(void *)preference_;
    uint64_t terms;
    *count = 0;
    blas_asked.latest[blas_asked.count++ % 64] = (blas_question){
        *desc,
        {*(blas_layout *)(void *)a, *(blas_layout *)(void *)b, *(blas_layout *)(void *)d},
        *preference};
    if (!handle || c != d || most < 5 || !blas_fits(desc, (void *)a, (void *)b, (void *)d, &terms))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (preference->schemes == CUBLASLT_REDUCTION_SCHEME_NONE && terms % 3 == 0)
        return CUBLAS_STATUS_SUCCESS;
    const bool whole = preference->schemes == CUBLASLT_REDUCTION_SCHEME_NONE;
    const blas_algorithm all[] = {{.pieces = 4},
                                  {.pieces = 1},
                                  {whole ? 1 : 4, true, CUBLAS_STATUS_NOT_SUPPORTED, {0}},
                                  {1, false, CUBLAS_STATUS_INTERNAL_ERROR, {0}},
                                  {.pieces = 1, .silent = whole}};
    for (*count = 0; *count < 5; (*count)++) {
        blas_algorithm algorithm = all[*count];
        memcpy(algorithm.alignment, preference->alignment, sizeof algorithm.alignment);
        memset(&out[*count], 0, sizeof *out);
        memcpy(&out[*count].algo, &algorithm, sizeof algorithm);
        out[*count].workspaceSize = BLAS_EMULATED_WORKSPACE;
        out[*count].state = *count == 1 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t blas_config(const cublasLtMatmulAlgo_t *algo,
                                  cublasLtMatmulAlgoConfigAttributes_t attribute, void *out,
                                  size_t bytes, size_t *written)
{
    blas_algorithm algorithm;
    static const uint32_t tile = CUBLASLT_MATMUL_TILE_64x64;
    memcpy(&algorithm, algo, sizeof algorithm);
    const bool of_tile = attribute == CUBLASLT_ALGO_CONFIG_TILE_ID;
    if ((!of_tile && attribute != CUBLASLT_ALGO_CONFIG_SPLITK_NUM) ||
        bytes != sizeof algorithm.pieces || algorithm.silent)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(out, of_tile ? (const void *)&tile : &algorithm.pieces, bytes);
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

static int64_t blas_bytes(const blas_layout *layout)
{
    return layout->type == CUDA_R_16BF ? sizeof(uint16_t) : sizeof(float);
}

static double blas_element(cudaDataType type, const void *at, uint64_t i)
{
    return (double)(type == CUDA_R_16BF ? ls_float_of_bf16(((const uint16_t *)at)[i])
                                        : ((const float *)at)[i]);
}

/* A matrix as floats; the caller frees *copy, which may be NULL. */
static const float *blas_floats(const blas_layout *layout, const void *at, float **copy)
{
    const uint64_t count = (uint64_t)layout->leading * (layout->columns - 1) + layout->rows;
    *copy = NULL;
    if (layout->type != CUDA_R_16BF)
        return at;
    *copy = malloc(count * sizeof **copy);
    for (uint64_t i = 0; i < count; i++)
        (*copy)[i] = ls_float_of_bf16(((const uint16_t *)at)[i]);
    return *copy;
}

/* A factor as the arithmetic rounds it: TF32 has a mantissa of 10 bits. */
static double blas_factor(const blas_desc *desc, float value)
{
    if (desc->compute != CUBLAS_COMPUTE_32F_FAST_TF32)
        return (double)value;
    int exponent;
    const double fraction = frexp((double)value, &exponent);
    return ldexp(rint(fraction * 2048), exponent - 11);
}

/* d = factor[0] op(a) op(b) + factor[1] d, of one batch. */
static void blas_multiply(const blas_desc *desc, const void *const factors[2],
                          const blas_layout *const layouts[3], const float factor[2], bool aligned,
                          void *d)
{
    const cudaDataType result = layouts[2]->type;
    float *copies[2];
    const float *const a = blas_floats(layouts[0], factors[0], &copies[0]);
    const float *const b = blas_floats(layouts[1], factors[1], &copies[1]);
    const uint64_t lead_a = (uint64_t)layouts[0]->leading, lead_b = (uint64_t)layouts[1]->leading;
    const uint64_t terms = desc->transpose_a ? layouts[0]->rows : layouts[0]->columns;
    for (uint64_t j = 0; j < layouts[2]->columns; j++)
        for (uint64_t i = 0; i < layouts[2]->rows; i++) {
            const uint64_t at = j * (uint64_t)layouts[2]->leading + i;
            double sum = 0;
            for (uint64_t k = 0; k < terms; k++) {
                sum += blas_factor(desc, a[desc->transpose_a ? i * lead_a + k : k * lead_a + i]) *
                       blas_factor(desc, b[desc->transpose_b ? k * lead_b + j : j * lead_b + k]);
                sum = aligned ? (double)(float)sum : sum;
            }
            sum *= (double)factor[0];
            if (factor[1] != 0)
                sum += (double)factor[1] * blas_element(result, d, at);
            if (desc->bias) /* as an operation of its own, which has rounded the sum */
                sum = (double)(float)sum + blas_element(result, desc->bias, i);
            if (result == CUDA_R_16BF)
                ((uint16_t *)d)[at] = ls_bf16_of_float((float)sum);
            else
                ((float *)d)[at] = (float)sum;
        }
    free(copies[0]), free(copies[1]);
}

static cublasStatus_t blas_matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc_,
                                  const void *alpha, const void *a_,
                                  cublasLtMatrixLayout_t a_layout, const void *b_,
                                  cublasLtMatrixLayout_t b_layout, const void *beta, const void *c_,
                                  cublasLtMatrixLayout_t c_layout, void *d_,
                                  cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                                  void *workspace, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    const blas_desc *desc = (const blas_desc *)(void *)desc_;
    const blas_layout *la = (void *)a_layout, *lb = (void *)b_layout, *ld = (void *)d_layout;
    const float scale = *(const float *)alpha;
    blas_algorithm algorithm;
    uint64_t terms;
    memcpy(&algorithm, algo, sizeof algorithm);
    if (algorithm.status || blas_failure) {
        if (blas_counted.refused++ == 0)
            blas_counted.first = blas_failure ? blas_failure : algorithm.status;
        return blas_failure ? blas_failure : algorithm.status;
    }
    blas_pieces.latest = algorithm.pieces;
    const void *const places[4] = {a_, b_, c_, d_};
    bool aligned = true;
    for (int i = 0; i < 4; i++) {
        if ((uintptr_t)places[i] % algorithm.alignment[i])
            return CUBLAS_STATUS_INVALID_VALUE;
        aligned &= algorithm.alignment[i] >= 16;
    }
    if (!handle || c_ != d_ || c_layout != d_layout || algorithm.pieces > blas_pieces.allowed ||
        !workspace || bytes < BLAS_EMULATED_WORKSPACE || !blas_fits(desc, la, lb, ld, &terms))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int32_t i = 0; i < ld->batch; i++) {
        const void *const factors[] = {(const char *)a_ + i * la->apart * blas_bytes(la),
                                       (const char *)b_ + i * lb->apart * blas_bytes(lb)};
        void *const d = (char *)d_ + i * ld->apart * blas_bytes(ld);
        const float factor[] = {scale, *(const float *)beta};
        if (((uintptr_t)factors[0] % algorithm.alignment[0]) |
            ((uintptr_t)factors[1] % algorithm.alignment[1]) |
            ((uintptr_t)d % algorithm.alignment[3]))
            return CUBLAS_STATUS_INVALID_VALUE;
        if (!blas_counted.only)
            blas_multiply(desc, factors, (const blas_layout *[]){la, lb, ld}, factor, aligned, d);
    }
    blas_counted.products++;
    blas_counted.epilogues += desc->bias != NULL;
    return CUBLAS_STATUS_SUCCESS;
}

static const ls_blas_functions blas_emulated = {
    .cublasLtGetVersion = blas_get_version,
    .cublasLtGetStatusString = blas_get_status_string,
    .cublasLtCreate = blas_create,
    .cublasLtDestroy = blas_destroy,
    .cublasLtMatmul = blas_matmul,
    .cublasLtMatmulDescCreate = blas_desc_create,
    .cublasLtMatmulDescDestroy = blas_desc_destroy,
    .cublasLtMatmulDescSetAttribute = blas_desc_set,
    .cublasLtMatrixLayoutCreate = blas_layout_create,
    .cublasLtMatrixLayoutDestroy = blas_layout_destroy,
    .cublasLtMatrixLayoutSetAttribute = blas_layout_set,
    .cublasLtMatmulPreferenceCreate = blas_preference_create,
    .cublasLtMatmulPreferenceDestroy = blas_preference_destroy,
    .cublasLtMatmulPreferenceSetAttribute = blas_preference_set,
    .cublasLtMatmulAlgoGetHeuristic = blas_heuristic,
    .cublasLtMatmulAlgoConfigGetAttribute = blas_config,
};
