/* SPDX-License-Identifier: MIT */
/* Dropout: of whole samples a Philox block a thread, which is up to four elements. */
#include "common/base/random/philox_inline.h"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/cuda/gpu_shares.cuh"

/* Dropout of a part of each sample: its elements need not begin or end with a Philox block, so each
 * one computes the block that it lies in. */
__global__ static void __launch_bounds__(LS_GPU_THREADS) dropout_part_kernel(ls_dropout_args args)
{
    const float *x = (const float *)args.x;
    float *y = (float *)args.y;
    for (int64_t i = ls_gpu_first(); i < args.rows * args.width; i += ls_gpu_stride()) {
        const uint64_t sample = *args.first + (uint64_t)(i / args.width);
        const uint64_t index =
            sample * (uint64_t)args.whole + (uint64_t)(args.begin + i % args.width);
        y[i] = ls_random_word(args.random, index) >= args.threshold ? x[i] * args.factor : 0;
    }
}

__global__ static void __launch_bounds__(LS_GPU_THREADS) dropout_kernel(ls_dropout_args args)
{
    const float *x = (const float *)args.x;
    float *y = (float *)args.y;
    const int64_t count = args.rows * args.width;
    const uint64_t begin = *args.first * (uint64_t)args.width, skip = begin % 4;
    for (int64_t b = ls_gpu_first(); 4 * b < count + (int64_t)skip; b += ls_gpu_stride()) {
        uint32_t words[4];
        ls_random_block(args.random, begin / 4 + (uint64_t)b, words);
        for (int k = 0; k < 4; k++) {
            const int64_t i = 4 * b + k - (int64_t)skip;
            if (i >= 0 && i < count)
                y[i] = words[k] >= args.threshold ? x[i] * args.factor : 0;
        }
    }
}

int ls_gpu_dropout(void *stream, const ls_dropout_args *args)
{
    const int64_t count = args->rows * args->width;
    return args->whole == args->width
               ? ls_gpu_launch_over(stream, count / 4 + 2, LS_GPU_THREADS, dropout_kernel, *args)
               : ls_gpu_launch_over(stream, count, LS_GPU_THREADS, dropout_part_kernel, *args);
}

int ls_gpu_load_dropout(void)
{
    return ls_gpu_load(dropout_kernel, dropout_part_kernel);
}
