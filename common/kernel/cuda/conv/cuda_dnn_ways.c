/* SPDX-License-Identifier: MIT */
/*
 * The ways in which cuDNN is asked for a convolution, and which of them a shape takes: the table
 * below, and nothing that a run measures, so that bits depend on neither the day nor the batch. No
 * line of it has been measured yet: test_gpu_conv_kernels times all ways on the models' shapes and
 * prints what the table is to say.
 *
 * Listed are the algorithms that cudnn_ops.h and cuDNN's documentation (Reproducibility) count as
 * deterministic, but for ..._DIRECT, which the library has no code for.
 * Channels last is how images lie here; for channels first they are transposed before and after,
 * while weights lie so already.
 */
#include "common/kernel/cuda/conv/cuda_conv.h"
#include "common/kernel/cuda/conv/cuda_dnn.h"

#define WAY(operation, layout_text, LAYOUT, algorithm_text, ALGORITHM)                             \
    {                                                                                              \
        .name = layout_text "_" algorithm_text,                                                    \
        .op = {#operation ".cudnn_" layout_text "_" algorithm_text "_fused",                       \
               #operation ".cudnn_" layout_text "_" algorithm_text},                               \
        .layout = LAYOUT, .algorithm = ALGORITHM                                                   \
    }
#define LAST(operation, text, ALGORITHM)  WAY(operation, "nhwc", CUDNN_TENSOR_NHWC, text, ALGORITHM)
#define FIRST(operation, text, ALGORITHM) WAY(operation, "nchw", CUDNN_TENSOR_NCHW, text, ALGORITHM)

static const ls_dnn_way forward[] = {
    LAST(conv_forward, "precomp_gemm", CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM),
    LAST(conv_forward, "implicit_gemm", CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM),
    FIRST(conv_forward, "precomp_gemm", CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM),
    FIRST(conv_forward, "implicit_gemm", CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM),
    FIRST(conv_forward, "gemm", CUDNN_CONVOLUTION_FWD_ALGO_GEMM),
    FIRST(conv_forward, "winograd", CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD),
    FIRST(conv_forward, "winograd_nonfused", CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED),
    FIRST(conv_forward, "fft", CUDNN_CONVOLUTION_FWD_ALGO_FFT),
    FIRST(conv_forward, "fft_tiling", CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING),
};

static const ls_dnn_way weights[] = {
    LAST(conv_backward_weights, "algo1", CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1),
    FIRST(conv_backward_weights, "algo1", CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1),
    FIRST(conv_backward_weights, "winograd_nonfused",
          CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED),
    FIRST(conv_backward_weights, "fft", CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT),
    FIRST(conv_backward_weights, "fft_tiling", CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING),
};

static const ls_dnn_way data[] = {
    LAST(conv_backward_data, "algo1", CUDNN_CONVOLUTION_BWD_DATA_ALGO_1),
    FIRST(conv_backward_data, "algo1", CUDNN_CONVOLUTION_BWD_DATA_ALGO_1),
    FIRST(conv_backward_data, "winograd", CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD),
    FIRST(conv_backward_data, "winograd_nonfused",
          CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED),
    FIRST(conv_backward_data, "fft", CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT),
    FIRST(conv_backward_data, "fft_tiling", CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING),
};

typedef struct way_list {
    const ls_dnn_way *way;
    size_t count;
} way_list;

static const way_list lists[LS_DNN_DIRECTIONS] = {
    [LS_DNN_FORWARD] = {forward, sizeof forward / sizeof *forward},
    [LS_DNN_WEIGHTS] = {weights, sizeof weights / sizeof *weights},
    [LS_DNN_DATA] = {data, sizeof data / sizeof *data},
};

/* A line for each class of shapes: its ways by direction, and the GPU and the version of cuDNN on
 * which they were the fastest; NULL: not measured. */
static const struct {
    const char *class;
    const ls_dnn_way *way[LS_DNN_DIRECTIONS];
    const char *measured;
} table[] = {
    {"few channels", {&forward[0], &weights[0], &data[0]}, NULL}, /* a first layer's: up to 4 */
    {"3 x 3, stride 1", {&forward[0], &weights[0], &data[0]}, NULL},
    {"5 x 5, stride 1", {&forward[0], &weights[0], &data[0]}, NULL},
    {"other", {&forward[0], &weights[0], &data[0]}, NULL}, /* 1 x 1; strides */
};

/* Of the window and the channels alone: how many rows there are must not matter. */
static int class_of(const ls_conv_shape *s)
{
    const ls_window *w = &s->window;
    const bool even = w->stride_y == 1 && w->stride_x == 1 && w->height == w->width;
    if (s->channels <= 4)
        return 0;
    return even && w->height == 3 ? 1 : even && w->height == 5 ? 2 : 3;
}

const ls_dnn_way *ls_dnn_way_at(ls_dnn_direction direction, size_t index)
{
    return index < lists[direction].count ? &lists[direction].way[index] : NULL;
}

const ls_dnn_way *ls_dnn_way_for(ls_dnn_direction direction, const ls_conv_shape *shape)
{
    return table[class_of(shape)].way[direction];
}

const char *ls_dnn_class_of(const ls_conv_shape *shape, const char **measured)
{
    *measured = table[class_of(shape)].measured;
    return table[class_of(shape)].class;
}

/* ---- Shapes that no way takes ---------------------------------------------------------------- */

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
