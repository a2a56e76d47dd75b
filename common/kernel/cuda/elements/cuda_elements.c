/* SPDX-License-Identifier: MIT */
/*
 * Elementwise operations of the cuda table, operations on a batch, and operations at a step's ends:
 * each is a launch. An invalid label cannot stop a launched step: it sets the queue's fault, which
 * the next ls_queue_sync reports, and the loss of that step is NaN.
 */
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/cuda_kernels.h"

LS_CUDA_LAUNCH_WITH(finish_step, ls_cuda_queue_steps(queue))
ls_status ls_cuda_finish_step(ls_kernels *kernels, const ls_finish_step_args *arguments,
                              ls_op **out)
{
    return ls_cuda_op_make(kernels, &LS_CUDA_LIKE(finish_step), out);
}

/* ---- Samples: with their order made ready ---------------------------------------------------- */

static ls_gpu_order order_of(const ls_sample_order *order)
{
    ls_gpu_order out = {.keys = ls_order_stream(order)};
    ls_order_epoch_set(order, 0, &out.epoch);
    out.reciprocal = 1.0 / out.epoch.a;
    return out;
}

LS_CUDA_LAUNCH_WITH(batch_indices, &op->order)
ls_status ls_cuda_batch_indices(ls_kernels *kernels, const ls_batch_indices_args *arguments,
                                ls_op **out)
{
    const ls_gpu_order order = order_of(&arguments->order);
    return ls_cuda_op_make(kernels, &LS_CUDA_LIKE(batch_indices, .order = order), out);
}

LS_CUDA_LAUNCH_WITH(gather_batch, &op->order)
ls_status ls_cuda_gather_batch(ls_kernels *kernels, const ls_gather_batch_args *arguments,
                               ls_op **out)
{
    const ls_gpu_order order = order_of(&arguments->indices.order);
    return ls_cuda_op_make(kernels, &LS_CUDA_LIKE(gather_batch, .order = order), out);
}

LS_CUDA_LAUNCH_WITH(set_targets, &op->order)
ls_status ls_cuda_set_targets(ls_kernels *kernels, const ls_set_targets_args *arguments,
                              ls_op **out)
{
    const ls_gpu_order order = order_of(&arguments->order);
    return ls_cuda_op_make(kernels, &LS_CUDA_LIKE(set_targets, .order = order), out);
}

/* ---- The optimizer --------------------------------------------------------------------------- */

LS_CUDA_LAUNCH_WITH(optimizer, &op->ranges, &op->scalars)
ls_status ls_cuda_optimizer(ls_kernels *kernels, const ls_optimizer_args *arguments, ls_op **out)
{
    static const char *const names[] = {[LS_OPTIMIZER_SGD] = "optimizer.sgd_cuda",
                                        [LS_OPTIMIZER_MOMENTUM] = "optimizer.momentum_cuda",
                                        [LS_OPTIMIZER_ADAM] = "optimizer.adam_cuda",
                                        [LS_OPTIMIZER_ADAMW] = "optimizer.adamw_cuda",
                                        [LS_OPTIMIZER_RMSPROP] = "optimizer.rmsprop_cuda"};
    const cuda_op like = {.op.name = names[arguments->kind],
                          .launch = launch_optimizer,
                          .args.optimizer = *arguments,
                          .scalars = ls_update_scalars_make(arguments)};
    const ls_update_range all = {.count = arguments->count};
    const bool whole = !arguments->range_count;
    return ls_cuda_op_ranges(kernels, &like, whole ? &all : arguments->ranges,
                             whole ? 1 : arguments->range_count, ls_gpu_optimizer_blocks, 0, out);
}

LS_CUDA_LAUNCH_WITH(square_sums, &op->ranges)
ls_status ls_cuda_square_sums(ls_kernels *kernels, const ls_square_sums_args *arguments,
                              ls_op **out)
{
    return ls_cuda_op_ranges(kernels, &LS_CUDA_LIKE(square_sums), arguments->ranges,
                             arguments->range_count, ls_gpu_square_blocks, 0, out);
}

/* ---- Losses: with memory for their parts ----------------------------------------------------- */

static ls_gpu_fault label_fault(ls_queue *queue)
{
    return (ls_gpu_fault){ls_cuda_queue_fault(queue), LS_CUDA_FAULT_LABEL};
}

LS_CUDA_LAUNCH_WITH(softmax_cross_entropy, &op->parts, label_fault(queue))
ls_status ls_cuda_softmax_cross_entropy(ls_kernels *kernels,
                                        const ls_softmax_cross_entropy_args *arguments, ls_op **out)
{
    return ls_cuda_op_parts(kernels, &LS_CUDA_LIKE(softmax_cross_entropy),
                            ls_gpu_softmax_parts(arguments->rows), 1, out);
}

LS_CUDA_LAUNCH_WITH(softmax_part, label_fault(queue))
ls_status ls_cuda_softmax_part(ls_kernels *kernels, const ls_softmax_part_args *arguments,
                               ls_op **out)
{
    return ls_cuda_op_make(kernels, &LS_CUDA_LIKE(softmax_part), out);
}

LS_CUDA_LAUNCH_WITH(softmax_whole, &op->parts)
ls_status ls_cuda_softmax_whole(ls_kernels *kernels, const ls_softmax_whole_args *arguments,
                                ls_op **out)
{
    return ls_cuda_op_parts(kernels, &LS_CUDA_LIKE(softmax_whole),
                            ls_gpu_softmax_parts(arguments->rows), 1, out);
}

LS_CUDA_LAUNCH_WITH(squared_error, &op->parts)
ls_status ls_cuda_squared_error(ls_kernels *kernels, const ls_squared_error_args *arguments,
                                ls_op **out)
{
    return ls_cuda_op_parts(kernels, &LS_CUDA_LIKE(squared_error),
                            ls_gpu_squared_error_parts(arguments->rows * arguments->outputs), 1,
                            out);
}

LS_CUDA_LAUNCH_WITH(logistic_loss, &op->parts, label_fault(queue))
ls_status ls_cuda_logistic_loss(ls_kernels *kernels, const ls_logistic_loss_args *arguments,
                                ls_op **out)
{
    return ls_cuda_op_parts(kernels, &LS_CUDA_LIKE(logistic_loss),
                            ls_gpu_logistic_parts(arguments->rows), 1, out);
}

static int launch_weight_decay(const cuda_op *op, ls_queue *queue)
{
    const ls_gpu_parts parts = {op->workspace,
                                (unsigned *)((double *)op->workspace + op->ranges.blocks + 1)};
    return ls_gpu_decay_loss(ls_queue_native(queue), &op->args.weight_decay, &op->ranges, &parts);
}

ls_status ls_cuda_weight_decay(ls_kernels *kernels, const ls_weight_decay_args *arguments,
                               ls_op **out)
{
    return ls_cuda_op_ranges(kernels, &LS_CUDA_LIKE(weight_decay), arguments->ranges,
                             arguments->range_count, ls_gpu_decay_parts, sizeof(double), out);
}
