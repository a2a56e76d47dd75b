/* SPDX-License-Identifier: MIT */
/*
 * LSTM of the cuda table. Forward: one product for the inputs of all steps, then the recurrence in
 * one launch (gpu_lstm.cu), before which the weights are transposed if there are too many for
 * registers. Backward: the recurrence, then for each of the two weights the backward pass of a
 * dense layer over all steps (cuda_dense.c). cuDNN's LSTM is not used: its weights, two biases and
 * states have their own order, so a step would copy the weights in and their gradients out; and its
 * recurrence costs a launch per step if there are too many states for its persistent kernel. Kept:
 * [B,T,4H] gates, [B,T,H] cells, [B,T,H] the state before each step.
 */
#include "common/kernel/cuda/product/cuda_product.h"

#include <stdlib.h>

enum { PARTS = 2 };

typedef struct lstm_op {
    ls_op op;
    ls_device *device;
    ls_gpu_lstm loop;
    ls_op *parts[PARTS]; /* forward: before the recurrence; backward: after it; NULL if none */
} lstm_op;

static ls_status run_parts(const lstm_op *l, ls_queue *queue)
{
    for (int i = 0; i < PARTS; i++)
        if (l->parts[i])
            LS_TRY(l->parts[i]->run(l->parts[i], queue));
    return LS_OK;
}

static ls_status run_forward(ls_op *op, ls_queue *queue)
{
    const lstm_op *l = (const lstm_op *)op;
    const int64_t hidden = l->loop.shape.hidden;
    const ls_transpose_args columns = {1, 4 * hidden, hidden, l->loop.weight, l->loop.packed};
    void *stream = ls_queue_native(queue);
    if (!l->loop.shape.rows)
        return LS_OK;
    LS_TRY(run_parts(l, queue));
    if (l->loop.packed)
        LS_TRY(ls_cuda_launched(op, queue, ls_gpu_transpose(stream, &columns)));
    return ls_cuda_launched(op, queue, ls_gpu_lstm_forward(stream, &l->loop));
}

static ls_status run_backward(ls_op *op, ls_queue *queue)
{
    const lstm_op *l = (const lstm_op *)op;
    if (l->loop.weight) /* NULL means the second pass */
        LS_TRY(ls_cuda_launched(op, queue, ls_gpu_lstm_backward(ls_queue_native(queue), &l->loop)));
    return run_parts(l, queue);
}

static void destroy(ls_op *op)
{
    lstm_op *l = (lstm_op *)op;
    for (int i = 0; i < PARTS; i++)
        ls_op_free(l->parts[i]);
    ls_device_release(l->device, l->loop.packed);
    free(l);
}

/* `like` has the fields that differ, except its parts; divides `kept`, and takes workspace for
 * `lines` lines of 4H floats, unless the weights stay in registers. */
static ls_status make(ls_kernels *kernels, const lstm_op *like, float *kept, int64_t lines,
                      lstm_op **out)
{
    const ls_lstm_shape *s = &like->loop.shape;
    void *memory = NULL;
    lstm_op *l;
    LS_TRY(ls_allocate("lstm", &l, 1, sizeof *l));
    *l = *like;
    l->op.destroy = destroy;
    l->device = kernels->device;
    l->loop.gates = kept;
    l->loop.cells = kept + s->rows * s->steps * 4 * s->hidden;
    l->loop.previous = l->loop.cells + s->rows * s->steps * s->hidden;
    if (s->hidden > LS_GPU_LSTM_RESIDENT && l->loop.weight) {
        l->op.workspace = (size_t)(4 * s->hidden * lines) * sizeof(float);
        ls_status status =
            ls_device_allocate(l->device, LS_MEMORY_WORKSPACE, l->op.workspace, &memory);
        if (status) {
            free(l);
            return status;
        }
    }
    l->loop.packed = l->loop.partial = memory;
    *out = l;
    return LS_OK;
}

/* Returns the operation if its parts could be made. */
static ls_status finish(lstm_op *l, const char *const names[LS_PRODUCT_WAYS], ls_status parts,
                        ls_op **out)
{
    unsigned ways = 0;
    if (parts) {
        destroy(&l->op);
        return parts;
    }
    for (int i = 0; i < PARTS && l->parts[i]; i++) {
        l->op.workspace += l->parts[i]->workspace;
        ways |= ls_cuda_dense_ways(l->parts[i]);
    }
    l->op.name = names[ways];
    *out = &l->op;
    return LS_OK;
}

ls_status ls_cuda_lstm_forward(ls_kernels *kernels, const ls_lstm_forward_args *a, ls_op **out)
{
    static const char *const names[] = {LS_PRODUCT_NAMES("lstm_forward", "+cuda")};
    const ls_lstm_shape *s = &a->shape;
    const ls_gemm_args inputs = {.transpose_b = true,
                                 .m = s->rows * s->steps,
                                 .n = 4 * s->hidden,
                                 .k = s->inputs,
                                 .a = a->x,
                                 .b = a->weight_ih,
                                 .c = a->kept};
    const lstm_op like = {
        .op.run = run_forward,
        .loop = {.shape = *s, .weight = a->weight_hh, .bias = a->bias, .y = a->y}};
    lstm_op *l;
    LS_TRY(make(kernels, &like, a->kept, s->hidden, &l));
    return finish(l, names, ls_cuda_gemm(kernels, &inputs, &l->parts[0]), out);
}

ls_status ls_cuda_lstm_backward(ls_kernels *kernels, const ls_lstm_backward_args *a, ls_op **out)
{
    static const char *const names[] = {LS_PRODUCT_NAMES("lstm_backward", "+cuda")};
    const ls_lstm_shape *s = &a->shape;
    const int64_t rows = s->rows * s->steps, gates = 4 * s->hidden;
    const lstm_op like = {.op.run = run_backward,
                          .loop = {.shape = *s, .weight = a->weight_hh, .dy = a->dy}};
    lstm_op *l;
    LS_TRY(make(kernels, &like, a->kept, s->rows, &l));
    const ls_dense_backward_args inputs = {
        {rows, s->inputs, gates, a->x, a->kept, a->dweight_ih, a->dbias, false},
        {rows, s->inputs, gates, a->kept, a->weight_ih, NULL, a->dx, false}};
    const ls_dense_backward_weights_args states = {rows,    s->hidden,     gates, l->loop.previous,
                                                   a->kept, a->dweight_hh, NULL,  false};
    ls_status status = LS_OK;
    if (a->dx && a->dweight_ih)
        status = ls_cuda_dense_backward(kernels, &inputs, &l->parts[0]);
    else if (a->dx)
        status = ls_cuda_dense_backward_data(kernels, &inputs.data, &l->parts[0]);
    else if (a->dweight_ih)
        status = ls_cuda_dense_backward_weights(kernels, &inputs.weights, &l->parts[0]);
    if (!status && a->dweight_ih)
        status = ls_cuda_dense_backward_weights(kernels, &states, &l->parts[1]);
    return finish(l, names, status, out);
}
