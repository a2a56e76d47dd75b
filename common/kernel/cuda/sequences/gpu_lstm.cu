/* SPDX-License-Identifier: MIT */
/*
 * Kernels of an LSTM's recurrence; the products over all steps are the library's. Not yet run on a
 * GPU. A block computes one sample, or four if there are many, through all steps independently: a
 * step is a product with the recurrent weights and the cell's functions, with block barriers in
 * between, and no launch. Each step reads the weights again, in whole lines, from the caches. This
 * suits numbers of states whose weights stay there, up to a few hundred (128 states: 256 KiB); more
 * are correct, but slow. Each sum is in the order of its terms, so a sample does not depend on the
 * others.
 */
#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/element_inline.h"

enum { FEW_ROWS = 512, GATES = 4 };

/* Terms of a product that shared memory holds at a time, per row. */
static const int STATES = 1024;

/* sum[r] += states of row r times the weights of gate element k, all H of them. All threads of the
 * block must call it; those with an invalid k add nothing. */
template <int ROWS>
__device__ static inline void add_recurrent(const ls_gpu_lstm &l, int64_t row, int64_t t, int64_t k,
                                            float sum[ROWS])
{
    __shared__ float state[ROWS][STATES];
    const int64_t H = l.shape.hidden, T = l.shape.steps, size = GATES * H;
    for (int64_t first = 0; first < H; first += STATES) {
        const int count = (int)(H - first < STATES ? H - first : STATES);
        __syncthreads(); /* old values have been read, new ones written */
        for (int r = 0; r < ROWS; r++)
            for (int j = (int)threadIdx.x; j < count; j += (int)blockDim.x)
                state[r][j] =
                    row + r < l.shape.rows ? l.previous[((row + r) * T + t) * H + first + j] : 0;
        __syncthreads();
        if (k >= size)
            continue;
        const float *weight = l.packed + first * size + k;
#pragma unroll 8
        for (int j = 0; j < count; j++) {
            const float w = weight[j * size];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                sum[r] = fmaf(state[r][j], w, sum[r]);
        }
    }
}

/* A step's gates after their functions, overwriting the inputs' contribution. */
template <int ROWS>
__device__ static inline void step_gates(const ls_gpu_lstm &l, int64_t row, int64_t t)
{
    const int64_t H = l.shape.hidden, T = l.shape.steps, size = GATES * H;
    for (int64_t first = 0; first < size; first += blockDim.x) { /* equal iterations in all
                                                                  * threads */
        const int64_t k = first + threadIdx.x;
        float sum[ROWS] = {};
        if (t)
            add_recurrent<ROWS>(l, row, t, k, sum);
        for (int r = 0; r < ROWS && k < size && row + r < l.shape.rows; r++) {
            float *gate = &l.gates[((row + r) * T + t) * size + k];
            const float z = sum[r] + (*gate + l.bias[k]);
            *gate = k >= 2 * H && k < 3 * H ? ls_tanh_element(z) : ls_sigmoid_element(z);
        }
    }
}

/* Writes a step's state as input of the next step, and to the output. */
__device__ static inline void leave(const ls_gpu_lstm &l, int64_t row, int64_t t, int64_t j,
                                    float h)
{
    const int64_t H = l.shape.hidden, T = l.shape.steps, at = row * T + t;
    if (t == 0)
        l.previous[at * H + j] = 0;
    if (t + 1 < T)
        l.previous[(at + 1) * H + j] = h;
    if (!l.shape.last)
        l.y[at * H + j] = h;
    else if (t + 1 == T)
        l.y[row * H + j] = h;
}

/* Cell and state of a step from its gates i, f, g, o. */
__device__ static inline void step_cell(const ls_gpu_lstm &l, int64_t row, int64_t t, int64_t j)
{
    const int64_t H = l.shape.hidden, T = l.shape.steps, at = row * T + t;
    const float *gate = &l.gates[at * GATES * H + j];
    const float before = t ? l.cells[(at - 1) * H + j] : 0;
    const float c = gate[H] * before + gate[0] * gate[2 * H];
    const float h = gate[3 * H] * ls_tanh_element(c);
    l.cells[at * H + j] = c;
    leave(l, row, t, j, h);
}

template <int ROWS> __global__ void __launch_bounds__(LS_GPU_THREADS) lstm_kernel(ls_gpu_lstm l)
{
    ls_gpu_begin();
    const int64_t H = l.shape.hidden;
    for (int64_t row = (int64_t)blockIdx.x * ROWS; row < l.shape.rows;
         row += (int64_t)gridDim.x * ROWS)
        for (int64_t t = 0; t < l.shape.steps; t++) {
            step_gates<ROWS>(l, row, t);
            __syncthreads();
            for (int64_t i = threadIdx.x; i < ROWS * H; i += blockDim.x)
                if (row + i / H < l.shape.rows)
                    step_cell(l, row + i / H, t, i % H);
        }
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* Overwrites a step's gates with their gradients, and its cell with the gradient of the cell
 * before: f times that of c. The later step must be done. */
__device__ static inline void step_cell_back(const ls_gpu_lstm &l, int64_t row, int64_t t,
                                             int64_t j)
{
    const int64_t H = l.shape.hidden, T = l.shape.steps, at = row * T + t;
    float *gate = &l.gates[at * GATES * H + j];
    const float i = gate[0], f = gate[H], g = gate[2 * H], o = gate[3 * H];
    const float before = t ? l.cells[(at - 1) * H + j] : 0;
    const float tc = ls_tanh_element(l.cells[at * H + j]);
    float dh = 0, dc = 0;
    if (!l.shape.last)
        dh = l.dy[at * H + j];
    else if (t + 1 == T)
        dh = l.dy[row * H + j];
    if (t + 1 < T) {
        for (int k = 0; k < GATES; k++)
            dh += l.partial[(row * GATES + k) * H + j];
        dc = l.cells[(at + 1) * H + j];
    }
    dc += dh * o * (1 - tc * tc);
    gate[0] = dc * g * (i * (1 - i));
    gate[H] = dc * before * (f * (1 - f));
    gate[2 * H] = dc * i * (1 - g * g);
    gate[3 * H] = dh * tc * (o * (1 - o));
    l.cells[at * H + j] = dc * f;
}

/* partial[row, gate, j] = the sum over that gate's elements of their gradients times the weights of
 * state j. Shared memory holds terms of STATES / 4 elements of each gate at a time. */
template <int ROWS>
__device__ static inline void step_states_back(const ls_gpu_lstm &l, int64_t row, int64_t t)
{
    const int TERMS = STATES / GATES;
    __shared__ float term[ROWS][GATES][TERMS];
    const int64_t H = l.shape.hidden, T = l.shape.steps, size = GATES * H;
    for (int64_t base = 0; base < size; base += blockDim.x) { /* equal iterations in all */
        const int64_t k = base + threadIdx.x, gate = k < size ? k / H : 0, j = k - gate * H;
        float sum[ROWS] = {};
        for (int64_t first = 0; first < H; first += TERMS) {
            const int count = (int)(H - first < TERMS ? H - first : TERMS);
            __syncthreads();
            for (int i = (int)threadIdx.x; i < ROWS * GATES * TERMS; i += (int)blockDim.x) {
                const int r = i / (GATES * TERMS), g = i / TERMS % GATES, u = i % TERMS;
                if (u < count && row + r < l.shape.rows)
                    term[r][g][u] = l.gates[((row + r) * T + t) * size + g * H + first + u];
            }
            __syncthreads();
            if (k >= size)
                continue;
            const float *weight = l.weight + (gate * H + first) * H + j;
#pragma unroll 8
            for (int u = 0; u < count; u++) {
                const float w = weight[u * H];
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    sum[r] = fmaf(term[r][gate][u], w, sum[r]);
            }
        }
        for (int r = 0; r < ROWS && k < size && row + r < l.shape.rows; r++)
            l.partial[(row + r) * size + k] = sum[r];
    }
}

template <int ROWS>
__global__ void __launch_bounds__(LS_GPU_THREADS) lstm_back_kernel(ls_gpu_lstm l)
{
    ls_gpu_begin();
    const int64_t H = l.shape.hidden;
    for (int64_t row = (int64_t)blockIdx.x * ROWS; row < l.shape.rows;
         row += (int64_t)gridDim.x * ROWS)
        for (int64_t t = l.shape.steps; t-- > 0;) {
            for (int64_t i = threadIdx.x; i < ROWS * H; i += blockDim.x)
                if (row + i / H < l.shape.rows)
                    step_cell_back(l, row + i / H, t, i % H);
            if (t)
                step_states_back<ROWS>(l, row, t); /* begins with a barrier */
            __syncthreads();
        }
}

static int launch_recurrence(void *stream, const ls_gpu_lstm *l, void (*one)(ls_gpu_lstm),
                             void (*four)(ls_gpu_lstm))
{
    const int64_t rows = l->shape.rows;
    const bool many = rows >= FEW_ROWS;
    if (!rows)
        return 0;
    return ls_gpu_launch(stream, ls_gpu_blocks(rows, many ? 4 : 1), LS_GPU_THREADS,
                         many ? four : one, *l);
}

int ls_gpu_lstm_forward(void *stream, const ls_gpu_lstm *lstm)
{
    return launch_recurrence(stream, lstm, lstm_kernel<1>, lstm_kernel<4>);
}

int ls_gpu_lstm_backward(void *stream, const ls_gpu_lstm *lstm)
{
    return launch_recurrence(stream, lstm, lstm_back_kernel<1>, lstm_back_kernel<4>);
}

int ls_gpu_load_lstm(void)
{
    return ls_gpu_load(lstm_kernel<1>, lstm_kernel<4>, lstm_back_kernel<1>, lstm_back_kernel<4>);
}
