/* SPDX-License-Identifier: MIT */
/*
 * LSTM of the cuda table. Forward: one product of the inputs of all steps, then the recurrence, one
 * launch (gpu_lstm.cu), before which more than a few states have their weights transposed.
 * Backward: the recurrence, a product each for both weights' gradients and the inputs', the bias's
 * column sums in pieces, and one launch for the rests of the gradients. A pair has one launch for
 * both recurrences, since one alone may leave most multiprocessors idle; everything else is
 * separate. Not yet run on a GPU.
 *
 * cuDNN's LSTM is left out: its weights, two biases and states lie in an order of its own, so a
 * step would copy the weights in and their gradients out, and its recurrence costs a launch a step
 * where states are too many for its persistent kernel.
 *
 * Kept: [B,T,4H] gates, [B,T,H] cells, [B,T,H] the state before each step.
 */
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/cuda_kernels.h"
#include "common/kernel/cuda/product/cuda_product.h"

#include <stdlib.h>

enum { PRODUCTS = 3 };

typedef struct lstm_op {
    ls_op op;
    ls_device *device;
    ls_gpu_lstm loop;
    /* Forward: the inputs' gates. Backward: both weights' gradients, the inputs'. NULL: none. */
    ls_cuda_product *product[PRODUCTS];
    float *sums[PRODUCTS]; /* gradients, zero where there are no rows: weights', the bias's */
    int64_t sum_count[PRODUCTS];
    float *column_memory;
    int64_t more, column_pieces; /* memory beside the tensors, in lines of 4H floats */
    struct lstm_op *second;      /* a pair's other one; NULL: none */
} lstm_op;

static bool are_few(const ls_lstm_shape *shape)
{
    return shape->hidden <= LS_GPU_LSTM_FEW;
}

/* Forward, before the recurrence. */
static ls_status begin_forward(const lstm_op *l, ls_queue *queue)
{
    const int64_t hidden = l->loop.shape.hidden;
    LS_TRY(ls_cuda_product_run(l->product[0], queue));
    if (are_few(&l->loop.shape))
        return LS_OK;
    const ls_transpose_args args = {1, 4 * hidden, hidden, l->loop.weight, l->loop.packed};
    return ls_cuda_launched(&l->op, queue, ls_gpu_transpose(ls_queue_native(queue), &args));
}

/* Backward, after the recurrence. */
static ls_status end_backward(const lstm_op *l, ls_queue *queue)
{
    const int64_t rows = l->loop.shape.rows * l->loop.shape.steps, pieces = l->column_pieces;
    void *stream = ls_queue_native(queue);
    ls_gpu_backward_rest rest = {.rows = rows,
                                 .outputs = 4 * l->loop.shape.hidden,
                                 .dy = l->loop.gates,
                                 .dbias = l->sums[2]};
    for (int i = 0; i < PRODUCTS && !rows; i++) {
        const ls_fill_args zero = {.count = l->sum_count[i], .y = l->sums[i]};
        LS_TRY(ls_cuda_launched(&l->op, queue, ls_gpu_fill(stream, &zero)));
    }
    if (!rows)
        return LS_OK;
    if (pieces > 1) {
        LS_TRY(ls_cuda_launched(
            &l->op, queue,
            ls_gpu_sum_pieces(stream, rest.dy, rows, rest.outputs, l->column_memory)));
        rest.rows = pieces;
        rest.dy = l->column_memory;
    }
    LS_TRY(ls_cuda_product_multiply(l->product[0], queue, &rest.weights));
    LS_TRY(ls_cuda_product_multiply(l->product[1], queue, &rest.data));
    if (l->product[2])
        LS_TRY(ls_cuda_product_run(l->product[2], queue));
    return ls_cuda_launched(&l->op, queue, ls_gpu_finish_backward(stream, &rest));
}

static ls_status run_forward(ls_op *op, ls_queue *queue)
{
    const lstm_op *l = (const lstm_op *)op, *second = l->second;
    if (!l->loop.shape.rows)
        return LS_OK;
    LS_TRY(begin_forward(l, queue));
    if (second)
        LS_TRY(begin_forward(second, queue));
    return ls_cuda_launched(
        op, queue,
        ls_gpu_lstm_forward(ls_queue_native(queue), &l->loop, second ? &second->loop : NULL));
}

static ls_status run_backward(ls_op *op, ls_queue *queue)
{
    const lstm_op *l = (const lstm_op *)op, *second = l->second;
    LS_TRY(ls_cuda_launched(
        op, queue,
        ls_gpu_lstm_backward(ls_queue_native(queue), &l->loop, second ? &second->loop : NULL)));
    if (second)
        LS_TRY(end_backward(second, queue));
    return end_backward(l, queue);
}

static void destroy(ls_op *op)
{
    lstm_op *l = (lstm_op *)op;
    for (int i = 0; i < PRODUCTS; i++)
        ls_cuda_product_close(l->product[i]);
    ls_device_release(l->device, l->loop.packed);
    if (l->second)
        destroy(&l->second->op);
    free(l);
}

/* Memory beside the tensors and the products; `specs` without an output are left out. */
static ls_status prepare(lstm_op *l, const cuda_kernels *cuda, const ls_gemm_args specs[PRODUCTS])
{
    const ls_lstm_shape *s = &l->loop.shape;
    const size_t bytes = (size_t)(4 * s->hidden * (l->more + l->column_pieces)) * sizeof(float);
    void *memory;
    if (!s->rows)
        return LS_OK;
    LS_TRY(ls_device_allocate(l->device, LS_MEMORY_WORKSPACE, bytes, &memory));
    l->loop.packed = l->loop.partial = memory;
    l->column_memory = l->loop.partial + 4 * s->hidden * l->more;
    l->op.workspace = bytes;
    for (int i = 0; i < PRODUCTS; i++) {
        const ls_cuda_product_spec spec = {
            .gemm = specs[i], .cut = specs[i].transpose_a, .math = cuda->base.math};
        if (!specs[i].c)
            continue;
        LS_TRY(ls_cuda_product_open(l->device, &cuda->blas, &spec, &l->product[i]));
        l->op.workspace += ls_cuda_product_workspace(l->product[i]);
    }
    return LS_OK;
}

/* `like` has what differs between the directions; divides `kept`. */
static ls_status make(ls_kernels *kernels, const lstm_op *like, float *kept,
                      const ls_gemm_args specs[PRODUCTS], ls_op **out)
{
    const ls_lstm_shape *s = &like->loop.shape;
    lstm_op *l = malloc(sizeof *l);
    if (!l)
        return ls_fail_memory(like->op.name, sizeof *l);
    *l = *like;
    l->op.destroy = destroy;
    l->device = kernels->device;
    l->loop.gates = kept;
    l->loop.cells = kept + s->rows * s->steps * 4 * s->hidden;
    l->loop.previous = l->loop.cells + s->rows * s->steps * s->hidden;
    ls_status status = prepare(l, (const cuda_kernels *)kernels, specs);
    if (status) {
        destroy(&l->op);
        return status;
    }
    *out = &l->op;
    return LS_OK;
}

ls_status ls_cuda_lstm_forward(ls_kernels *kernels, const ls_lstm_forward_args *arguments,
                               ls_op **out)
{
    const ls_lstm_forward_args *a = arguments;
    const ls_lstm_shape *s = &a->shape;
    const ls_gemm_args specs[PRODUCTS] = {{.transpose_b = true,
                                           .m = s->rows * s->steps,
                                           .n = 4 * s->hidden,
                                           .k = s->inputs,
                                           .a = a->x,
                                           .b = a->weight_ih,
                                           .c = a->kept}};
    const lstm_op like = {.op = {.name = "lstm_forward.cublaslt_cuda", .run = run_forward},
                          .loop = {.shape = *s, .weight = a->weight_hh, .bias = a->bias, .y = a->y},
                          .more = are_few(s) ? 0 : s->hidden};
    return make(kernels, &like, a->kept, specs, out);
}

ls_status ls_cuda_lstm_backward(ls_kernels *kernels, const ls_lstm_backward_args *arguments,
                                ls_op **out)
{
    const ls_lstm_backward_args *a = arguments;
    const ls_lstm_shape *s = &a->shape;
    const int64_t H = s->hidden, I = s->inputs, N = s->rows * s->steps;
    const float *gates = a->kept, *previous = gates ? gates + N * 5 * H : NULL;
    const ls_gemm_args specs[PRODUCTS] = {
        {.transpose_a = true,
         .m = 4 * H,
         .n = I,
         .k = N,
         .a = gates,
         .b = a->x,
         .c = a->dweight_ih},
        {.transpose_a = true,
         .m = 4 * H,
         .n = H,
         .k = N,
         .a = gates,
         .b = previous,
         .c = a->dweight_hh},
        {.m = N, .n = I, .k = 4 * H, .a = gates, .b = a->weight_ih, .c = a->dx}};
    const lstm_op like = {.op = {.name = "lstm_backward.cublaslt_cuda", .run = run_backward},
                          .loop = {.shape = *s, .weight = a->weight_hh, .dy = a->dy},
                          .sums = {a->dweight_ih, a->dweight_hh, a->dbias},
                          .sum_count = {4 * H * I, 4 * H * H, 4 * H},
                          .more = are_few(s) ? 0 : s->rows,
                          .column_pieces = ls_gpu_column_pieces(N)};
    return make(kernels, &like, a->kept, specs, out);
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

/* Takes both over; the first is the pair from here on. */
static ls_op *pair_up(ls_op *first, ls_op *second, const char *name)
{
    first->name = name;
    first->workspace += second->workspace;
    ((lstm_op *)first)->second = (lstm_op *)second;
    return first;
}

ls_status ls_cuda_lstm_pair_forward(ls_kernels *kernels, const ls_lstm_pair_forward_args *arguments,
                                    ls_op **out)
{
    ls_op *first, *second;
    LS_TRY(ls_cuda_lstm_forward(kernels, &arguments->of[0], &first));
    ls_status status = ls_cuda_lstm_forward(kernels, &arguments->of[1], &second);
    if (status)
        destroy(first);
    else
        *out = pair_up(first, second, "lstm_pair_forward.cublaslt_cuda");
    return status;
}

ls_status ls_cuda_lstm_pair_backward(ls_kernels *kernels,
                                     const ls_lstm_pair_backward_args *arguments, ls_op **out)
{
    ls_op *first, *second;
    LS_TRY(ls_cuda_lstm_backward(kernels, &arguments->of[0], &first));
    ls_status status = ls_cuda_lstm_backward(kernels, &arguments->of[1], &second);
    if (status)
        destroy(first);
    else
        *out = pair_up(first, second, "lstm_pair_backward.cublaslt_cuda");
    return status;
}
