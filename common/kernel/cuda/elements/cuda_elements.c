/* SPDX-License-Identifier: MIT */
/* Operations on independent elements of the cuda table: each a launch. Not yet run on a GPU. */
#include "common/kernel/cuda/cuda_kernels.h"

static int launch_relu_forward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_relu_forward(ls_queue_native(queue), &op->args.relu_forward);
}

ls_status ls_cuda_relu_forward(ls_kernels *kernels, const ls_relu_forward_args *arguments,
                               const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "relu_forward.cuda",
                          .launch = launch_relu_forward,
                          .args.relu_forward = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_relu_backward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_relu_backward(ls_queue_native(queue), &op->args.relu_backward);
}

ls_status ls_cuda_relu_backward(ls_kernels *kernels, const ls_relu_backward_args *arguments,
                                const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "relu_backward.cuda",
                          .launch = launch_relu_backward,
                          .args.relu_backward = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_polynomial(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_polynomial(ls_queue_native(queue), &op->args.polynomial);
}

ls_status ls_cuda_polynomial(ls_kernels *kernels, const ls_polynomial_args *arguments,
                             const ls_work *work, ls_op **out)
{
    const cuda_op like = {
        .op.name = "polynomial.cuda", .launch = launch_polynomial, .args.polynomial = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_add(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_add(ls_queue_native(queue), &op->args.add);
}

ls_status ls_cuda_add(ls_kernels *kernels, const ls_add_args *arguments, const ls_work *work,
                      ls_op **out)
{
    const cuda_op like = {.op.name = "add.cuda", .launch = launch_add, .args.add = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_fill(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_fill(ls_queue_native(queue), &op->args.fill);
}

ls_status ls_cuda_fill(ls_kernels *kernels, const ls_fill_args *arguments, const ls_work *work,
                       ls_op **out)
{
    const cuda_op like = {.op.name = "fill.cuda", .launch = launch_fill, .args.fill = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_scale(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_scale(ls_queue_native(queue), &op->args.scale);
}

ls_status ls_cuda_scale(ls_kernels *kernels, const ls_scale_args *arguments, const ls_work *work,
                        ls_op **out)
{
    const cuda_op like = {
        .op.name = "scale.cuda", .launch = launch_scale, .args.scale = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_optimizer(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_optimizer(ls_queue_native(queue), &op->args.optimizer, &op->ranges, &op->scalars);
}

ls_status ls_cuda_optimizer(ls_kernels *kernels, const ls_optimizer_args *arguments,
                            const ls_work *work, ls_op **out)
{
    static const char *const names[] = {[LS_OPTIMIZER_SGD] = "optimizer.sgd_cuda",
                                        [LS_OPTIMIZER_MOMENTUM] = "optimizer.momentum_cuda",
                                        [LS_OPTIMIZER_ADAM] = "optimizer.adam_cuda",
                                        [LS_OPTIMIZER_RMSPROP] = "optimizer.rmsprop_cuda"};
    const cuda_op like = {.op.name = names[arguments->kind],
                          .launch = launch_optimizer,
                          .args.optimizer = *arguments,
                          .scalars = ls_update_scalars_make(arguments)};
    const ls_update_range all = {.count = arguments->count};
    return ls_cuda_op_ranges(
        kernels, &like, work, arguments->range_count ? arguments->ranges : &all,
        arguments->range_count ? arguments->range_count : 1, ls_gpu_optimizer_blocks, 0, out);
}
