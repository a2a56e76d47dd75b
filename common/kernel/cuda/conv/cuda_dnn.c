/* SPDX-License-Identifier: MIT */
/* cuDNN's functions, loaded at run time; see cuda_dnn.h. */
#include "common/kernel/cuda/conv/cuda_dnn.h"

#include "common/base/dynamic.h"
#include "common/kernel/cuda/conv/cuda_conv.h"

#include <stdio.h>

#define TEXT_OF(x)  #x
#define VALUE_OF(x) TEXT_OF(x)

/* Versions before 9 were encoded with fewer digits. */
static int version_major(const void *functions)
{
    const size_t version = ((const ls_dnn_functions *)functions)->cudnnGetVersion();
    return (int)(version < 10000 ? version / 1000 : version / 10000);
}

ls_status ls_dnn_load(ls_dnn *out, bool *absent)
{
#define LS_DNN_NAME(name) #name,
    static const char *const symbols[] = {LS_DNN_FUNCTIONS(LS_DNN_NAME) NULL};
#undef LS_DNN_NAME
    static const ls_dynamic library = {
        .name = "cuDNN",
        .file = "libcudnn.so." VALUE_OF(CUDNN_MAJOR),
        .folder = LS_CUDNN_FOLDER,
        .remedy = "install a recent cuDNN " VALUE_OF(
            CUDNN_MAJOR) ", name its folder in LD_LIBRARY_PATH, or use --convolution own",
        .major = CUDNN_MAJOR,
        .find_major = version_major,
        .symbols = symbols};
    *out = (ls_dnn){0};
    ls_status status = ls_dynamic_load(&library, &out->call, &out->library);
    *absent = status && ls_dynamic_absent(&library);
    return status;
}

ls_status ls_dnn_open(ls_dnn *dnn)
{
    return ls_dnn_check(dnn, dnn->call.cudnnCreate(&dnn->handle), "create a handle");
}

void ls_dnn_close(ls_dnn *dnn)
{
    if (dnn->handle)
        dnn->call.cudnnDestroy(dnn->handle);
    ls_dynamic_unload(dnn->library);
    *dnn = (ls_dnn){0};
}

const char *ls_dnn_version_of(const ls_dnn *dnn, char text[32])
{
    const size_t version = dnn->call.cudnnGetVersion();
    snprintf(text, 32, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    return text;
}

ls_status ls_dnn_check(const ls_dnn *dnn, cudnnStatus_t status, const char *what)
{
    char more[256] = "";
    if (status == CUDNN_STATUS_SUCCESS)
        return LS_OK;
    dnn->call.cudnnGetLastErrorString(more, sizeof more);
    return ls_fail(LS_CODE_MISSING, "cuDNN", what,
                   "this function of cuDNN failed: %s (%s); free memory of the GPU, try another "
                   "version of cuDNN, or use --convolution own",
                   dnn->call.cudnnGetErrorString(status), *more ? more : "no details");
}

bool ls_dnn_unsupported(cudnnStatus_t status)
{
    return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
}

bool ls_dnn_lacks_memory(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

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
        return "cuDNN pads both sides equally";
    for (int i = 0; i < 3; i++)
        if (counts[i] < 1 || counts[i] > INT32_MAX)
            return "cuDNN's tensors have 1 to 2^31 - 1 elements";
    return NULL;
}
