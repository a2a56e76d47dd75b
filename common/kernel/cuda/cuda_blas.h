/* SPDX-License-Identifier: MIT */
/*
 * cuBLASLt, loaded when a GPU's kernels are opened: its functions, and its failures in words.
 * Nothing of it is linked. That the library here has all the functions is tested without a GPU.
 */
#pragma once

#include "common/base/status.h"

#include <cublasLt.h>

#define LS_BLAS_FUNCTIONS(X)                                                                       \
    X(cublasLtGetVersion)                                                                          \
    X(cublasLtGetStatusString)                                                                     \
    X(cublasLtCreate)                                                                              \
    X(cublasLtDestroy)                                                                             \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)                                                                 \
    X(cublasLtMatrixLayoutSetAttribute)                                                            \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmulAlgoConfigGetAttribute)

/** Pointers and nothing else: ls_dynamic_load fills them in this order. */
typedef struct ls_blas_functions {
#define LS_BLAS_MEMBER(name) __typeof__(name) *name;
    LS_BLAS_FUNCTIONS(LS_BLAS_MEMBER)
#undef LS_BLAS_MEMBER
} ls_blas_functions;

typedef struct ls_blas {
    ls_blas_functions call;
    void *library;
    cublasLtHandle_t handle; /**< of the device that was current when it was opened */
} ls_blas;

/** Loads the library; no handle yet. LS_CODE_MISSING if it is missing or has another major
 * version. */
ls_status ls_blas_load(ls_blas *out);

/** The handle; needs a device. */
ls_status ls_blas_open(ls_blas *blas);

/** Destroys the handle, if any, and unloads the library. */
void ls_blas_close(ls_blas *blas);

/** "13.1.0" of the library that is loaded. Returns `text`. */
const char *ls_blas_version(const ls_blas *blas, char text[32]);

/** LS_OK, or the failure of `what`. */
ls_status ls_blas_check(const ls_blas *blas, cublasStatus_t status, const char *what);
