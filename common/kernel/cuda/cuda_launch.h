/* SPDX-License-Identifier: MIT */
/*
 * The border between the CUDA table's constructors (C) and its kernels (CUDA C++): one function per
 * kernel, that launches it. Not yet run on a GPU.
 */
#ifndef LS_COMMON_KERNEL_CUDA_CUDA_LAUNCH_H
#define LS_COMMON_KERNEL_CUDA_CUDA_LAUNCH_H

#include "common/base/philox.h"
#include "common/kernel/kernel.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cuda_place {
    cudaStream_t stream;
    unsigned *fault; /* ls_cuda_fault, of the queue; device-visible */
} cuda_place;

/* Launches on the stream; returns what the launch says. `arguments` are those named below. */
typedef cudaError_t cuda_launch(const void *arguments, const cuda_place *at);

typedef struct cuda_softmax_args {
    ls_softmax_cross_entropy_args of;
    double *row_loss; /* [B], scratch */
} cuda_softmax_args;

typedef struct cuda_indices_args {
    ls_batch_indices_args of;
    ls_order_epoch like; /* samples, a, b and shuffle are those of every epoch */
    ls_random random;    /* of the keys */
} cuda_indices_args;

typedef struct cuda_column_sum_args {
    int64_t rows, columns;
    const float *data; /* [rows, columns] */
    float *sums;       /* [columns] */
} cuda_column_sum_args;

typedef struct cuda_bias_args {
    int64_t rows, columns;
    const float *bias; /* [columns] */
    float *y;          /* [rows, columns] */
    bool relu;
} cuda_bias_args;

/* cuda_elementwise.cu */
cuda_launch ls_cuda_bias;          /* cuda_bias_args: y = bias, or its ReLU */
cuda_launch ls_cuda_relu_forward;  /* ls_relu_forward_args */
cuda_launch ls_cuda_relu_backward; /* ls_relu_backward_args */
cuda_launch ls_cuda_polynomial;    /* ls_polynomial_args */
cuda_launch ls_cuda_add;           /* ls_add_args */
cuda_launch ls_cuda_fill;          /* ls_fill_args */
cuda_launch ls_cuda_optimizer;     /* ls_optimizer_args */
/* cuda_batch.cu */
cuda_launch ls_cuda_batch_indices; /* cuda_indices_args */
cuda_launch ls_cuda_gather;        /* ls_gather_args */
cuda_launch ls_cuda_finish_step;   /* ls_finish_step_args */
cuda_launch ls_cuda_stamp;         /* ls_stamp_args */
cuda_launch ls_cuda_add_loss;      /* ls_add_loss_args */
cuda_launch ls_cuda_flip_bit;      /* ls_flip_bit_args */
/* cuda_reduce.cu */
cuda_launch ls_cuda_softmax_cross_entropy; /* cuda_softmax_args */
cuda_launch ls_cuda_squared_error;         /* ls_squared_error_args */
cuda_launch ls_cuda_count_correct;         /* ls_count_correct_args */
cuda_launch ls_cuda_column_sum;            /* cuda_column_sum_args */

/* Loads every kernel of a file onto the device that is selected: a first launch within a capture
 * would have to. */
cudaError_t ls_cuda_load_elementwise(void);
cudaError_t ls_cuda_load_batch(void);
cudaError_t ls_cuda_load_reduce(void);

#ifdef __cplusplus
}
#endif

#endif
