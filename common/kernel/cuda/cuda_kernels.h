/* SPDX-License-Identifier: MIT */
/* The cuda table's own types, shared by its files. */
#ifndef LS_COMMON_KERNEL_CUDA_CUDA_KERNELS_H
#define LS_COMMON_KERNEL_CUDA_CUDA_KERNELS_H

#include "common/kernel/cuda/cuda_blas.h"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/kernel.h"
#include "common/kernel/kernel_check.h"

/** Of a convolution's windows at a time: one launch for the batches that models here are trained
 *  with, and no bound on those that they may be. */
enum { LS_CUDA_WINDOW_BYTES = 128 << 20 };

typedef struct ls_dnn ls_dnn;

typedef struct cuda_kernels {
    ls_kernels base;
    ls_blas blas;
    size_t window_bytes; /**< that a convolution makes at a time */
    ls_dnn *dnn;         /**< cuDNN, where a convolution has looked for it and it is here */
    bool dnn_absent;     /**< it is not */
    const struct ls_dnn_way *dnn_way[3]; /**< by direction, to measure: in place of the table's */
    char library[96];
} cuda_kernels;

/** An operation that is one launch of an own kernel. */
typedef struct cuda_op {
    ls_op op;
    /** 0, or the cudaError_t of a launch that was refused. */
    int (*launch)(const struct cuda_op *op, ls_queue *queue);
    union {
#define LS_CUDA_ARGUMENTS(entry, args) args entry;
        LS_KERNEL_ENTRIES(LS_CUDA_ARGUMENTS)
#undef LS_CUDA_ARGUMENTS
    } args;
    union {
        ls_update_scalars scalars; /**< optimizer */
        ls_gpu_order order;        /**< batch_indices, gather_batch */
        ls_gpu_parts parts;        /**< losses, sums of bn */
        ls_random random;          /**< gather_crops */
        int radius;                /**< lrn */
        int64_t blocks;            /**< pack_weights */
    };
    ls_device *device;
    void *workspace;      /**< NULL: none */
    ls_gpu_ranges ranges; /**< of an operation that has any */
    void *table;          /**< [op's] of which the device has a copy; NULL: none */
    const void *shared;   /**< that */
} cuda_op;

/**
 * Makes an operation like `like`: its name, launch and arguments. `work` is what ls_check_... said;
 * `workspace` bytes of zeroed device memory come with it.
 */
ls_status ls_cuda_op_open(ls_kernels *kernels, const cuda_op *like, const ls_work *work,
                          size_t workspace, cuda_op **out);

/** The same for one without workspace. */
ls_status ls_cuda_op_put(ls_kernels *kernels, const cuda_op *like, const ls_work *work,
                         ls_op **out);

/** Has a table of `bytes` where kernels of this operation find it: op->shared. */
ls_status ls_cuda_op_share(cuda_op *op, const void *table, size_t bytes);

/**
 * As ls_cuda_op_open, of an operation over ranges: `blocks` says how many blocks share a range of
 * so many elements. Workspace is `part` bytes for each block, for one more, and a counter; where
 * `part` is 0 there is none.
 */
ls_status ls_cuda_op_ranges(ls_kernels *kernels, const cuda_op *like, const ls_work *work,
                            const ls_update_range *ranges, int64_t count,
                            unsigned (*blocks)(int64_t count), size_t part, ls_op **out);

/** LS_OK, or the failure of a launch. */
ls_status ls_cuda_launched(const ls_op *op, const ls_queue *queue, int error);

/** Has the driver load all own kernels onto the current device, which `where` names. */
ls_status ls_cuda_load_own(const char *where);

extern const ls_kernel_table ls_cuda_kernels;

/* Entries of the table, by file: cuda_dense.c */
ls_status ls_cuda_gemm(ls_kernels *kernels, const ls_gemm_args *arguments, ls_op **out);
ls_status ls_cuda_dense_forward(ls_kernels *kernels, const ls_dense_forward_args *arguments,
                                ls_op **out);
ls_status ls_cuda_dense_backward_weights(ls_kernels *kernels,
                                         const ls_dense_backward_weights_args *arguments,
                                         ls_op **out);
ls_status ls_cuda_dense_backward_data(ls_kernels *kernels,
                                      const ls_dense_backward_data_args *arguments, ls_op **out);
ls_status ls_cuda_dense_backward(ls_kernels *kernels, const ls_dense_backward_args *arguments,
                                 ls_op **out);
/* cuda_elements.c */
ls_status ls_cuda_relu_forward(ls_kernels *kernels, const ls_relu_forward_args *arguments,
                               ls_op **out);
ls_status ls_cuda_relu_backward(ls_kernels *kernels, const ls_relu_backward_args *arguments,
                                ls_op **out);
ls_status ls_cuda_polynomial(ls_kernels *kernels, const ls_polynomial_args *arguments, ls_op **out);
ls_status ls_cuda_add(ls_kernels *kernels, const ls_add_args *arguments, ls_op **out);
ls_status ls_cuda_fill(ls_kernels *kernels, const ls_fill_args *arguments, ls_op **out);
ls_status ls_cuda_optimizer(ls_kernels *kernels, const ls_optimizer_args *arguments, ls_op **out);
/* cuda_batch.c */
ls_status ls_cuda_softmax_cross_entropy(ls_kernels *kernels,
                                        const ls_softmax_cross_entropy_args *arguments,
                                        ls_op **out);
ls_status ls_cuda_squared_error(ls_kernels *kernels, const ls_squared_error_args *arguments,
                                ls_op **out);
ls_status ls_cuda_count_correct(ls_kernels *kernels, const ls_count_correct_args *arguments,
                                ls_op **out);
ls_status ls_cuda_batch_indices(ls_kernels *kernels, const ls_batch_indices_args *arguments,
                                ls_op **out);
ls_status ls_cuda_gather(ls_kernels *kernels, const ls_gather_args *arguments, ls_op **out);
ls_status ls_cuda_add_loss(ls_kernels *kernels, const ls_add_loss_args *arguments, ls_op **out);
ls_status ls_cuda_finish_step(ls_kernels *kernels, const ls_finish_step_args *arguments,
                              ls_op **out);
ls_status ls_cuda_stamp(ls_kernels *kernels, const ls_stamp_args *arguments, ls_op **out);
ls_status ls_cuda_flip_bit(ls_kernels *kernels, const ls_flip_bit_args *arguments, ls_op **out);
ls_status ls_cuda_logistic_loss(ls_kernels *kernels, const ls_logistic_loss_args *arguments,
                                ls_op **out);
ls_status ls_cuda_weight_decay(ls_kernels *kernels, const ls_weight_decay_args *arguments,
                               ls_op **out);
/* cuda_feed.c */
ls_status ls_cuda_gather_batch(ls_kernels *kernels, const ls_gather_batch_args *arguments,
                               ls_op **out);
/* cuda_images.c */
ls_status ls_cuda_max_pool_forward(ls_kernels *kernels, const ls_max_pool_forward_args *arguments,
                                   ls_op **out);
ls_status ls_cuda_max_pool_backward(ls_kernels *kernels, const ls_max_pool_backward_args *arguments,
                                    ls_op **out);
ls_status ls_cuda_transpose(ls_kernels *kernels, const ls_transpose_args *arguments, ls_op **out);
ls_status ls_cuda_pack_weights(ls_kernels *kernels, const ls_pack_weights_args *arguments,
                               ls_op **out);
ls_status ls_cuda_copy_columns(ls_kernels *kernels, const ls_copy_columns_args *arguments,
                               ls_op **out);
ls_status ls_cuda_gather_crops(ls_kernels *kernels, const ls_gather_crops_args *arguments,
                               ls_op **out);
ls_status ls_cuda_lrn_forward(ls_kernels *kernels, const ls_lrn_forward_args *arguments,
                              ls_op **out);
ls_status ls_cuda_lrn_backward(ls_kernels *kernels, const ls_lrn_backward_args *arguments,
                               ls_op **out);
ls_status ls_cuda_conv_max_forward(ls_kernels *kernels, const ls_conv_max_forward_args *arguments,
                                   ls_op **out);
ls_status ls_cuda_conv_max_backward_weights(ls_kernels *kernels,
                                            const ls_conv_max_backward_weights_args *arguments,
                                            ls_op **out);
/* cuda_conv_choice.c */
ls_status ls_cuda_conv_forward(ls_kernels *kernels, const ls_conv_forward_args *arguments,
                               ls_op **out);
ls_status ls_cuda_conv_backward_weights(ls_kernels *kernels,
                                        const ls_conv_backward_weights_args *arguments,
                                        ls_op **out);
ls_status ls_cuda_conv_backward_data(ls_kernels *kernels,
                                     const ls_conv_backward_data_args *arguments, ls_op **out);
/* cuda_lstm.c */
ls_status ls_cuda_lstm_forward(ls_kernels *kernels, const ls_lstm_forward_args *arguments,
                               ls_op **out);
ls_status ls_cuda_lstm_backward(ls_kernels *kernels, const ls_lstm_backward_args *arguments,
                                ls_op **out);
ls_status ls_cuda_lstm_pair_forward(ls_kernels *kernels, const ls_lstm_pair_forward_args *arguments,
                                    ls_op **out);
ls_status ls_cuda_lstm_pair_backward(ls_kernels *kernels,
                                     const ls_lstm_pair_backward_args *arguments, ls_op **out);
/* cuda_residual.c */
ls_status ls_cuda_bn_sums(ls_kernels *kernels, const ls_bn_sums_args *arguments, ls_op **out);
ls_status ls_cuda_bn_moments(ls_kernels *kernels, const ls_bn_moments_args *arguments, ls_op **out);
ls_status ls_cuda_bn_moving_moments(ls_kernels *kernels, const ls_bn_moving_moments_args *arguments,
                                    ls_op **out);
ls_status ls_cuda_bn_forward(ls_kernels *kernels, const ls_bn_forward_args *arguments, ls_op **out);
ls_status ls_cuda_bn_backward_sums(ls_kernels *kernels, const ls_bn_backward_sums_args *arguments,
                                   ls_op **out);
ls_status ls_cuda_bn_backward(ls_kernels *kernels, const ls_bn_backward_args *arguments,
                              ls_op **out);
ls_status ls_cuda_shortcut_forward(ls_kernels *kernels, const ls_shortcut_forward_args *arguments,
                                   ls_op **out);
ls_status ls_cuda_shortcut_backward(ls_kernels *kernels, const ls_shortcut_backward_args *arguments,
                                    ls_op **out);
ls_status ls_cuda_mean_pool_forward(ls_kernels *kernels, const ls_mean_pool_forward_args *arguments,
                                    ls_op **out);
ls_status ls_cuda_mean_pool_backward(ls_kernels *kernels,
                                     const ls_mean_pool_backward_args *arguments, ls_op **out);
ls_status ls_cuda_moving_average(ls_kernels *kernels, const ls_moving_average_args *arguments,
                                 ls_op **out);
ls_status ls_cuda_add_sums(ls_kernels *kernels, const ls_add_sums_args *arguments, ls_op **out);

#endif
