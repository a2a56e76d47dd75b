/* SPDX-License-Identifier: MIT */
/* Combinations of two arrays, elementwise; and elements to bf16 and back. Compiled without
 * contraction, denormals flushed (but not in integers), so an element has the bits of the cpu
 * table. */
#include "common/base/bf16_inline.h"
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

__global__ static void __launch_bounds__(LS_GPU_THREADS) to_bf16_kernel(ls_narrow_args s)
{
    for (int64_t i = ls_gpu_first(); i < s.count; i += ls_gpu_stride())
        s.y[i] = ls_bf16_of_float(((const float *)s.x)[i]);
}

__global__ static void __launch_bounds__(LS_GPU_THREADS) of_bf16_kernel(ls_widen_args s)
{
    for (int64_t i = ls_gpu_first(); i < s.count; i += ls_gpu_stride())
        ((float *)s.y)[i] = ls_float_of_bf16(s.x[i]);
}

int ls_gpu_narrow(void *stream, const ls_narrow_args *args)
{
    return ls_gpu_launch_over(stream, args->count, LS_GPU_THREADS, to_bf16_kernel, *args);
}

int ls_gpu_widen(void *stream, const ls_widen_args *args)
{
    return ls_gpu_launch_over(stream, args->count, LS_GPU_THREADS, of_bf16_kernel, *args);
}

int ls_gpu_combine(void *stream, const ls_combine_args *args)
{
    return ls_gpu_launch_over(stream, args->count, LS_GPU_THREADS, combine_kernel, *args);
}

int ls_gpu_load_combine(void)
{
    return ls_gpu_load(combine_kernel, to_bf16_kernel, of_bf16_kernel);
}
