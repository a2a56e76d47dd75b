/* SPDX-License-Identifier: MIT */
/* The cuda table: opens the library, names it, and lists the operations of the other files. */
#include "common/kernel/cuda/cuda_kernels.h"

#include "common/device/cuda/cuda.h"
#include "common/kernel/kernel_tables.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Operations ------------------------------------------------------------------------------ */

ls_status ls_cuda_launched(const ls_op *op, const ls_queue *queue, int error)
{
    return ls_cuda_check(queue->device->info.text, op->name, (cudaError_t)error);
}

static ls_status run(ls_op *base, ls_queue *queue)
{
    const cuda_op *op = (const cuda_op *)base;
    return ls_cuda_launched(base, queue, op->launch(op, queue));
}

static void destroy(ls_op *base)
{
    cuda_op *op = (cuda_op *)base;
    ls_device_release(op->device, op->workspace);
    ls_device_unshare(op->device, op->shared);
    free(op->table);
    free(op);
}

ls_status ls_cuda_op_open(ls_kernels *kernels, const cuda_op *like, size_t workspace, cuda_op **out)
{
    cuda_op *op;
    LS_TRY(ls_allocate(like->op.name, &op, 1, sizeof *op));
    *op = *like;
    op->device = kernels->device;
    op->workspace = NULL;
    op->table = NULL;
    op->shared = NULL;
    op->op.run = run;
    op->op.destroy = destroy;
    op->op.workspace = workspace;
    ls_status status = LS_OK;
    if (workspace)
        status = ls_device_allocate(op->device, LS_MEMORY_WORKSPACE, workspace, &op->workspace);
    if (status) {
        free(op);
        return status;
    }
    *out = op;
    return LS_OK;
}

ls_status ls_cuda_op_make(ls_kernels *kernels, const cuda_op *like, ls_op **out)
{
    cuda_op *op;
    LS_TRY(ls_cuda_op_open(kernels, like, 0, &op));
    *out = &op->op;
    return LS_OK;
}

ls_status ls_cuda_op_parts(ls_kernels *kernels, const cuda_op *like, size_t parts, size_t arrivals,
                           ls_op **out)
{
    cuda_op *op;
    LS_TRY(
        ls_cuda_op_open(kernels, like, parts * sizeof(double) + arrivals * sizeof(unsigned), &op));
    op->parts.values = op->workspace;
    op->parts.arrived = (unsigned *)(op->parts.values + parts);
    *out = &op->op;
    return LS_OK;
}

/* Copies a table of several ranges to device memory for this operation's kernels. */
static ls_status share_ranges(cuda_op *op, const ls_update_range *ranges,
                              unsigned (*blocks)(int64_t count))
{
    const size_t bytes = (size_t)op->ranges.count * sizeof(ls_gpu_range);
    int64_t block = 0;
    LS_TRY(ls_allocate(op->op.name, &op->table, 1, bytes));
    ls_gpu_range *table = op->table;
    for (int64_t r = 0; r < op->ranges.count; r++) {
        table[r] = (ls_gpu_range){ranges[r], block};
        block += blocks(ranges[r].count);
    }
    LS_TRY(ls_device_share(op->device, table, bytes, &op->shared));
    op->ranges.at = op->shared;
    return LS_OK;
}

ls_status ls_cuda_op_ranges(ls_kernels *kernels, const cuda_op *like, const ls_update_range *ranges,
                            int64_t count, unsigned (*blocks)(int64_t count), size_t part,
                            ls_op **out)
{
    cuda_op *op, with = *like;
    with.ranges = (ls_gpu_ranges){.count = count};
    for (int64_t r = 0; r < count; r++)
        with.ranges.blocks += blocks(ranges[r].count);
    const size_t parts = ((size_t)with.ranges.blocks + 1) * part;
    LS_TRY(ls_cuda_op_open(kernels, &with, part ? parts + sizeof(unsigned) : 0, &op));
    if (count == 1)
        op->ranges.one = ranges[0];
    ls_status status = count > 1 ? share_ranges(op, ranges, blocks) : LS_OK;
    if (status) {
        ls_op_free(&op->op);
        return status;
    }
    *out = &op->op;
    return LS_OK;
}

#define PLAIN(entry, type)                                                                         \
    static int launch_##entry(const cuda_op *op, ls_queue *queue)                                  \
    {                                                                                              \
        return ls_gpu_##entry(ls_queue_native(queue), &op->args.entry);                            \
    }                                                                                              \
    ls_status ls_cuda_##entry(ls_kernels *kernels, const type *arguments, ls_op **out)             \
    {                                                                                              \
        return ls_cuda_op_make(kernels, &LS_CUDA_LIKE(entry), out);                                \
    }
LS_GPU_PLAIN_ENTRIES(PLAIN)

/* ---- The table ------------------------------------------------------------------------------- */

static void close_table(ls_kernels *kernels)
{
    if (!kernels)
        return;
    ls_blas *blas = &((cuda_kernels *)kernels)->blas;
    ls_dnn_leave((cuda_kernels *)kernels);
    if (!ls_cuda_reaches(kernels->device))
        blas->handle = NULL; /* destroying it could wait for the device */
    ls_blas_close(blas);
    ls_scratch_release(&kernels->scratch);
    free(kernels);
}

ls_status ls_cuda_load_own(const char *where)
{
    const int errors[] = {ls_gpu_load_elements(),
                          ls_gpu_load_batch(),
                          ls_gpu_load_losses(),
                          ls_gpu_load_dense(),
                          ls_gpu_load_pools(),
                          ls_gpu_load_layout(),
                          ls_gpu_load_lstm(),
                          ls_gpu_load_conv(),
                          ls_gpu_load_conv_max(),
                          ls_gpu_load_residual(),
                          ls_gpu_load_batch_norm(),
                          ls_gpu_load_feed(),
                          ls_gpu_load_transformer(),
                          ls_gpu_load_attention(),
                          ls_gpu_load_conv_direct(),
                          ls_gpu_load_conv_weights(),
                          ls_gpu_load_softmax_slices(),
                          ls_gpu_load_combine(),
                          ls_gpu_load_dropout(),
                          ls_gpu_load_bf16(),
                          ls_gpu_load_attention_cores(),
                          ls_gpu_load_attention_cores_back()};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        LS_TRY(ls_cuda_check(where, "load the kernels", (cudaError_t)errors[i]));
    return LS_OK;
}

/* Runs on the device's thread: opens the library's handle, and loads the kernels of a step, which
 * must not be loaded in a capture. */
static ls_status load(void *context)
{
    cuda_kernels *kernels = context;
    LS_TRY(ls_cuda_load_own(ls_device_describe(kernels->base.device)->text));
    return ls_blas_open(&kernels->blas);
}

static ls_status open_table(ls_device *device, ls_kernels **out)
{
    if (ls_device_describe(device)->name.kind != LS_DEVICE_GPU)
        return ls_fail(LS_CODE_USAGE, "kernels", ls_device_describe(device)->text,
                       "the kernel table 'cuda' works on GPUs only; name a GPU, or use the kernel "
                       "table 'cpu'");
    cuda_kernels *kernels;
    LS_TRY(ls_allocate("cuda kernels", &kernels, 1, sizeof *kernels));
    kernels->base = (ls_kernels){.table = &ls_cuda_kernels,
                                 .device = device,
                                 .scratch.device = device,
                                 .multiplies_bf16 = true,
                                 .attends_bf16 = LS_GPU_ATTENTION_STORED};
    kernels->window_bytes = LS_CUDA_WINDOW_BYTES;
    ls_status status = ls_blas_load(&kernels->blas);
    if (!status)
        status = ls_device_call(device, load, kernels);
    if (status) {
        close_table(&kernels->base);
        return status;
    }
    char version[32];
    snprintf(kernels->library, sizeof kernels->library, "cuBLASLt %s",
             ls_blas_version(&kernels->blas, version));
    *out = &kernels->base;
    return LS_OK;
}

static const char *library(const ls_kernels *kernels)
{
    return ((const cuda_kernels *)kernels)->library;
}

#define CUDA_ENTRY(entry, args)                                                                    \
    LS_KERNEL_CHECKED(entry, args, ls_cuda_##entry(kernels, arguments, out))
LS_KERNEL_ENTRIES(CUDA_ENTRY)

const ls_kernel_table ls_cuda_kernels = {.name = "cuda",
                                         .help = "cuBLASLt, cuDNN and own kernels, float32 or TF32",
                                         .kind = LS_DEVICE_GPU,
                                         .real_bytes = sizeof(float),
                                         .tf32 = true,
                                         .open = open_table,
                                         .close = close_table,
                                         .library = library,
                                         LS_KERNEL_ENTRIES(LS_KERNEL_LISTED)};
