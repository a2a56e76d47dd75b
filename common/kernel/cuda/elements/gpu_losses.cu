/* SPDX-License-Identifier: MIT */
/*
 * Kernels of the losses. A row of softmax is computed as in the cpu table, so gradients have its
 * bits: up to 32 classes by one thread, in the order of the classes; more classes by 16 lanes,
 * class c in lane c % 16, folded by halves; of a wide row, a whole block computes the terms that 16
 * lanes of a warp then add. Parts of a loss: gpu_loss.cuh.
 */
#include "common/kernel/cuda/elements/gpu_loss.cuh"
#include "common/kernel/element_inline.h"
#include "common/kernel/step_inline.h"

/* ---- softmax_cross_entropy ------------------------------------------------------------------- */

enum { LOSS_WARP = 32, NARROW_CLASSES = 32, LANES = 16 };

/* Computes one row by ROW_LANES (1 or 16) neighbouring threads; returns its loss. All lanes of a
 * warp call it; lanes without a row (`has_row` is false) read and write nothing. */
template <int ROW_LANES>
__device__ static inline double softmax_row(const ls_softmax_cross_entropy_args &args, int64_t row,
                                            bool has_row)
{
    const int lane = ROW_LANES > 1 ? (int)(threadIdx.x % ROW_LANES) : 0;
    const int64_t classes = has_row ? args.classes : 0;
    const float *z = (const float *)args.logits + row * args.classes;
    float *dz = has_row && args.dlogits ? (float *)args.dlogits + row * args.classes : NULL;
    const float largest = largest_logit<ROW_LANES>(z, classes, lane);
    float sum = 0;
#pragma unroll 8
    for (int64_t c = lane; c < classes; c += ROW_LANES)
        sum += ls_exp_element(z[c] - largest);
#pragma unroll
    for (int half = ROW_LANES / 2; half; half /= 2)
        sum += ls_gpu_exchange(sum, half);
    if (!has_row)
        return 0;
    const int64_t label = args.labels[row];
    if (args.scale_at && label == -1) { /* none */
        for (int64_t c = lane; dz && c < classes; c += ROW_LANES)
            dz[c] = 0;
        return 0;
    }
    const bool valid = label >= 0 && label < classes;
    const float scale = (float)ls_loss_scale(args.scale_at, args.scale);
    const float factor = valid ? scale / sum : NAN;
#pragma unroll 8
    for (int64_t c = lane; dz && c < classes; c += ROW_LANES) {
        const float share = ls_exp_element(z[c] - largest) * factor;
        dz[c] = c == label ? share - scale : share;
    }
    return valid ? ls_log_element(sum) - (double)(z[label] - largest) : (double)NAN;
}

template <int ROW_LANES>
__global__ void __launch_bounds__(LS_GPU_THREADS)
    softmax_kernel(ls_softmax_cross_entropy_args args, ls_gpu_parts parts, ls_gpu_fault fault)
{
    const int64_t rows_of_block = blockDim.x / ROW_LANES, offset = threadIdx.x / ROW_LANES;
    for (int64_t first = blockIdx.x * rows_of_block; first < args.rows;
         first += gridDim.x * rows_of_block) { /* equal iterations in all threads */
        const int64_t row = first + offset;
        const bool has_row = row < args.rows;
        const double loss = softmax_row<ROW_LANES>(args, has_row ? row : 0, has_row);
        if (!has_row || threadIdx.x % ROW_LANES)
            continue;
        parts.values[row] = loss;
        if (args.labels[row] < (args.scale_at ? -1 : 0) || args.labels[row] >= args.classes)
            ls_gpu_tell_host(fault.word, fault.value);
    }
    if (args.loss)
        finish_loss(parts, args.rows, ls_loss_scale(args.scale_at, args.scale), args.loss);
}

/* Rows of many classes: a block each. It reads a row in fours that begin on 16 bytes, wherever the
 * row begins: a head of up to 3 classes, fours, a tail of up to 3. */
enum {
    WIDE_CLASSES = 4096,       /* more than so many, */
    WIDE_MOST = INT32_MAX / 2, /* and not more */
    WIDE_THREADS = 1024,       /* fours of a chunk */
    WIDE_KEPT = 6 /* chunks that stay in registers, 24,576 classes; later chunks are read again */
};

using wide_four = ls_gpu_pack<float, 4>;

/* Classes before the first four. */
__device__ static inline int wide_head(const float *z)
{
    return (int)((4 - (uintptr_t)z / sizeof *z % 4) % 4);
}

/* The class outside of the fours that this thread has; -1 if there is none. */
__device__ static inline int wide_edge(int head, int tail, int classes)
{
    const int t = (int)threadIdx.x;
    return t < head ? t : t >= 3 && t < 3 + tail ? classes - tail + t - 3 : -1;
}

__device__ static inline float wide_largest(const wide_four &z, float largest)
{
#pragma unroll
    for (int j = 0; j < 4; j++)
        largest = z.element[j] > largest ? z.element[j] : largest;
    return largest;
}

/* The largest in the warp. */
__device__ static inline float wide_fold(float largest)
{
#pragma unroll
    for (int half = LOSS_WARP / 2; half; half /= 2) {
        const float other = ls_gpu_exchange(largest, half);
        largest = other > largest ? other : largest;
    }
    return largest;
}

__device__ static inline wide_four wide_exp(const wide_four &z, float largest)
{
    wide_four out;
#pragma unroll
    for (int j = 0; j < 4; j++)
        out.element[j] = ls_exp_element(z.element[j] - largest);
    return out;
}

/* All threads of the block leave a chunk's terms in `terms` (two buffers take turns); the first
 * warp adds them to its lanes' sums, lanes 16 to 31 repeat 0 to 15. `first`: the lane's place. */
__device__ static inline float wide_add(wide_four *terms, const wide_four &e, int first, float sum)
{
    terms[threadIdx.x] = e;
    __syncthreads();
    const float *at = (const float *)terms + first;
    if (threadIdx.x < LOSS_WARP)
#pragma unroll 32
        for (int k = 0; k < 4 * WIDE_THREADS; k += LANES)
            sum += at[k];
    return sum;
}

__device__ static inline wide_four wide_times(const wide_four &e, float factor)
{
    wide_four out;
#pragma unroll
    for (int j = 0; j < 4; j++)
        out.element[j] = e.element[j] * factor;
    return out;
}

/* dlogits, if any, begins as far behind 16 bytes as logits. */
__global__ static void __launch_bounds__(WIDE_THREADS)
    softmax_wide_kernel(ls_softmax_cross_entropy_args args, ls_gpu_parts parts, ls_gpu_fault fault)
{
    __shared__ wide_four terms[2][WIDE_THREADS];
    __shared__ float found[WIDE_THREADS / LOSS_WARP], sum_of_row;
    const int classes = (int)args.classes, thread = (int)threadIdx.x, lane = thread % LANES;
    const float scale = (float)ls_loss_scale(args.scale_at, args.scale);
    for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
        const float *z = (const float *)args.logits + row * classes;
        const int head = wide_head(z), fours = (classes - head) / 4;
        const int behind = head + 4 * fours, edge = wide_edge(head, classes - behind, classes);
        const int left = fours - thread; /* this thread has four i of chunk i if i < left */
        const wide_four *at = (const wide_four *)(z + head) + thread;
        wide_four kept[WIDE_KEPT];
#pragma unroll
        for (int i = 0; i < WIDE_KEPT; i++) {
            kept[i] = {{-INFINITY, -INFINITY, -INFINITY, -INFINITY}}; /* adds 0 */
            if (i * WIDE_THREADS < left)
                kept[i] = at[i * WIDE_THREADS];
        }
        float largest = edge < 0 ? -INFINITY : z[edge], sum = 0;
#pragma unroll 4
        for (int i = WIDE_KEPT * WIDE_THREADS; i < left; i += WIDE_THREADS) {
            const wide_four more = at[i]; /* a copy is one access */
            largest = wide_largest(more, largest);
        }
#pragma unroll
        for (int i = 0; i < WIDE_KEPT; i++)
            largest = wide_largest(kept[i], largest);
        largest = wide_fold(largest);
        if (thread % LOSS_WARP == 0)
            found[thread / LOSS_WARP] = largest;
        __syncthreads();
        largest = wide_fold(found[thread % LOSS_WARP]);

        const int first = (lane + LANES - head) % LANES;
        if (lane < head)
            sum = ls_exp_element(z[lane] - largest);
#pragma unroll
        for (int i = 0; i < WIDE_KEPT; i++)
            if (i * WIDE_THREADS < fours) {
                kept[i] = wide_exp(kept[i], largest);
                sum = wide_add(terms[i % 2], kept[i], first, sum);
            }
        for (int i = WIDE_KEPT; i * WIDE_THREADS < fours; i++) {
            wide_four more = {{-INFINITY, -INFINITY, -INFINITY, -INFINITY}};
            if (i * WIDE_THREADS < left)
                more = at[i * WIDE_THREADS];
            sum = wide_add(terms[i % 2], wide_exp(more, largest), first, sum);
        }
        if (thread < LOSS_WARP) {
            const int c = behind + (lane + LANES - behind % LANES) % LANES; /* the lane's next */
            if (c < classes)
                sum += ls_exp_element(z[c] - largest);
#pragma unroll
            for (int half = LANES / 2; half; half /= 2)
                sum += ls_gpu_exchange(sum, half);
            sum_of_row = sum; /* equal in all lanes */
        }
        __syncthreads();
        sum = sum_of_row;

        const int64_t label = args.labels[row];
        const bool valid = label >= 0 && label < classes, none = args.scale_at && label == -1;
        if (thread == 0) {
            parts.values[row] = valid  ? ls_log_element(sum) - (double)(z[label] - largest)
                                : none ? 0
                                       : (double)NAN;
            if (!valid && !none)
                ls_gpu_tell_host(fault.word, fault.value);
        }
        if (!args.dlogits)
            continue;
        float *dz = (float *)args.dlogits + row * classes;
        const float factor = valid ? scale / sum : none ? 0 : NAN;
        wide_four *const to = (wide_four *)(dz + head) + thread;
#pragma unroll
        for (int i = 0; i < WIDE_KEPT; i++)
            if (i * WIDE_THREADS < left)
                to[i * WIDE_THREADS] = wide_times(kept[i], factor);
#pragma unroll 4
        for (int i = WIDE_KEPT * WIDE_THREADS; i < left; i += WIDE_THREADS) {
            const wide_four more = at[i];
            to[i] = wide_times(wide_exp(more, largest), factor);
        }
        if (edge >= 0)
            dz[edge] = ls_exp_element(z[edge] - largest) * factor;
        __syncthreads(); /* the label's element again */
        if (thread == 0 && valid)
            dz[label] = ls_exp_element(z[label] - largest) * factor - scale;
    }
    if (args.loss)
        finish_loss<WIDE_THREADS>(parts, args.rows, ls_loss_scale(args.scale_at, args.scale),
                                  args.loss);
}

size_t ls_gpu_softmax_parts(int64_t rows)
{
    return (size_t)rows;
}

int ls_gpu_softmax_cross_entropy(void *stream, const ls_softmax_cross_entropy_args *args,
                                 const ls_gpu_parts *parts, ls_gpu_fault fault)
{
    if (args->classes <= NARROW_CLASSES) {
        /* With few rows, small blocks use many multiprocessors. With many, the last block has more
         * to add. */
        const bool few = args->rows <= 1024;
        return ls_gpu_launch(stream, ls_gpu_blocks(args->rows, few ? 64 : LS_GPU_THREADS),
                             few ? 64 : LS_GPU_THREADS, softmax_kernel<1>, *args, *parts, fault);
    }
    const bool alike =
        !args->dlogits ||
        ls_gpu_takes_fours((const void *)((uintptr_t)args->dlogits - (uintptr_t)args->logits));
    if (alike && args->classes > WIDE_CLASSES && args->classes <= WIDE_MOST)
        return ls_gpu_launch(stream, ls_gpu_blocks(args->rows, 1), WIDE_THREADS,
                             softmax_wide_kernel, *args, *parts, fault);
    return ls_gpu_launch(stream, ls_gpu_blocks(args->rows, LS_GPU_THREADS / LANES), LS_GPU_THREADS,
                         softmax_kernel<LANES>, *args, *parts, fault);
}

/* ---- squared_error --------------------------------------------------------------------------- */

static const unsigned SUM_BLOCKS = 256;

__global__ static void __launch_bounds__(LS_GPU_THREADS)
    squared_error_kernel(ls_squared_error_args args, ls_gpu_parts parts, int64_t count)
{
    __shared__ double space[LS_GPU_THREADS];
    const float *y = (const float *)args.y, *target = (const float *)args.target;
    float *dy = (float *)args.dy;
    const float factor = (float)(2 * args.scale);
    double sum = 0;
    for (int64_t i = ls_gpu_first(); i < count; i += ls_gpu_stride()) {
        const float difference = y[i] - target[i];
        if (dy)
            dy[i] = factor * difference;
        sum += (double)difference * (double)difference;
    }
    if (!args.loss)
        return;
    sum = ls_gpu_block_sum(sum, space);
    if (threadIdx.x == 0)
        parts.values[blockIdx.x] = sum;
    finish_loss(parts, gridDim.x, args.scale, args.loss);
}

static unsigned sum_blocks(int64_t count)
{
    const unsigned blocks = ls_gpu_blocks(count, LS_GPU_THREADS);
    return blocks < SUM_BLOCKS ? blocks : SUM_BLOCKS;
}

size_t ls_gpu_squared_error_parts(int64_t count)
{
    return sum_blocks(count);
}

int ls_gpu_squared_error(void *stream, const ls_squared_error_args *args, const ls_gpu_parts *parts)
{
    const int64_t count = args->rows * args->outputs;
    return ls_gpu_launch(stream, sum_blocks(count), LS_GPU_THREADS, squared_error_kernel, *args,
                         *parts, count);
}

/* ---- logistic_loss --------------------------------------------------------------------------- */

enum { LOGISTIC_THREADS = 64 };

__global__ static void __launch_bounds__(LOGISTIC_THREADS)
    logistic_kernel(ls_logistic_loss_args args, ls_gpu_parts parts, ls_gpu_fault fault)
{
    const float *logits = (const float *)args.logits;
    float *dlogits = (float *)args.dlogits;
    const float scale = (float)args.scale;
    for (int64_t row = ls_gpu_first(); row < args.rows; row += ls_gpu_stride()) {
        const int32_t label = args.labels[row];
        const bool valid = label == 0 || label == 1;
        const float z = logits[row], y = valid ? (float)label : NAN;
        if (args.loss)
            parts.values[row] = (double)(z > 0 ? z : 0) - (double)(y * z) +
                                ls_log_element(1.0f + ls_exp_element(-fabsf(z)));
        if (dlogits)
            dlogits[row] = scale * (ls_sigmoid_element(z) - y);
        if (!valid)
            ls_gpu_tell_host(fault.word, fault.value);
    }
    if (args.loss)
        finish_loss(parts, args.rows, args.scale, args.loss);
}

size_t ls_gpu_logistic_parts(int64_t rows)
{
    return (size_t)rows;
}

int ls_gpu_logistic_loss(void *stream, const ls_logistic_loss_args *args, const ls_gpu_parts *parts,
                         ls_gpu_fault fault)
{
    return ls_gpu_launch(stream, ls_gpu_blocks(args->rows, LOGISTIC_THREADS), LOGISTIC_THREADS,
                         logistic_kernel, *args, *parts, fault);
}

/* ---- The loss of weight decay ---------------------------------------------------------------- */

/* The terms are such that their order does not matter (ls_decay_part). */
__global__ static void __launch_bounds__(LS_GPU_THREADS)
    squares_kernel(const float *weight, ls_gpu_ranges ranges, ls_gpu_parts parts, double *loss)
{
    __shared__ double space[LS_GPU_THREADS];
    __shared__ int64_t item;
    double sum = 0;
    ls_gpu_find_range(ranges, &item);
    __syncthreads();
    if (blockIdx.x < ranges.blocks) { /* at least one block, even without elements */
        const ls_gpu_share s = ls_gpu_range_share(ranges, item);
        const ls_update_range range = ls_gpu_range_at(ranges, item);
        const float *w = weight + range.first;
#pragma unroll 4
        for (int64_t i = s.first; i < range.count; i += s.stride)
            sum += ls_decay_part(range.decay, w[i]);
    }
    sum = ls_gpu_block_sum(sum, space);
    if (threadIdx.x == 0)
        parts.values[blockIdx.x] = sum;
    if (!ls_gpu_comes_last(parts.arrived, gridDim.x))
        return;
    sum = 0;
    for (int64_t i = threadIdx.x; i < gridDim.x; i += blockDim.x)
        sum += ls_gpu_fetch(&parts.values[i]);
    sum = ls_gpu_block_sum(sum, space);
    if (threadIdx.x == 0)
        *loss = sum;
}

unsigned ls_gpu_decay_parts(int64_t count)
{
    return count ? sum_blocks(count) : 0;
}

int ls_gpu_decay_loss(void *stream, const ls_weight_decay_args *args, const ls_gpu_ranges *ranges,
                      const ls_gpu_parts *parts)
{
    return ls_gpu_launch(stream, ranges->blocks ? (unsigned)ranges->blocks : 1, LS_GPU_THREADS,
                         squares_kernel, (const float *)args->weight, *ranges, *parts, args->loss);
}

int ls_gpu_load_losses(void)
{
    return ls_gpu_load(softmax_kernel<1>, softmax_kernel<LANES>, softmax_wide_kernel,
                       squared_error_kernel, logistic_kernel, squares_kernel);
}
