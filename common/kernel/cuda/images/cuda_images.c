/* SPDX-License-Identifier: MIT */
/* Pools, normalisation, residual networks and data movement of the cuda table: each is a launch. */
#include "common/kernel/cuda/cuda_kernels.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- Sums of images: with memory for their parts --------------------------------------------- */

LS_CUDA_LAUNCH_WITH(bn_sums, &op->parts)
ls_status ls_cuda_bn_sums(ls_kernels *kernels, const ls_bn_sums_args *arguments, ls_op **out)
{
    return ls_cuda_op_parts(kernels, &LS_CUDA_LIKE(bn_sums),
                            ls_gpu_bn_parts(arguments->pixels, arguments->channels),
                            ls_gpu_bn_arrivals(arguments->channels), out);
}

LS_CUDA_LAUNCH_WITH(bn_backward_sums, &op->parts)
ls_status ls_cuda_bn_backward_sums(ls_kernels *kernels, const ls_bn_backward_sums_args *arguments,
                                   ls_op **out)
{
    return ls_cuda_op_parts(kernels, &LS_CUDA_LIKE(bn_backward_sums),
                            ls_gpu_bn_parts(arguments->pixels, arguments->channels),
                            ls_gpu_bn_arrivals(arguments->channels), out);
}

/* ---- Crops, normalisation -------------------------------------------------------------------- */

LS_CUDA_LAUNCH_WITH(gather_crops, op->random)
ls_status ls_cuda_gather_crops(ls_kernels *kernels, const ls_gather_crops_args *arguments,
                               ls_op **out)
{
    const ls_random random = ls_random_stream(arguments->seed, "augment");
    return ls_cuda_op_make(kernels, &LS_CUDA_LIKE(gather_crops, .random = random), out);
}

/* The radius, limited by the number of channels. */
static ls_status lrn_radius(const char *op, int64_t radius, int64_t channels, int *out)
{
    const int64_t whole = channels ? channels - 1 : 0, used = radius < whole ? radius : whole;
    if (used > LS_GPU_LRN_RADIUS_MOST)
        return ls_fail(LS_CODE_USAGE, op, "radius",
                       "the radius %" PRId64 " (of %" PRId64
                       " channels) is too wide for a GPU; give a radius of at most %d",
                       radius, channels, LS_GPU_LRN_RADIUS_MOST);
    *out = (int)used;
    return LS_OK;
}

LS_CUDA_LAUNCH_WITH(lrn_forward, op->radius)
ls_status ls_cuda_lrn_forward(ls_kernels *kernels, const ls_lrn_forward_args *arguments,
                              ls_op **out)
{
    int radius = 0;
    LS_TRY(lrn_radius("lrn_forward", arguments->radius, arguments->channels, &radius));
    return ls_cuda_op_make(kernels, &LS_CUDA_LIKE(lrn_forward, .radius = radius), out);
}

LS_CUDA_LAUNCH_WITH(lrn_backward, op->radius)
ls_status ls_cuda_lrn_backward(ls_kernels *kernels, const ls_lrn_backward_args *arguments,
                               ls_op **out)
{
    int radius = 0;
    LS_TRY(lrn_radius("lrn_backward", arguments->radius, arguments->channels, &radius));
    return ls_cuda_op_make(kernels, &LS_CUDA_LIKE(lrn_backward, .radius = radius), out);
}
