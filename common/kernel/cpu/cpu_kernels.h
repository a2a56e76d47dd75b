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

/* ls_cpu_gemm, ...: in the files named for them. */
#define LS_CPU_ENTRY(entry, args) LS_KERNEL_MAKES(ls_cpu_##entry, args)
LS_KERNEL_OWN_ENTRIES(LS_CPU_ENTRY)
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
