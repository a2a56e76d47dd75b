/* SPDX-License-Identifier: MIT */
/*
 * cuDNN, loaded when a table makes its first convolution: its functions, and its failures in words.
 * Nothing of it is linked; test_cuda_dnn loads the library of the build.
 */
#pragma once

#include "common/kernel/cuda/cuda_kernels.h"

#include <cudnn.h>
#include <stdbool.h>

#define LS_DNN_FUNCTIONS(X)                                                                        \
    X(cudnnGetVersion)                                                                             \
    X(cudnnGetErrorString)                                                                         \
    X(cudnnGetLastErrorString)                                                                     \
    X(cudnnCreate)                                                                                 \
    X(cudnnDestroy)                                                                                \
    X(cudnnSetStream)                                                                              \
    X(cudnnCreateTensorDescriptor)                                                                 \
    X(cudnnDestroyTensorDescriptor)                                                                \
    X(cudnnSetTensor4dDescriptor)                                                                  \
    X(cudnnCreateFilterDescriptor)                                                                 \
    X(cudnnDestroyFilterDescriptor)                                                                \
    X(cudnnSetFilter4dDescriptor)                                                                  \
    X(cudnnCreateActivationDescriptor)                                                             \
    X(cudnnDestroyActivationDescriptor)                                                            \
    X(cudnnSetActivationDescriptor)                                                                \
    X(cudnnCreateConvolutionDescriptor)                                                            \
    X(cudnnDestroyConvolutionDescriptor)                                                           \
    X(cudnnSetConvolution2dDescriptor)                                                             \
    X(cudnnSetConvolutionMathType)                                                                 \
    X(cudnnGetConvolutionForwardWorkspaceSize)                                                     \
    X(cudnnConvolutionForward)                                                                     \
    X(cudnnConvolutionBiasActivationForward)                                                       \
    X(cudnnGetConvolutionBackwardDataWorkspaceSize)                                                \
    X(cudnnConvolutionBackwardData)                                                                \
    X(cudnnGetConvolutionBackwardFilterWorkspaceSize)                                              \
    X(cudnnConvolutionBackwardFilter)

/** Pointers and nothing else: ls_dynamic_load fills them in this order. */
typedef struct ls_dnn_functions {
#define LS_DNN_MEMBER(name) __typeof__(name) *name;
    LS_DNN_FUNCTIONS(LS_DNN_MEMBER)
#undef LS_DNN_MEMBER
} ls_dnn_functions;

struct ls_dnn {
    ls_dnn_functions call;
    void *library;
    cudnnHandle_t handle; /**< of the device current at its opening; used by one thread */
};

/** Loads the library; no handle yet. LS_CODE_MISSING if it is missing or has another major version;
 * *absent if there is no such file at all. */
ls_status ls_dnn_load(ls_dnn *out, bool *absent);

/** The handle; needs a device. */
ls_status ls_dnn_open(ls_dnn *dnn);

/** Destroys the handle, if any, and unloads the library. */
void ls_dnn_close(ls_dnn *dnn);

/** LS_OK, or the failure of `what`, with the library's own message. */
ls_status ls_dnn_check(const ls_dnn *dnn, cudnnStatus_t status, const char *what);

/** NULL, or why the library has nothing for this shape, as far as that is known without it. */
const char *ls_dnn_refuses(const ls_conv_shape *shape);

/** Whether the status means that the library cannot do such a shape, not that it failed. */
bool ls_dnn_unsupported(cudnnStatus_t status);

/** Whether it means that the host or the device was out of memory. */
bool ls_dnn_lacks_memory(cudnnStatus_t status);
