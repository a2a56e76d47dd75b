/* SPDX-License-Identifier: MIT */
/* The CUDA table's own types, shared by its files. Not yet run on a GPU. */
#ifndef LS_COMMON_KERNEL_CUDA_CUDA_KERNELS_H
#define LS_COMMON_KERNEL_CUDA_CUDA_KERNELS_H

#include "common/kernel/cuda/cuda_launch.h"
#include "common/kernel/kernel.h"

#include <cublasLt.h>

/* cuBLASLt's functions that are used; the order is that of the names in cuda_product.c. */
typedef struct cuda_blas {
    __typeof__(&cublasLtGetVersion) get_version;
    __typeof__(&cublasLtGetStatusString) status_string;
    __typeof__(&cublasLtCreate) create;
    __typeof__(&cublasLtDestroy) destroy;
    __typeof__(&cublasLtMatmul) matmul;
    __typeof__(&cublasLtMatmulDescCreate) desc_create;
    __typeof__(&cublasLtMatmulDescDestroy) desc_destroy;
    __typeof__(&cublasLtMatmulDescSetAttribute) desc_set;
    __typeof__(&cublasLtMatrixLayoutCreate) layout_create;
    __typeof__(&cublasLtMatrixLayoutDestroy) layout_destroy;
    __typeof__(&cublasLtMatmulPreferenceCreate) preference_create;
    __typeof__(&cublasLtMatmulPreferenceDestroy) preference_destroy;
    __typeof__(&cublasLtMatmulPreferenceSetAttribute) preference_set;
    __typeof__(&cublasLtMatmulAlgoGetHeuristic) find_algorithm;
} cuda_blas;

typedef struct cuda_kernels {
    ls_kernels base;
    cuda_blas blas;
    void *loaded; /* of ls_dynamic_load */
    cublasLtHandle_t handle;
    char library[64];
} cuda_kernels;

/* cuda_product.c */
/* Loads cuBLASLt and makes its handle on the device that is selected. */
ls_status ls_cuda_blas_open(cuda_kernels *kernels);
void ls_cuda_blas_close(cuda_kernels *kernels);
ls_status ls_cuda_gemm(ls_kernels *kernels, const ls_gemm_args *arguments, ls_op **out);
ls_status ls_cuda_dense_forward(ls_kernels *kernels, const ls_dense_forward_args *arguments,
                                ls_op **out);
ls_status ls_cuda_dense_backward_weights(ls_kernels *kernels,
                                         const ls_dense_backward_weights_args *arguments,
                                         ls_op **out);
ls_status ls_cuda_dense_backward_data(ls_kernels *kernels,
                                      const ls_dense_backward_data_args *arguments, ls_op **out);

#endif
