/* SPDX-License-Identifier: MIT */
/*
 * Causal attention on tensor cores (kernel_transformer.h has the formulas); not yet run on a GPU. A
 * block visits the keys up to its queries in tiles of 64, with largest score and sum so far; one of
 * keys and values is copied while the other is multiplied. A result depends on its own head, T and
 * d only.
 */
#include "common/kernel/cuda/transformer/gpu_attention_cores.cuh"

/* For each half of a thread's rows: the largest product so far, and the sum of e^(score - largest
 * score) over the thread's columns. */
struct core_running {
    float largest[2], sum[2];
};

/* The largest value, or the sum, over the four threads of a row, in all of them. */
__device__ static inline float largest_of_four(float value)
{
    value = fmaxf(ls_gpu_exchange(value, 1), value);
    return fmaxf(ls_gpu_exchange(value, 2), value);
}

__device__ static inline float sum_of_four(float value)
{
    value += ls_gpu_exchange(value, 1);
    return value + ls_gpu_exchange(value, 2);
}

/* Products of a tile become shares of the rows' sums so far; y is scaled to the new largest scores.
 * `scale`: of scores to the base of 2. */
template <int WIDTH>
__device__ static inline void take_shares(float scale, core_part<EDGE> &score, core_running &of,
                                          core_part<WIDTH> &y)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float largest = of.largest[half], sum = 0;
#pragma unroll
        for (int i = 0; i < EDGE / 4; i++)
            largest = fmaxf(score.of[i / 2][2 * half + i % 2], largest);
        largest = largest_of_four(largest);
        const float factor = power_of_two((of.largest[half] - largest) * scale);
#pragma unroll
        for (int i = 0; i < EDGE / 4; i++) {
            float &at = score.of[i / 2][2 * half + i % 2];
            at = power_of_two(fmaf(at, scale, -largest * scale));
            sum += at;
        }
#pragma unroll
        for (int i = 0; i < WIDTH / 4; i++)
            y.of[i / 2][2 * half + i % 2] *= factor;
        of.sum[half] = of.sum[half] * factor + sum;
        of.largest[half] = largest;
    }
}

template <typename T, int WIDTH> struct core_space {
    alignas(CORE_BYTES) T queries[EDGE * WIDTH], keys[EDGE * WIDTH], values[EDGE * WIDTH];
};

template <typename N, int WIDTH, bool PACKED>
__global__ static void __launch_bounds__(CORE_THREADS, WIDTH == EDGE ? 3 : 2)
    attention_cores_kernel(ls_attention_forward_args a, float scale)
{
    typedef typename N::T T;
    typedef core_tile<N, WIDTH> tile_of;
    __shared__ core_space<T, WIDTH> s;
    const attention_place p = place_of(a.shape, scale, blockIdx.x, 1, true); /* most keys first */
    const int units = units_of(p), lane = core_lane();
    core_running of = {{-INFINITY, -INFINITY}, {0, 0}};
    core_part<WIDTH> y = {};
    tile_of::template copy<EDGE, PACKED>(core_qkv<T>(p, a.qkv, 0, p.position), p.d, s.queries);
    tile_of::template copy<EDGE, PACKED>(core_qkv<T>(p, a.qkv, 1, 0), p.d, s.keys);
    for (int key = 0; key <= p.position; key += EDGE) {
        core_part<EDGE> score = {};
        ls_gpu_await_copies();
        __syncthreads(); /* the keys are there, the last values have been read */
        tile_of::template copy<EDGE, PACKED>(core_qkv<T>(p, a.qkv, 2, key), p.d, s.values);
        add_channels<N, WIDTH>(s.queries, warp_row(), s.keys, units, score);
        if (key == p.position)
#pragma unroll
            for (int i = 0; i < EDGE / 2; i++)
                if (core_column(lane, i / 4) + i % 2 > core_row(lane, i / 2 % 2))
                    score.of[i / 4][i % 4] = -INFINITY;
        take_shares(scale * LOG2_E, score, of, y);
        ls_gpu_await_copies();
        __syncthreads(); /* the values are there, the keys have been read */
        if (key < p.position)
            tile_of::template copy<EDGE, PACKED>(core_qkv<T>(p, a.qkv, 1, key + EDGE), p.d, s.keys);
        add_positions<N>(score, s.values, units, y);
    }
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int position = p.position + core_row(lane, half);
        const float sum = sum_of_four(of.sum[half]);
        if (threadIdx.x % 4 == 0 && position < p.T)
            ((float *)a.sums)[p.sums + position] =
                of.largest[half] * scale + (float)ls_log_element(sum);
        inverse[half] = 1 / sum;
    }
    put_rows<T, WIDTH, PACKED>(p, a.y, p.C, 0, y, inverse);
}

int ls_gpu_attention_cores_forward(void *stream, const ls_attention_forward_args *args, bool tf32)
{
    static void (*const kernels[])(ls_attention_forward_args,
                                   float) = {attention_cores_kernel<core_stored, EDGE, false>,
                                             attention_cores_kernel<core_stored, EDGE, true>,
                                             attention_cores_kernel<core_stored, 2 * EDGE, false>,
                                             attention_cores_kernel<core_stored, 2 * EDGE, true>,
                                             attention_cores_kernel<core_tf32, EDGE, false>,
                                             attention_cores_kernel<core_tf32, EDGE, true>,
                                             attention_cores_kernel<core_float32, EDGE, false>,
                                             attention_cores_kernel<core_float32, EDGE, true>};
    const ls_attention_shape *s = &args->shape;
    const int64_t blocks = s->rows * s->heads * attention_tiles(s);
    const bool packed =
        has_chunks(s, args->stored, args->qkv) && has_chunks(s, args->stored, args->y);
    return blocks ? ls_gpu_launch(stream, (unsigned)blocks, CORE_THREADS,
                                  kernels[core_kernel(s, args->stored, tf32, packed)], *args,
                                  score_scale(s))
                  : 0;
}

int ls_gpu_load_attention_cores(void)
{
    return ls_gpu_load(attention_cores_kernel<core_stored, EDGE, false>,
                       attention_cores_kernel<core_stored, EDGE, true>,
                       attention_cores_kernel<core_stored, 2 * EDGE, false>,
                       attention_cores_kernel<core_stored, 2 * EDGE, true>,
                       attention_cores_kernel<core_tf32, EDGE, false>,
                       attention_cores_kernel<core_tf32, EDGE, true>,
                       attention_cores_kernel<core_float32, EDGE, false>,
                       attention_cores_kernel<core_float32, EDGE, true>);
}
