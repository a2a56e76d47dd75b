/* SPDX-License-Identifier: MIT */
/*
 * Kernels of an LSTM's recurrence; the products over all steps are the library's. A block computes
 * a sample through all steps in one launch. A step waits for the one before it, so what counts is
 * the time from a barrier to the next. The number of states alone decides which kernel it is.
 *
 * Up to LS_GPU_LSTM_RESIDENT states, each thread keeps its 64 recurrent weights in registers,
 * states and gradients pass through shared memory, what a step needs of global memory is loaded a
 * step before, and a step has one barrier. Fewer states are computed as if there were that many,
 * with weights of 0.
 *
 * With more states, a block has four samples if there are many; each step reads the weights again,
 * in whole lines from the caches. This suits a few hundred states (128: 256 KiB); more are correct,
 * but slow. No sample depends on another, on the number of samples, or on the grid.
 */
#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/cuda/sequences/gpu_cell.cuh"

enum { FEW_ROWS = 512, GATES = 4 };

/* ---- Any number of states: the weights in memory -------------------------------------------- */

/* Terms of a product that shared memory holds at a time, per row. */
static const int STATES = 1024;

/* sum[r] += states of row r times the weights of gate element k, all H of them. All threads of the
 * block must call it; threads with an invalid k add nothing. */
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
            *gate = cell_function(z, k >= 2 * H && k < 3 * H);
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
    const float h = gate[3 * H] * cell_function(c, true);
    l.cells[at * H + j] = c;
    leave(l, row, t, j, h);
}

template <int ROWS> __global__ void __launch_bounds__(LS_GPU_THREADS) lstm_kernel(ls_gpu_lstm l)
{
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

/* Overwrites a step's gates with their gradients, and its cell with the gradient of the cell
 * before: f times the gradient of c. The later step must be done. */
__device__ static inline void step_cell_back(const ls_gpu_lstm &l, int64_t row, int64_t t,
                                             int64_t j)
{
    const int64_t H = l.shape.hidden, T = l.shape.steps, at = row * T + t;
    float *gate = &l.gates[at * GATES * H + j];
    const float i = gate[0], f = gate[H], g = gate[2 * H], o = gate[3 * H];
    const float before = t ? l.cells[(at - 1) * H + j] : 0;
    const float tc = cell_function(l.cells[at * H + j], true);
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

/* ---- Few states: the weights in registers ---------------------------------------------------- */

enum { RESIDENT = LS_GPU_LSTM_RESIDENT, PARTS = 4, BACK_PARTS = 8 };
static_assert(RESIDENT * (int)PARTS == (int)LS_GPU_THREADS && (int)PARTS == (int)GATES &&
                  (int)BACK_PARTS == 2 * PARTS,
              "after the sums of a step each thread has a gate of a state");

typedef ls_gpu_pack<float, 4> lstm_pack;

/*
 * Thread 4 j + p has the weights of state j's four gates for states 16 m + 4 p + (0 to 3): a chain
 * of 16 terms for each gate. The chains of four neighbours are added, (p = 0 and 1) and (2 and 3),
 * so that the sum of gate p is in thread p, which applies its function. Thread p = 0 has the cell.
 */
__device__ static inline void resident_gates(const ls_gpu_lstm &l, int H, int j, int part,
                                             float weight[GATES][RESIDENT / PARTS])
{
#pragma unroll
    for (int g = 0; g < GATES; g++)
#pragma unroll
        for (int n = 0; n < RESIDENT / PARTS; n++) {
            const int k = n / 4 * 4 * PARTS + part * 4 + n % 4;
            weight[g][n] = j < H && k < H ? l.weight[(g * H + j) * H + k] : 0;
        }
}

/* The products of a step; a thread has the products of its gate. */
__device__ static inline float gate_sum(const lstm_pack state[RESIDENT / 4], int part,
                                        const float weight[GATES][RESIDENT / PARTS])
{
    const bool odd = part & 1, high = part & 2;
    float sum[GATES] = {};
#pragma unroll
    for (int m = 0; m < RESIDENT / PARTS / 4; m++) {
        const lstm_pack four = state[m * PARTS + part];
#pragma unroll
        for (int e = 0; e < 4; e++)
#pragma unroll
            for (int g = 0; g < GATES; g++)
                sum[g] = fmaf(four.element[e], weight[g][4 * m + e], sum[g]);
    }
    const float low_pair = (odd ? sum[1] : sum[0]) + ls_gpu_exchange(odd ? sum[0] : sum[1], 1);
    const float high_pair = (odd ? sum[3] : sum[2]) + ls_gpu_exchange(odd ? sum[2] : sum[3], 1);
    return (high ? high_pair : low_pair) + ls_gpu_exchange(high ? low_pair : high_pair, 2);
}

/* FULL: H is RESIDENT. */
template <bool FULL>
__global__ void __launch_bounds__(LS_GPU_THREADS) lstm_resident_kernel(ls_gpu_lstm l)
{
    __shared__ lstm_pack state[2][RESIDENT / 4]; /* before a step and after it, in turn */
    const int H = FULL ? RESIDENT : (int)l.shape.hidden, pitch = GATES * H;
    const int64_t T = l.shape.steps;
    const int part = (int)threadIdx.x % PARTS, j = (int)threadIdx.x / PARTS;
    const bool owns = FULL || j < H, owns_cell = owns && part == 0;
    const int valid = owns ? j : H - 1; /* what others read */
    const float bias = l.bias[part * H + valid];
    const int y_pitch = l.shape.last ? 0 : H;
    float weight[GATES][RESIDENT / PARTS];
    resident_gates(l, H, j, part, weight);
    for (int64_t row = blockIdx.x; row < l.shape.rows; row += gridDim.x) {
        float *gates = l.gates + row * T * pitch + part * H + valid;
        float *cells = l.cells + row * T * H + valid, *previous = l.previous + row * T * H + valid;
        float *y = l.y + row * (l.shape.last ? 1 : T) * H + valid;
        float c = 0, h = 0, inputs[2] = {*gates, T > 1 ? gates[pitch] : 0};
        int64_t left = T;
        const auto step = [&](const lstm_pack *before, lstm_pack *after, float *input) {
            const float from_input = *input + bias;
            if (left > 2)
                *input = gates[2 * pitch];
            if (owns_cell)
                *previous = h;
            const float z = gate_sum(before, part, weight) + from_input;
            const float gate = cell_function(z, part == 2);
            if (owns)
                *gates = gate;
            const float f = ls_gpu_exchange(gate, 1), g = ls_gpu_exchange(gate, 2);
            const float o = ls_gpu_exchange(gate, 3); /* the values if the own gate is i */
            c = fmaf(f, c, gate * g);
            if (owns_cell)
                *cells = c;
            h = o * cell_function(c, true);
            if (part == 0)
                after[j / 4].element[j % 4] = h;
            if (owns_cell)
                *y = h; /* only the last step's state stays, if only that is wanted */
            gates += pitch, cells += H, previous += H, y += y_pitch;
            __syncthreads();
            return --left > 0;
        };
        if (part == 0)
            state[0][j / 4].element[j % 4] = 0;
        __syncthreads();
        while (step(state[0], state[1], &inputs[0]) && step(state[1], state[0], &inputs[1]))
            continue;
    }
}

/*
 * Thread 8 i + q has the weights of states 2 i and 2 i + 1 for the gate elements 32 m + 4 q + (0 to
 * 3), where each gate has 64: for each state two chains of 16 terms, of even m and of odd m. Their
 * sums are added, then the sums of threads q and q + 4, then of the pairs q = 0 and 1, 2 and 3,
 * then both. All of q = 0 to 3 have the sum of state 2 i, the others the sum of state 2 i + 1;
 * thread q then has the gradient of gate q % 4.
 */
enum {
    BACK_TERMS = GATES * RESIDENT / BACK_PARTS,
    GATE_PITCH = RESIDENT + 8 /* of a gate's gradients in shared memory: a warp, which has eight
                                 states, writes the gradients of its gates to different banks */
};

__device__ static inline void resident_states(const ls_gpu_lstm &l, int H, int j, int part,
                                              float weight[2][BACK_TERMS])
{
#pragma unroll
    for (int s = 0; s < 2; s++)
#pragma unroll
        for (int n = 0; n < BACK_TERMS; n++) {
            const int gate = n * GATES / BACK_TERMS;
            const int u = n / 4 * 4 * BACK_PARTS % RESIDENT + part * 4 + n % 4;
            weight[s][n] = j + s < H && u < H ? l.weight[(gate * H + u) * H + j + s] : 0;
        }
}

__device__ static inline float state_sum(const lstm_pack term[GATES * GATE_PITCH / 4], int part,
                                         const float weight[2][BACK_TERMS])
{
    float sum[2][2] = {};
#pragma unroll
    for (int m = 0; m < BACK_TERMS / 4; m++) {
        const int k = 4 * BACK_PARTS * m, gate = k / RESIDENT;
        const lstm_pack four = term[(gate * GATE_PITCH + k % RESIDENT) / 4 + part];
#pragma unroll
        for (int e = 0; e < 4; e++)
#pragma unroll
            for (int s = 0; s < 2; s++)
                sum[s][m % 2] = fmaf(four.element[e], weight[s][4 * m + e], sum[s][m % 2]);
    }
    const float first = sum[0][0] + sum[0][1], second = sum[1][0] + sum[1][1];
    const bool high = part & 4;
    float all = (high ? second : first) + ls_gpu_exchange(high ? first : second, 4);
    all += ls_gpu_exchange(all, 1);
    return all + ls_gpu_exchange(all, 2);
}

/* What a thread needs of a step. The gradient of z of a gate is the gradient of the cell (for gate
 * o, of the state) times the slope of the gate's function and a factor. The factor is g for gate i,
 * the cell before for f, i for g, the cell's tanh for o. */
struct cell_step {
    float own, factor, f, o, c, dy; /* own: the gate; factor: not of o */
};

/* Where that is, of a step and a state. */
struct cell_place {
    const float *gates, *cells, *dy;
    int dy_pitch; /* 0 if only the last step has one */
};

/* The step there, and on to the one before, unless it is the first. */
__device__ static inline cell_step take_step(cell_place &at, int H, int gate, bool first,
                                             bool has_dy)
{
    const float *factor = gate == 1 ? at.cells - H : at.gates + (gate == 0 ? 2 * H : 0);
    const cell_step step = {at.gates[gate * H], gate == 1 && first ? 0 : *factor,
                            at.gates[H],        at.gates[3 * H],
                            *at.cells,          has_dy ? *at.dy : 0};
    if (!first)
        at.gates -= GATES * H, at.cells -= H, at.dy -= at.dy_pitch;
    return step;
}

template <bool FULL>
__global__ void __launch_bounds__(LS_GPU_THREADS) lstm_resident_back_kernel(ls_gpu_lstm l)
{
    __shared__ lstm_pack term[2][GATES * GATE_PITCH / 4]; /* a step's gradients of z, in turn */
    const int H = FULL ? RESIDENT : (int)l.shape.hidden;
    const int64_t T = l.shape.steps;
    const int part = (int)threadIdx.x % BACK_PARTS, gate = part % GATES;
    const int pair = (int)threadIdx.x / BACK_PARTS * 2, j = pair + part / GATES;
    const int own = gate * GATE_PITCH + j;
    const bool owns = FULL || j < H;
    const int valid = owns ? j : H - 1; /* what others read */
    float weight[2][BACK_TERMS];
    resident_states(l, H, pair, part, weight);
    for (int64_t row = blockIdx.x; row < l.shape.rows; row += gridDim.x) {
        const int64_t at = row * T + T - 1, dy_at = l.shape.last ? row : at;
        const bool all_dy = !l.shape.last;
        cell_place place = {l.gates + at * GATES * H + valid, l.cells + at * H + valid,
                            l.dy + dy_at * H + valid, all_dy ? H : 0};
        float *dz_at = l.gates + (at * GATES + gate) * H + valid;
        float sum = 0, dc = 0; /* what reaches state and cell from the step after */
        int64_t t = T - 1;
        cell_step steps[2];
        steps[0] = take_step(place, H, gate, t <= 0, true);
        steps[1] = take_step(place, H, gate, t <= 1, all_dy);
        const auto step = [&](lstm_pack *terms, cell_step *now) {
            const float tc = cell_function(now->c, true);
            const float slope =
                gate == 2 ? fmaf(-now->own, now->own, 1.0f) : now->own * (1 - now->own);
            const float factor = (gate == 3 ? tc : now->factor) * slope;
            const float to_cell = now->o * fmaf(-tc, tc, 1.0f), f = now->f;
            const float dh = sum + now->dy;
            dc = fmaf(dh, to_cell, dc);
            const float dz = (gate == 3 ? dh : dc) * factor;
            terms[own / 4].element[own % 4] = owns ? dz : 0;
            if (owns)
                *dz_at = dz;
            dz_at -= GATES * H;
            dc *= f;
            __syncthreads();
            if (t == 0)
                return false;
            sum = state_sum(terms, part, weight);
            *now = take_step(place, H, gate, t <= 2, all_dy);
            t--;
            return true;
        };
        __syncthreads(); /* gates have been read, and the last sample's gradients */
        while (step(term[0], &steps[0]) && step(term[1], &steps[1]))
            continue;
    }
}

/* ---- Launches -------------------------------------------------------------------------------- */

/* Blocks that take the samples in turn, with the weights that they have: enough for any GPU. */
static const int64_t RESIDENT_BLOCKS = 512;

typedef void lstm_kernels(ls_gpu_lstm);

/* `resident`: for fewer states than RESIDENT, and for as many. */
static int launch_recurrence(void *stream, const ls_gpu_lstm *l, lstm_kernels *one,
                             lstm_kernels *four, lstm_kernels *const resident[2])
{
    const int64_t rows = l->shape.rows, H = l->shape.hidden;
    const bool many = rows >= FEW_ROWS;
    if (!rows)
        return 0;
    if (H <= RESIDENT)
        return ls_gpu_launch(stream, (unsigned)(rows < RESIDENT_BLOCKS ? rows : RESIDENT_BLOCKS),
                             LS_GPU_THREADS, resident[H == RESIDENT], *l);
    return ls_gpu_launch(stream, ls_gpu_blocks(rows, many ? 4 : 1), LS_GPU_THREADS,
                         many ? four : one, *l);
}

int ls_gpu_lstm_forward(void *stream, const ls_gpu_lstm *lstm)
{
    lstm_kernels *const resident[] = {lstm_resident_kernel<false>, lstm_resident_kernel<true>};
    return launch_recurrence(stream, lstm, lstm_kernel<1>, lstm_kernel<4>, resident);
}

int ls_gpu_lstm_backward(void *stream, const ls_gpu_lstm *lstm)
{
    lstm_kernels *const resident[] = {lstm_resident_back_kernel<false>,
                                      lstm_resident_back_kernel<true>};
    return launch_recurrence(stream, lstm, lstm_back_kernel<1>, lstm_back_kernel<4>, resident);
}

int ls_gpu_load_lstm(void)
{
    return ls_gpu_load(lstm_kernel<1>, lstm_kernel<4>, lstm_back_kernel<1>, lstm_back_kernel<4>,
                       lstm_resident_kernel<false>, lstm_resident_kernel<true>,
                       lstm_resident_back_kernel<false>, lstm_resident_back_kernel<true>);
}
