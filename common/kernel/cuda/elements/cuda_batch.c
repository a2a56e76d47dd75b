/* SPDX-License-Identifier: MIT */
/*
 * Operations on a batch of the cuda table, and those of a step's ends: each a launch. Not yet run
 * on a GPU.
 *
 * A label that is no class cannot stop a launched step: the queue's fault is set, which the next
 * ls_queue_sync reports, and the loss of that step is NaN.
 */
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/cuda_kernels.h"

static int launch_batch_indices(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_batch_indices(ls_queue_native(queue), &op->args.batch_indices, &op->order);
}

ls_status ls_cuda_batch_indices(ls_kernels *kernels, const ls_batch_indices_args *arguments,
                                const ls_work *work, ls_op **out)
{
    cuda_op like = {.op.name = "batch_indices.cuda",
                    .launch = launch_batch_indices,
                    .args.batch_indices = *arguments};
    ls_order_epoch_set(&arguments->order, 0, &like.order.epoch);
    like.order.keys = ls_order_stream(&arguments->order);
    like.order.reciprocal = 1.0 / like.order.epoch.a;
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_gather(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_gather(ls_queue_native(queue), &op->args.gather);
}

ls_status ls_cuda_gather(ls_kernels *kernels, const ls_gather_args *arguments, const ls_work *work,
                         ls_op **out)
{
    const cuda_op like = {
        .op.name = "gather.cuda", .launch = launch_gather, .args.gather = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_count_correct(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_count_correct(ls_queue_native(queue), &op->args.count_correct);
}

ls_status ls_cuda_count_correct(ls_kernels *kernels, const ls_count_correct_args *arguments,
                                const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "count_correct.cuda",
                          .launch = launch_count_correct,
                          .args.count_correct = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_add_loss(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_add_loss(ls_queue_native(queue), &op->args.add_loss);
}

ls_status ls_cuda_add_loss(ls_kernels *kernels, const ls_add_loss_args *arguments,
                           const ls_work *work, ls_op **out)
{
    const cuda_op like = {
        .op.name = "add_loss.cuda", .launch = launch_add_loss, .args.add_loss = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_finish_step(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_finish_step(ls_queue_native(queue), &op->args.finish_step,
                              ls_cuda_queue_steps(queue));
}

ls_status ls_cuda_finish_step(ls_kernels *kernels, const ls_finish_step_args *arguments,
                              const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "finish_step.cuda",
                          .launch = launch_finish_step,
                          .args.finish_step = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_stamp(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_stamp(ls_queue_native(queue), &op->args.stamp);
}

ls_status ls_cuda_stamp(ls_kernels *kernels, const ls_stamp_args *arguments, const ls_work *work,
                        ls_op **out)
{
    const cuda_op like = {
        .op.name = "stamp.cuda", .launch = launch_stamp, .args.stamp = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

static int launch_flip_bit(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_flip_bit(ls_queue_native(queue), &op->args.flip_bit);
}

ls_status ls_cuda_flip_bit(ls_kernels *kernels, const ls_flip_bit_args *arguments,
                           const ls_work *work, ls_op **out)
{
    const cuda_op like = {
        .op.name = "flip_bit.cuda", .launch = launch_flip_bit, .args.flip_bit = *arguments};
    return ls_cuda_op_put(kernels, &like, work, out);
}

/* ---- Losses: with memory for their parts ----------------------------------------------------- */

static ls_status put_loss(ls_kernels *kernels, const cuda_op *like, const ls_work *work,
                          size_t parts, ls_op **out)
{
    cuda_op *op;
    LS_TRY(ls_cuda_op_open(kernels, like, work, parts * sizeof(double) + sizeof(unsigned), &op));
    op->parts.values = op->workspace;
    op->parts.arrived = (unsigned *)(op->parts.values + parts);
    *out = &op->op;
    return LS_OK;
}

static int launch_softmax(const cuda_op *op, ls_queue *queue)
{
    const ls_gpu_fault fault = {ls_cuda_queue_fault(queue), LS_CUDA_FAULT_LABEL};
    return ls_gpu_softmax_cross_entropy(ls_queue_native(queue), &op->args.softmax_cross_entropy,
                                        &op->parts, &fault);
}

ls_status ls_cuda_softmax_cross_entropy(ls_kernels *kernels,
                                        const ls_softmax_cross_entropy_args *arguments,
                                        const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "softmax_cross_entropy.cuda",
                          .launch = launch_softmax,
                          .args.softmax_cross_entropy = *arguments};
    return put_loss(kernels, &like, work, ls_gpu_softmax_parts(arguments->rows), out);
}

static int launch_squared_error(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_squared_error(ls_queue_native(queue), &op->args.squared_error, &op->parts);
}

ls_status ls_cuda_squared_error(ls_kernels *kernels, const ls_squared_error_args *arguments,
                                const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "squared_error.cuda",
                          .launch = launch_squared_error,
                          .args.squared_error = *arguments};
    const size_t parts = ls_gpu_squared_error_parts(arguments->rows * arguments->outputs);
    return put_loss(kernels, &like, work, parts, out);
}

static int launch_logistic(const cuda_op *op, ls_queue *queue)
{
    const ls_gpu_fault fault = {ls_cuda_queue_fault(queue), LS_CUDA_FAULT_LABEL};
    return ls_gpu_logistic_loss(ls_queue_native(queue), &op->args.logistic_loss, &op->parts,
                                &fault);
}

ls_status ls_cuda_logistic_loss(ls_kernels *kernels, const ls_logistic_loss_args *arguments,
                                const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "logistic_loss.cuda",
                          .launch = launch_logistic,
                          .args.logistic_loss = *arguments};
    return put_loss(kernels, &like, work, ls_gpu_logistic_parts(arguments->rows), out);
}

static int launch_weight_decay(const cuda_op *op, ls_queue *queue)
{
    const ls_gpu_parts parts = {op->workspace,
                                (unsigned *)((double *)op->workspace + op->ranges.blocks + 1)};
    return ls_gpu_decay_loss(ls_queue_native(queue), &op->args.weight_decay, &op->ranges, &parts);
}

ls_status ls_cuda_weight_decay(ls_kernels *kernels, const ls_weight_decay_args *arguments,
                               const ls_work *work, ls_op **out)
{
    const cuda_op like = {.op.name = "weight_decay.cuda",
                          .launch = launch_weight_decay,
                          .args.weight_decay = *arguments};
    return ls_cuda_op_ranges(kernels, &like, work, arguments->ranges, arguments->range_count,
                             ls_gpu_decay_parts, sizeof(double), out);
}
