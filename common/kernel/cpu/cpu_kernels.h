/* SPDX-License-Identifier: MIT */
/* The cpu table's own types, shared by its files. */
#pragma once

#include "common/base/grow.h"
#include "common/kernel/cpu/vector.h"
#include "common/kernel/kernel.h"
#include "common/kernel/kernel_check.h"

struct dnnl_engine;
struct ls_product;
struct ls_product_library;

typedef struct cpu_kernels {
    ls_kernels base;
    const ls_vector_loops *loops;
    struct ls_product_library *library;
    struct dnnl_engine *engine; /**< the library's */
    int threads;                /**< cores of the device */
    char name[96];
} cpu_kernels;

/** Loops with fewer elements a thread are not split: waking the team costs more. */
enum { CPU_SPLIT_ELEMENTS = 8192 };

/**
 * Threads for a loop over `elements`: a function of the shape and the device only. One or all,
 * since libgomp ends and starts threads if a team's size changes.
 */
int ls_cpu_threads_for(const cpu_kernels *kernels, int64_t elements);

/** A thread's part of an operation. */
typedef struct cpu_part {
    const ls_vector_loops *loops;
    const void *arguments; /**< the operation's */
    int64_t first, last;   /**< of the things that the parts divide */
    void *own;             /**< the thread's memory; NULL if none */
} cpu_part;

/** An operation of vector loops, with its arguments: `once` by one thread, then the parts, then
 *  `end`. */
typedef struct cpu_op {
    ls_op op;
    const ls_vector_loops *loops;
    ls_device *device;
    int64_t elements; /**< decide whether it is split over threads (ls_cpu_threads_for) */
    int threads;
    int64_t shared; /**< rows, pixels or elements that the parts divide */
    bool in_blocks; /**< divided into whole blocks of 64 elements (256 bytes) */
    ls_status (*once)(struct cpu_op *op); /**< once, part and end may be NULL */
    void (*part)(const cpu_part *part);
    void (*end)(struct cpu_op *op);
    size_t memory_bytes, own_bytes; /**< scratch: of all threads, then of each */
    void *memory;
    struct ls_product *product;             /**< closed with it; NULL if none */
    _Alignas(16) unsigned char arguments[]; /**< a copy; then one of the work's array */
} cpu_op;

/** Makes an operation like `like`; if its `threads` is 0, `elements` determines them. */
ls_status ls_cpu_op_open(ls_kernels *kernels, const cpu_op *like, const void *arguments,
                         size_t bytes, const ls_work *work, ls_op **out);

/** Divides `shared` things among the operation's threads. Each thread calls `part`. */
ls_status ls_cpu_op_share(cpu_op *op, int64_t shared, void (*part)(const cpu_part *part));

/** Defines ls_cpu_<entry>, which makes an operation named <entry><suffix> with the members of
 * cpu_op that follow; `a` are its arguments. */
#define LS_CPU_OP(entry, suffix, args, ...)                                                        \
    ls_status ls_cpu_##entry(ls_kernels *kernels, const args *a, const ls_work *work, ls_op **out) \
    {                                                                                              \
        const cpu_op like = {.op.name = #entry suffix, __VA_ARGS__};                               \
        return ls_cpu_op_open(kernels, &like, a, sizeof *a, work, out);                            \
    }

/** As LS_CPU_OP, for an operation whose part calls a vector loop with its arguments, first and
 * last. */
#define LS_CPU_LOOP(entry, args, loop, ...)                                                        \
    static void entry##_part(const cpu_part *p)                                                    \
    {                                                                                              \
        p->loops->loop(p->arguments, p->first, p->last);                                           \
    }                                                                                              \
    LS_CPU_OP(entry, ".loop", args, .part = entry##_part, __VA_ARGS__)

/* ls_cpu_gemm, ...: in the files named for them. */
#define LS_CPU_ENTRY(entry, args) LS_KERNEL_MAKES(ls_cpu_##entry, args)
LS_KERNEL_OWN_ENTRIES(LS_CPU_ENTRY)
LS_KERNEL_LAYER_ENTRIES(LS_CPU_ENTRY)
LS_KERNEL_TRANSFORMER_ENTRIES(LS_CPU_ENTRY)
LS_KERNEL_STORAGE_ENTRIES(LS_CPU_ENTRY)
LS_KERNEL_BF16_ENTRIES(LS_CPU_ENTRY)
LS_CPU_ENTRY(bf16_elements, ls_bf16_elements_args)
#undef LS_CPU_ENTRY

/** Whether the weights' gradient of this convolution is ls_cpu_conv_few_weights: a function of the
 *  shape and the instruction set. */
bool ls_cpu_conv_few(const cpu_kernels *cpu, const ls_conv_shape *shape);
ls_status ls_cpu_conv_few_weights(ls_kernels *kernels, const ls_conv_backward_weights_args *a,
                                  const ls_work *work, ls_op **out);

/** Whether this convolution and the gradient of its data go by Winograd's method: a function of the
 *  shape and the instruction set. */
bool ls_cpu_winograd(const cpu_kernels *cpu, const ls_conv_shape *shape);
/** Whether the weights' gradient can use it too: not every number of cores can share it. */
bool ls_cpu_winograd_shared(const cpu_kernels *cpu, const ls_conv_shape *shape);
ls_status ls_cpu_winograd_forward(ls_kernels *kernels, const ls_conv_forward_args *a,
                                  const ls_work *work, ls_op **out);
ls_status ls_cpu_winograd_weights(ls_kernels *kernels, const ls_conv_backward_weights_args *a,
                                  const ls_work *work, ls_op **out);
ls_status ls_cpu_winograd_data(ls_kernels *kernels, const ls_conv_backward_data_args *a,
                               const ls_work *work, ls_op **out);
