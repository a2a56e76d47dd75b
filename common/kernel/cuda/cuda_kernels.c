/* SPDX-License-Identifier: MIT */
/* The cuda table: opens the library, names it, and lists the operations of the other files. Not
 * yet run on a GPU. */
#include "common/kernel/cuda/cuda_kernels.h"

#include "common/kernel/cuda/cuda_conv.h"

#include "common/device/cuda/cuda.h"

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

ls_status ls_cuda_op_open(ls_kernels *kernels, const cuda_op *like, const ls_work *work,
                          size_t workspace, cuda_op **out)
{
    cuda_op *op = malloc(sizeof *op);
    if (!op)
        return ls_fail_memory(like->op.name, sizeof *op);
    *op = *like;
    op->device = kernels->device;
    op->workspace = NULL;
    op->table = NULL;
    op->shared = NULL;
    op->op.run = run;
    op->op.destroy = destroy;
    op->op.flops = work->flops;
    op->op.bytes = work->bytes;
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

ls_status ls_cuda_op_put(ls_kernels *kernels, const cuda_op *like, const ls_work *work, ls_op **out)
{
    cuda_op *op;
    LS_TRY(ls_cuda_op_open(kernels, like, work, 0, &op));
    *out = &op->op;
    return LS_OK;
}

ls_status ls_cuda_op_share(cuda_op *op, const void *table, size_t bytes)
{
    op->table = malloc(bytes);
    if (!op->table)
        return ls_fail_memory(op->op.name, bytes);
    memcpy(op->table, table, bytes);
    return ls_device_share(op->device, op->table, bytes, &op->shared);
}

/* The table of several ranges. */
static ls_status share_ranges(cuda_op *op, const ls_update_range *ranges,
                              unsigned (*blocks)(int64_t count))
{
    const size_t bytes = (size_t)op->ranges.count * sizeof(ls_gpu_range);
    int64_t block = 0;
    ls_gpu_range *table = malloc(bytes);
    if (!table)
        return ls_fail_memory(op->op.name, bytes);
    for (int64_t r = 0; r < op->ranges.count; r++) {
        table[r] = (ls_gpu_range){ranges[r], block};
        block += blocks(ranges[r].count);
    }
    ls_status status = ls_cuda_op_share(op, table, bytes);
    op->ranges.at = op->shared;
    free(table);
    return status;
}

ls_status ls_cuda_op_ranges(ls_kernels *kernels, const cuda_op *like, const ls_work *work,
                            const ls_update_range *ranges, int64_t count,
                            unsigned (*blocks)(int64_t count), size_t part, ls_op **out)
{
    cuda_op *op, with = *like;
    with.ranges = (ls_gpu_ranges){.count = count};
    for (int64_t r = 0; r < count; r++)
        with.ranges.blocks += blocks(ranges[r].count);
    const size_t parts = ((size_t)with.ranges.blocks + 1) * part;
    LS_TRY(ls_cuda_op_open(kernels, &with, work, part ? parts + sizeof(unsigned) : 0, &op));
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

/* ---- The table ------------------------------------------------------------------------------- */

static void close_table(ls_kernels *kernels)
{
    if (!kernels)
        return;
    ls_blas *blas = &((cuda_kernels *)kernels)->blas;
    ls_dnn_leave((cuda_kernels *)kernels);
    if (!ls_cuda_reaches(kernels->device))
        blas->handle = NULL; /* to destroy it could wait for the device */
    ls_blas_close(blas);
    free(kernels);
}

ls_status ls_cuda_load_own(const char *where)
{
    const int errors[] = {ls_gpu_load_elements(), ls_gpu_load_batch(), ls_gpu_load_losses(),
                          ls_gpu_load_dense(),    ls_gpu_load_pools(), ls_gpu_load_layout(),
                          ls_gpu_load_lstm(),     ls_gpu_load_conv(),  ls_gpu_load_conv_max(),
                          ls_gpu_load_residual(), ls_gpu_load_feed()};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        LS_TRY(ls_cuda_check(where, "load the kernels", (cudaError_t)errors[i]));
    return LS_OK;
}

/* On the device: the library's handle, and what a step launches, which is not to be loaded in a
 * capture. */
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
                       "the cuda table runs on GPUs; give a GPU, or the cpu table");
    cuda_kernels *kernels = calloc(1, sizeof *kernels);
    if (!kernels)
        return ls_fail_memory("cuda kernels", sizeof *kernels);
    kernels->base = (ls_kernels){.table = &ls_cuda_kernels, .device = device};
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

const ls_kernel_table ls_cuda_kernels = {
    .name = "cuda",
    .help = "cuBLASLt, cuDNN and own kernels, float32 or TF32; not yet run on a GPU",
    .kind = LS_DEVICE_GPU,
    .real_bytes = sizeof(float),
    .tf32 = true,
    .open = open_table,
    .close = close_table,
    .library = library,
    .gemm = ls_cuda_gemm,
    .dense_forward = ls_cuda_dense_forward,
    .dense_backward_weights = ls_cuda_dense_backward_weights,
    .dense_backward_data = ls_cuda_dense_backward_data,
    .dense_backward = ls_cuda_dense_backward,
    .gather_batch = ls_cuda_gather_batch,
    .relu_forward = ls_cuda_relu_forward,
    .relu_backward = ls_cuda_relu_backward,
    .polynomial = ls_cuda_polynomial,
    .softmax_cross_entropy = ls_cuda_softmax_cross_entropy,
    .squared_error = ls_cuda_squared_error,
    .count_correct = ls_cuda_count_correct,
    .batch_indices = ls_cuda_batch_indices,
    .gather = ls_cuda_gather,
    .optimizer = ls_cuda_optimizer,
    .add = ls_cuda_add,
    .add_loss = ls_cuda_add_loss,
    .fill = ls_cuda_fill,
    .finish_step = ls_cuda_finish_step,
    .stamp = ls_cuda_stamp,
    .flip_bit = ls_cuda_flip_bit,
    .gather_crops = ls_cuda_gather_crops,
    .max_pool_forward = ls_cuda_max_pool_forward,
    .max_pool_backward = ls_cuda_max_pool_backward,
    .lrn_forward = ls_cuda_lrn_forward,
    .lrn_backward = ls_cuda_lrn_backward,
    .transpose = ls_cuda_transpose,
    .pack_weights = ls_cuda_pack_weights,
    .weight_decay = ls_cuda_weight_decay,
    .conv_forward = ls_cuda_conv_forward,
    .conv_backward_weights = ls_cuda_conv_backward_weights,
    .conv_backward_data = ls_cuda_conv_backward_data,
    .conv_max_forward = ls_cuda_conv_max_forward,
    .conv_max_backward_weights = ls_cuda_conv_max_backward_weights,
    .lstm_forward = ls_cuda_lstm_forward,
    .lstm_backward = ls_cuda_lstm_backward,
    .lstm_pair_forward = ls_cuda_lstm_pair_forward,
    .lstm_pair_backward = ls_cuda_lstm_pair_backward,
    .logistic_loss = ls_cuda_logistic_loss,
    .copy_columns = ls_cuda_copy_columns,
    .bn_sums = ls_cuda_bn_sums,
    .bn_moments = ls_cuda_bn_moments,
    .bn_moving_moments = ls_cuda_bn_moving_moments,
    .bn_forward = ls_cuda_bn_forward,
    .bn_backward_sums = ls_cuda_bn_backward_sums,
    .bn_backward = ls_cuda_bn_backward,
    .shortcut_forward = ls_cuda_shortcut_forward,
    .shortcut_backward = ls_cuda_shortcut_backward,
    .mean_pool_forward = ls_cuda_mean_pool_forward,
    .mean_pool_backward = ls_cuda_mean_pool_backward,
    .moving_average = ls_cuda_moving_average,
    .add_sums = ls_cuda_add_sums,
};
