/* SPDX-License-Identifier: MIT */
/* Combinations of two arrays, elementwise; elements to bf16 and back, and functions of such.
 * Compiled without contraction, denormals flushed (but not in integers), so an element has the bits
 * of the cpu table. */
#include "common/base/bf16_inline.h"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/element_inline.h"
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

__global__ static void __launch_bounds__(LS_GPU_THREADS) bf16_kernel(ls_bf16_elements_args s)
{
    for (int64_t i = ls_gpu_first(); i < s.count; i += ls_gpu_stride()) {
        const float a = ls_float_of_bf16(s.a[i]), b = s.b ? ls_float_of_bf16(s.b[i]) : 0;
        const float y = s.function == LS_BF16_GELU            ? ls_gelu_element(a)
                        : s.function == LS_BF16_GELU_BACKWARD ? b * ls_gelu_slope(a)
                        : s.b                                 ? a + b
                                                              : a;
        s.y[i] = ls_bf16_of_float(y);
    }
}

int ls_gpu_bf16_elements(void *stream, const ls_bf16_elements_args *args)
{
    return ls_gpu_launch_over(stream, args->count, LS_GPU_THREADS, bf16_kernel, *args);
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
    return ls_gpu_load(combine_kernel, to_bf16_kernel, of_bf16_kernel, bf16_kernel);
}
