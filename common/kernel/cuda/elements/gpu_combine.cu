/* SPDX-License-Identifier: MIT */
/* Combinations of two arrays, elementwise. Compiled without contraction, denormals flushed, so an
 * element has the bits of the cpu table. */
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/cuda/gpu_shares.cuh"

__global__ static void __launch_bounds__(LS_GPU_THREADS) combine_kernel(ls_combine_args s)
{
    const float a = (float)s.a, b = (float)s.b, divisor = (float)s.divisor;
    const float *x = (const float *)s.x, *y = (const float *)s.y;
    for (int64_t i = ls_gpu_first(); i < s.count; i += ls_gpu_stride()) {
        const float ax = a * x[i];
        ((float *)s.out)[i] = (y ? ax + b * y[i] : ax) / divisor;
    }
}

int ls_gpu_combine(void *stream, const ls_combine_args *args)
{
    return ls_gpu_launch_over(stream, args->count, LS_GPU_THREADS, combine_kernel, *args);
}

int ls_gpu_load_combine(void)
{
    return ls_gpu_load(combine_kernel);
}
