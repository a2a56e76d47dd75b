/* SPDX-License-Identifier: MIT */
/*
 * The build's cuDNN can be loaded, has every function used, and the headers' version; it accepts
 * our descriptors of convolutions, and computes our result sizes for exactly the windows that
 * ls_dnn_refuses accepts. Runs without a GPU; the library then reports that it is unusable. Skipped
 * in a build without cuDNN, or if the library is not installed.
 */
#include "common/kernel/kernel.h"

#include <stdio.h>
#include <string.h>

#if LS_HAS_CUDNN
#include "common/kernel/cuda/conv/cuda_conv.h"
#include "common/kernel/cuda/conv/cuda_dnn.h"

#include <dlfcn.h>

typedef __typeof__(cudnnGetConvolution2dForwardOutputDim) find_size;

typedef struct described {
    cudnnTensorDescriptor_t image;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t window;
} described;

/* The library's result size for an axis, in both directions; -1: it refuses. */
static int size_of(const ls_dnn *dnn, find_size *find, const described *d, const ls_window *w)
{
    int n, c, height, width;
    if (dnn->call.cudnnSetTensor4dDescriptor(d->image, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 2, 3,
                                             (int)w->in_height, (int)w->in_width) ||
        dnn->call.cudnnSetFilter4dDescriptor(d->filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, 16, 3,
                                             (int)w->height, (int)w->width) ||
        dnn->call.cudnnSetConvolution2dDescriptor(d->window, (int)w->top, (int)w->left,
                                                  (int)w->stride_y, (int)w->stride_x, 1, 1,
                                                  CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT) ||
        dnn->call.cudnnSetConvolutionMathType(d->window, CUDNN_FMA_MATH) ||
        find(d->window, d->image, d->filter, &n, &c, &height, &width))
        return -1;
    return n == 2 && c == 16 && height == width ? height : -1;
}

/* All square windows of some sizes; returns on how many the two disagree. */
static int compare_sizes(const ls_dnn *dnn, find_size *find, const described *d)
{
    int wrong = 0, taken = 0;
    for (int64_t at = 0; at < 7 * 5 * 3 * 3 * 9; at++) {
        const int64_t in = 1 + at % 7, window = 1 + at / 7 % 5, stride = 1 + at / 35 % 3;
        const int64_t before = at / 105 % 3, out = 1 + at / 315;
        const ls_conv_shape shape = {
            2, 3, 16, {in, in, out, out, window, window, stride, stride, before, before}};
        const bool ours = !ls_dnn_refuses(&shape);
        const bool theirs = size_of(dnn, find, d, &shape.window) == out;
        taken += ours;
        if (ours != theirs && wrong++ < 9)
            printf("%d of %d, window %d, stride %d, before %d: %s\n", (int)out, (int)in,
                   (int)window, (int)stride, (int)before, ours ? "refused" : "taken");
    }
    printf("%d windows taken, %d wrong\n", taken, wrong);
    return taken ? wrong : 1;
}

static int check_sizes(const ls_dnn *dnn)
{
    described d = {0};
    find_size *find;
    void *symbol = dlsym(dnn->library, "cudnnGetConvolution2dForwardOutputDim");
    memcpy(&find, &symbol, sizeof find);
    if (!symbol || dnn->call.cudnnCreateTensorDescriptor(&d.image) ||
        dnn->call.cudnnCreateFilterDescriptor(&d.filter) ||
        dnn->call.cudnnCreateConvolutionDescriptor(&d.window))
        return 1;
    const int wrong = compare_sizes(dnn, find, &d);
    dnn->call.cudnnDestroyTensorDescriptor(d.image);
    dnn->call.cudnnDestroyFilterDescriptor(d.filter);
    dnn->call.cudnnDestroyConvolutionDescriptor(d.window);
    return wrong;
}

int main(void)
{
    ls_dnn dnn;
    bool absent;
    char version[32];
    ls_status status = ls_dnn_load(&dnn, &absent);
    if (status) {
        puts(ls_status_text(status));
        ls_status_free(status);
        return absent ? 77 : 1;
    }
    const bool right = (int)(dnn.call.cudnnGetVersion() / 10000) == CUDNN_MAJOR;
    const int wrong = check_sizes(&dnn);
    status = ls_dnn_open(&dnn);
    const char *text = ls_status_text(status);
    const bool said =
        !status ||
        strncmp(text, "cuDNN: create a handle: this function of cuDNN failed: CUDNN_STATUS_", 68) ==
            0;
    printf("cuDNN %s, handle: %s\n", ls_dnn_version_of(&dnn, version), text);
    ls_status_free(status);
    ls_dnn_close(&dnn);
    return right && said && !wrong ? 0 : 1;
}
#else
int main(void)
{
    puts("skipped: this build has no cuDNN");
    return 77;
}
#endif
