/* SPDX-License-Identifier: MIT */
/*
 * Kernels around a step: which samples, their rows, the end of the step, the time. Integers, copies
 * and one division per byte: the bits are those of the cpu table. Not yet run on a GPU.
 */
#include "common/base/order_inline.h"
#include "common/kernel/cuda/cuda_grid.cuh"
#include "common/kernel/cuda/cuda_launch.h"
#include "common/kernel/step_inline.h"

namespace
{

/* Each thread finds the keys of its sample's epoch: some hundred integer operations, and no list
 * that somebody has to keep. */
__global__ void batch_indices(cuda_indices_args b)
{
    const uint64_t samples = b.of.order.samples;
    for (int64_t i = ls_cuda_first(); i < b.of.rows; i += ls_cuda_stride()) {
        const uint64_t position = b.of.state->position + b.of.offset + (uint64_t)i;
        ls_order_epoch epoch = b.like;
        epoch.epoch = position / samples;
        if (epoch.shuffle)
            ls_order_set_keys(b.random, &epoch);
        b.of.indices[i] = ls_order_sample(&epoch, (uint32_t)(position % samples));
    }
}

template <typename From, typename To> struct copy_of {
    static __device__ To element(From value)
    {
        return value;
    }
};

template <> struct copy_of<uint8_t, float> {
    static __device__ float element(uint8_t value)
    {
        return (float)value / 255.0f;
    }
};

template <typename From, typename To> __global__ void gather(ls_gather_args g)
{
    const From *source = (const From *)g.source;
    To *out = (To *)g.out;
    for (int64_t i = ls_cuda_first(); i < g.rows * g.width; i += ls_cuda_stride()) {
        const int64_t row = i / g.width, column = i % g.width;
        out[i] = copy_of<From, To>::element(source[(int64_t)g.indices[row] * g.width + column]);
    }
}

__device__ uint64_t now_ns(void)
{
    uint64_t time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

__global__ void finish_step(ls_finish_step_args f)
{
    ls_step_end(&f, now_ns());
}

__global__ void stamp(ls_stamp_args s)
{
    *s.time_ns = now_ns();
}

__global__ void add_loss(ls_add_loss_args a)
{
    *a.out = *a.a + *a.b;
}

/* One block. Each thread finds the largest of its elements, the first among equals; then halves of
 * the block are compared. */
__global__ void flip_bit(ls_flip_bit_args f)
{
    __shared__ int64_t best[LS_CUDA_BLOCK];
    if (f.state->step != f.step)
        return;
    int64_t mine = (int64_t)threadIdx.x < f.count ? (int64_t)threadIdx.x : 0;
    for (int64_t i = mine + LS_CUDA_BLOCK; i < f.count; i += LS_CUDA_BLOCK)
        if (fabsf(f.data[i]) > fabsf(f.data[mine]))
            mine = i;
    best[threadIdx.x] = mine;
    for (unsigned half = LS_CUDA_BLOCK / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x >= half)
            continue;
        const int64_t a = best[threadIdx.x], b = best[threadIdx.x + half];
        const float x = fabsf(f.data[a]), y = fabsf(f.data[b]);
        if (y > x || (y == x && b < a))
            best[threadIdx.x] = b;
    }
    if (threadIdx.x == 0)
        f.data[best[0]] = __uint_as_float(__float_as_uint(f.data[best[0]]) ^ (1u << 30));
}

} // namespace

cudaError_t ls_cuda_batch_indices(const void *arguments, const cuda_place *at)
{
    const cuda_indices_args *b = (const cuda_indices_args *)arguments;
    if (b->of.rows)
        batch_indices<<<ls_cuda_blocks(b->of.rows), LS_CUDA_BLOCK, 0, at->stream>>>(*b);
    return cudaGetLastError();
}

cudaError_t ls_cuda_gather(const void *arguments, const cuda_place *at)
{
    const ls_gather_args *g = (const ls_gather_args *)arguments;
    const unsigned blocks = ls_cuda_blocks(g->rows * g->width);
    if (!blocks)
        return cudaSuccess;
    if (g->type == LS_GATHER_BYTES_TO_UNIT)
        gather<uint8_t, float><<<blocks, LS_CUDA_BLOCK, 0, at->stream>>>(*g);
    else if (g->type == LS_GATHER_FLOAT)
        gather<float, float><<<blocks, LS_CUDA_BLOCK, 0, at->stream>>>(*g);
    else
        gather<int32_t, int32_t><<<blocks, LS_CUDA_BLOCK, 0, at->stream>>>(*g);
    return cudaGetLastError();
}

cudaError_t ls_cuda_finish_step(const void *arguments, const cuda_place *at)
{
    finish_step<<<1, 1, 0, at->stream>>>(*(const ls_finish_step_args *)arguments);
    return cudaGetLastError();
}

cudaError_t ls_cuda_stamp(const void *arguments, const cuda_place *at)
{
    stamp<<<1, 1, 0, at->stream>>>(*(const ls_stamp_args *)arguments);
    return cudaGetLastError();
}

cudaError_t ls_cuda_add_loss(const void *arguments, const cuda_place *at)
{
    add_loss<<<1, 1, 0, at->stream>>>(*(const ls_add_loss_args *)arguments);
    return cudaGetLastError();
}

cudaError_t ls_cuda_flip_bit(const void *arguments, const cuda_place *at)
{
    const ls_flip_bit_args *f = (const ls_flip_bit_args *)arguments;
    if (f->count)
        flip_bit<<<1, LS_CUDA_BLOCK, 0, at->stream>>>(*f);
    return cudaGetLastError();
}

cudaError_t ls_cuda_load_batch(void)
{
    const cudaError_t each[] = {ls_cuda_load(batch_indices),
                                ls_cuda_load(gather<uint8_t, float>),
                                ls_cuda_load(gather<float, float>),
                                ls_cuda_load(gather<int32_t, int32_t>),
                                ls_cuda_load(finish_step),
                                ls_cuda_load(stamp),
                                ls_cuda_load(add_loss),
                                ls_cuda_load(flip_bit)};
    for (cudaError_t error : each)
        if (error != cudaSuccess)
            return error;
    return cudaSuccess;
}
