/* SPDX-License-Identifier: MIT */
/* cuBLASLt's functions, loaded at run time; see cuda_blas.h. */
#include "common/kernel/cuda/cuda_blas.h"

#include "common/base/dynamic.h"
#include "common/device/cuda/cuda_check.h"

#include <stdio.h>

#define TEXT_OF(x)  #x
#define VALUE_OF(x) TEXT_OF(x)

static int version_major(const void *functions)
{
    return (int)(((const ls_blas_functions *)functions)->cublasLtGetVersion() / 10000);
}

ls_status ls_blas_load(ls_blas *out)
{
#define LS_BLAS_NAME(name) #name,
    static const char *const symbols[] = {LS_BLAS_FUNCTIONS(LS_BLAS_NAME) NULL};
#undef LS_BLAS_NAME
    static const ls_dynamic library = {
        .name = "cuBLASLt",
        .file = "libcublasLt.so." VALUE_OF(CUBLAS_VER_MAJOR),
        .folder = LS_CUBLAS_FOLDER,
        .remedy = "install a recent cuBLAS " VALUE_OF(
            CUBLAS_VER_MAJOR) ", or name its folder in LD_LIBRARY_PATH",
        .major = CUBLAS_VER_MAJOR,
        .find_major = version_major,
        .symbols = symbols};
    *out = (ls_blas){0};
    return ls_dynamic_load(&library, &out->call, &out->library);
}

ls_status ls_blas_open(ls_blas *blas)
{
    return ls_blas_check(blas, blas->call.cublasLtCreate(&blas->handle), "create a handle");
}

void ls_blas_close(ls_blas *blas)
{
    if (blas->handle)
        blas->call.cublasLtDestroy(blas->handle);
    ls_dynamic_unload(blas->library);
    *blas = (ls_blas){0};
}

const char *ls_blas_version(const ls_blas *blas, char text[32])
{
    const size_t version = blas->call.cublasLtGetVersion();
    snprintf(text, 32, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return text;
}

ls_status ls_blas_check(const ls_blas *blas, cublasStatus_t status, const char *what)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return LS_OK;
    return ls_cuda_blame(ls_fail(LS_CODE_MISSING, "cuBLASLt", what,
                                 "this function of cuBLASLt failed: %s; free memory of the GPU, or "
                                 "try another version of cuBLAS",
                                 blas->call.cublasLtGetStatusString(status)));
}
