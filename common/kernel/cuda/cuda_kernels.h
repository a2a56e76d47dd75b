/* SPDX-License-Identifier: MIT */
/* The cuda table's own types, shared by its files. */
#pragma once

#include "common/base/grow.h"
#include "common/kernel/cuda/cuda_blas.h"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/kernel.h"
#include "common/kernel/kernel_check.h"

/** Memory for a convolution's windows: enough for one launch at usual batch sizes; larger batches
 * are computed in parts. */
enum { LS_CUDA_WINDOW_BYTES = 128 << 20 };

typedef struct ls_dnn ls_dnn;

/** Implementations of a convolution (conv/cuda_conv.h). */
typedef enum ls_conv_way {
    LS_CONV_FASTEST,
    LS_CONV_PRODUCTS,
    LS_CONV_DIRECT,
    LS_CONV_LIBRARY
} ls_conv_way;

/** Whether our own kernel of products (product/gpu_product.cu) runs on the device. */
typedef enum ls_tiles { LS_TILES_UNKNOWN, LS_TILES_ABSENT, LS_TILES_HERE } ls_tiles;

typedef struct cuda_kernels {
    ls_kernels base;
    ls_blas blas;
    size_t window_bytes; /**< of windows that a convolution makes at a time */
    ls_tiles tiles;      /**< found out at the first product in float32 */
    ls_dnn *dnn;         /**< cuDNN, once a convolution has looked for it and found it */
    ls_conv_way way;     /**< forces convolutions, where supported, for measurements; the fastest
                              when opened */
    bool dnn_absent;     /**< a convolution has looked for it, and it is not here */
    bool tiles_alone;    /**< products of bfloat16 are our own kernel's, for tests */
    bool dnn_failed;     /**< a trial of it has failed, and the convolution is our own */
    char library[160];
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
        ls_gpu_order order;        /**< batch_indices, gather_batch, set_targets */
        ls_gpu_parts parts;        /**< losses, sums of bn */
        ls_random random;          /**< gather_crops */
        int radius;                /**< lrn */
        struct {
            void *scratch;    /**< of attention_backward on tensor cores */
            bool cores, tf32; /**< on tensor cores; with --math tf32 */
        } attention;
    };
    ls_device *device;
    void *workspace;      /**< NULL if none */
    ls_gpu_ranges ranges; /**< of an operation that has any */
    void *table;          /**< owned; the device has a copy; NULL if none */
    const void *shared;   /**< the device's copy of `table` */
} cuda_op;

/** Makes an operation like `like`: its name, launch and arguments, with `workspace` bytes of zeroed
 * device memory. */
ls_status ls_cuda_op_open(ls_kernels *kernels, const cuda_op *like, size_t workspace,
                          cuda_op **out);

/** As above, for an operation without workspace. */
ls_status ls_cuda_op_make(ls_kernels *kernels, const cuda_op *like, ls_op **out);

/** Defines launch_<entry>: the kernel's launch with the entry's arguments, and what is given. */
#define LS_CUDA_LAUNCH_WITH(entry, ...)                                                            \
    static int launch_##entry(const cuda_op *op, ls_queue *queue)                                  \
    {                                                                                              \
        return ls_gpu_##entry(ls_queue_native(queue), &op->args.entry, __VA_ARGS__);               \
    }

/** The operation of an entry's launch with its arguments, and what else is given. */
#define LS_CUDA_LIKE(entry, ...)                                                                   \
    ((const cuda_op){.op.name = #entry ".cuda",                                                    \
                     .launch = launch_##entry,                                                     \
                     .args.entry = *arguments,                                                     \
                     ##__VA_ARGS__})

/** As above, for an operation whose blocks write `parts` to be summed, and have `arrivals`
 * counters. */
ls_status ls_cuda_op_parts(ls_kernels *kernels, const cuda_op *like, size_t parts, size_t arrivals,
                           ls_op **out);

/**
 * As ls_cuda_op_open, for an operation over ranges: `blocks` returns how many blocks share a range
 * of that many elements. Workspace is `part` bytes for each block, for one more, and a counter;
 * none if `part` is 0.
 */
ls_status ls_cuda_op_ranges(ls_kernels *kernels, const cuda_op *like, const ls_update_range *ranges,
                            int64_t count, unsigned (*blocks)(int64_t count), size_t part,
                            ls_op **out);

/** LS_OK, or the failure of a launch. */
ls_status ls_cuda_launched(const ls_op *op, const ls_queue *queue, int error);

/** Makes the driver load all our kernels onto the current device, which `where` names. */
ls_status ls_cuda_load_own(const char *where);

/** conv/: closes cuDNN, if the table has loaded it. */
void ls_dnn_leave(cuda_kernels *cuda);

/* ls_cuda_gemm, ...: in the files named for them. */
#define LS_CUDA_ENTRY(entry, args)                                                                 \
    ls_status ls_cuda_##entry(ls_kernels *kernels, const args *arguments, ls_op **out);
LS_KERNEL_ENTRIES(LS_CUDA_ENTRY)
#undef LS_CUDA_ENTRY
