/* SPDX-License-Identifier: MIT */
/* Pools, normalisation and moves of the cuda table: each a launch. Not yet run on a GPU. */
#include "common/kernel/cuda/cuda_kernels.h"

#include <inttypes.h>
#include <stdlib.h>

static int launch_max_pool_forward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_max_pool_forward(ls_queue_native(queue), &op->args.max_pool_forward);
}

ls_status ls_cuda_max_pool_forward(ls_kernels *kernels, const ls_max_pool_forward_args *arguments,
                                   const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "max_pool_forward.cuda",
                          .launch = launch_max_pool_forward,
                          .args.max_pool_forward = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_max_pool_backward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_max_pool_backward(ls_queue_native(queue), &op->args.max_pool_backward);
}

ls_status ls_cuda_max_pool_backward(ls_kernels *kernels, const ls_max_pool_backward_args *arguments,
                                    const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "max_pool_backward.cuda",
                          .launch = launch_max_pool_backward,
                          .args.max_pool_backward = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_transpose(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_transpose(ls_queue_native(queue), &op->args.transpose);
}

ls_status ls_cuda_transpose(ls_kernels *kernels, const ls_transpose_args *arguments,
                            const ls_work *work, ls_op **out)
{
    const cuda_op like = {
        .op.name = "transpose.cuda", .launch = launch_transpose, .args.transpose = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_pack_weights(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_pack_weights(ls_queue_native(queue), op->shared, op->args.pack_weights.count,
                               op->blocks);
}

static ls_status share_weights(cuda_op *op, const ls_pack_weights_args *a)
{
    const size_t bytes = (size_t)a->count * sizeof(ls_gpu_packing);
    ls_gpu_packing *table = malloc(bytes);
    if (!table)
        return ls_fail_memory(op->op.name, bytes);
    op->blocks = 0;
    for (int64_t i = 0; i < a->count; i++) {
        table[i] = (ls_gpu_packing){a->items[i], op->blocks};
        op->blocks += ls_gpu_pack_blocks(&a->items[i]);
    }
    ls_status status = ls_cuda_op_share(op, table, bytes);
    free(table);
    return status;
}

ls_status ls_cuda_pack_weights(ls_kernels *kernels, const ls_pack_weights_args *arguments,
                               const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "pack_weights.cuda",
                          .launch = launch_pack_weights,
                          .args.pack_weights.count = arguments->count};
    cuda_op *op;
    LS_TRY(ls_cuda_op_open(kernels, &like, work, 0, &op));
    ls_status status = arguments->count ? share_weights(op, arguments) : LS_OK;
    if (status) {
        ls_op_free(&op->op);
        return status;
    }
    *out = &op->op;
    return LS_OK;
}

static int launch_copy_columns(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_copy_columns(ls_queue_native(queue), &op->args.copy_columns);
}

ls_status ls_cuda_copy_columns(ls_kernels *kernels, const ls_copy_columns_args *arguments,
                               const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "copy_columns.cuda",
                          .launch = launch_copy_columns,
                          .args.copy_columns = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_gather_crops(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_gather_crops(ls_queue_native(queue), &op->args.gather_crops, op->random);
}

ls_status ls_cuda_gather_crops(ls_kernels *kernels, const ls_gather_crops_args *arguments,
                               const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "gather_crops.cuda",
                          .launch = launch_gather_crops,
                          .args.gather_crops = *arguments,
                          .random = ls_random_stream(arguments->seed, "augment")};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_lrn_forward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_lrn_forward(ls_queue_native(queue), &op->args.lrn_forward, op->radius);
}

/* The radius that channels leave of it. */
static ls_status lrn_radius(const char *op, int64_t radius, int64_t channels, int *out)
{
    const int64_t whole = channels ? channels - 1 : 0, used = radius < whole ? radius : whole;
    if (used > LS_GPU_LRN_RADIUS_MOST)
        return ls_fail(LS_CODE_USAGE, op, "radius",
                       "%" PRId64 " of %" PRId64 " channels is too wide for a GPU; give up to %d",
                       radius, channels, LS_GPU_LRN_RADIUS_MOST);
    *out = (int)used;
    return LS_OK;
}

ls_status ls_cuda_lrn_forward(ls_kernels *kernels, const ls_lrn_forward_args *arguments,
                              const ls_work *work, ls_op **out)
{
    cuda_op like = {.op.name = "lrn_forward.cuda",
                    .launch = launch_lrn_forward,
                    .args.lrn_forward = *arguments};
    LS_TRY(lrn_radius("lrn_forward", arguments->radius, arguments->channels, &like.radius));
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_lrn_backward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_lrn_backward(ls_queue_native(queue), &op->args.lrn_backward, op->radius);
}

ls_status ls_cuda_lrn_backward(ls_kernels *kernels, const ls_lrn_backward_args *arguments,
                               const ls_work *work, ls_op **out)
{
    cuda_op like = {.op.name = "lrn_backward.cuda",
                    .launch = launch_lrn_backward,
                    .args.lrn_backward = *arguments};
    LS_TRY(lrn_radius("lrn_backward", arguments->radius, arguments->channels, &like.radius));
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_conv_max_forward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_conv_max_forward(ls_queue_native(queue), &op->args.conv_max_forward);
}

ls_status ls_cuda_conv_max_forward(ls_kernels *kernels, const ls_conv_max_forward_args *arguments,
                                   const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "conv_max_forward.cuda",
                          .launch = launch_conv_max_forward,
                          .args.conv_max_forward = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_conv_max_backward_weights(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_conv_max_backward_weights(ls_queue_native(queue),
                                            &op->args.conv_max_backward_weights);
}

ls_status ls_cuda_conv_max_backward_weights(ls_kernels *kernels,
                                            const ls_conv_max_backward_weights_args *arguments,
                                            const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "conv_max_backward_weights.cuda",
                          .launch = launch_conv_max_backward_weights,
                          .args.conv_max_backward_weights = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}
