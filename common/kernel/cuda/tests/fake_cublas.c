/* SPDX-License-Identifier: MIT */
/*
 * cuBLASLt for the fake GPU (common/device/fake): a library to load, whose products are
 * blas_emulate.h's. Arguments are checked when a product is put on its stream, and once more when
 * it runs. A handle belongs to the device that was current when it was made. Left out: the sums of
 * products so large that they only measure a GPU's speed; they become NaNs.
 */
#include "common/device/fake/fake.h"
#include "common/kernel/cuda/tests/blas_emulate.h"

#include <pthread.h>

struct cublasLtContext {
    int device;
};

typedef struct fake_product {
    blas_desc desc;
    blas_layout layout[3];
    float factor[2];
    const void *a, *b;
    void *d, *workspace;
    size_t bytes;
    cublasLtMatmulAlgo_t algorithm;
} fake_product;

/* The emulation's settings are of one thread at a time. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static cublasStatus_t multiply(fake_product *p, bool only_checked)
{
    pthread_mutex_lock(&one_at_a_time);
    void *desc = &p->desc, *a = &p->layout[0], *b = &p->layout[1], *d = &p->layout[2];
    cublasLtHandle_t some = NULL;
    blas_create(&some);
    blas_counted.only = only_checked;
    const cublasStatus_t status =
        blas_matmul(some, desc, &p->factor[0], p->a, a, p->b, b, &p->factor[1], p->d, d, p->d, d,
                    &p->algorithm, p->workspace, p->bytes, NULL);
    if (!status && !only_checked) /* what a library leaves there is its own */
        memset(p->workspace, 0x7f, BLAS_EMULATED_WORKSPACE);
    pthread_mutex_unlock(&one_at_a_time);
    return status;
}

/* Products of more terms than this take seconds here. */
static const double terms_most = 2e9;

static bool is_too_large(const fake_product *p)
{
    const blas_layout *d = &p->layout[2];
    const uint64_t terms = p->desc.transpose_a ? p->layout[0].rows : p->layout[0].columns;
    return (double)d->rows * (double)d->columns * (double)terms * d->batch > terms_most;
}

static void run(void *context)
{
    const fake_product *p = context;
    const blas_layout *d = &p->layout[2];
    if (is_too_large(p)) {
        memset(p->d, 0xff, (size_t)d->leading * d->columns * (size_t)blas_bytes(d));
        return;
    }
    if (multiply(context, false))
        ls_fake_refuse("cublasLtMatmul: a product fails when it runs");
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t bytes, cudaStream_t stream)
{
    if (!handle || handle->device != ls_fake_current() || c != d || c_layout != d_layout)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (ls_fake_device_of(stream) != handle->device)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    const void *const places[] = {a, b, d, workspace};
    for (int i = 0; i < 4; i++)
        if (ls_fake_owner(places[i]) != handle->device)
            ls_fake_refuse("cublasLtMatmul on gpu:%d: argument %d is not its memory",
                           handle->device, i);
    fake_product p = {.desc = *(const blas_desc *)(void *)desc,
                      .layout = {*(const blas_layout *)(void *)a_layout,
                                 *(const blas_layout *)(void *)b_layout,
                                 *(const blas_layout *)(void *)d_layout},
                      .factor = {*(const float *)alpha, *(const float *)beta},
                      .a = a,
                      .b = b,
                      .d = d,
                      .workspace = workspace,
                      .bytes = bytes,
                      .algorithm = *algo};
    if ((uintptr_t)workspace % 256)
        return CUBLAS_STATUS_INVALID_VALUE;
    const cublasStatus_t status = multiply(&p, true);
    if (status)
        return status;
    const ls_fake_work work = {"cublasLtMatmul", run, NULL, &p, sizeof p, 0};
    return ls_fake_enqueue(stream, &work) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = calloc(1, sizeof **handle);
    (*handle)->device = ls_fake_current();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- What has no device ---------------------------------------------------------------------- */

size_t cublasLtGetVersion(void)
{
    return blas_get_version();
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return blas_get_status_string(status);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    return blas_desc_create(out, compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return blas_desc_destroy(desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    return blas_desc_set(desc, attribute, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading)
{
    return blas_layout_create(out, type, rows, columns, leading);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return blas_layout_destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes)
{
    return blas_layout_set(layout, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    return blas_preference_create(out);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return blas_preference_destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    return blas_preference_set(preference, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t *out, int *count)
{
    pthread_mutex_lock(&one_at_a_time);
    const cublasStatus_t status =
        blas_heuristic(handle, desc, a, b, c, d, preference, most, out, count);
    pthread_mutex_unlock(&one_at_a_time);
    return status;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *out, size_t bytes, size_t *written)
{
    return blas_config(algo, attribute, out, bytes, written);
}
