/* SPDX-License-Identifier: MIT */
/* Replaces cuda_conv_dnn.c in a build without cuDNN. */
#include "common/kernel/cuda/conv/cuda_conv.h"

ls_status ls_dnn_find(cuda_kernels *cuda)
{
    if (cuda->base.convolution == LS_CONVOLUTION_CUDNN)
        return ls_fail(LS_CODE_MISSING, "cuDNN", ls_device_describe(cuda->base.device)->text,
                       "cuDNN is not in this build; use --convolution auto or own");
    cuda->dnn_absent = true;
    return LS_OK;
}

void ls_dnn_leave(cuda_kernels *cuda)
{
    (void)cuda;
}

const char *ls_dnn_version_of(const ls_dnn *dnn, char text[32])
{
    (void)dnn;
    return text;
}

const float *ls_dnn_reordered(const ls_conv_task *task)
{
    (void)task;
    return NULL;
}

ls_status ls_dnn_conv(ls_kernels *kernels, const ls_conv_task *task, ls_op **out, const char **why)
{
    (void)kernels, (void)task, (void)out, (void)why;
    return LS_OK;
}
