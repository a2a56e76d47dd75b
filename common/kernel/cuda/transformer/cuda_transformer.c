/* SPDX-License-Identifier: MIT */
/*
 * Transformers' operations of the cuda table that need more than their arguments. An invalid token
 * cannot stop a launched step: it sets the queue's fault, which the next ls_queue_sync reports, and
 * its row is NaN.
 */
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/cuda_kernels.h"

static int launch_embedding_forward(const cuda_op *op, ls_queue *queue)
{
    return ls_gpu_embedding_forward(
        ls_queue_native(queue), &op->args.embedding_forward,
        (ls_gpu_fault){ls_cuda_queue_fault(queue), LS_CUDA_FAULT_TOKEN});
}

ls_status ls_cuda_embedding_forward(ls_kernels *kernels, const ls_embedding_forward_args *arguments,
                                    ls_op **out)
{
    return ls_cuda_op_make(kernels, &LS_CUDA_LIKE(embedding_forward), out);
}

/* Like ls_cuda_op_make, with workspace. */
static ls_status make_with(ls_kernels *kernels, const cuda_op *like, int64_t count, size_t size,
                           ls_op **out)
{
    cuda_op *op;
    LS_TRY(ls_cuda_op_open(kernels, like, (size_t)count * size, &op));
    *out = &op->op;
    return LS_OK;
}

LS_CUDA_LAUNCH_WITH(embedding_backward, op->workspace)
ls_status ls_cuda_embedding_backward(ls_kernels *kernels,
                                     const ls_embedding_backward_args *arguments, ls_op **out)
{
    return make_with(kernels, &LS_CUDA_LIKE(embedding_backward), arguments->rows, sizeof(int64_t),
                     out);
}

LS_CUDA_LAUNCH_WITH(layer_norm_backward, &op->parts)
ls_status ls_cuda_layer_norm_backward(ls_kernels *kernels,
                                      const ls_layer_norm_backward_args *arguments, ls_op **out)
{
    return ls_cuda_op_parts(kernels, &LS_CUDA_LIKE(layer_norm_backward),
                            ls_gpu_layer_norm_parts(arguments->width),
                            ls_gpu_layer_norm_arrivals(arguments->width), out);
}

/* Sets an attention's implementation, and its name. */
static void choose(const ls_kernels *kernels, const ls_attention_shape *s, bool stored,
                   const char *name, cuda_op *like)
{
    like->attention.tf32 = kernels->math == LS_MATH_TF32;
    like->attention.cores = stored || s->width / s->heads <= LS_GPU_ATTENTION_FLOATS;
    if (like->attention.cores)
        like->op.name = name;
}

static int launch_attention_forward(const cuda_op *op, ls_queue *queue)
{
    const ls_attention_forward_args *args = &op->args.attention_forward;
    void *stream = ls_queue_native(queue);
    return op->attention.cores ? ls_gpu_attention_cores_forward(stream, args, op->attention.tf32)
                               : ls_gpu_attention_forward(stream, args);
}

ls_status ls_cuda_attention_forward(ls_kernels *kernels, const ls_attention_forward_args *arguments,
                                    ls_op **out)
{
    cuda_op like = LS_CUDA_LIKE(attention_forward);
    choose(kernels, &arguments->shape, arguments->stored, "attention_forward.tiles", &like);
    return ls_cuda_op_make(kernels, &like, out);
}

static int launch_attention_backward(const cuda_op *op, ls_queue *queue)
{
    const ls_attention_backward_args *args = &op->args.attention_backward;
    void *stream = ls_queue_native(queue);
    return op->attention.cores
               ? ls_gpu_attention_cores_backward(stream, args, op->workspace, op->attention.scratch,
                                                 op->attention.tf32)
               : ls_gpu_attention_backward(stream, args, op->workspace);
}

ls_status ls_cuda_attention_backward(ls_kernels *kernels,
                                     const ls_attention_backward_args *arguments, ls_op **out)
{
    const ls_attention_shape *s = &arguments->shape;
    const int64_t parts = ls_gpu_attention_cores_parts(s) * s->rows * s->steps * s->width;
    cuda_op like = LS_CUDA_LIKE(attention_backward);
    choose(kernels, s, arguments->stored, "attention_backward.tiles", &like);
    if (like.attention.cores)
        LS_TRY(ls_scratch_take(&kernels->scratch, (size_t)parts * sizeof(float),
                               &like.attention.scratch));
    return make_with(kernels, &like, s->rows * s->heads * s->steps, sizeof(float), out);
}
