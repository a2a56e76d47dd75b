/* SPDX-License-Identifier: MIT */
/*
 * Kernels of softmax cross-entropy in slices of the classes: parts and gradients have the bits of
 * the cpu table. A row of a slice is 16 lanes', class c in lane c % 16, folded by halves; each lane
 * puts the slices of a row together.
 */
#include "common/kernel/cuda/elements/gpu_loss.cuh"
#include "common/kernel/step_inline.h"

enum { PART_LANES = 16 };

/* A row by PART_LANES neighbouring threads; threads without a row (`has_row` is false) write
 * nothing. */
__device__ static inline void part_row(const ls_softmax_part_args &args, int64_t row, bool has_row)
{
    const int lane = (int)(threadIdx.x % PART_LANES);
    const int64_t classes = has_row ? args.classes : 0, none = INT64_MAX;
    const float *z = (const float *)args.logits + row * args.classes;
    float *terms = args.terms ? (float *)args.terms + row * args.classes : NULL;
    const float largest = largest_logit<PART_LANES>(z, classes, lane);
    float sum = 0;
    int64_t best = none;
    for (int64_t c = lane; args.largest && c < classes && best == none; c += PART_LANES)
        best = z[c] == largest ? c : none;
#pragma unroll 8
    for (int64_t c = lane; !args.largest && c < classes; c += PART_LANES) {
        const float term = ls_exp_element(z[c] - largest);
        sum += term;
        if (terms)
            terms[c] = term;
    }
#pragma unroll
    for (int half = PART_LANES / 2; half; half /= 2) {
        const int64_t other = ls_gpu_exchange(best, half);
        best = other < best ? other : best;
        sum += ls_gpu_exchange(sum, half);
    }
    if (!has_row || lane)
        return;
    float *part = (float *)args.part + row * LS_SOFTMAX_PART;
    const int64_t label = args.labels[row], at = label - args.first;
    const bool absent = args.ragged && label == -1, valid = label >= 0 && label < args.all;
    part[0] = largest;
    part[1] = args.largest ? (float)(args.first + (best == none ? args.classes - 1 : best)) : sum;
    part[2] = !valid && !absent ? NAN : valid && at >= 0 && at < args.classes ? z[at] : 0.0F;
}

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    softmax_part_kernel(ls_softmax_part_args args, ls_gpu_fault fault)
{
    const int64_t rows_of_block = blockDim.x / PART_LANES, offset = threadIdx.x / PART_LANES;
    for (int64_t first = blockIdx.x * rows_of_block; first < args.rows;
         first += gridDim.x * rows_of_block) { /* equal iterations in all threads */
        const int64_t row = first + offset;
        const bool has_row = row < args.rows;
        part_row(args, has_row ? row : 0, has_row);
        if (has_row && threadIdx.x % PART_LANES == 0 &&
            (args.labels[row] < (args.ragged ? -1 : 0) || args.labels[row] >= args.all))
            ls_gpu_tell_host(fault.word, fault.value);
    }
}

int ls_gpu_softmax_part(void *stream, const ls_softmax_part_args *args, ls_gpu_fault fault)
{
    return ls_gpu_launch(stream, ls_gpu_blocks(args->rows, LS_GPU_THREADS / PART_LANES),
                         LS_GPU_THREADS, softmax_part_kernel, *args, fault);
}

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    softmax_whole_kernel(ls_softmax_whole_args args, ls_gpu_parts parts)
{
    const double of_step = ls_loss_scale(args.scale_at, args.scale);
    const float *of = (const float *)args.parts;
    const int64_t rows_of_block = blockDim.x / PART_LANES, lane = threadIdx.x % PART_LANES;
    for (int64_t row = blockIdx.x * rows_of_block + threadIdx.x / PART_LANES; row < args.rows;
         row += gridDim.x * rows_of_block) {
        const bool none = args.labels[row] < 0;
        const float scale = none ? 0 : (float)of_step;
        const ls_softmax_row joined = ls_softmax_join(of, args.rows, args.slices, row);
        const float factor = ls_softmax_factor(of, args.slice * args.rows + row, joined, scale);
        const int64_t label = args.labels[row] - args.first;
        float *dz = (float *)args.dlogits + row * args.classes;
        for (int64_t c = lane; args.dlogits && c < args.classes; c += PART_LANES)
            dz[c] = c == label ? dz[c] * factor - scale : dz[c] * factor;
        if (args.loss && lane == 0)
            parts.values[row] =
                none && args.scale_at
                    ? 0
                    : ls_log_element(joined.sum) - (double)(joined.at_label - joined.largest);
    }
    if (args.loss)
        finish_loss(parts, args.rows, of_step, args.loss);
}

int ls_gpu_softmax_whole(void *stream, const ls_softmax_whole_args *args, const ls_gpu_parts *parts)
{
    return ls_gpu_launch(stream, ls_gpu_blocks(args->rows, LS_GPU_THREADS / PART_LANES),
                         LS_GPU_THREADS, softmax_whole_kernel, *args, *parts);
}

int ls_gpu_load_softmax_slices(void)
{
    return ls_gpu_load(softmax_part_kernel, softmax_whole_kernel);
}
