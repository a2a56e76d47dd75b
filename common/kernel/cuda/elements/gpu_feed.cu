/* SPDX-License-Identifier: MIT */
/*
 * The kernel that feeds a batch: sample numbers, and their rows of up to LS_GATHERS arrays in one
 * launch, or each separately. A block handles a piece of a row: one thread computes the sample
 * number, and all threads copy that piece for each array. A row is divided so that each thread has
 * a few accesses.
 */
#include "common/base/random/order_inline.h"
#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/element_inline.h"
#include "common/kernel/step_inline.h"

static const int64_t ROW_PIECES_MOST = 64, ROW_PIECE_ELEMENTS = 4 * LS_GPU_THREADS;

struct feed {
    bool ordered; /* computes the samples; otherwise they are `given` */
    ls_batch_indices_args indices;
    ls_gpu_order order;
    const uint32_t *given;
    int64_t rows, pieces;
    int count;
    ls_gather_args array[LS_GATHERS];
    int64_t width[LS_GATHERS]; /* elements of a row of the output */
};

/* The sample at a position of the endless sequence. */
__device__ static inline uint32_t sample_at(const ls_sample_order &of, const ls_gpu_order &ready,
                                            uint64_t position)
{
    const uint64_t epoch = position / of.samples;
    const uint32_t index = (uint32_t)(position % of.samples);
    if (!of.shuffle)
        return index;
    ls_order_epoch order = ready.epoch;
    ls_order_keys(ready.keys, epoch, order.key);
    return ls_order_sample(&order, index, ready.reciprocal);
}

__device__ static inline uint32_t sample_of(const feed &f, int64_t row)
{
    if (!f.ordered)
        return f.given[row];
    const uint64_t position = f.indices.state->position + f.indices.offset + (uint64_t)row;
    return sample_at(f.indices.order, f.order, position);
}

/* Element `i` of row `row`, whose sample is `sample`. */
__device__ static inline void feed_element(const ls_gather_args &g, int64_t width, int64_t row,
                                           int64_t sample, int64_t i)
{
    const uint8_t *bytes = (const uint8_t *)g.source + sample * g.width;
    const int64_t to = row * width + i;
    if (g.type == LS_GATHER_ONE_HOT)
        ((float *)g.out)[to] = bytes[i / 256] == i % 256 ? 1 : 0;
    else if (g.type == LS_GATHER_BYTES_TO_UNIT)
        ((float *)g.out)[to] = ls_unit_of_byte(bytes[i]);
    else /* float to float, or int32 to int32: 4-byte copies */
        ((uint32_t *)g.out)[to] = ((const uint32_t *)g.source)[sample * g.width + i];
}

__global__ static void __launch_bounds__(LS_GPU_THREADS) feed_kernel(feed f)
{
    __shared__ uint32_t sample;
    for (int64_t at = blockIdx.x; at < f.rows * f.pieces; at += gridDim.x) {
        const int64_t row = ls_gpu_divide(at, f.pieces), piece = at - row * f.pieces;
        if (threadIdx.x == 0) {
            sample = sample_of(f, row);
            if (f.ordered && piece == 0)
                f.indices.indices[row] = sample;
        }
        __syncthreads();
        for (int a = 0; a < f.count; a++)
            for (int64_t i = piece * LS_GPU_THREADS + threadIdx.x; i < f.width[a];
                 i += f.pieces * LS_GPU_THREADS)
                feed_element(f.array[a], f.width[a], row, sample, i);
        __syncthreads(); /* before the next row's sample is written */
    }
}

static int launch_feed(void *stream, feed &f, const ls_gather_args *gathers, int count)
{
    int64_t elements = 0;
    f.count = count;
    for (int i = 0; i < count; i++) {
        f.array[i] = gathers[i];
        f.width[i] = gathers[i].width * (gathers[i].type == LS_GATHER_ONE_HOT ? 256 : 1);
        elements += f.width[i];
    }
    const int64_t pieces = (elements + ROW_PIECE_ELEMENTS - 1) / ROW_PIECE_ELEMENTS;
    f.pieces = pieces < 1 ? 1 : pieces > ROW_PIECES_MOST ? ROW_PIECES_MOST : pieces;
    if (!f.rows || !(elements || f.ordered))
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(f.rows * f.pieces, 1), LS_GPU_THREADS, feed_kernel,
                         f);
}

int ls_gpu_gather_batch(void *stream, const ls_gather_batch_args *args, const ls_gpu_order *order)
{
    feed f = {};
    f.ordered = true;
    f.indices = args->indices;
    f.order = *order;
    f.rows = args->indices.rows;
    return launch_feed(stream, f, args->gather, args->count);
}

int ls_gpu_batch_indices(void *stream, const ls_batch_indices_args *args, const ls_gpu_order *order)
{
    const ls_gather_batch_args alone = {*args, 0, {}};
    return ls_gpu_gather_batch(stream, &alone, order);
}

int ls_gpu_gather(void *stream, const ls_gather_args *args)
{
    feed f = {};
    f.given = args->indices;
    f.rows = args->rows;
    return launch_feed(stream, f, args, 1);
}

/* One block: a thread takes a sample at a time. */
__global__ static void __launch_bounds__(LS_GPU_THREADS)
    set_targets_kernel(ls_set_targets_args args, ls_gpu_order order)
{
    __shared__ int64_t space[LS_GPU_THREADS];
    const uint64_t position = args.state->position;
    int64_t targets = 0;
    for (uint64_t i = threadIdx.x; i < args.count; i += blockDim.x)
        targets += ls_targets_of(
            args.random, sample_at(args.order, order, position + args.first + i), args.whole);
    targets = ls_gpu_block_sum(targets, space);
    if (threadIdx.x == 0)
        *args.scale = 1.0 / (double)targets;
    for (int64_t r = threadIdx.x; r < args.rows; r += blockDim.x) {
        const uint32_t sample = sample_at(args.order, order, position + args.offset + (uint64_t)r);
        const int64_t count = ls_targets_of(args.random, sample, args.whole) - args.begin;
        for (int64_t t = count > 0 ? count : 0; t < args.width; t++)
            args.labels[r * args.width + t] = -1;
    }
}

int ls_gpu_set_targets(void *stream, const ls_set_targets_args *args, const ls_gpu_order *order)
{
    return ls_gpu_launch(stream, 1, LS_GPU_THREADS, set_targets_kernel, *args, *order);
}

int ls_gpu_load_feed(void)
{
    return ls_gpu_load(feed_kernel, set_targets_kernel);
}
