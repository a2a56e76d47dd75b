/* SPDX-License-Identifier: MIT */
/*
 * cuDNN, loaded when a table makes its first convolution: its functions, and its failures in words.
 * Nothing of it is linked. Not yet run on a GPU; test_cuda_dnn loads the library of the build.
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
    cudnnHandle_t handle; /**< of the device that was current when it was opened; one thread at a
                               time uses it, the one that puts the table's operations */
};

typedef enum ls_dnn_direction {
    LS_DNN_FORWARD,
    LS_DNN_WEIGHTS,
    LS_DNN_DATA,
    LS_DNN_DIRECTIONS
} ls_dnn_direction;

/** A way to compute a direction, of those with one fixed order of sums. */
typedef struct ls_dnn_way {
    const char *name;  /**< "nhwc_precomp_gemm" */
    const char *op[2]; /**< of an operation: with bias and ReLU in the library's call, without */
    cudnnTensorFormat_t layout;
    int algorithm; /**< cudnnConvolutionFwdAlgo_t, ...BwdFilterAlgo_t or ...BwdDataAlgo_t */
} ls_dnn_way;

/** Each way of a direction, from 0 on; NULL: there are no more. */
const ls_dnn_way *ls_dnn_way_at(ls_dnn_direction direction, size_t index);

/** The way chosen for a shape, which depends on the window and the number of channels alone. */
const ls_dnn_way *ls_dnn_way_for(ls_dnn_direction direction, const ls_conv_shape *shape);

/** The class of shapes for which the same ways are chosen; *measured: on what GPU; NULL: not
 * measured. */
const char *ls_dnn_class_of(const ls_conv_shape *shape, const char **measured);

/** Loads the library; no handle yet. LS_CODE_MISSING where it is not there or of another major
 *  version; *absent where there is no such file at all. */
ls_status ls_dnn_load(ls_dnn *out, bool *absent);

/** The handle; needs a device. */
ls_status ls_dnn_open(ls_dnn *dnn);

/** Destroys the handle where there is one, lets the library go. */
void ls_dnn_close(ls_dnn *dnn);

/** LS_OK, or the failure of `what`, with what the library itself says of it. */
ls_status ls_dnn_check(const ls_dnn *dnn, cudnnStatus_t status, const char *what);

/** NULL, or why the library has nothing for this shape, as far as that is known without it. */
const char *ls_dnn_refuses(const ls_conv_shape *shape);

/** Whether the status means that the library cannot do such a shape, not that it failed. */
bool ls_dnn_unsupported(cudnnStatus_t status);
