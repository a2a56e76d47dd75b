/* SPDX-License-Identifier: MIT */
/*
 * Convolutions by cuDNN. Not yet run on a GPU.
 *
 * By its functions of fixed algorithms, which version 9 still has, not by its graphs, whose engines
 * a heuristic picks: algorithm and layout come from cuda_dnn_ways.c. Making an operation runs it
 * once. So a shape that the library refuses is known then, and whatever the library loads is loaded
 * before a capture. Float32 is CUDNN_FMA_MATH, which leaves tensor cores out; TF32 is what the
 * library may use else.
 *
 * Weights and bias are copied into the operation's own memory, in the layout's order, and the
 * weights' gradient is copied from there; so are images for channels first. So nothing that the
 * library does depends on where a variable begins. Bias and ReLU are in the library's forward pass
 * where it takes them, else a pass of our own; the bias's gradient is our column sums. Left out:
 * padding that differs between the sides, which cuDNN cannot do.
 */
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/conv/cuda_conv.h"
#include "common/kernel/cuda/conv/cuda_dnn.h"

#include <stdint.h>
#include <stdlib.h>

static const float one = 1, zero = 0;

/* Memory of ours begins as cudaMalloc's does; tensors at least as four channels are read. */
enum { ROOM_ALIGNMENT = 256, TENSOR_ALIGNMENT = 16 };

typedef struct dnn_conv {
    ls_op op;
    ls_device *device;
    const ls_dnn *dnn;
    const ls_dnn_way *way;
    ls_conv_task t;
    ls_math math;
    cudnnTensorDescriptor_t image, result, bias_tensor; /* x, dx; y, dy; [O] */
    cudnnFilterDescriptor_t weights;
    cudnnConvolutionDescriptor_t window;
    cudnnActivationDescriptor_t activation;
    /* The library's call, on a stream that has been set. */
    cudnnStatus_t (*call)(const struct dnn_conv *c);
    bool fused; /* bias and ReLU are in the call */
    size_t workspace_bytes;
    void *memory;                /* of what follows */
    void *workspace;             /* [workspace_bytes] */
    float *packed;               /* weights or their gradient, in the layout's order */
    float *bias_at;              /* [O] */
    float *sums;                 /* of columns in pieces */
    float *image_at, *result_at; /* [rows, channels, pixels]; NULL: as they lie */
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

static bool aligned(const void *tensor)
{
    return (uintptr_t)tensor % TENSOR_ALIGNMENT == 0;
}

/* ---- The library's calls --------------------------------------------------------------------- */

static const float *weight_of(const dnn_conv *c)
{
    return c->t.given ? c->t.given : c->packed;
}

static cudnnStatus_t call_forward(const dnn_conv *c)
{
    const ls_dnn *d = c->dnn;
    const cudnnConvolutionFwdAlgo_t way = (cudnnConvolutionFwdAlgo_t)c->way->algorithm;
    const float *x = c->image_at ? c->image_at : c->t.x;
    float *y = c->result_at ? c->result_at : c->t.y;
    if (!c->fused)
        return d->call.cudnnConvolutionForward(d->handle, &one, c->image, x, c->weights,
                                               weight_of(c), c->window, way, c->workspace,
                                               c->workspace_bytes, &zero, c->result, y);
    /* What would be added, times 0, is to be a tensor all the same. */
    return d->call.cudnnConvolutionBiasActivationForward(
        d->handle, &one, c->image, x, c->weights, weight_of(c), c->window, way, c->workspace,
        c->workspace_bytes, &zero, c->result, y, c->bias_tensor, c->bias_at, c->activation,
        c->result, y);
}

static cudnnStatus_t call_weights(const dnn_conv *c)
{
    const ls_dnn *d = c->dnn;
    return d->call.cudnnConvolutionBackwardFilter(
        d->handle, &one, c->image, c->image_at ? c->image_at : c->t.x, c->result,
        c->result_at ? c->result_at : c->t.dy, c->window,
        (cudnnConvolutionBwdFilterAlgo_t)c->way->algorithm, c->workspace, c->workspace_bytes, &zero,
        c->weights, c->packed);
}

static cudnnStatus_t call_data(const dnn_conv *c)
{
    const ls_dnn *d = c->dnn;
    return d->call.cudnnConvolutionBackwardData(
        d->handle, &one, c->weights, weight_of(c), c->result, c->result_at ? c->result_at : c->t.dy,
        c->window, (cudnnConvolutionBwdDataAlgo_t)c->way->algorithm, c->workspace,
        c->workspace_bytes, &zero, c->image, c->image_at ? c->image_at : c->t.dx);
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
    const int way = c->way->algorithm;
    if (c->t.y)
        return d->call.cudnnGetConvolutionForwardWorkspaceSize(d->handle, c->image, c->weights,
                                                               c->window, c->result,
                                                               (cudnnConvolutionFwdAlgo_t)way, out);
    if (c->t.dweight)
        return d->call.cudnnGetConvolutionBackwardFilterWorkspaceSize(
            d->handle, c->image, c->result, c->window, c->weights,
            (cudnnConvolutionBwdFilterAlgo_t)way, out);
    return d->call.cudnnGetConvolutionBackwardDataWorkspaceSize(
        d->handle, c->weights, c->result, c->window, c->image, (cudnnConvolutionBwdDataAlgo_t)way,
        out);
}

/* ---- A run ----------------------------------------------------------------------------------- */

static bool channels_first(const dnn_conv *c)
{
    return c->way->layout == CUDNN_TENSOR_NCHW;
}

static int copy(void *stream, int64_t count, const float *from, float *to)
{
    return ls_gpu_add(stream, &(ls_add_args){count, from, NULL, to});
}

/* Weights of files, [O, C, height, width], into the layout's order; `back`: from there. */
static int bring_weights(const dnn_conv *c, void *stream, bool back, const float *from, float *to)
{
    const ls_conv_shape *s = &c->t.shape;
    if (channels_first(c))
        return copy(stream, s->outputs * ls_conv_taps(s) * s->channels, from, to);
    return ls_conv_swap_taps(stream, s, back, from, to);
}

/* Images from channels last to channels first; `back`: the other way. Without `from` or `to` there
 * is nothing to bring. */
static int bring_images(const dnn_conv *c, void *stream, int64_t pixels, int64_t channels,
                        bool back, const float *from, float *to)
{
    const ls_transpose_args args = {.batch = c->t.shape.rows,
                                    .rows = back ? channels : pixels,
                                    .columns = back ? pixels : channels,
                                    .x = from,
                                    .y = to};
    return from && to ? ls_gpu_transpose(stream, &args) : 0;
}

/* What the library reads. */
static ls_status bring(const dnn_conv *c, ls_queue *queue)
{
    const ls_conv_shape *s = &c->t.shape;
    void *stream = ls_queue_native(queue);
    const int errors[] = {
        c->t.weight && !c->t.given ? bring_weights(c, stream, false, c->t.weight, c->packed) : 0,
        c->fused ? copy(stream, s->outputs, c->t.bias, c->bias_at) : 0,
        bring_images(c, stream, ls_conv_pixels(s), s->channels, false, c->t.x, c->image_at),
        bring_images(c, stream, ls_conv_positions(s), s->outputs, false, c->t.dy, c->result_at)};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        LS_TRY(ls_cuda_launched(&c->op, queue, errors[i]));
    return LS_OK;
}

/* Copies out what the library wrote, and does what it left. */
static ls_status finish(const dnn_conv *c, ls_queue *queue)
{
    const ls_conv_shape *s = &c->t.shape;
    const int64_t positions = s->rows * ls_conv_positions(s);
    void *stream = ls_queue_native(queue);
    const int errors[] = {
        c->t.dweight ? bring_weights(c, stream, true, c->packed, c->t.dweight) : 0,
        bring_images(c, stream, ls_conv_pixels(s), s->channels, true, c->image_at, c->t.dx),
        bring_images(c, stream, ls_conv_positions(s), s->outputs, true, c->result_at, c->t.y),
        c->t.dbias ? ls_gpu_column_sums(stream, c->t.dy, positions, s->outputs, c->sums, c->t.dbias)
                   : 0};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        LS_TRY(ls_cuda_launched(&c->op, queue, errors[i]));
    if (!c->t.y || c->fused || !(c->t.bias || c->t.relu))
        return LS_OK;
    return ls_cuda_launched(
        &c->op, queue, ls_gpu_bias(stream, c->t.y, c->t.bias, positions, s->outputs, c->t.relu));
}

static ls_status run(ls_op *op, ls_queue *queue)
{
    const dnn_conv *c = (const dnn_conv *)op;
    LS_TRY(bring(c, queue));
    LS_TRY(ls_dnn_check(c->dnn, call_on(c, ls_queue_native(queue)), op->name));
    return finish(c, queue);
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
    return ls_dnn_check(d,
                        d->call.cudnnSetTensor4dDescriptor(*out, c->way->layout, CUDNN_DATA_FLOAT,
                                                           (int)size[0], (int)size[3], (int)size[1],
                                                           (int)size[2]),
                        "describe a tensor");
}

static ls_status describe_weights(dnn_conv *c)
{
    const ls_dnn *d = c->dnn;
    const ls_conv_shape *s = &c->t.shape;
    LS_TRY(ls_dnn_check(d, d->call.cudnnCreateFilterDescriptor(&c->weights), "describe weights"));
    return ls_dnn_check(d,
                        d->call.cudnnSetFilter4dDescriptor(
                            c->weights, CUDNN_DATA_FLOAT, c->way->layout, (int)s->outputs,
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

/* Bytes, rounded up to where the next memory may begin. */
static size_t padded(size_t bytes)
{
    return (bytes + ROOM_ALIGNMENT - 1) / ROOM_ALIGNMENT * ROOM_ALIGNMENT;
}

static ls_status take_memory(dnn_conv *c)
{
    const ls_conv_shape *s = &c->t.shape;
    const bool turned = channels_first(c);
    const int64_t pieces = ls_gpu_column_pieces(s->rows * ls_conv_positions(s));
    const struct {
        float **at;
        int64_t count;
    } rooms[] = {
        {&c->packed, c->t.given ? 0 : s->outputs * ls_conv_taps(s) * s->channels},
        {&c->bias_at, c->fused ? s->outputs : 0},
        {&c->sums, c->t.dbias ? pieces * s->outputs : 0},
        {&c->image_at, turned ? s->rows * ls_conv_pixels(s) * s->channels : 0},
        {&c->result_at, turned ? s->rows * ls_conv_positions(s) * s->outputs : 0},
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

/* With bias and ReLU, and where the library does not take these, without. */
static ls_status try_out(void *context)
{
    attempt *a = context;
    a->status = call_on(a->conv, cudaStreamPerThread);
    if (a->conv->fused && ls_dnn_unsupported(a->status)) {
        a->conv->fused = false;
        a->status = call_on(a->conv, cudaStreamPerThread);
    }
    if (a->status)
        cudaGetLastError(); /* the status tells it; the next launch must not find it */
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
    *why = "the algorithm that it is asked for does not take it";
    return LS_OK;
}

/* Whether bias and ReLU may be the library's. Its call takes a bias alone with one algorithm; with
 * others it need not say so (OpenVINO's plugin for NVIDIA takes its convolutions apart for that).
 */
static bool may_fuse(const ls_conv_task *task, const ls_dnn_way *way)
{
    return task->bias &&
           (task->relu || way->algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
}

ls_status ls_dnn_conv(ls_kernels *kernels, const ls_conv_task *task, ls_op **out, const char **why)
{
    const cuda_kernels *cuda = (const cuda_kernels *)kernels;
    const ls_dnn_direction to = task->y         ? LS_DNN_FORWARD
                                : task->dweight ? LS_DNN_WEIGHTS
                                                : LS_DNN_DATA;
    const ls_dnn_way *way = cuda->dnn_way[to];
    if (!way)
        way = ls_dnn_way_for(to, &task->shape);
    *why = ls_dnn_refuses(&task->shape);
    if (!*why && !(aligned(task->x) && aligned(task->y) && aligned(task->dx) && aligned(task->dy)))
        *why = "its tensors begin on 16 bytes";
    if (*why)
        return LS_OK;
    dnn_conv *c = calloc(1, sizeof *c);
    if (!c)
        return ls_fail_memory(way->op[1], sizeof *c);
    c->op = (ls_op){.name = way->op[1], .run = run, .destroy = destroy};
    c->device = kernels->device;
    c->dnn = cuda->dnn;
    c->way = way;
    c->call = task->y ? call_forward : task->dweight ? call_weights : call_data;
    c->t = *task;
    if (way->layout != CUDNN_TENSOR_NHWC)
        c->t.given = NULL; /* which are in the order of images */
    c->math = kernels->math;
    c->fused = may_fuse(task, way);
    ls_status status = prepare(c, why);
    if (status || *why) {
        destroy(&c->op);
        return status;
    }
    c->op.name = way->op[c->fused ? 0 : 1];
    *out = &c->op;
    return LS_OK;
}
