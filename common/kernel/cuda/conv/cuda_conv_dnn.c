/* SPDX-License-Identifier: MIT */
/*
 * Convolutions by cuDNN. Uses its functions with fixed algorithms, which version 9 still has, not
 * its graphs, whose engines a heuristic selects. The fixed algorithms are the implicit products:
 * cudnn_ops.h and its documentation (Reproducibility) list them as deterministic, and they support
 * channels-last images. So results are reproducible and do not depend on the batch. Making an
 * operation runs it once, which shows whether the library supports the shape, and loads the
 * library's kernels before any capture. Float32 is CUDNN_FMA_MATH, without tensor cores; with TF32
 * the library may use them. Weights and bias are copied to the operation's memory, and the weights'
 * gradient from there, so the library's results do not depend on where a variable begins. Bias and
 * ReLU are part of the library's forward pass if it supports them, otherwise a pass of ours; the
 * bias's gradient is our column sums. Left out: unequal padding, which the library does not
 * support; Winograd's and Fourier's methods, for which images would have to be transposed.
 */
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/conv/cuda_conv.h"
#include "common/kernel/cuda/conv/cuda_dnn.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const float one = 1, zero = 0;

static const cudnnConvolutionFwdAlgo_t forward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
static const cudnnConvolutionBwdFilterAlgo_t weights = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
static const cudnnConvolutionBwdDataAlgo_t data = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;

/* Alignment: of our memory as by cudaMalloc; of tensors, for reads of four channels. */
enum { ROOM_ALIGNMENT = 256 };

typedef struct dnn_conv {
    ls_op op;
    ls_device *device;
    const ls_dnn *dnn;
    ls_conv_task t;
    ls_math math;
    cudnnTensorDescriptor_t image, result, bias_tensor; /* x, dx; y, dy; [O] */
    cudnnFilterDescriptor_t weights;
    cudnnConvolutionDescriptor_t window;
    cudnnActivationDescriptor_t activation;
    /* The library's call, on the stream set before. */
    cudnnStatus_t (*call)(const struct dnn_conv *c);
    bool fused; /* bias and ReLU are in the call */
    size_t workspace_bytes;
    void *memory;      /* holds the following arrays */
    void *workspace;   /* [workspace_bytes] */
    float *packed;     /* weights or their gradient, [O, height, width, C]; NULL means `lent` */
    const float *lent; /* the forward operation's reordered weights; NULL if none */
    float *bias_at;    /* [O] */
    float *sums;       /* of columns, in pieces */
} dnn_conv;

/* ---- The library of a table ------------------------------------------------------------------ */

static ls_status open_handle(void *context)
{
    return ls_dnn_open(context);
}

ls_status ls_dnn_find(cuda_kernels *cuda)
{
    bool absent = false;
    ls_dnn *dnn;
    LS_TRY(ls_allocate("cuDNN", &dnn, 1, sizeof *dnn));
    ls_status status = ls_dnn_load(dnn, &absent);
    if (!status)
        status = ls_device_call(cuda->base.device, open_handle, dnn);
    if (!status) {
        cuda->dnn = dnn;
        return LS_OK;
    }
    ls_dnn_close(dnn);
    free(dnn);
    if (!absent || cuda->base.convolution == LS_CONVOLUTION_CUDNN)
        return status;
    ls_status_free(status);
    cuda->dnn_absent = true;
    return LS_OK;
}

void ls_dnn_leave(cuda_kernels *cuda)
{
    if (cuda->dnn && !ls_cuda_reaches(cuda->base.device))
        cuda->dnn->handle = NULL; /* destroying it could wait for the device */
    if (cuda->dnn)
        ls_dnn_close(cuda->dnn);
    free(cuda->dnn);
    cuda->dnn = NULL;
}

/* ---- The library's calls --------------------------------------------------------------------- */

static cudnnStatus_t call_forward(const dnn_conv *c)
{
    const ls_dnn *d = c->dnn;
    if (!c->fused)
        return d->call.cudnnConvolutionForward(d->handle, &one, c->image, c->t.x, c->weights,
                                               c->packed, c->window, forward, c->workspace,
                                               c->workspace_bytes, &zero, c->result, c->t.y);
    /* The term multiplied by 0 must be a valid tensor, too. */
    return d->call.cudnnConvolutionBiasActivationForward(
        d->handle, &one, c->image, c->t.x, c->weights, c->packed, c->window, forward, c->workspace,
        c->workspace_bytes, &zero, c->result, c->t.y, c->bias_tensor, c->bias_at, c->activation,
        c->result, c->t.y);
}

static cudnnStatus_t call_weights(const dnn_conv *c)
{
    const ls_dnn *d = c->dnn;
    return d->call.cudnnConvolutionBackwardFilter(d->handle, &one, c->image, c->t.x, c->result,
                                                  c->t.dy, c->window, weights, c->workspace,
                                                  c->workspace_bytes, &zero, c->weights, c->packed);
}

static cudnnStatus_t call_data(const dnn_conv *c)
{
    const ls_dnn *d = c->dnn;
    return d->call.cudnnConvolutionBackwardData(
        d->handle, &one, c->weights, c->lent ? c->lent : c->packed, c->result, c->t.dy, c->window,
        data, c->workspace, c->workspace_bytes, &zero, c->image, c->t.dx);
}

/* The handle belongs to the table, which may have several queues. */
static cudnnStatus_t call_on(const dnn_conv *c, void *stream)
{
    const cudnnStatus_t status = c->dnn->call.cudnnSetStream(c->dnn->handle, stream);
    return status ? status : c->call(c);
}

static cudnnStatus_t find_workspace(const dnn_conv *c, size_t *out)
{
    const ls_dnn *d = c->dnn;
    if (c->t.y)
        return d->call.cudnnGetConvolutionForwardWorkspaceSize(d->handle, c->image, c->weights,
                                                               c->window, c->result, forward, out);
    if (c->t.dweight)
        return d->call.cudnnGetConvolutionBackwardFilterWorkspaceSize(
            d->handle, c->image, c->result, c->window, c->weights, weights, out);
    return d->call.cudnnGetConvolutionBackwardDataWorkspaceSize(d->handle, c->weights, c->result,
                                                                c->window, c->image, data, out);
}

/* ---- A run ----------------------------------------------------------------------------------- */

/* Copies the library's inputs. */
static ls_status bring(const dnn_conv *c, ls_queue *queue)
{
    const ls_conv_shape *s = &c->t.shape;
    const ls_add_args bias = {c->fused ? s->outputs : 0, c->t.bias, NULL, c->bias_at};
    void *stream = ls_queue_native(queue);
    if (c->t.weight && !c->lent)
        LS_TRY(ls_cuda_launched(&c->op, queue,
                                ls_conv_swap_taps(stream, s, false, c->t.weight, c->packed)));
    return ls_cuda_launched(&c->op, queue, ls_gpu_add(stream, &bias));
}

/* Copies the library's output, and computes what the call left out. */
static ls_status finish(const dnn_conv *c, ls_queue *queue)
{
    const ls_conv_shape *s = &c->t.shape;
    const int64_t positions = s->rows * ls_conv_positions(s);
    void *stream = ls_queue_native(queue);
    const int errors[] = {
        c->t.dweight ? ls_conv_swap_taps(stream, s, true, c->packed, c->t.dweight) : 0,
        c->t.dbias ? ls_gpu_column_sums(stream, c->t.dy, positions, s->outputs, c->sums, c->t.dbias)
                   : 0,
        c->t.y && !c->fused && (c->t.bias || c->t.relu)
            ? ls_gpu_bias(stream, c->t.y, c->t.bias, positions, s->outputs, c->t.relu)
            : 0};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        LS_TRY(ls_cuda_launched(&c->op, queue, errors[i]));
    return LS_OK;
}

static ls_status run(ls_op *op, ls_queue *queue)
{
    const dnn_conv *c = (const dnn_conv *)op;
    LS_TRY(bring(c, queue));
    LS_TRY(ls_dnn_check(c->dnn, call_on(c, ls_queue_native(queue)), op->name));
    return finish(c, queue);
}

const float *ls_dnn_reordered(const ls_conv_task *task)
{
    const dnn_conv *c = (const dnn_conv *)task->forward;
    return c->op.run == run && c->t.y && c->t.weight == task->weight ? c->packed : NULL;
}

/* ---- Making one ------------------------------------------------------------------------------ */

static void destroy(ls_op *op)
{
    dnn_conv *c = (dnn_conv *)op;
    const ls_dnn_functions *call = &c->dnn->call;
    if (c->image)
        call->cudnnDestroyTensorDescriptor(c->image);
    if (c->result)
        call->cudnnDestroyTensorDescriptor(c->result);
    if (c->bias_tensor)
        call->cudnnDestroyTensorDescriptor(c->bias_tensor);
    if (c->weights)
        call->cudnnDestroyFilterDescriptor(c->weights);
    if (c->window)
        call->cudnnDestroyConvolutionDescriptor(c->window);
    if (c->activation)
        call->cudnnDestroyActivationDescriptor(c->activation);
    ls_device_release(c->device, c->memory);
    free(c);
}

/* size: rows, height, width, channels */
static ls_status describe_tensor(const dnn_conv *c, cudnnTensorDescriptor_t *out,
                                 const int64_t size[4])
{
    const ls_dnn *d = c->dnn;
    LS_TRY(ls_dnn_check(d, d->call.cudnnCreateTensorDescriptor(out), "describe a tensor"));
    return ls_dnn_check(
        d,
        d->call.cudnnSetTensor4dDescriptor(*out, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, (int)size[0],
                                           (int)size[3], (int)size[1], (int)size[2]),
        "describe a tensor");
}

static ls_status describe_weights(dnn_conv *c)
{
    const ls_dnn *d = c->dnn;
    const ls_conv_shape *s = &c->t.shape;
    LS_TRY(ls_dnn_check(d, d->call.cudnnCreateFilterDescriptor(&c->weights), "describe weights"));
    return ls_dnn_check(d,
                        d->call.cudnnSetFilter4dDescriptor(
                            c->weights, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, (int)s->outputs,
                            (int)s->channels, (int)s->window.height, (int)s->window.width),
                        "describe weights");
}

static ls_status describe_window(dnn_conv *c)
{
    const ls_dnn *d = c->dnn;
    const ls_window *w = &c->t.shape.window;
    const cudnnMathType_t math = c->math == LS_MATH_TF32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
    LS_TRY(ls_dnn_check(d, d->call.cudnnCreateConvolutionDescriptor(&c->window),
                        "describe a convolution"));
    LS_TRY(ls_dnn_check(d,
                        d->call.cudnnSetConvolution2dDescriptor(
                            c->window, (int)w->top, (int)w->left, (int)w->stride_y,
                            (int)w->stride_x, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                        "describe a convolution"));
    return ls_dnn_check(d, d->call.cudnnSetConvolutionMathType(c->window, math),
                        "choose the arithmetic");
}

static ls_status describe_fusion(dnn_conv *c)
{
    const ls_dnn *d = c->dnn;
    const int64_t bias[] = {1, 1, 1, c->t.shape.outputs};
    const cudnnActivationMode_t mode =
        c->t.relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY;
    LS_TRY(describe_tensor(c, &c->bias_tensor, bias));
    LS_TRY(ls_dnn_check(d, d->call.cudnnCreateActivationDescriptor(&c->activation),
                        "describe an activation"));
    return ls_dnn_check(
        d, d->call.cudnnSetActivationDescriptor(c->activation, mode, CUDNN_NOT_PROPAGATE_NAN, 0),
        "describe an activation");
}

static ls_status describe(dnn_conv *c)
{
    const ls_conv_shape *s = &c->t.shape;
    const ls_window *w = &s->window;
    const int64_t image[] = {s->rows, w->in_height, w->in_width, s->channels};
    const int64_t result[] = {s->rows, w->out_height, w->out_width, s->outputs};
    LS_TRY(describe_tensor(c, &c->image, image));
    LS_TRY(describe_tensor(c, &c->result, result));
    LS_TRY(describe_weights(c));
    LS_TRY(describe_window(c));
    return c->fused ? describe_fusion(c) : LS_OK;
}

/* Bytes, rounded up so that the next array is aligned. */
static size_t padded(size_t bytes)
{
    return (bytes + ROOM_ALIGNMENT - 1) / ROOM_ALIGNMENT * ROOM_ALIGNMENT;
}

static ls_status take_memory(dnn_conv *c)
{
    const ls_conv_shape *s = &c->t.shape;
    const int64_t pieces = ls_gpu_column_pieces(s->rows * ls_conv_positions(s));
    const struct {
        float **at;
        int64_t count;
    } rooms[] = {
        {&c->packed, c->lent ? 0 : s->outputs * ls_conv_taps(s) * s->channels},
        {&c->bias_at, c->fused ? s->outputs : 0},
        {&c->sums, c->t.dbias ? pieces * s->outputs : 0},
    };
    const size_t count = sizeof rooms / sizeof *rooms;
    c->op.workspace = padded(c->workspace_bytes) + ROOM_ALIGNMENT;
    for (size_t i = 0; i < count; i++)
        c->op.workspace += padded((size_t)rooms[i].count * sizeof(float));
    LS_TRY(ls_device_allocate(c->device, LS_MEMORY_WORKSPACE, c->op.workspace, &c->memory));
    char *room = (char *)padded((uintptr_t)c->memory);
    c->workspace = c->workspace_bytes ? room : NULL;
    room += padded(c->workspace_bytes);
    for (size_t i = 0; i < count; i++) {
        *rooms[i].at = rooms[i].count ? (float *)(void *)room : NULL;
        room += padded((size_t)rooms[i].count * sizeof(float));
    }
    return LS_OK;
}

typedef struct attempt {
    dnn_conv *conv;
    cudnnStatus_t status;
} attempt;

static ls_status ask_workspace(void *context)
{
    attempt *a = context;
    a->status = find_workspace(a->conv, &a->conv->workspace_bytes);
    return LS_OK;
}

/* Tries the call with bias and ReLU; if the library does not support that, without. */
static ls_status try_out(void *context)
{
    attempt *a = context;
    a->status = call_on(a->conv, cudaStreamPerThread);
    if (a->conv->fused && ls_dnn_unsupported(a->status)) {
        a->conv->fused = false;
        a->status = call_on(a->conv, cudaStreamPerThread);
    }
    if (a->status)
        cudaGetLastError(); /* the status has it; the next launch must not report it */
    return ls_cuda_check(ls_device_describe(a->conv->device)->text, "try a convolution",
                         cudaStreamSynchronize(cudaStreamPerThread));
}

/* With `auto`, a trial that failed on a device that still works does not fail the run: the failure
 * is recorded in the table's library, which rows state. This does not hold if memory was short,
 * which depends on more than the shape, or if the device failed. */
static ls_status give_way(cuda_kernels *cuda, cudnnStatus_t status, ls_status failure,
                          const char **why)
{
    if (cuda->base.convolution == LS_CONVOLUTION_CUDNN || ls_dnn_lacks_memory(status) ||
        ls_status_is_final(failure))
        return failure;
    *why = "a trial run of the algorithm failed";
    const size_t used = strlen(cuda->library);
    if (!cuda->dnn_failed)
        snprintf(cuda->library + used, sizeof cuda->library - used, " (a trial failed: %s)",
                 cuda->dnn->call.cudnnGetErrorString(status));
    cuda->dnn_failed = true;
    ls_status_free(failure);
    return LS_OK;
}

static ls_status prepare(dnn_conv *c, cuda_kernels *cuda, const char **why)
{
    attempt a = {.conv = c};
    LS_TRY(describe(c));
    LS_TRY(ls_device_call(c->device, ask_workspace, &a));
    if (!a.status) {
        LS_TRY(take_memory(c));
        LS_TRY(ls_device_call(c->device, try_out, &a));
    }
    if (!a.status)
        return LS_OK;
    if (!ls_dnn_unsupported(a.status))
        return give_way(cuda, a.status, ls_cuda_blame(ls_dnn_check(c->dnn, a.status, c->op.name)),
                        why);
    *why = "the requested algorithm does not support this shape";
    return LS_OK;
}

ls_status ls_dnn_conv(ls_kernels *kernels, const ls_conv_task *task, ls_op **out, const char **why)
{
    *why = ls_dnn_refuses(&task->shape);
    if (!*why && !(ls_gpu_takes_fours(task->x) && ls_gpu_takes_fours(task->y) &&
                   ls_gpu_takes_fours(task->dx) && ls_gpu_takes_fours(task->dy)))
        *why = "cuDNN requires tensors that begin at multiples of 16 bytes";
    if (*why)
        return LS_OK;
    dnn_conv *c;
    LS_TRY(ls_allocate("convolution", &c, 1, sizeof *c));
    c->op = (ls_op){.name = "conv_backward_data.cudnn_nhwc_algo1", .run = run, .destroy = destroy};
    if (task->y)
        c->op.name = "conv_forward.cudnn_nhwc_precomp_gemm";
    else if (task->dweight)
        c->op.name = "conv_backward_weights.cudnn_nhwc_algo1";
    c->device = kernels->device;
    c->dnn = ((const cuda_kernels *)kernels)->dnn;
    c->call = task->y ? call_forward : task->dweight ? call_weights : call_data;
    c->t = *task;
    c->math = kernels->math;
    c->fused = task->bias != NULL;
    if (task->dx && task->forward) /* others' begin on fewer bytes than ROOM_ALIGNMENT */
        c->lent = ls_dnn_reordered(task);
    ls_status status = prepare(c, (cuda_kernels *)kernels, why);
    if (status || *why) {
        destroy(&c->op);
        return status;
    }
    if (c->fused)
        c->op.name = "conv_forward.cudnn_nhwc_precomp_gemm_fused";
    *out = &c->op;
    return LS_OK;
}
