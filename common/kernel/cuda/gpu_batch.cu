/* SPDX-License-Identifier: MIT */
/*
 * Kernels of a batch and of a step's ends: which samples, their data, how many were classified
 * rightly, the argument block, the time. Not yet run on a GPU.
 */
#include "common/base/order_inline.h"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/element_inline.h"

/* ---- batch_indices: every thread finds its sample by itself ---------------------------------- */

enum { INDEX_THREADS = 64 }; /* a batch of 256 is on four multiprocessors */

__global__ static void __launch_bounds__(INDEX_THREADS)
    indices_kernel(ls_batch_indices_args args, ls_gpu_order order)
{
    const uint64_t first = args.state->position + args.offset, samples = args.order.samples;
    for (int64_t i = ls_gpu_first(); i < args.rows; i += ls_gpu_stride()) {
        const uint64_t position = first + (uint64_t)i, epoch = position / samples;
        const uint32_t place = (uint32_t)(position % samples);
        uint32_t sample = place;
        if (args.order.shuffle) {
            ls_order_keys(order.keys, epoch, order.epoch.key);
            sample = ls_order_sample(&order.epoch, place, order.reciprocal);
        }
        args.indices[i] = sample;
    }
}

int ls_gpu_batch_indices(void *stream, const ls_batch_indices_args *args, const ls_gpu_order *order)
{
    if (!args->rows)
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(args->rows, INDEX_THREADS), INDEX_THREADS,
                         indices_kernel, *args, *order);
}

/* ---- gather ---------------------------------------------------------------------------------- */

struct bytes_to_unit {
    typedef uint8_t from;
    typedef float to;
    __device__ static float convert(uint8_t byte)
    {
        return ls_unit_of_byte(byte);
    }
};

/* float to float and int32 to int32 are both copies of four bytes. */
struct copy_word {
    typedef uint32_t from;
    typedef uint32_t to;
    __device__ static uint32_t convert(uint32_t word)
    {
        return word;
    }
};

/* A thread moves WIDE neighbours of a row; `packs` of these are in a row. */
template <typename How, int WIDE>
__global__ void __launch_bounds__(LS_GPU_THREADS)
    gather_kernel(const typename How::from *source, const uint32_t *indices, typename How::to *out,
                  int64_t rows, int64_t packs)
{
    typedef ls_gpu_pack<typename How::from, WIDE> from_pack;
    typedef ls_gpu_pack<typename How::to, WIDE> to_pack;
    const int64_t all = rows * packs;
    for (int64_t i = ls_gpu_first(); i < all; i += ls_gpu_stride()) {
        const int64_t row = ls_gpu_divide(i, packs), column = i - row * packs;
        const from_pack from = ((const from_pack *)source)[(int64_t)indices[row] * packs + column];
        to_pack to;
#pragma unroll
        for (int k = 0; k < WIDE; k++)
            to.element[k] = How::convert(from.element[k]);
        ((to_pack *)out)[i] = to;
    }
}

template <typename How, int WIDE> static int launch_gather(void *stream, const ls_gather_args *args)
{
    const int64_t packs = args->width / WIDE;
    return ls_gpu_launch(stream, ls_gpu_blocks(args->rows * packs, LS_GPU_THREADS), LS_GPU_THREADS,
                         gather_kernel<How, WIDE>, (const typename How::from *)args->source,
                         args->indices, (typename How::to *)args->out, args->rows, packs);
}

template <typename How> static int gather(void *stream, const ls_gather_args *args)
{
    typedef ls_gpu_pack<typename How::from, 4> from_pack;
    typedef ls_gpu_pack<typename How::to, 4> to_pack;
    if (args->width % 4 == 0 && (uintptr_t)args->source % sizeof(from_pack) == 0 &&
        (uintptr_t)args->out % sizeof(to_pack) == 0)
        return launch_gather<How, 4>(stream, args);
    return launch_gather<How, 1>(stream, args);
}

/* A thread for each of a byte's 256 values. */
__global__ static void __launch_bounds__(LS_GPU_THREADS) one_hot_kernel(ls_gather_args args)
{
    const uint8_t *source = (const uint8_t *)args.source;
    float *out = (float *)args.out;
    const int64_t row_size = args.width * 256, all = args.rows * row_size;
    for (int64_t i = ls_gpu_first(); i < all; i += ls_gpu_stride()) {
        const int64_t row = ls_gpu_divide(i, row_size), at = i - row * row_size;
        out[i] = source[(int64_t)args.indices[row] * args.width + at / 256] == at % 256 ? 1 : 0;
    }
}

int ls_gpu_gather(void *stream, const ls_gather_args *args)
{
    if (!args->rows || !args->width)
        return 0;
    if (args->type == LS_GATHER_ONE_HOT)
        return ls_gpu_launch(stream, ls_gpu_blocks(args->rows * args->width * 256, LS_GPU_THREADS),
                             LS_GPU_THREADS, one_hot_kernel, *args);
    if (args->type == LS_GATHER_BYTES_TO_UNIT)
        return gather<bytes_to_unit>(stream, args);
    return gather<copy_word>(stream, args);
}

/* ---- count_correct --------------------------------------------------------------------------- */

__global__ static void __launch_bounds__(LS_GPU_THREADS) count_kernel(ls_count_correct_args args)
{
    const uint64_t position = args.state->position;
    const float *logits = (const float *)args.logits;
    unsigned long long right = 0;
    for (int64_t r = ls_gpu_first(); r < args.rows; r += ls_gpu_stride()) {
        if (position + (uint64_t)r >= args.samples)
            break;
        const float *z = logits + r * args.classes;
        int64_t best = 0;
        for (int64_t c = 1; c < args.classes; c++)
            best = z[c] > z[best] ? c : best;
        right += args.classes == 1 ? (z[0] > 0) == (args.labels[r] == 1) : best == args.labels[r];
    }
    if (right) /* whole numbers: their sum has no order */
        atomicAdd((unsigned long long *)args.correct, right);
}

int ls_gpu_count_correct(void *stream, const ls_count_correct_args *args)
{
    if (!args->rows || !args->classes)
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(args->rows, LS_GPU_THREADS), LS_GPU_THREADS,
                         count_kernel, *args);
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

enum { FINISH_THREADS = 128 }; /* where there are more losses than one */

__global__ static void __launch_bounds__(FINISH_THREADS)
    finish_kernel(ls_finish_step_args args, unsigned *steps)
{
    const uint64_t place = args.state->record % args.capacity;
    for (uint64_t i = threadIdx.x; i < args.more; i += blockDim.x)
        args.more_losses[place * args.more + i] = args.loss[1 + i];
    __syncthreads();
    if (threadIdx.x)
        return;
    args.records[place].end_ns = ls_gpu_now();
    args.records[place].loss = args.loss ? *args.loss : 0;
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

/* ---- flip_bit -------------------------------------------------------------------------------- */

/* A place and how large the element there is. */
struct candidate {
    float size;
    int64_t place;
};

/* NaN is larger than nothing; at place 0, where a search begins, nothing is larger than NaN. */
__device__ static inline candidate candidate_at(const float *data, int64_t i)
{
    const float size = fabsf(data[i]);
    return candidate{size == size ? size : i ? -1.0f : (float)INFINITY, i};
}

/* The larger; of equals the first. */
__device__ static inline candidate larger(candidate a, candidate b)
{
    return b.size > a.size || (b.size == a.size && b.place < a.place) ? b : a;
}

/* One block: it runs in tests of the checks only. */
__global__ static void __launch_bounds__(LS_GPU_THREADS) flip_kernel(ls_flip_bit_args args)
{
    __shared__ candidate best[LS_GPU_THREADS];
    const unsigned thread = threadIdx.x;
    if (args.state->step != args.step)
        return;
    candidate mine = candidate_at(args.data, thread < args.count ? thread : 0);
    for (int64_t i = (int64_t)thread + blockDim.x; i < args.count; i += blockDim.x)
        mine = larger(mine, candidate_at(args.data, i));
    best[thread] = mine;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half; half /= 2) {
        if (thread < half)
            best[thread] = larger(best[thread], best[thread + half]);
        __syncthreads();
    }
    if (thread == 0) {
        float *element = &args.data[best[0].place];
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
    const int errors[] = {ls_gpu_load_kernel(indices_kernel),
                          ls_gpu_load_kernel(gather_kernel<bytes_to_unit, 4>),
                          ls_gpu_load_kernel(gather_kernel<bytes_to_unit, 1>),
                          ls_gpu_load_kernel(gather_kernel<copy_word, 4>),
                          ls_gpu_load_kernel(gather_kernel<copy_word, 1>),
                          ls_gpu_load_kernel(one_hot_kernel),
                          ls_gpu_load_kernel(count_kernel),
                          ls_gpu_load_kernel(add_loss_kernel),
                          ls_gpu_load_kernel(finish_kernel),
                          ls_gpu_load_kernel(stamp_kernel),
                          ls_gpu_load_kernel(flip_kernel)};
    return ls_gpu_first_failure(errors, sizeof errors / sizeof *errors);
}
