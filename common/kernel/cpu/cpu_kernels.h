/* SPDX-License-Identifier: MIT */
/* The cpu table's own types, shared by its files. */
#ifndef LS_COMMON_KERNEL_CPU_CPU_KERNELS_H
#define LS_COMMON_KERNEL_CPU_CPU_KERNELS_H

#include "common/kernel/cpu/vector.h"
#include "common/kernel/kernel.h"
#include "common/kernel/kernel_check.h"
#include "common/kernel/op_bind.h"

struct dnnl_engine;

typedef struct cpu_kernels {
    ls_kernels base;
    const ls_vector_loops *loops;
    struct dnnl_engine *engine;
    int threads; /**< cores of the device */
    char library[96];
} cpu_kernels;

/** Loops with fewer elements a thread are not split: waking the team costs more. */
enum { CPU_SPLIT_ELEMENTS = 8192 };

/**
 * Threads for a loop over `elements`: a function of the shape and the device only. One or all:
 * libgomp ends and starts threads where a team's size changes.
 */
int ls_cpu_threads_for(const cpu_kernels *kernels, int64_t elements);

/**
 * The part of [0, count) that thread `part` of `parts` takes: whole blocks of 64 elements (256
 * bytes), sizes differing by at most one block. *first <= *last.
 */
void ls_cpu_split(int64_t count, int part, int parts, int64_t *first, int64_t *last);

/** Rows or outputs that part `part` of `parts` takes of `count`: sizes differ by at most one. */
void ls_cpu_share(int64_t count, int part, int parts, int64_t *first, int64_t *last);

/* Entries of the table, by file. */
extern const ls_kernel_table ls_cpu_kernels;

/* cpu_dense.c */
ls_status ls_cpu_gemm(ls_kernels *kernels, const ls_gemm_args *arguments, ls_op **out);
ls_status ls_cpu_dense_forward(ls_kernels *kernels, const ls_dense_forward_args *arguments,
                               ls_op **out);
ls_status ls_cpu_dense_backward_weights(ls_kernels *kernels,
                                        const ls_dense_backward_weights_args *arguments,
                                        ls_op **out);
ls_status ls_cpu_dense_backward_data(ls_kernels *kernels,
                                     const ls_dense_backward_data_args *arguments, ls_op **out);
/* cpu_elementwise.c, cpu_optimizer.c */
ls_status ls_cpu_relu_forward(ls_kernels *kernels, const ls_relu_forward_args *arguments,
                              ls_op **out);
ls_status ls_cpu_relu_backward(ls_kernels *kernels, const ls_relu_backward_args *arguments,
                               ls_op **out);
ls_status ls_cpu_polynomial(ls_kernels *kernels, const ls_polynomial_args *arguments, ls_op **out);
ls_status ls_cpu_add(ls_kernels *kernels, const ls_add_args *arguments, ls_op **out);
ls_status ls_cpu_fill(ls_kernels *kernels, const ls_fill_args *arguments, ls_op **out);
ls_status ls_cpu_optimizer(ls_kernels *kernels, const ls_optimizer_args *arguments, ls_op **out);
/* cpu_batch.c */
ls_status ls_cpu_softmax_cross_entropy(ls_kernels *kernels,
                                       const ls_softmax_cross_entropy_args *arguments, ls_op **out);
ls_status ls_cpu_squared_error(ls_kernels *kernels, const ls_squared_error_args *arguments,
                               ls_op **out);
ls_status ls_cpu_count_correct(ls_kernels *kernels, const ls_count_correct_args *arguments,
                               ls_op **out);
ls_status ls_cpu_batch_indices(ls_kernels *kernels, const ls_batch_indices_args *arguments,
                               ls_op **out);
ls_status ls_cpu_gather(ls_kernels *kernels, const ls_gather_args *arguments, ls_op **out);
/* ls_cpu_conv_max_forward, ...: cpu_conv_max.c and the files named for the others. */
#define LS_CPU_ENTRY(entry, args)                                                                  \
    ls_status ls_cpu_##entry(ls_kernels *kernels, const args *arguments, ls_op **out);
LS_KERNEL_LAYER_ENTRIES(LS_CPU_ENTRY)
#undef LS_CPU_ENTRY

/** Whether the weights' gradient of this convolution is ls_cpu_conv_few_weights: a function of the
 *  shape and the instruction set. */
bool ls_cpu_conv_few(const cpu_kernels *cpu, const ls_conv_shape *shape);
ls_status ls_cpu_conv_few_weights(const cpu_kernels *cpu, const ls_conv_backward_weights_args *a,
                                  const ls_work *work, ls_op **out);

/** Whether this convolution and the gradient of its data go by Winograd's method: a function of the
 *  shape and the instruction set. */
bool ls_cpu_winograd(const cpu_kernels *cpu, const ls_conv_shape *shape);
/** The same of its weights' gradient, which not every number of cores can share. */
bool ls_cpu_winograd_shared(const cpu_kernels *cpu, const ls_conv_shape *shape);
ls_status ls_cpu_winograd_forward(const cpu_kernels *cpu, const ls_conv_forward_args *a,
                                  const ls_work *work, ls_op **out);
ls_status ls_cpu_winograd_weights(const cpu_kernels *cpu, const ls_conv_backward_weights_args *a,
                                  const ls_work *work, ls_op **out);
ls_status ls_cpu_winograd_data(const cpu_kernels *cpu, const ls_conv_backward_data_args *a,
                               const ls_work *work, ls_op **out);

#endif
