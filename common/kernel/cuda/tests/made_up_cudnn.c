/* SPDX-License-Identifier: MIT */
/*
 * A fake libcudnn.so.9: the functions that the cuda table calls, as NVIDIA's documentation and
 * header define them, as loops on host memory with sums in double. So the table's loading, checking
 * and calling of cuDNN runs without a GPU. It checks what the table must observe: float32, channels
 * last, an algorithm with a fixed order for these, result sizes for symmetric padding, a stream
 * that was set, workspace as large as stated and aligned to 256 bytes, tensors aligned to 16. It
 * overwrites its workspace. It refuses windows of 4 columns, fuses bias and ReLU only for images
 * with several channels, and one algorithm omits the ReLU. A test may make it corrupt its results,
 * always equally or not.
 */
#include "common/kernel/cuda/tests/made_up_cudnn.h"

#ifdef LOCKSTEP_FAKE_GPU
#include "common/device/fake/fake.h"
#endif

#include <cudnn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

made_up_control made_up_cudnn = {.version = CUDNN_VERSION};

struct cudnnContext {
    cudaStream_t stream;
    bool set;
    int device; /* of a fake GPU */
};
struct cudnnTensorStruct {
    cudnnTensorFormat_t format;
    int n, c, h, w;
};
struct cudnnFilterStruct {
    cudnnTensorFormat_t format;
    int k, c, h, w;
};
struct cudnnActivationStruct {
    cudnnActivationMode_t mode;
};
struct cudnnConvolutionStruct {
    int pad[2], stride[2];
    cudnnMathType_t math;
};

enum { WORKSPACE = 1000 };

static cudnnStatus_t fails(const char *function)
{
    if (made_up_cudnn.fail && strcmp(made_up_cudnn.fail, function) == 0)
        return (cudnnStatus_t)made_up_cudnn.failure;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t create(const char *function, void *out, size_t bytes)
{
    const cudnnStatus_t status = fails(function);
    if (status)
        return status;
    void *made = calloc(1, bytes);
    memcpy(out, &made, sizeof made);
    made_up_cudnn.open++;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t destroy(void *made)
{
    free(made);
    made_up_cudnn.open--;
    return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void)
{
    return made_up_cudnn.version;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_BAD_PARAM         ? "CUDNN_STATUS_BAD_PARAM"
           : status == CUDNN_STATUS_NOT_INITIALIZED ? "CUDNN_STATUS_NOT_INITIALIZED"
                                                    : "CUDNN_STATUS_OF_THE_MADE_UP_LIBRARY";
}

void cudnnGetLastErrorString(char *message, size_t most)
{
    snprintf(message, most, "%s", made_up_cudnn.fail ? made_up_cudnn.fail : "");
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    const cudnnStatus_t status = create(__func__, handle, sizeof **handle);
#ifdef LOCKSTEP_FAKE_GPU
    if (!status)
        (*handle)->device = ls_fake_current();
#endif
    return status;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    return destroy(handle);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    handle->set = true;
    return fails(__func__);
}

/* ---- Descriptions ---------------------------------------------------------------------------- */

#define DESCRIPTOR(kind)                                                                           \
    cudnnStatus_t cudnnCreate##kind##Descriptor(cudnn##kind##Descriptor_t *out)                    \
    {                                                                                              \
        return create(__func__, out, sizeof **out);                                                \
    }                                                                                              \
    cudnnStatus_t cudnnDestroy##kind##Descriptor(cudnn##kind##Descriptor_t made)                   \
    {                                                                                              \
        return destroy(made);                                                                      \
    }
DESCRIPTOR(Tensor)
DESCRIPTOR(Filter)
DESCRIPTOR(Activation)
DESCRIPTOR(Convolution)

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w)
{
    if (type != CUDNN_DATA_FLOAT || n < 1 || c < 1 || h < 1 || w < 1)
        return CUDNN_STATUS_BAD_PARAM;
    *tensor = (struct cudnnTensorStruct){format, n, c, h, w};
    return fails(__func__);
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w)
{
    if (type != CUDNN_DATA_FLOAT || k < 1 || c < 1 || h < 1 || w < 1)
        return CUDNN_STATUS_BAD_PARAM;
    *filter = (struct cudnnFilterStruct){format, k, c, h, w};
    return fails(__func__);
}

cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                                           cudnnActivationMode_t mode, cudnnNanPropagation_t nan,
                                           double coefficient)
{
    (void)nan, (void)coefficient;
    activation->mode = mode;
    return fails(__func__);
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h,
                                              int pad_w, int stride_h, int stride_w, int dilation_h,
                                              int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t type)
{
    if (pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1 || dilation_h != 1 ||
        dilation_w != 1 || mode != CUDNN_CROSS_CORRELATION || type != CUDNN_DATA_FLOAT)
        return CUDNN_STATUS_BAD_PARAM;
    *convolution =
        (struct cudnnConvolutionStruct){{pad_h, pad_w}, {stride_h, stride_w}, CUDNN_DEFAULT_MATH};
    return fails(__func__);
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                          cudnnMathType_t math)
{
    convolution->math = math;
    return fails(__func__);
}

/* ---- What a convolution is ------------------------------------------------------------------- */

/* Algorithms with a fixed reduction order that support channels last. */
static const bool forward[CUDNN_CONVOLUTION_FWD_ALGO_COUNT] = {
    [CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM] = true,
    [CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM] = true};
static const bool data[CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT] = {
    [CUDNN_CONVOLUTION_BWD_DATA_ALGO_1] = true};
static const bool weights[CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT] = {
    [CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1] = true};

/* Its descriptors, and its tensors: x or dx, weights or their gradient, y or dy. */
typedef struct convolution {
    cudnnTensorDescriptor_t image, result;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t window;
    const float *x, *w, *y;
    bool known; /* algorithm is set */
    void *workspace;
} convolution;

static bool fits(int in, int out, int window, int pad, int stride)
{
    return in + 2 * pad >= window && (in + 2 * pad - window) / stride + 1 == out;
}

static cudnnStatus_t check(const convolution *c)
{
    const struct cudnnConvolutionStruct *w = c->window;
    if (c->image->n != c->result->n || c->image->c != c->filter->c ||
        c->result->c != c->filter->k ||
        !fits(c->image->h, c->result->h, c->filter->h, w->pad[0], w->stride[0]) ||
        !fits(c->image->w, c->result->w, c->filter->w, w->pad[1], w->stride[1]))
        return CUDNN_STATUS_BAD_PARAM;
    if (!c->known || c->image->format != CUDNN_TENSOR_NHWC ||
        c->filter->format != CUDNN_TENSOR_NHWC || c->result->format != CUDNN_TENSOR_NHWC)
        return CUDNN_STATUS_BAD_PARAM;
    return c->filter->w == 4 ? CUDNN_STATUS_NOT_SUPPORTED_SHAPE : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t find_workspace(const char *function, const convolution *c, size_t *out)
{
    const cudnnStatus_t status = check(c), failure = fails(function);
    *out = WORKSPACE;
    return failure ? failure : status;
}

/* Called before a run. Both factors must mean overwriting. */
static cudnnStatus_t begin(const char *function, cudnnHandle_t handle, convolution *c,
                           const void *factors[2], void *workspace, size_t bytes)
{
    const cudnnStatus_t status = check(c), failure = fails(function);
    const uintptr_t all = (uintptr_t)c->x | (uintptr_t)c->w | (uintptr_t)c->y;
    float one, zero;
    memcpy(&one, factors[0], sizeof one);
    memcpy(&zero, factors[1], sizeof zero);
    if (failure)
        return failure;
    if (status)
        return status;
    if (!handle->set || bytes != WORKSPACE || (uintptr_t)workspace % 256 || all % 16)
        return CUDNN_STATUS_BAD_PARAM;
    if (one < 1 || one > 1 || zero < 0 || zero > 0)
        return CUDNN_STATUS_BAD_PARAM;
#ifdef LOCKSTEP_FAKE_GPU
    const void *const places[] = {c->x, c->w, c->y, workspace};
    if (handle->device != ls_fake_current() || handle->device != ls_fake_device_of(handle->stream))
        return CUDNN_STATUS_EXECUTION_FAILED;
    for (int i = 0; i < 4; i++)
        if (ls_fake_owner(places[i]) != handle->device)
            ls_fake_refuse("%s on gpu:%d: tensor %d is not its memory", function, handle->device,
                           i);
#endif
    c->workspace = workspace;
    made_up_cudnn.calls++;
    made_up_cudnn.stream = handle->stream;
    return CUDNN_STATUS_SUCCESS;
}

/* A factor as the arithmetic rounds it: TF32 has a mantissa of 10 bits. */
static double factor(const convolution *c, float value)
{
    int exponent;
    const double fraction = frexp((double)value, &exponent);
    return c->window->math == CUDNN_FMA_MATH ? (double)value
                                             : ldexp(rint(fraction * 2048), exponent - 11);
}

/* One product of the convolution: indices into its three tensors. */
typedef struct meeting {
    size_t x, w, y;
} meeting;

/* Offset of an element of a tensor or filter. */
static size_t place_of(const int sizes[3], const int at[4])
{
    return (size_t)(((at[0] * sizes[1] + at[2]) * sizes[2] + at[3]) * sizes[0] + at[1]);
}

/* Calls `meet` for each: y[n,p,q,k] has x[n,p sy - py + r,q sx - px + s,c] w[k,r,s,c]. */
static void each(const convolution *c, void (*meet)(const convolution *, meeting, double *),
                 double *sums)
{
    const struct cudnnTensorStruct *i = c->image, *o = c->result;
    const struct cudnnFilterStruct *f = c->filter;
    for (int n = 0; n < o->n; n++)
        for (int at = 0; at < o->h * o->w * f->h * f->w; at++) {
            const int s = at % f->w, r = at / f->w % f->h, q = at / f->w / f->h % o->w;
            const int p = at / f->w / f->h / o->w;
            const int y = p * c->window->stride[0] - c->window->pad[0] + r;
            const int x = q * c->window->stride[1] - c->window->pad[1] + s;
            if (y < 0 || y >= i->h || x < 0 || x >= i->w)
                continue;
            for (int k = 0; k < f->k; k++)
                for (int ch = 0; ch < f->c; ch++)
                    meet(c,
                         (meeting){
                             place_of((const int[]){i->c, i->h, i->w}, (const int[]){n, ch, y, x}),
                             place_of((const int[]){f->c, f->h, f->w}, (const int[]){k, ch, r, s}),
                             place_of((const int[]){o->c, o->h, o->w}, (const int[]){n, k, p, q})},
                         sums);
        }
}

static void meet_y(const convolution *c, meeting m, double *sums)
{
    sums[m.y] += factor(c, c->x[m.x]) * factor(c, c->w[m.w]);
}

static void meet_w(const convolution *c, meeting m, double *sums)
{
    sums[m.w] += factor(c, c->x[m.x]) * factor(c, c->y[m.y]);
}

static void meet_x(const convolution *c, meeting m, double *sums)
{
    sums[m.x] += factor(c, c->w[m.w]) * factor(c, c->y[m.y]);
}

static double *sum_up(const convolution *c, size_t count,
                      void (*meet)(const convolution *, meeting, double *))
{
    double *sums = calloc(count, sizeof *sums);
    if (!made_up_cudnn.only_counted)
        each(c, meet, sums);
    return sums;
}

/* What remains to do of a call, with copies of its descriptors. */
typedef struct job {
    convolution c;
    struct cudnnTensorStruct image, result;
    struct cudnnFilterStruct filter;
    struct cudnnConvolutionStruct window;
    void (*meet)(const convolution *, meeting, double *);
    size_t count;
    float *out;
    const float *bias; /* NULL: none */
    bool cuts;         /* what is negative */
    int call;          /* its number */
} job;

static void run(void *context)
{
    job *j = context;
    convolution c = j->c;
    c.image = &j->image;
    c.result = &j->result;
    c.filter = &j->filter;
    c.window = &j->window;
    memset(c.workspace, 0x7f, WORKSPACE);
    double *sums = sum_up(&c, j->count, j->meet);
    for (size_t i = 0; i < j->count && j->bias; i++) {
        sums[i] += (double)j->bias[i % (size_t)j->result.c];
        if (j->cuts && !(sums[i] > 0))
            sums[i] = 0;
    }
    sums[j->count / 2] += made_up_cudnn.spoil ? made_up_cudnn.spoil == 1 ? 100 : j->call * 1e-6 : 0;
    for (size_t i = 0; i < j->count; i++)
        j->out[i] = (float)sums[i];
    free(sums);
}

/* At once, or when a fake GPU comes to it. */
static cudnnStatus_t put(const convolution *c, void (*meet)(const convolution *, meeting, double *),
                         size_t count, float *out, const float *bias, bool cuts)
{
    job j = {*c,    *c->image, *c->result, *c->filter, *c->window,         meet,
             count, out,       bias,       cuts,       made_up_cudnn.calls};
#ifdef LOCKSTEP_FAKE_GPU
    const ls_fake_work work = {"a convolution of cuDNN", run, NULL, &j, sizeof j, 0};
    if (ls_fake_enqueue(made_up_cudnn.stream, &work))
        return CUDNN_STATUS_EXECUTION_FAILED;
#else
    run(&j);
#endif
    return CUDNN_STATUS_SUCCESS;
}

static size_t count_tensor(cudnnTensorDescriptor_t t)
{
    return (size_t)t->n * (size_t)t->c * (size_t)t->h * (size_t)t->w;
}

/* ---- Forward --------------------------------------------------------------------------------- */

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t window, const cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, size_t *out)
{
    const convolution c = {
        .image = x, .result = y, .filter = w, .window = window, .known = forward[algorithm]};
    return !handle ? CUDNN_STATUS_BAD_PARAM : find_workspace(__func__, &c, out);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      const cudnnTensorDescriptor_t x_tensor, const void *x,
                                      const cudnnFilterDescriptor_t filter, const void *w,
                                      const cudnnConvolutionDescriptor_t window,
                                      cudnnConvolutionFwdAlgo_t algorithm, void *workspace,
                                      size_t bytes, const void *beta,
                                      const cudnnTensorDescriptor_t y_tensor, void *y)
{
    convolution c = {x_tensor, y_tensor, filter, window, x, w, y, forward[algorithm], NULL};
    const size_t count = count_tensor(y_tensor);
    const cudnnStatus_t status =
        begin(__func__, handle, &c, (const void *[]){alpha, beta}, workspace, bytes);
    return status ? status : put(&c, meet_y, count, y, NULL, false);
}

cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_tensor, const void *x,
    const cudnnFilterDescriptor_t filter, const void *w, const cudnnConvolutionDescriptor_t window,
    cudnnConvolutionFwdAlgo_t algorithm, void *workspace, size_t bytes, const void *beta,
    const cudnnTensorDescriptor_t z_tensor, const void *z,
    const cudnnTensorDescriptor_t bias_tensor, const void *bias,
    const cudnnActivationDescriptor_t activation, const cudnnTensorDescriptor_t y_tensor, void *y)
{
    convolution c = {x_tensor, y_tensor, filter, window, x, w, y, forward[algorithm], NULL};
    const size_t count = count_tensor(y_tensor);
    if (x_tensor->c == 1)
        return CUDNN_STATUS_NOT_SUPPORTED;
    if (!z || z_tensor->c != y_tensor->c || (uintptr_t)bias % 16 || bias_tensor->c != y_tensor->c ||
        bias_tensor->n * bias_tensor->h * bias_tensor->w != 1)
        return CUDNN_STATUS_BAD_PARAM;
    const cudnnStatus_t status =
        begin(__func__, handle, &c, (const void *[]){alpha, beta}, workspace, bytes);
    const bool cuts = activation->mode == CUDNN_ACTIVATION_RELU ||
                      algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    return status ? status : put(&c, meet_y, count, y, bias, cuts);
}

/* ---- Backward -------------------------------------------------------------------------------- */

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t window, const cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algorithm, size_t *out)
{
    const convolution c = {
        .image = dx, .result = dy, .filter = w, .window = window, .known = data[algorithm]};
    return !handle ? CUDNN_STATUS_BAD_PARAM : find_workspace(__func__, &c, out);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                           const cudnnFilterDescriptor_t filter, const void *w,
                                           const cudnnTensorDescriptor_t dy_tensor, const void *dy,
                                           const cudnnConvolutionDescriptor_t window,
                                           cudnnConvolutionBwdDataAlgo_t algorithm, void *workspace,
                                           size_t bytes, const void *beta,
                                           const cudnnTensorDescriptor_t dx_tensor, void *dx)
{
    convolution c = {dx_tensor, dy_tensor, filter, window, dx, w, dy, data[algorithm], NULL};
    const size_t count = count_tensor(dx_tensor);
    const cudnnStatus_t status =
        begin(__func__, handle, &c, (const void *[]){alpha, beta}, workspace, bytes);
    return status ? status : put(&c, meet_x, count, dx, NULL, false);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t window, const cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t *out)
{
    const convolution c = {
        .image = x, .result = dy, .filter = dw, .window = window, .known = weights[algorithm]};
    return !handle ? CUDNN_STATUS_BAD_PARAM : find_workspace(__func__, &c, out);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_tensor, const void *x,
    const cudnnTensorDescriptor_t dy_tensor, const void *dy,
    const cudnnConvolutionDescriptor_t window, cudnnConvolutionBwdFilterAlgo_t algorithm,
    void *workspace, size_t bytes, const void *beta, const cudnnFilterDescriptor_t filter, void *dw)
{
    convolution c = {x_tensor, dy_tensor, filter, window, x, dw, dy, weights[algorithm], NULL};
    const size_t count =
        (size_t)filter->k * (size_t)filter->c * (size_t)filter->h * (size_t)filter->w;
    const cudnnStatus_t status =
        begin(__func__, handle, &c, (const void *[]){alpha, beta}, workspace, bytes);
    return status ? status : put(&c, meet_w, count, dw, NULL, false);
}
