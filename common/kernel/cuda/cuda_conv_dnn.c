/* SPDX-License-Identifier: MIT */
/*
 * Convolutions by cuDNN. Not yet run on a GPU.
 *
 * Its functions of fixed algorithms, which version 9 still has, rather than its graphs, whose
 * engines a heuristic picks: of each direction the one algorithm that takes images and weights
 * channels last in float32 and that its documentation does not name among those without fixed
 * order. So the algorithm depends on nothing, and a shape that it does not take is known when the
 * operation is made, which runs it once: what the library loads is not loaded in a capture.
 * Float32 is CUDNN_FMA_MATH, which leaves tensor cores out; TF32 is what the library may use else.
 *
 * Weights are put into [O, height, width, C] and their gradient back, as for products; bias and
 * ReLU are in the library's forward pass where it takes them, else a pass of our own; the bias's
 * gradient is our column sums. Left out: padding that differs between the sides, which it does not
 * know.
 */
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/cuda_conv.h"
#include "common/kernel/cuda/cuda_dnn.h"

#include <stdint.h>
#include <stdlib.h>

static const cudnnConvolutionFwdAlgo_t forward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
static const cudnnConvolutionBwdDataAlgo_t data = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
static const cudnnConvolutionBwdFilterAlgo_t filter = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

static const float one = 1, zero = 0;

/* Memory of ours begins as cudaMalloc's does; tensors at least as four channels are read. */
enum { ROOM_ALIGNMENT = 256, TENSOR_ALIGNMENT = 16 };

typedef struct dnn_conv {
    ls_op op;
    ls_device *device;
    const ls_dnn *dnn;
    ls_conv_shape shape;
    ls_math math;
    cudnnTensorDescriptor_t image, result, bias_tensor; /* x, dx; y, dy; [O] */
    cudnnFilterDescriptor_t weights;
    cudnnConvolutionDescriptor_t window;
    cudnnActivationDescriptor_t activation;
    /* The library's call, on a stream that has been set. */
    cudnnStatus_t (*call)(const struct dnn_conv *c);
    bool relu;
    bool fused; /* bias and ReLU are in the call */
    size_t workspace_bytes;
    void *memory;       /* of what follows */
    void *workspace;    /* [workspace_bytes] */
    float *packed;      /* [O, height, width, C] */
    const float *given; /* the same, made ready by others; NULL: not */
    float *sums;        /* of columns in pieces */
    const float *x, *dy, *weight, *bias;
    float *y, *dx, *dweight, *dbias; /* of these what the operation makes is not NULL */
} dnn_conv;

/* ---- The library of a table ------------------------------------------------------------------ */

static ls_status open_handle(void *context)
{
    return ls_dnn_open(context);
}

ls_status ls_dnn_find(cuda_kernels *cuda)
{
    ls_dnn *dnn = calloc(1, sizeof *dnn);
    bool absent = false;
    if (!dnn)
        return ls_fail_memory("cuDNN", sizeof *dnn);
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
        cuda->dnn->handle = NULL; /* to destroy it could wait for the device */
    if (cuda->dnn)
        ls_dnn_close(cuda->dnn);
    free(cuda->dnn);
    cuda->dnn = NULL;
}

/* ---- Which shapes ---------------------------------------------------------------------------- */

static bool pads_alike(int64_t in, int64_t out, int64_t window, int64_t stride, int64_t before)
{
    const int64_t room = in + 2 * before - window;
    return room >= 0 && room / stride + 1 == out;
}

const char *ls_dnn_refuses(const ls_conv_shape *s)
{
    const ls_window *w = &s->window;
    const int64_t counts[] = {s->rows * ls_conv_pixels(s) * s->channels,
                              s->rows * ls_conv_positions(s) * s->outputs,
                              s->outputs * ls_conv_taps(s) * s->channels};
    if (!pads_alike(w->in_height, w->out_height, w->height, w->stride_y, w->top) ||
        !pads_alike(w->in_width, w->out_width, w->width, w->stride_x, w->left))
        return "it pads both sides alike";
    for (int i = 0; i < 3; i++)
        if (counts[i] < 1 || counts[i] > INT32_MAX)
            return "its tensors have 1 to 2^31 - 1 elements";
    return NULL;
}

static bool aligned(const void *tensor)
{
    return (uintptr_t)tensor % TENSOR_ALIGNMENT == 0;
}

/* ---- The library's calls --------------------------------------------------------------------- */

static const float *weight_of(const dnn_conv *c)
{
    return c->given ? c->given : c->packed;
}

static cudnnStatus_t call_forward(const dnn_conv *c)
{
    const ls_dnn *d = c->dnn;
    if (!c->fused)
        return d->call.cudnnConvolutionForward(d->handle, &one, c->image, c->x, c->weights,
                                               weight_of(c), c->window, forward, c->workspace,
                                               c->workspace_bytes, &zero, c->result, c->y);
    /* What would be added, times 0, is to be a tensor all the same. */
    return d->call.cudnnConvolutionBiasActivationForward(
        d->handle, &one, c->image, c->x, c->weights, weight_of(c), c->window, forward, c->workspace,
        c->workspace_bytes, &zero, c->result, c->y, c->bias_tensor, c->bias, c->activation,
        c->result, c->y);
}

static cudnnStatus_t call_weights(const dnn_conv *c)
{
    const ls_dnn *d = c->dnn;
    return d->call.cudnnConvolutionBackwardFilter(d->handle, &one, c->image, c->x, c->result, c->dy,
                                                  c->window, filter, c->workspace,
                                                  c->workspace_bytes, &zero, c->weights, c->packed);
}

static cudnnStatus_t call_data(const dnn_conv *c)
{
    const ls_dnn *d = c->dnn;
    return d->call.cudnnConvolutionBackwardData(d->handle, &one, c->weights, weight_of(c),
                                                c->result, c->dy, c->window, data, c->workspace,
                                                c->workspace_bytes, &zero, c->image, c->dx);
}

/* The handle is the table's, and one table may have several queues. */
static cudnnStatus_t call_on(const dnn_conv *c, void *stream)
{
    const cudnnStatus_t status = c->dnn->call.cudnnSetStream(c->dnn->handle, stream);
    return status ? status : c->call(c);
}

static cudnnStatus_t find_workspace(const dnn_conv *c, size_t *out)
{
    const ls_dnn *d = c->dnn;
    if (c->y)
        return d->call.cudnnGetConvolutionForwardWorkspaceSize(d->handle, c->image, c->weights,
                                                               c->window, c->result, forward, out);
    if (c->dweight)
        return d->call.cudnnGetConvolutionBackwardFilterWorkspaceSize(
            d->handle, c->image, c->result, c->window, c->weights, filter, out);
    return d->call.cudnnGetConvolutionBackwardDataWorkspaceSize(d->handle, c->weights, c->result,
                                                                c->window, c->image, data, out);
}

/* ---- A run ----------------------------------------------------------------------------------- */

static ls_status run(ls_op *op, ls_queue *queue)
{
    const dnn_conv *c = (const dnn_conv *)op;
    const ls_conv_shape *s = &c->shape;
    const int64_t positions = s->rows * ls_conv_positions(s);
    void *stream = ls_queue_native(queue);
    if (c->weight && !c->given)
        LS_TRY(
            ls_cuda_launched(op, queue, ls_conv_swap_taps(stream, s, false, c->weight, c->packed)));
    LS_TRY(ls_dnn_check(c->dnn, call_on(c, stream), op->name));
    if (c->dweight)
        LS_TRY(
            ls_cuda_launched(op, queue, ls_conv_swap_taps(stream, s, true, c->packed, c->dweight)));
    if (c->dbias)
        LS_TRY(ls_cuda_launched(
            op, queue,
            ls_gpu_column_sums(stream, c->dy, positions, s->outputs, c->sums, c->dbias)));
    if (c->y && !c->fused && (c->bias || c->relu))
        LS_TRY(ls_cuda_launched(
            op, queue, ls_gpu_bias(stream, c->y, c->bias, positions, s->outputs, c->relu)));
    return LS_OK;
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

/* [rows, height, width, channels] */
static ls_status describe_tensor(const ls_dnn *d, cudnnTensorDescriptor_t *out,
                                 const int64_t size[4])
{
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
    const ls_conv_shape *s = &c->shape;
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
    const ls_window *w = &c->shape.window;
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
    const int64_t bias[] = {1, 1, 1, c->shape.outputs};
    const cudnnActivationMode_t mode = c->relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY;
    LS_TRY(describe_tensor(d, &c->bias_tensor, bias));
    LS_TRY(ls_dnn_check(d, d->call.cudnnCreateActivationDescriptor(&c->activation),
                        "describe an activation"));
    return ls_dnn_check(
        d, d->call.cudnnSetActivationDescriptor(c->activation, mode, CUDNN_NOT_PROPAGATE_NAN, 0),
        "describe an activation");
}

static ls_status describe(dnn_conv *c)
{
    const ls_conv_shape *s = &c->shape;
    const ls_window *w = &s->window;
    const int64_t image[] = {s->rows, w->in_height, w->in_width, s->channels};
    const int64_t result[] = {s->rows, w->out_height, w->out_width, s->outputs};
    LS_TRY(describe_tensor(c->dnn, &c->image, image));
    LS_TRY(describe_tensor(c->dnn, &c->result, result));
    LS_TRY(describe_weights(c));
    LS_TRY(describe_window(c));
    return c->fused ? describe_fusion(c) : LS_OK;
}

/* Bytes, rounded up to where the next memory may begin. */
static size_t padded(size_t bytes)
{
    return (bytes + ROOM_ALIGNMENT - 1) / ROOM_ALIGNMENT * ROOM_ALIGNMENT;
}

static ls_status take_memory(dnn_conv *c)
{
    const ls_conv_shape *s = &c->shape;
    const int64_t weights = s->outputs * ls_conv_taps(s) * s->channels;
    const int64_t pieces = ls_gpu_column_pieces(s->rows * ls_conv_positions(s));
    const size_t workspace = padded(c->workspace_bytes);
    const size_t packed = c->given ? 0 : padded((size_t)weights * sizeof(float));
    const size_t sums = c->dbias ? padded((size_t)(pieces * s->outputs) * sizeof(float)) : 0;
    c->op.workspace = workspace + packed + sums + ROOM_ALIGNMENT;
    LS_TRY(ls_device_allocate(c->device, LS_MEMORY_WORKSPACE, c->op.workspace, &c->memory));
    char *room = (char *)padded((uintptr_t)c->memory);
    c->workspace = c->workspace_bytes ? room : NULL;
    c->packed = (float *)(void *)(room + workspace);
    c->sums = (float *)(void *)(room + workspace + packed);
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

/* With bias and ReLU, and where the library does not take these, without. */
static ls_status try_out(void *context)
{
    attempt *a = context;
    a->status = call_on(a->conv, cudaStreamPerThread);
    if (a->conv->fused && ls_dnn_unsupported(a->status)) {
        a->conv->fused = false;
        a->status = call_on(a->conv, cudaStreamPerThread);
    }
    if (ls_dnn_unsupported(a->status))
        cudaGetLastError(); /* what it may have tried is no failure of ours */
    return ls_cuda_check(ls_device_describe(a->conv->device)->text, "try a convolution",
                         cudaStreamSynchronize(cudaStreamPerThread));
}

static ls_status prepare(dnn_conv *c, const char **why)
{
    attempt a = {.conv = c};
    LS_TRY(describe(c));
    LS_TRY(ls_device_call(c->device, ask_workspace, &a));
    if (!a.status) {
        LS_TRY(take_memory(c));
        LS_TRY(ls_device_call(c->device, try_out, &a));
    }
    if (!ls_dnn_unsupported(a.status))
        return ls_dnn_check(c->dnn, a.status, c->op.name);
    *why = "its algorithm of one fixed order does not take it";
    return LS_OK;
}

/* `names`: with bias and ReLU in the library's call, and without. */
static ls_status make(ls_kernels *kernels, const dnn_conv *like, const char *const names[2],
                      const ls_work *work, ls_op **out, const char **why)
{
    *why = ls_dnn_refuses(&like->shape);
    if (!*why && !(aligned(like->x) && aligned(like->y) && aligned(like->dx) && aligned(like->dy)))
        *why = "its tensors begin on 16 bytes";
    if (*why)
        return LS_OK;
    dnn_conv *c = malloc(sizeof *c);
    if (!c)
        return ls_fail_memory(names[1], sizeof *c);
    *c = *like;
    c->op = (ls_op){.name = names[1],
                    .run = run,
                    .destroy = destroy,
                    .flops = work->flops,
                    .bytes = work->bytes};
    c->device = kernels->device;
    c->dnn = ((const cuda_kernels *)kernels)->dnn;
    c->math = kernels->math;
    c->fused = c->bias && aligned(c->bias);
    ls_status status = prepare(c, why);
    if (status || *why) {
        destroy(&c->op);
        return status;
    }
    c->op.name = names[c->fused ? 0 : 1];
    *out = &c->op;
    return LS_OK;
}

ls_status ls_dnn_conv_forward(ls_kernels *kernels, const ls_conv_forward_args *arguments,
                              ls_op **out, const char **why)
{
    static const char *const names[] = {"conv_forward.cudnn_fused", "conv_forward.cudnn"};
    const ls_conv_forward_args *a = arguments;
    ls_work work;
    LS_TRY(ls_check_conv_forward(a, kernels->table->real_bytes, &work));
    const dnn_conv like = {.shape = a->shape,
                           .call = call_forward,
                           .relu = a->activation == LS_ACTIVATION_RELU,
                           .x = a->x,
                           .weight = a->weight,
                           .bias = a->bias,
                           .y = a->y,
                           .given = a->packed};
    return make(kernels, &like, names, &work, out, why);
}

ls_status ls_dnn_conv_backward_weights(ls_kernels *kernels,
                                       const ls_conv_backward_weights_args *arguments, ls_op **out,
                                       const char **why)
{
    static const char *const names[] = {NULL, "conv_backward_weights.cudnn"};
    const ls_conv_backward_weights_args *a = arguments;
    ls_work work;
    LS_TRY(ls_check_conv_backward_weights(a, kernels->table->real_bytes, &work));
    const dnn_conv like = {.shape = a->shape,
                           .call = call_weights,
                           .x = a->x,
                           .dy = a->dy,
                           .dweight = a->dweight,
                           .dbias = a->dbias};
    return make(kernels, &like, names, &work, out, why);
}

ls_status ls_dnn_conv_backward_data(ls_kernels *kernels,
                                    const ls_conv_backward_data_args *arguments, ls_op **out,
                                    const char **why)
{
    static const char *const names[] = {NULL, "conv_backward_data.cudnn"};
    const ls_conv_backward_data_args *a = arguments;
    ls_work work;
    LS_TRY(ls_check_conv_backward_data(a, kernels->table->real_bytes, &work));
    const dnn_conv like = {.shape = a->shape,
                           .call = call_data,
                           .dy = a->dy,
                           .weight = a->weight,
                           .dx = a->dx,
                           .given = a->packed};
    return make(kernels, &like, names, &work, out, why);
}
