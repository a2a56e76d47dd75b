/* SPDX-License-Identifier: MIT */
/*
 * Kernels over independent elements: activations, sums of two, the optimizers' one fused pass.
 * Arithmetic as written (no contraction), correctly rounded division and square root: the bits are
 * those of the cpu table. Four elements a thread, by 16-byte accesses, where all pointers are
 * aligned to that; the same bits where they are not. Not yet run on a GPU.
 */
#include "common/kernel/cuda/cuda_grid.cuh"
#include "common/kernel/cuda/cuda_launch.h"
#include "common/kernel/step_inline.h"

namespace
{

__global__ void relu_forward(ls_relu_forward_args r)
{
    const float *x = (const float *)r.x;
    float *y = (float *)r.y;
    for (int64_t i = ls_cuda_first(); i < r.count; i += ls_cuda_stride())
        y[i] = x[i] > 0 ? x[i] : 0;
}

__global__ void relu_backward(ls_relu_backward_args r)
{
    const float *y = (const float *)r.y, *dy = (const float *)r.dy;
    float *dx = (float *)r.dx;
    for (int64_t i = ls_cuda_first(); i < r.count; i += ls_cuda_stride())
        dx[i] = y[i] > 0 ? dy[i] : 0;
}

__global__ void polynomial(ls_polynomial_args p)
{
    const float *x = (const float *)p.x;
    float *y = (float *)p.y;
    for (int64_t b = ls_cuda_first(); b < p.rows; b += ls_cuda_stride()) {
        y[3 * b] = x[b] * x[b];
        y[3 * b + 1] = x[b];
        y[3 * b + 2] = 1;
    }
}

__global__ void add(ls_add_args s)
{
    const float *a = (const float *)s.a, *b = (const float *)s.b;
    float *y = (float *)s.y;
    for (int64_t i = ls_cuda_first(); i < s.count; i += ls_cuda_stride())
        y[i] = b ? a[i] + b[i] : a[i];
}

__global__ void fill(ls_fill_args f)
{
    float *y = (float *)f.y;
    const float value = (float)f.value;
    for (int64_t i = ls_cuda_first(); i < f.count; i += ls_cuda_stride())
        y[i] = value;
}

__global__ void bias(cuda_bias_args b)
{
    for (int64_t i = ls_cuda_first(); i < b.rows * b.columns; i += ls_cuda_stride()) {
        const float value = b.bias[i % b.columns];
        b.y[i] = b.relu && !(value > 0) ? 0 : value;
    }
}

/* The scalars of the step, once a block. */
__device__ void begin_update(const ls_optimizer_args *o, ls_update_scalars *shared)
{
    if (threadIdx.x == 0)
        ls_update_begin(o, shared);
    __syncthreads();
}

template <ls_optimizer_kind kind> __global__ void update(ls_optimizer_args o)
{
    __shared__ ls_update_scalars scalars;
    begin_update(&o, &scalars);
    const float *gradient = (const float *)o.gradient;
    float *weight = (float *)o.weight;
    float *first = (float *)o.slot[0], *second = (float *)o.slot[1], none = 0;
    for (int64_t i = ls_cuda_first(); i < o.count; i += ls_cuda_stride())
        ls_update_element(kind, &scalars, gradient[i], &weight[i],
                          kind == LS_OPTIMIZER_SGD ? &none : &first[i],
                          kind == LS_OPTIMIZER_ADAM ? &second[i] : &none);
}

/* Four elements a thread; the last ones, fewer than four, by the last thread of all. */
template <ls_optimizer_kind kind> __global__ void update_vector(ls_optimizer_args o)
{
    __shared__ ls_update_scalars scalars;
    begin_update(&o, &scalars);
    const bool has_first = kind != LS_OPTIMIZER_SGD, has_second = kind == LS_OPTIMIZER_ADAM;
    const float4 zero = make_float4(0, 0, 0, 0);
    const float4 *gradient = (const float4 *)o.gradient;
    float4 *weight = (float4 *)o.weight;
    float4 *first = (float4 *)o.slot[0], *second = (float4 *)o.slot[1];
    for (int64_t i = ls_cuda_first(); i < o.count / 4; i += ls_cuda_stride()) {
        const float4 g = gradient[i];
        float4 w = weight[i], a = has_first ? first[i] : zero, b = has_second ? second[i] : zero;
        ls_update_element(kind, &scalars, g.x, &w.x, &a.x, &b.x);
        ls_update_element(kind, &scalars, g.y, &w.y, &a.y, &b.y);
        ls_update_element(kind, &scalars, g.z, &w.z, &a.z, &b.z);
        ls_update_element(kind, &scalars, g.w, &w.w, &a.w, &b.w);
        weight[i] = w;
        if (has_first)
            first[i] = a;
        if (has_second)
            second[i] = b;
    }
    if (ls_cuda_first() != ls_cuda_stride() - 1)
        return;
    float none = 0;
    for (int64_t i = o.count / 4 * 4; i < o.count; i++)
        ls_update_element(kind, &scalars, ((const float *)o.gradient)[i], &((float *)o.weight)[i],
                          has_first ? &((float *)o.slot[0])[i] : &none,
                          has_second ? &((float *)o.slot[1])[i] : &none);
}

/* Slots that the kind has not are NULL or not looked at; either is no hindrance. */
bool aligned(const ls_optimizer_args *o, int slots)
{
    uintptr_t all = (uintptr_t)o->weight | (uintptr_t)o->gradient;
    for (int i = 0; i < slots; i++)
        all |= (uintptr_t)o->slot[i];
    return all % sizeof(float4) == 0;
}

template <ls_optimizer_kind kind>
cudaError_t launch_update(const ls_optimizer_args *o, int slots, cudaStream_t stream)
{
    if (aligned(o, slots))
        update_vector<kind><<<ls_cuda_blocks((o->count + 3) / 4), LS_CUDA_BLOCK, 0, stream>>>(*o);
    else
        update<kind><<<ls_cuda_blocks(o->count), LS_CUDA_BLOCK, 0, stream>>>(*o);
    return cudaGetLastError();
}

template <ls_optimizer_kind kind> cudaError_t load_update(void)
{
    const cudaError_t error = ls_cuda_load(update<kind>);
    return error == cudaSuccess ? ls_cuda_load(update_vector<kind>) : error;
}

} // namespace

cudaError_t ls_cuda_relu_forward(const void *arguments, const cuda_place *at)
{
    const ls_relu_forward_args *r = (const ls_relu_forward_args *)arguments;
    if (r->count)
        relu_forward<<<ls_cuda_blocks(r->count), LS_CUDA_BLOCK, 0, at->stream>>>(*r);
    return cudaGetLastError();
}

cudaError_t ls_cuda_relu_backward(const void *arguments, const cuda_place *at)
{
    const ls_relu_backward_args *r = (const ls_relu_backward_args *)arguments;
    if (r->count)
        relu_backward<<<ls_cuda_blocks(r->count), LS_CUDA_BLOCK, 0, at->stream>>>(*r);
    return cudaGetLastError();
}

cudaError_t ls_cuda_polynomial(const void *arguments, const cuda_place *at)
{
    const ls_polynomial_args *p = (const ls_polynomial_args *)arguments;
    if (p->rows)
        polynomial<<<ls_cuda_blocks(p->rows), LS_CUDA_BLOCK, 0, at->stream>>>(*p);
    return cudaGetLastError();
}

cudaError_t ls_cuda_add(const void *arguments, const cuda_place *at)
{
    const ls_add_args *s = (const ls_add_args *)arguments;
    if (s->count)
        add<<<ls_cuda_blocks(s->count), LS_CUDA_BLOCK, 0, at->stream>>>(*s);
    return cudaGetLastError();
}

cudaError_t ls_cuda_fill(const void *arguments, const cuda_place *at)
{
    const ls_fill_args *f = (const ls_fill_args *)arguments;
    if (f->count)
        fill<<<ls_cuda_blocks(f->count), LS_CUDA_BLOCK, 0, at->stream>>>(*f);
    return cudaGetLastError();
}

cudaError_t ls_cuda_bias(const void *arguments, const cuda_place *at)
{
    const cuda_bias_args *b = (const cuda_bias_args *)arguments;
    if (b->rows && b->columns)
        bias<<<ls_cuda_blocks(b->rows * b->columns), LS_CUDA_BLOCK, 0, at->stream>>>(*b);
    return cudaGetLastError();
}

cudaError_t ls_cuda_optimizer(const void *arguments, const cuda_place *at)
{
    const ls_optimizer_args *o = (const ls_optimizer_args *)arguments;
    if (!o->count)
        return cudaSuccess;
    switch (o->kind) {
    case LS_OPTIMIZER_SGD:
        return launch_update<LS_OPTIMIZER_SGD>(o, 0, at->stream);
    case LS_OPTIMIZER_MOMENTUM:
        return launch_update<LS_OPTIMIZER_MOMENTUM>(o, 1, at->stream);
    case LS_OPTIMIZER_ADAM:
        return launch_update<LS_OPTIMIZER_ADAM>(o, 2, at->stream);
    case LS_OPTIMIZER_RMSPROP:
        return launch_update<LS_OPTIMIZER_RMSPROP>(o, 1, at->stream);
    }
    return cudaErrorInvalidValue;
}

cudaError_t ls_cuda_load_elementwise(void)
{
    const cudaError_t each[] = {ls_cuda_load(relu_forward),
                                ls_cuda_load(relu_backward),
                                ls_cuda_load(polynomial),
                                ls_cuda_load(add),
                                ls_cuda_load(fill),
                                ls_cuda_load(bias),
                                load_update<LS_OPTIMIZER_SGD>(),
                                load_update<LS_OPTIMIZER_MOMENTUM>(),
                                load_update<LS_OPTIMIZER_ADAM>(),
                                load_update<LS_OPTIMIZER_RMSPROP>()};
    for (cudaError_t error : each)
        if (error != cudaSuccess)
            return error;
    return cudaSuccess;
}
