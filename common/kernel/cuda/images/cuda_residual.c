/* SPDX-License-Identifier: MIT */
/* Residual networks' operations of the cuda table: a launch each. Not yet run on a GPU. */
#include "common/kernel/cuda/cuda_kernels.h"

/* With memory for the parts of sums of images. */
static ls_status put_sums(ls_kernels *kernels, const cuda_op *like, const ls_work *work,
                          int64_t pixels, int64_t channels, ls_op **out)
{
    const size_t parts = ls_gpu_bn_parts(pixels, channels);
    const size_t arrivals = ls_gpu_bn_arrivals(channels);
    cuda_op *op;
    LS_TRY(ls_cuda_op_open(kernels, like, work,
                           parts * sizeof(double) + arrivals * sizeof(unsigned), &op));
    op->parts.values = op->workspace;
    op->parts.arrived = (unsigned *)(op->parts.values + parts);
    *out = &op->op;
    return LS_OK;
}

static int launch_bn_sums(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_bn_sums(ls_queue_native(queue), &op->args.bn_sums, &op->parts);
}

ls_status ls_cuda_bn_sums(ls_kernels *kernels, const ls_bn_sums_args *arguments,
                          const ls_work *work, ls_op **out)
{
    const cuda_op like = {
        .op.name = "bn_sums.cuda", .launch = launch_bn_sums, .args.bn_sums = *arguments};
    return put_sums(kernels, &like, work, arguments->pixels, arguments->channels, out);
}

static int launch_bn_moments(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_bn_moments(ls_queue_native(queue), &op->args.bn_moments);
}

ls_status ls_cuda_bn_moments(ls_kernels *kernels, const ls_bn_moments_args *arguments,
                             const ls_work *work, ls_op **out)
{
    const cuda_op like = {
        .op.name = "bn_moments.cuda", .launch = launch_bn_moments, .args.bn_moments = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_bn_moving_moments(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_bn_moving_moments(ls_queue_native(queue), &op->args.bn_moving_moments);
}

ls_status ls_cuda_bn_moving_moments(ls_kernels *kernels, const ls_bn_moving_moments_args *arguments,
                                    const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "bn_moving_moments.cuda",
                          .launch = launch_bn_moving_moments,
                          .args.bn_moving_moments = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_bn_forward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_bn_forward(ls_queue_native(queue), &op->args.bn_forward);
}

ls_status ls_cuda_bn_forward(ls_kernels *kernels, const ls_bn_forward_args *arguments,
                             const ls_work *work, ls_op **out)
{
    const cuda_op like = {
        .op.name = "bn_forward.cuda", .launch = launch_bn_forward, .args.bn_forward = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_bn_backward_sums(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_bn_backward_sums(ls_queue_native(queue), &op->args.bn_backward_sums, &op->parts);
}

ls_status ls_cuda_bn_backward_sums(ls_kernels *kernels, const ls_bn_backward_sums_args *arguments,
                                   const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "bn_backward_sums.cuda",
                          .launch = launch_bn_backward_sums,
                          .args.bn_backward_sums = *arguments};
    return put_sums(kernels, &like, work, arguments->pixels, arguments->channels, out);
}

static int launch_bn_backward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_bn_backward(ls_queue_native(queue), &op->args.bn_backward);
}

ls_status ls_cuda_bn_backward(ls_kernels *kernels, const ls_bn_backward_args *arguments,
                              const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "bn_backward.cuda",
                          .launch = launch_bn_backward,
                          .args.bn_backward = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_shortcut_forward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_shortcut_forward(ls_queue_native(queue), &op->args.shortcut_forward);
}

ls_status ls_cuda_shortcut_forward(ls_kernels *kernels, const ls_shortcut_forward_args *arguments,
                                   const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "shortcut_forward.cuda",
                          .launch = launch_shortcut_forward,
                          .args.shortcut_forward = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_shortcut_backward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_shortcut_backward(ls_queue_native(queue), &op->args.shortcut_backward);
}

ls_status ls_cuda_shortcut_backward(ls_kernels *kernels, const ls_shortcut_backward_args *arguments,
                                    const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "shortcut_backward.cuda",
                          .launch = launch_shortcut_backward,
                          .args.shortcut_backward = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_mean_pool_forward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_mean_pool_forward(ls_queue_native(queue), &op->args.mean_pool_forward);
}

ls_status ls_cuda_mean_pool_forward(ls_kernels *kernels, const ls_mean_pool_forward_args *arguments,
                                    const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "mean_pool_forward.cuda",
                          .launch = launch_mean_pool_forward,
                          .args.mean_pool_forward = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_mean_pool_backward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_mean_pool_backward(ls_queue_native(queue), &op->args.mean_pool_backward);
}

ls_status ls_cuda_mean_pool_backward(ls_kernels *kernels,
                                     const ls_mean_pool_backward_args *arguments,
                                     const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "mean_pool_backward.cuda",
                          .launch = launch_mean_pool_backward,
                          .args.mean_pool_backward = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_moving_average(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_moving_average(ls_queue_native(queue), &op->args.moving_average);
}

ls_status ls_cuda_moving_average(ls_kernels *kernels, const ls_moving_average_args *arguments,
                                 const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "moving_average.cuda",
                          .launch = launch_moving_average,
                          .args.moving_average = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_add_sums(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_add_sums(ls_queue_native(queue), &op->args.add_sums);
}

ls_status ls_cuda_add_sums(ls_kernels *kernels, const ls_add_sums_args *arguments,
                           const ls_work *work, ls_op **out)
{
    const cuda_op like = {
        .op.name = "add_sums.cuda", .launch = launch_add_sums, .args.add_sums = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}
