/* SPDX-License-Identifier: MIT */
/*
 * Kernels that sum, each in an order that the sizes alone fix: losses, the count of right answers,
 * the sum over rows. Not yet run on a GPU.
 *
 *     softmax        a warp a row: lane l takes classes l, l + 32, ...; then halves of the warp. A
 *                    row's numbers do not depend on how many rows there are
 *     sums in double a block: thread t takes elements t, t + 256, ...; then halves of the block
 *     column sums    in float: part p of 8 takes rows p, p + 8, ... in order; the parts in order
 */
#include "common/device/cuda/cuda_fault.h"
#include "common/kernel/cuda/cuda_grid.cuh"
#include "common/kernel/cuda/cuda_launch.h"

#include <math.h>

namespace
{

enum { WARP = 32, ROWS_A_BLOCK = LS_CUDA_BLOCK / WARP };

__device__ float warp_largest(float value)
{
    for (int half = WARP / 2; half; half /= 2)
        value = fmaxf(value, __shfl_xor_sync(~0u, value, half));
    return value;
}

/* Both of a pair add the same two numbers, so all lanes end with the same bits. */
__device__ float warp_sum(float value)
{
    for (int half = WARP / 2; half; half /= 2)
        value += __shfl_xor_sync(~0u, value, half);
    return value;
}

/* The sum over the block's threads, in thread 0. */
__device__ double block_sum(double value)
{
    __shared__ double parts[LS_CUDA_BLOCK];
    parts[threadIdx.x] = value;
    for (unsigned half = LS_CUDA_BLOCK / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    return parts[0];
}

__global__ void softmax(cuda_softmax_args s, unsigned *fault)
{
    const int64_t classes = s.of.classes, stride = (int64_t)gridDim.x * ROWS_A_BLOCK;
    const int lane = threadIdx.x % WARP;
    for (int64_t b = (int64_t)blockIdx.x * ROWS_A_BLOCK + threadIdx.x / WARP; b < s.of.rows;
         b += stride) {
        const float *z = (const float *)s.of.logits + b * classes;
        const int32_t label = s.of.labels[b];
        const bool valid = label >= 0 && label < classes;
        float largest = -HUGE_VALF, sum = 0;
        for (int64_t c = lane; c < classes; c += WARP)
            largest = fmaxf(largest, z[c]);
        largest = warp_largest(largest);
        for (int64_t c = lane; c < classes; c += WARP)
            sum += expf(z[c] - largest);
        sum = warp_sum(sum);
        if (lane == 0 && !valid)
            *fault = LS_CUDA_FAULT_LABEL;
        if (lane == 0 && s.row_loss)
            s.row_loss[b] = valid ? (double)(logf(sum) - (z[label] - largest)) : 0;
        float *dz = (float *)s.of.dlogits;
        for (int64_t c = lane; dz && valid && c < classes; c += WARP) {
            const float share = expf(z[c] - largest) / sum;
            dz[b * classes + c] = (float)s.of.scale * (share - (c == label ? 1.0f : 0.0f));
        }
    }
}

/* *out = scale * sum of the values. One block. */
__global__ void sum_losses(const double *values, int64_t count, double scale, double *out)
{
    double mine = 0;
    for (int64_t i = threadIdx.x; i < count; i += LS_CUDA_BLOCK)
        mine += values[i];
    mine = block_sum(mine);
    if (threadIdx.x == 0)
        *out = scale * mine;
}

/* One block, also for the differences: the models that end so have few outputs. */
__global__ void squared_error(ls_squared_error_args s)
{
    const float *y = (const float *)s.y, *target = (const float *)s.target;
    float *dy = (float *)s.dy;
    double mine = 0;
    for (int64_t i = threadIdx.x; i < s.rows * s.outputs; i += LS_CUDA_BLOCK) {
        const double difference = (double)y[i] - (double)target[i];
        mine += difference * difference;
        if (dy)
            dy[i] = (float)(s.scale * 2 * difference);
    }
    mine = block_sum(mine);
    if (threadIdx.x == 0 && s.loss)
        *s.loss = s.scale * mine;
}

/* A thread a row; whole numbers, so the order of the additions is no matter. */
__global__ void count_correct(ls_count_correct_args a)
{
    for (int64_t b = ls_cuda_first(); b < a.rows; b += ls_cuda_stride()) {
        if (a.state->position + (uint64_t)b >= a.samples)
            return;
        const float *z = (const float *)a.logits + b * a.classes;
        int64_t best = 0;
        for (int64_t c = 1; c < a.classes; c++)
            if (z[c] > z[best])
                best = c;
        if (a.classes && best == a.labels[b])
            atomicAdd((unsigned long long *)a.correct, 1ull);
    }
}

/* A block is 32 columns and 8 parts of the rows: part p takes rows p, p + 8, ... in order. */
__global__ void column_sum(cuda_column_sum_args c)
{
    __shared__ float parts[ROWS_A_BLOCK][WARP];
    const int64_t column = (int64_t)blockIdx.x * WARP + threadIdx.x % WARP;
    const unsigned part = threadIdx.x / WARP;
    float sum = 0;
    if (column < c.columns)
        for (int64_t r = part; r < c.rows; r += ROWS_A_BLOCK)
            sum += c.data[r * c.columns + column];
    parts[part][threadIdx.x % WARP] = sum;
    __syncthreads();
    if (part || column >= c.columns)
        return;
    for (int p = 1; p < ROWS_A_BLOCK; p++)
        sum += parts[p][threadIdx.x];
    c.sums[column] = sum;
}

} // namespace

cudaError_t ls_cuda_softmax_cross_entropy(const void *arguments, const cuda_place *at)
{
    const cuda_softmax_args *s = (const cuda_softmax_args *)arguments;
    const unsigned blocks = ls_cuda_blocks(s->of.rows * WARP);
    if (blocks)
        softmax<<<blocks, LS_CUDA_BLOCK, 0, at->stream>>>(*s, at->fault);
    if (s->of.loss)
        sum_losses<<<1, LS_CUDA_BLOCK, 0, at->stream>>>(s->row_loss, s->of.rows, s->of.scale,
                                                        s->of.loss);
    return cudaGetLastError();
}

cudaError_t ls_cuda_squared_error(const void *arguments, const cuda_place *at)
{
    squared_error<<<1, LS_CUDA_BLOCK, 0, at->stream>>>(*(const ls_squared_error_args *)arguments);
    return cudaGetLastError();
}

cudaError_t ls_cuda_count_correct(const void *arguments, const cuda_place *at)
{
    const ls_count_correct_args *a = (const ls_count_correct_args *)arguments;
    if (a->rows)
        count_correct<<<ls_cuda_blocks(a->rows), LS_CUDA_BLOCK, 0, at->stream>>>(*a);
    return cudaGetLastError();
}

cudaError_t ls_cuda_column_sum(const void *arguments, const cuda_place *at)
{
    const cuda_column_sum_args *c = (const cuda_column_sum_args *)arguments;
    if (c->columns)
        column_sum<<<(unsigned)((c->columns + WARP - 1) / WARP), LS_CUDA_BLOCK, 0, at->stream>>>(*c);
    return cudaGetLastError();
}

cudaError_t ls_cuda_load_reduce(void)
{
    const cudaError_t each[] = {ls_cuda_load(softmax), ls_cuda_load(sum_losses),
                                ls_cuda_load(squared_error), ls_cuda_load(count_correct),
                                ls_cuda_load(column_sum)};
    for (cudaError_t error : each)
        if (error != cudaSuccess)
            return error;
    return cudaSuccess;
}
