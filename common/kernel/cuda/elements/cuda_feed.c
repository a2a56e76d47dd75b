/* SPDX-License-Identifier: MIT */
/* Which samples, and their data, in one launch of the cuda table. Not yet run on a GPU. */
#include "common/kernel/cuda/cuda_kernels.h"

static int launch_gather_batch(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_gather_batch(ls_queue_native(queue), &op->args.gather_batch, &op->order);
}

ls_status ls_cuda_gather_batch(ls_kernels *kernels, const ls_gather_batch_args *arguments,
                               const ls_work *work, ls_op **out)
{
    const ls_sample_order *order = &arguments->indices.order;
    cuda_op like = {.op.name = "gather_batch.cuda",
                    .launch = launch_gather_batch,
                    .args.gather_batch = *arguments};
    ls_order_epoch_set(order, 0, &like.order.epoch);
    like.order.keys = ls_order_stream(order);
    like.order.reciprocal = 1.0 / like.order.epoch.a;
    return ls_cuda_op_put(kernels, &like, work, out);
}
