/* SPDX-License-Identifier: MIT */
/*
 * Elementwise kernels: activations, sums of two arrays, the optimizers; the norm of a gradient. One
 * thread computes an element, or four where all arrays begin on 16 bytes, by functions shared with
 * processors (element_inline.h, step_inline.h;
 * compiled without contraction, denormals flushed), so its bits do not depend on where the range
 * starts, and equal the cpu table's.
 */
#include "common/kernel/cuda/gpu_shares.cuh"
#include "common/kernel/element_inline.h"

/* An elementwise operation: OUT arrays from IN arrays. apply() computes one element. */
template <int IN, int OUT> struct arrays {
    enum { INPUTS = IN, OUTPUTS = OUT };
    const float *in[IN + 1]; /* one more: arrays in C++ cannot be empty */
    float *out[OUT];
};

template <typename F> __device__ static inline void do_element(const F &f, int64_t i)
{
    float x[F::INPUTS + 1], y[F::OUTPUTS];
#pragma unroll
    for (int k = 0; k < F::INPUTS; k++)
        x[k] = f.in[k][i];
    f.apply(x, y);
#pragma unroll
    for (int k = 0; k < F::OUTPUTS; k++)
        f.out[k][i] = y[k];
}

/* Elements 4 i to 4 i + 3. */
template <typename F> __device__ static inline void do_four(const F &f, int64_t i)
{
    using four = ls_gpu_pack<float, 4>;
    four in[F::INPUTS + 1], out[F::OUTPUTS];
#pragma unroll
    for (int k = 0; k < F::INPUTS; k++)
        in[k] = ((const four *)f.in[k])[i];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        float x[F::INPUTS + 1], y[F::OUTPUTS];
#pragma unroll
        for (int k = 0; k < F::INPUTS; k++)
            x[k] = in[k].element[j];
        f.apply(x, y);
#pragma unroll
        for (int k = 0; k < F::OUTPUTS; k++)
            out[k].element[j] = y[k];
    }
#pragma unroll
    for (int k = 0; k < F::OUTPUTS; k++)
        ((four *)f.out[k])[i] = out[k];
}

/* Whether all arrays begin on 16 bytes. */
template <typename F> LS_DEVICE_FN bool takes_fours(const F &f)
{
    bool all = true;
    for (int k = 0; k < F::INPUTS; k++)
        all = all && ls_gpu_takes_fours(f.in[k]);
    for (int k = 0; k < F::OUTPUTS; k++)
        all = all && ls_gpu_takes_fours(f.out[k]);
    return all;
}

/* Elements below `count`: fours of them if `fours`, then the rest. */
template <typename F>
__device__ static inline void walk(const F &f, bool fours, int64_t count, int64_t first,
                                   int64_t stride)
{
    const int64_t whole = fours ? count / 4 : 0;
#pragma unroll 1 /* few iterations: computing their number by a division would cost more */
    for (int64_t i = first; i < whole; i += stride)
        do_four(f, i);
#pragma unroll 1
    for (int64_t i = 4 * whole + first; i < count; i += stride)
        do_element(f, i);
}

template <typename F>
__global__ void __launch_bounds__(LS_GPU_THREADS) element_kernel(F f, bool fours, int64_t count)
{
    walk(f, fours, count, ls_gpu_first(), ls_gpu_stride());
}

/* `f` has one output array, `y`, and the given input arrays. */
template <typename F>
static int launch_elements(void *stream, F f, int64_t count, void *y, const void *x = nullptr,
                           const void *x1 = nullptr)
{
    const void *in[] = {x, x1};
    for (int k = 0; k < F::INPUTS; k++)
        f.in[k] = (const float *)in[k];
    f.out[0] = (float *)y;
    const bool fours = takes_fours(f);
    return ls_gpu_launch_over(stream, fours ? count / 4 + count % 4 : count, LS_GPU_THREADS,
                              element_kernel<F>, f, fours, count);
}

/* ---- Activations, add, fill, scale ----------------------------------------------------------- */

struct relu_forward : arrays<1, 1> {
    __device__ void apply(const float *x, float *y) const
    {
        y[0] = ls_relu(x[0]);
    }
};

struct relu_backward : arrays<2, 1> {
    __device__ void apply(const float *x, float *y) const
    {
        y[0] = ls_relu_mask(x[0], x[1]);
    }
};

struct gelu_forward : arrays<1, 1> {
    __device__ void apply(const float *x, float *y) const
    {
        y[0] = ls_gelu_element(x[0]);
    }
};

struct gelu_backward : arrays<2, 1> {
    __device__ void apply(const float *x, float *y) const
    {
        y[0] = x[1] * ls_gelu_slope(x[0]);
    }
};

struct add_two : arrays<2, 1> {
    __device__ void apply(const float *x, float *y) const
    {
        y[0] = x[0] + x[1];
    }
};

struct copy_one : arrays<1, 1> {
    __device__ void apply(const float *x, float *y) const
    {
        y[0] = x[0];
    }
};

struct fill_with : arrays<0, 1> {
    float value;
    __device__ void apply(const float *, float *y) const
    {
        y[0] = value;
    }
};

struct scale_by : arrays<1, 1> {
    float factor;
    const ls_clip *clip; /* whose factor takes its place; NULL if none */
    __device__ void apply(const float *x, float *y) const
    {
        y[0] = (clip ? (float)clip->factor : factor) * x[0];
    }
};

int ls_gpu_relu_forward(void *stream, const ls_relu_forward_args *args)
{
    return launch_elements(stream, relu_forward{}, args->count, args->y, args->x);
}

int ls_gpu_relu_backward(void *stream, const ls_relu_backward_args *args)
{
    return launch_elements(stream, relu_backward{}, args->count, args->dx, args->y, args->dy);
}

int ls_gpu_gelu_forward(void *stream, const ls_gelu_forward_args *args)
{
    return launch_elements(stream, gelu_forward{}, args->count, args->y, args->x);
}

int ls_gpu_gelu_backward(void *stream, const ls_gelu_backward_args *args)
{
    return launch_elements(stream, gelu_backward{}, args->count, args->dx, args->x, args->dy);
}

int ls_gpu_add(void *stream, const ls_add_args *args)
{
    if (!args->b)
        return launch_elements(stream, copy_one{}, args->count, args->y, args->a);
    return launch_elements(stream, add_two{}, args->count, args->y, args->a, args->b);
}

int ls_gpu_fill(void *stream, const ls_fill_args *args)
{
    const fill_with f = {{}, (float)args->value};
    return launch_elements(stream, f, args->count, args->y);
}

int ls_gpu_scale(void *stream, const ls_scale_args *args)
{
    const scale_by f = {{}, (float)args->factor, args->clip};
    return launch_elements(stream, f, args->count, args->y, args->y);
}

/* ---- Polynomial ------------------------------------------------------------------------------ */

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    polynomial_kernel(const float *x, float *y, int64_t rows)
{
    for (int64_t r = ls_gpu_first(); r < rows; r += ls_gpu_stride()) {
        y[3 * r] = x[r] * x[r];
        y[3 * r + 1] = x[r];
        y[3 * r + 2] = 1;
    }
}

int ls_gpu_polynomial(void *stream, const ls_polynomial_args *args)
{
    return ls_gpu_launch_over(stream, args->rows, LS_GPU_THREADS, polynomial_kernel,
                              (const float *)args->x, (float *)args->y, args->rows);
}

/* ---- Optimizers: in[0] weight, in[1] gradient, in[2], in[3] slots; out[0] weight, then slots - */

struct sgd : arrays<2, 1> {
    __device__ static void apply(const ls_update_scalars *s, const float *x, float *y)
    {
        y[0] = ls_sgd_weight(s, x[0], s->clip * x[1]);
    }
};

struct momentum : arrays<3, 2> {
    __device__ static void apply(const ls_update_scalars *s, const float *x, float *y)
    {
        y[1] = ls_momentum_slot(s, x[2], s->clip * x[1]);
        y[0] = ls_sgd_weight(s, x[0], y[1]);
    }
};

struct adam : arrays<4, 3> {
    __device__ static void apply(const ls_update_scalars *s, const float *x, float *y)
    {
        const float gradient = s->clip * x[1];
        y[1] = ls_adam_first(s, x[2], gradient);
        y[2] = ls_square_slot(s, x[3], gradient);
        y[0] = ls_adam_weight(s, x[0], y[1], y[2]);
    }
};

struct adamw : arrays<4, 3> {
    __device__ static void apply(const ls_update_scalars *s, const float *x, float *y)
    {
        const float gradient = s->clip * x[1];
        y[1] = ls_adam_first(s, x[2], gradient);
        y[2] = ls_square_slot(s, x[3], gradient);
        y[0] = ls_adamw_weight(s, x[0], y[1], y[2]);
    }
};

struct rmsprop : arrays<3, 2> {
    __device__ static void apply(const ls_update_scalars *s, const float *x, float *y)
    {
        const float gradient = s->clip * x[1];
        y[1] = ls_square_slot(s, x[2], gradient);
        y[0] = ls_rmsprop_weight(s, x[0], gradient, y[1]);
    }
};

/* An update rule with the current step's scalars. */
template <typename Rule> struct update : Rule {
    ls_update_scalars scalars;
    __device__ void apply(const float *x, float *y) const
    {
        Rule::apply(&scalars, x, y);
    }
};

/* As above, for a gradient to which weight decay is added first; writes that gradient. */
template <typename Rule> struct update_decayed : arrays<Rule::INPUTS, Rule::OUTPUTS + 1> {
    ls_update_scalars scalars;
    float decay;
    __device__ void apply(const float *x, float *y) const
    {
        float decayed[Rule::INPUTS];
#pragma unroll
        for (int k = 0; k < Rule::INPUTS; k++)
            decayed[k] = x[k];
        decayed[1] = y[Rule::OUTPUTS] = x[1] + decay * x[0];
        Rule::apply(&scalars, decayed, y);
    }
};

/* Moves the moving statistics towards the batch's. */
struct update_statistics : arrays<2, 1> {
    float rate;
    __device__ void apply(const float *x, float *y) const
    {
        y[0] = x[0] + rate * (x[1] - x[0]);
    }
};

/* The arrays of `from`, beginning with element `first`. */
template <typename F, typename From>
__device__ static inline void take_arrays(F &f, const From &from, int64_t first)
{
#pragma unroll
    for (int k = 0; k < F::INPUTS; k++)
        f.in[k] = from.in[k] + first;
#pragma unroll
    for (int k = 0; k < F::OUTPUTS && k < From::OUTPUTS; k++)
        f.out[k] = from.out[k] + first;
}

template <typename Rule>
__device__ static inline void update_share(const update<Rule> &all, const ls_update_range &of,
                                           const ls_gpu_share &s)
{
    if (of.keep != 0) {
        update_statistics f;
        take_arrays(f, all, of.first);
        f.rate = (float)(1 - of.keep);
        walk(f, takes_fours(f), of.count, s.first, s.stride);
    } else if (of.decay != 0) {
        update_decayed<Rule> f;
        take_arrays(f, all, of.first);
        f.out[Rule::OUTPUTS] = (float *)f.in[1];
        f.scalars = all.scalars;
        f.decay = (float)of.decay;
        walk(f, takes_fours(f), of.count, s.first, s.stride);
    } else {
        update<Rule> f;
        take_arrays(f, all, of.first);
        f.scalars = all.scalars;
        walk(f, takes_fours(f), of.count, s.first, s.stride);
    }
}

/* Each block computes the step's scalars once: powers and divisions in double. */
template <typename Rule>
__global__ void __launch_bounds__(LS_GPU_THREADS)
    update_kernel(update<Rule> f, ls_optimizer_kind kind, const ls_step_state *state,
                  const ls_clip *clip, ls_gpu_ranges ranges)
{
    __shared__ ls_update_scalars now;
    __shared__ int64_t item;
    if (threadIdx.x == 0) {
        ls_update_scalars scalars = f.scalars;
        ls_update_scalars_set(&scalars, kind, state, clip);
        now = scalars;
    }
    ls_gpu_find_range(ranges, &item);
    __syncthreads();
    f.scalars = now;
    const ls_update_range range = ls_gpu_range_at(ranges, item);
    if (!range.shrinks)
        f.scalars.shrink = 0;
    update_share(f, range, ls_gpu_range_share(ranges, item));
}

template <typename Rule>
static int launch_update(void *stream, const ls_optimizer_args *args, const ls_gpu_ranges *ranges,
                         const ls_update_scalars *scalars)
{
    update<Rule> f = {};
    f.scalars = *scalars;
    f.in[0] = f.out[0] = (float *)args->weight;
    f.in[1] = (const float *)args->gradient;
    for (int k = 0; k + 1 < Rule::OUTPUTS; k++)
        f.in[2 + k] = f.out[1 + k] = (float *)args->slot[k];
    return ls_gpu_launch(stream, (unsigned)ranges->blocks, LS_GPU_THREADS, update_kernel<Rule>, f,
                         args->kind, args->state, args->clip, *ranges);
}

unsigned ls_gpu_optimizer_blocks(int64_t count)
{
    return count ? ls_gpu_blocks(count / 4 + count % 4, LS_GPU_THREADS) : 0;
}

int ls_gpu_optimizer(void *stream, const ls_optimizer_args *args, const ls_gpu_ranges *ranges,
                     const ls_update_scalars *scalars)
{
    if (!ranges->blocks)
        return 0;
    switch (args->kind) {
    case LS_OPTIMIZER_SGD:
        return launch_update<sgd>(stream, args, ranges, scalars);
    case LS_OPTIMIZER_MOMENTUM:
        return launch_update<momentum>(stream, args, ranges, scalars);
    case LS_OPTIMIZER_ADAM:
        return launch_update<adam>(stream, args, ranges, scalars);
    case LS_OPTIMIZER_ADAMW:
        return launch_update<adamw>(stream, args, ranges, scalars);
    case LS_OPTIMIZER_RMSPROP:
        break;
    }
    return launch_update<rmsprop>(stream, args, ranges, scalars);
}

/* ---- The norm of a gradient ------------------------------------------------------------------ */

enum { SQUARE_LANES = 16, FACTOR_THREADS = 1024 };

unsigned ls_gpu_square_blocks(int64_t count)
{
    return (unsigned)ls_square_blocks(count);
}

/* A block of threads a block of elements: all load them, then SQUARE_LANES threads add every
 * SQUARE_LANES-th square, and one thread adds these sums by halves, as the cpu table's loops do. */
__global__ static void __launch_bounds__(LS_GPU_THREADS)
    square_sums_kernel(float *gradient, const float *weight, ls_gpu_ranges ranges, double *sums)
{
    __shared__ float squared[LS_SQUARE_BLOCK];
    __shared__ double lanes[SQUARE_LANES];
    __shared__ int64_t item;
    ls_gpu_find_range(ranges, &item);
    __syncthreads();
    const ls_update_range range = ls_gpu_range_at(ranges, item);
    const int64_t before = ranges.at ? ranges.at[item].block : 0;
    const int64_t first = (blockIdx.x - before) * LS_SQUARE_BLOCK;
    const int64_t most = LS_SQUARE_BLOCK, left = range.count - first, at = range.first + first;
    const int64_t count = left < most ? left : most;
    for (int64_t i = threadIdx.x; i < LS_SQUARE_BLOCK; i += blockDim.x) {
        float g = i < count ? gradient[at + i] : 0;
        if (i < count && range.decay != 0)
            gradient[at + i] = g = g + (float)range.decay * weight[at + i];
        squared[i] = range.keep == 0 ? g : 0;
    }
    __syncthreads();
    if (threadIdx.x < SQUARE_LANES) {
        double sum = 0;
        for (int i = threadIdx.x; i < LS_SQUARE_BLOCK; i += SQUARE_LANES)
            sum += (double)squared[i] * (double)squared[i];
        lanes[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int half = SQUARE_LANES / 2; half; half /= 2)
            for (int i = 0; i < half; i++)
                lanes[i] += lanes[i + half];
        sums[blockIdx.x] = lanes[0];
    }
}

int ls_gpu_square_sums(void *stream, const ls_square_sums_args *args, const ls_gpu_ranges *ranges)
{
    if (!ranges->blocks)
        return 0;
    return ls_gpu_launch(stream, (unsigned)ranges->blocks, LS_GPU_THREADS, square_sums_kernel,
                         (float *)args->gradient, (const float *)args->weight, *ranges, args->sums);
}

/* One block: pairs of neighbours, then pairs of the sums. */
__global__ static void __launch_bounds__(FACTOR_THREADS)
    clip_factor_kernel(ls_clip_factor_args args)
{
    for (int64_t d = 1; d < args.count; d *= 2) {
        for (int64_t i = 2 * d * threadIdx.x; i + d < args.count; i += 2 * d * blockDim.x)
            args.sums[i] += args.sums[i + d];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *args.clip = ls_clip_of(args.count ? args.sums[0] : 0, args.most);
}

int ls_gpu_clip_factor(void *stream, const ls_clip_factor_args *args)
{
    return ls_gpu_launch(stream, 1, FACTOR_THREADS, clip_factor_kernel, *args);
}

int ls_gpu_load_elements(void)
{
    return ls_gpu_load(element_kernel<relu_forward>, element_kernel<relu_backward>,
                       element_kernel<gelu_forward>, element_kernel<gelu_backward>,
                       element_kernel<add_two>, element_kernel<copy_one>, element_kernel<fill_with>,
                       element_kernel<scale_by>, polynomial_kernel, update_kernel<sgd>,
                       update_kernel<momentum>, update_kernel<adam>, update_kernel<adamw>,
                       update_kernel<rmsprop>, square_sums_kernel, clip_factor_kernel);
}
