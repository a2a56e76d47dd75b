/* SPDX-License-Identifier: MIT */
/*
 * Kernels of an LSTM's recurrence with few states, at most LS_GPU_LSTM_FEW. Not yet run on a GPU.
 *
 * A block takes one sample, or four where there are many, through all steps by itself. A thread has
 * one element of one gate and holds its weights in registers; states and gates pass from thread to
 * thread in shared memory, a sample's cell stays in a register, and what the next step reads from
 * memory is asked for a step ahead. So a step costs the chain of its sums and two barriers. Sums
 * are those of gpu_lstm.cu, in the order of their terms: the bits are the same, and do not depend
 * on the other samples. States that a model lacks are zeros, and add nothing.
 */
#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/sequences/gpu_lstm.cuh"
#include "common/kernel/element_inline.h"

namespace
{

enum { UNITS = LS_GPU_LSTM_FEW, LSTM_GATES = 4, LSTM_THREADS = UNITS * LSTM_GATES };

/* weight[u] of this thread: what state u adds to element `unit` of its gate. The weights come in
 * whole lines, a gate at a time, and leave by columns. */
__device__ inline void hold_weights(const ls_gpu_lstm &l, int gate, int unit, float weight[UNITS])
{
    __shared__ float tile[UNITS][UNITS + 1];
    const int H = (int)l.shape.hidden;
    for (int g = 0; g < LSTM_GATES; g++) {
        __syncthreads();
        for (int first = 0; first < UNITS; first += LSTM_GATES) {
            const int row = first + gate;
            tile[row][unit] = row < H && unit < H ? l.weight[(g * H + row) * H + unit] : 0;
        }
        __syncthreads();
        if (gate != g)
            continue;
#pragma unroll
        for (int u = 0; u < UNITS; u++)
            weight[u] = tile[unit][u];
    }
}

/* sum[r] += terms of sample r times this thread's weights. */
template <int ROWS>
__device__ inline void add_products(const float (*terms)[UNITS], const float weight[UNITS],
                                    float sum[ROWS])
{
#pragma unroll
    for (int u = 0; u < UNITS; u++)
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            sum[r] = fmaf(terms[r][u], weight[u], sum[r]);
}

/* The inputs' share of this thread's element in a step; past the end 0. */
template <int ROWS>
__device__ inline void read_share(const ls_gpu_lstm &l, int64_t row, int64_t t, int64_t k,
                                  bool mine, float share[ROWS])
{
    const int64_t T = l.shape.steps, size = LSTM_GATES * l.shape.hidden;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        share[r] =
            mine && t < T && row + r < l.shape.rows ? l.gates[((row + r) * T + t) * size + k] : 0;
}

template <int ROWS>
__global__ void __launch_bounds__(LSTM_THREADS) lstm_few_kernel(ls_gpu_lstms all)
{
    alignas(16) __shared__ float state[ROWS][UNITS];
    __shared__ float gates[ROWS][LSTM_GATES][UNITS];
    const ls_gpu_lstm l = ls_gpu_lstm_of_block(all);
    const int64_t H = l.shape.hidden, T = l.shape.steps, size = LSTM_GATES * H;
    const int gate = (int)threadIdx.x / UNITS, unit = (int)threadIdx.x % UNITS;
    const bool mine = unit < H;
    const int64_t k = gate * H + unit;
    const float bias = mine ? l.bias[k] : 0;
    float weight[UNITS];
    hold_weights(l, gate, unit, weight);
    for (int64_t row = ls_gpu_lstm_block(all) * ROWS; row < l.shape.rows;
         row += (int64_t)all.blocks * ROWS) {
        const bool has_cell = gate < ROWS && mine && row + gate < l.shape.rows;
        float cell = 0, next[ROWS];
        if (gate < ROWS)
            state[gate][unit] = 0;
        read_share<ROWS>(l, row, 0, k, mine, next);
        __syncthreads();
        for (int64_t t = 0; t < T; t++) {
            float share[ROWS], sum[ROWS] = {};
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                share[r] = next[r];
            read_share<ROWS>(l, row, t + 1, k, mine, next);
            if (t)
                add_products<ROWS>(state, weight, sum);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const float z = sum[r] + (share[r] + bias);
                const float g = gate == 2 ? ls_tanh_element(z) : ls_sigmoid_element(z);
                gates[r][gate][unit] = g;
                if (mine && row + r < l.shape.rows)
                    l.gates[((row + r) * T + t) * size + k] = g;
            }
            __syncthreads();
            if (has_cell) {
                const float(*g)[UNITS] = gates[gate];
                cell = g[1][unit] * cell + g[0][unit] * g[2][unit];
                const float h = g[3][unit] * ls_tanh_element(cell);
                l.cells[((row + gate) * T + t) * H + unit] = cell;
                ls_gpu_lstm_leave(l, row + gate, t, unit, h);
                state[gate][unit] = h;
            }
            __syncthreads();
        }
    }
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* What a step's cell needs of the forward pass. */
struct kept_step {
    float i, f, g, o, cell, before, dy;
};

__device__ inline kept_step read_kept(const ls_gpu_lstm &l, int64_t row, int64_t t, int64_t j)
{
    const int64_t H = l.shape.hidden, T = l.shape.steps, at = row * T + t;
    const float *gate = &l.gates[at * LSTM_GATES * H + j];
    kept_step kept = {};
    kept.i = gate[0], kept.f = gate[H], kept.g = gate[2 * H], kept.o = gate[3 * H];
    kept.cell = l.cells[at * H + j];
    if (t)
        kept.before = l.cells[(at - 1) * H + j];
    if (!l.shape.last)
        kept.dy = l.dy[at * H + j];
    else if (t + 1 == T)
        kept.dy = l.dy[row * H + j];
    return kept;
}

/* d: the gradients of a step's gates. Returns what reaches the cell before: f times the gradient of
 * this one, to which dc comes from behind. */
__device__ inline float step_back(const kept_step &s, float dh, float dc, float d[LSTM_GATES])
{
    const float tc = ls_tanh_element(s.cell);
    dc += dh * s.o * (1 - tc * tc);
    d[0] = dc * s.g * (s.i * (1 - s.i));
    d[1] = dc * s.before * (s.f * (1 - s.f));
    d[2] = dc * s.i * (1 - s.g * s.g);
    d[3] = dh * tc * (s.o * (1 - s.o));
    return dc * s.f;
}

/* Of a thread: the sum over its gate's elements of their gradients times the weights of its state.
 */
template <int ROWS>
__global__ void __launch_bounds__(LSTM_THREADS) lstm_few_back_kernel(ls_gpu_lstms all)
{
    alignas(16) __shared__ float term[LSTM_GATES][ROWS][UNITS];
    __shared__ float part[ROWS][LSTM_GATES][UNITS];
    const ls_gpu_lstm l = ls_gpu_lstm_of_block(all);
    const int64_t H = l.shape.hidden, T = l.shape.steps;
    const int gate = (int)threadIdx.x / UNITS, unit = (int)threadIdx.x % UNITS;
    float weight[UNITS];
#pragma unroll
    for (int u = 0; u < UNITS; u++)
        weight[u] = u < H && unit < H ? l.weight[(gate * H + u) * H + unit] : 0;
    for (int64_t row = ls_gpu_lstm_block(all) * ROWS; row < l.shape.rows;
         row += (int64_t)all.blocks * ROWS) {
        const bool has_cell = gate < ROWS && unit < H && row + gate < l.shape.rows;
        kept_step next = {};
        float behind = 0;
        if (has_cell)
            next = read_kept(l, row + gate, T - 1, unit);
        for (int r = 0; r < ROWS; r++)
            term[gate][r][unit] = 0;
        __syncthreads();
        for (int64_t t = T; t-- > 0;) {
            if (has_cell) {
                const kept_step now = next;
                float dh = now.dy;
                if (t)
                    next = read_kept(l, row + gate, t - 1, unit);
                for (int g = 0; g < LSTM_GATES && t + 1 < T; g++)
                    dh += part[gate][g][unit];
                float d[LSTM_GATES];
                behind = step_back(now, dh, behind, d);
#pragma unroll
                for (int g = 0; g < LSTM_GATES; g++) {
                    term[g][gate][unit] = d[g];
                    l.gates[(((row + gate) * T + t) * LSTM_GATES + g) * H + unit] = d[g];
                }
            }
            __syncthreads();
            float sum[ROWS] = {};
            add_products<ROWS>(term[gate], weight, sum);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                part[r][gate][unit] = sum[r];
            __syncthreads();
        }
    }
}

} // namespace

int ls_gpu_lstm_few_forward(void *stream, const ls_gpu_lstms *all, bool four)
{
    return ls_gpu_launch(stream, all->count * all->blocks, LSTM_THREADS,
                         four ? lstm_few_kernel<4> : lstm_few_kernel<1>, *all);
}

int ls_gpu_lstm_few_backward(void *stream, const ls_gpu_lstms *all, bool four)
{
    return ls_gpu_launch(stream, all->count * all->blocks, LSTM_THREADS,
                         four ? lstm_few_back_kernel<4> : lstm_few_back_kernel<1>, *all);
}

int ls_gpu_load_lstm_few(void)
{
    return ls_gpu_load(lstm_few_kernel<1>, lstm_few_kernel<4>, lstm_few_back_kernel<1>,
                       lstm_few_back_kernel<4>);
}
