/* SPDX-License-Identifier: MIT */
/*
 * Kernels of a batch and of a step's ends: the number of correct classifications, the argument
 * block, the time.
 */
#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/element_inline.h"

/* ---- count_correct --------------------------------------------------------------------------- */

__global__ static void __launch_bounds__(LS_GPU_THREADS) count_kernel(ls_count_correct_args args)
{
    const uint64_t position = args.state->position;
    const float *logits = (const float *)args.logits;
    unsigned long long right = 0;
    for (int64_t r = ls_gpu_first(); r < args.rows; r += ls_gpu_stride()) {
        if (position + (uint64_t)(r / args.targets) >= args.samples)
            break;
        const float *z = logits + r * args.classes;
        int64_t best = 0;
        for (int64_t c = 1; c < args.classes; c++)
            best = z[c] > z[best] ? c : best;
        right += args.classes == 1 ? (z[0] > 0) == (args.labels[r] == 1) : best == args.labels[r];
    }
    if (right) /* integers: the order of their sum does not matter */
        atomicAdd((unsigned long long *)args.correct, right);
}

int ls_gpu_count_correct(void *stream, const ls_count_correct_args *args)
{
    if (!args->rows || !args->classes)
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(args->rows, LS_GPU_THREADS), LS_GPU_THREADS,
                         count_kernel, *args);
}

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    count_parts_kernel(ls_count_parts_args args)
{
    const uint64_t position = args.state->position;
    const float *parts = (const float *)args.parts;
    unsigned long long right = 0;
    for (int64_t r = ls_gpu_first(); r < args.rows; r += ls_gpu_stride()) {
        if (position + (uint64_t)(r / args.targets) >= args.samples)
            break;
        int64_t best = r;
        for (int64_t i = r + args.rows; i < args.slices * args.rows; i += args.rows)
            best = parts[3 * i] > parts[3 * best] ? i : best;
        right += (int64_t)parts[3 * best + 1] == args.labels[r];
    }
    if (right)
        atomicAdd((unsigned long long *)args.correct, right);
}

int ls_gpu_count_parts(void *stream, const ls_count_parts_args *args)
{
    if (!args->rows)
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(args->rows, LS_GPU_THREADS), LS_GPU_THREADS,
                         count_parts_kernel, *args);
}

/* ---- add_loss, finish_step, stamp ------------------------------------------------------------ */

__global__ static void __launch_bounds__(1) add_loss_kernel(ls_add_loss_args args)
{
    *args.out = *args.a + *args.b;
}

int ls_gpu_add_loss(void *stream, const ls_add_loss_args *args)
{
    return ls_gpu_launch(stream, 1, 1, add_loss_kernel, *args);
}

enum { FINISH_THREADS = 128 }; /* for several losses */

__global__ static void __launch_bounds__(FINISH_THREADS)
    finish_kernel(ls_finish_step_args args, unsigned *steps)
{
    const uint64_t index = args.state->record % args.capacity;
    for (uint64_t i = threadIdx.x; i < args.more; i += blockDim.x)
        args.more_losses[index * args.more + i] = args.loss[1 + i];
    __syncthreads();
    if (threadIdx.x)
        return;
    args.records[index].end_ns = ls_gpu_now();
    args.records[index].loss = args.loss ? *args.loss : 0;
    ls_step_advance(args.state, args.batch, &args.schedule);
    if (steps)
        ls_gpu_tell_host(steps, (unsigned)args.state->record);
}

int ls_gpu_finish_step(void *stream, const ls_finish_step_args *args, unsigned *steps)
{
    return ls_gpu_launch(stream, 1, args->more ? FINISH_THREADS : 1, finish_kernel, *args, steps);
}

__global__ static void __launch_bounds__(1) stamp_kernel(uint64_t *time_ns)
{
    *time_ns = ls_gpu_now();
}

int ls_gpu_stamp(void *stream, const ls_stamp_args *args)
{
    return ls_gpu_launch(stream, 1, 1, stamp_kernel, args->time_ns);
}

__global__ static void __launch_bounds__(1) set_first_kernel(ls_set_first_args args)
{
    *args.first = args.state->position + args.offset;
}

int ls_gpu_set_first(void *stream, const ls_set_first_args *args)
{
    return ls_gpu_launch(stream, 1, 1, set_first_kernel, *args);
}

/* ---- flip_bit -------------------------------------------------------------------------------- */

/* An index, and the magnitude of the element there. */
struct candidate {
    float size;
    int64_t index;
};

/* NaN is larger than no other; at index 0, where a search begins, no other is larger than NaN. */
__device__ static inline candidate candidate_at(const float *data, int64_t i)
{
    const float size = fabsf(data[i]);
    return candidate{size == size ? size : i ? -1.0f : (float)INFINITY, i};
}

/* The larger one; the first if equal. */
__device__ static inline candidate larger(candidate a, candidate b)
{
    return b.size > a.size || (b.size == a.size && b.index < a.index) ? b : a;
}

/* One block: only tests of the checks run it. */
__global__ static void __launch_bounds__(LS_GPU_THREADS) flip_kernel(ls_flip_bit_args args)
{
    __shared__ candidate best[LS_GPU_THREADS];
    const unsigned thread = threadIdx.x;
    if (args.state->step != args.step)
        return;
    candidate winner = candidate_at(args.data, thread < args.count ? thread : 0);
    for (int64_t i = (int64_t)thread + blockDim.x; i < args.count; i += blockDim.x)
        winner = larger(winner, candidate_at(args.data, i));
    best[thread] = winner;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        if (thread < half)
            best[thread] = larger(best[thread], best[thread + half]);
        __syncthreads();
    }
    if (thread == 0) {
        float *element = &args.data[best[0].index];
        *element = ls_float_of_bits(ls_bits_of_float(*element) ^ (UINT32_C(1) << 30));
    }
}

int ls_gpu_flip_bit(void *stream, const ls_flip_bit_args *args)
{
    if (!args->count)
        return 0;
    return ls_gpu_launch(stream, 1, LS_GPU_THREADS, flip_kernel, *args);
}

int ls_gpu_load_batch(void)
{
    return ls_gpu_load(count_kernel, count_parts_kernel, add_loss_kernel, finish_kernel,
                       stamp_kernel, set_first_kernel, flip_kernel);
}
