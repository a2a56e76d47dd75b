/* SPDX-License-Identifier: MIT */
/*
 * Convolutions without windows in memory ("implicit GEMM"): forward, and the gradient of the image.
 * The product of M positions, N columns (outputs; of a gradient the image's channels) and K terms
 * (each tap's channels; of a gradient outputs), in the order of taps, then channels: an element is
 * one chain of fused multiply-adds in that order, whatever the block's size. A block has BM
 * positions and BN columns. It brings BK terms at a time to shared memory: of the image straight
 * from where the tap lies, 0 in the padding; of the weights from [O, height, width, C]. The next
 * terms are on their way, in registers, while a block computes. What a term needs (where its tap
 * lies, and its weights) is a table in shared memory, made once by each block; which taps of a
 * position lie in the image is a mask.
 *
 * A gradient with strides is computed in classes: positions that differ by multiples of the strides
 * have the same taps, so no tap is visited without need. A thread has TM positions and 4 columns.
 * In shared memory a position's terms lie together, in fours whose order depends on the position,
 * so that 8 neighbours' lie in different banks; so do 8 columns of 4 terms, which a block brings
 * turned over. A warp has 8 x 4 threads, numbered so that a quarter's reads are its neighbour's.
 */
#include "common/kernel/cuda/gpu_images.cuh"
#include "common/kernel/cuda/gpu_kernels.h"
#include "common/kernel/element_inline.h"

enum { DIRECT_THREADS = 128, DIRECT_FOUR = 4 };

typedef ls_gpu_pack<float, DIRECT_FOUR> direct_four;

/* A term, or four of them that are neighbours: where its tap's element lies, relative to a
 * position's first tap; where its weights begin; which bit of a position's mask is its tap's, or 0
 * if there is no such term. */
struct alignas(16) direct_term {
    int from;
    unsigned bit;
    int weight;
};

/* What a block of this form has in shared memory. */
template <int BN, int TM> struct direct_block {
    enum {
        ACROSS = BN / DIRECT_FOUR, /* threads of a row of columns */
        DOWN = DIRECT_THREADS / ACROSS,
        BM = DOWN * TM,
        BK = BN == 16 ? 8 : 16,
        FOURS = BK / DIRECT_FOUR,
        APART = 8 / FOURS, /* positions after which the order of fours changes */
        IMAGE_LOADS = (BM * FOURS + DIRECT_THREADS - 1) / DIRECT_THREADS, /* of a thread */
        WEIGHT_LOADS = (BN * FOURS + DIRECT_THREADS - 1) / DIRECT_THREADS
    };
    direct_term terms[LS_GPU_DIRECT_TERMS];
    float image[2][BM * BK];
    float weight[2][BK * BN];

    /* Where four `q` of a position's terms lie; of column n, q's first term. */
    __device__ static int image_at(int position, int q)
    {
        return position * BK + (q ^ position / APART % FOURS) * DIRECT_FOUR;
    }
    template <bool BACK> __device__ static int weight_at(int q, int n)
    {
        return q * DIRECT_FOUR * BN + (BACK ? n : n ^ q * 8);
    }
};

/* The taps [first, last) of a position whose first one lies at `at` that are in an image of `size`.
 */
struct direct_taps {
    int first, last;
};

template <bool BACK>
__device__ static inline direct_taps direct_taps_of(const ls_gpu_direct_axis &axis, int at,
                                                    int size)
{
    const int first = BACK ? at - size + 1 : -at, last = BACK ? at + 1 : size - at;
    return direct_taps{first > 0 ? first : 0, last < axis.taps ? last : axis.taps};
}

__device__ static inline unsigned direct_bits(int count)
{
    return count < 32 ? (1u << count) - 1 : ~0u;
}

/* A position of a class. */
struct direct_position {
    int row, y, x;
};

__device__ static inline direct_position direct_position_of(const ls_gpu_direct_class &c,
                                                            int number)
{
    const unsigned line = (unsigned)number / (unsigned)c.x.positions;
    const unsigned row = line / (unsigned)c.y.positions;
    return direct_position{(int)row, (int)(line - row * (unsigned)c.y.positions),
                           number - (int)line * c.x.positions};
}

/* What a thread brings of a position: its first tap's element, and which taps are in the image. */
struct direct_source {
    int from;
    unsigned mask;
};

template <bool BACK>
__device__ static inline direct_source direct_source_of(const ls_gpu_direct &d,
                                                        const ls_gpu_direct_class &c, int number)
{
    const direct_position p = direct_position_of(c, number);
    const int y = p.y * c.y.spacing + c.y.at, x = p.x * c.x.spacing + c.x.at;
    const direct_taps down = direct_taps_of<BACK>(c.y, y, d.from_height);
    const direct_taps across = direct_taps_of<BACK>(c.x, x, d.from_width);
    direct_source s = {((p.row * d.from_height + y) * d.from_width + x) * d.from_channels, 0};
    if (across.first >= across.last)
        return s;
    const unsigned line = direct_bits(across.last) & ~direct_bits(across.first);
    for (int ky = down.first; ky < down.last; ky++)
        s.mask |= line << ky * c.x.taps;
    return s;
}

/* Fills the table for terms [0, count), WIDE of them together. */
template <int WIDE, bool BACK>
__device__ static inline void direct_fill(const ls_gpu_direct &d, const ls_gpu_direct_class &c,
                                          int count, direct_term *terms)
{
    for (int i = (int)threadIdx.x; i * WIDE < count; i += DIRECT_THREADS) {
        const int k = i * WIDE, tap = (int)((unsigned)k / (unsigned)d.from_channels);
        const int channel = k - tap * d.from_channels;
        direct_term t = {0, 0u, 0};
        if (k < c.terms) {
            const int ky = (int)((unsigned)tap / (unsigned)c.x.taps), kx = tap - ky * c.x.taps;
            const int pixel = (ky * d.from_width + kx) * d.from_channels;
            const int tap_of_window = (c.y.tap + ky * c.y.step) * d.width + c.x.tap + kx * c.x.step;
            t.from = (BACK ? -pixel : pixel) + channel;
            t.weight = BACK ? (channel * d.taps + tap_of_window) * d.to_channels : k;
            t.bit = 1u << tap;
        }
        terms[i] = t;
    }
}

/* Four `four` of the terms, of one position. */
template <int WIDE>
__device__ static inline direct_four direct_image(const float *from, const direct_source &s,
                                                  const direct_term *terms, int four)
{
    direct_four got = {};
    if constexpr (WIDE == DIRECT_FOUR) {
        const direct_term t = terms[four];
        if (s.mask & t.bit)
            got = *(const direct_four *)(from + (s.from + t.from));
    } else {
#pragma unroll
        for (int j = 0; j < DIRECT_FOUR; j++) {
            const direct_term t = terms[four * DIRECT_FOUR + j];
            if (s.mask & t.bit)
                got.element[j] = from[s.from + t.from];
        }
    }
    return got;
}

/* Loads four terms of a column of a block's weights; with BACK four columns of a term. `item` is
 * their number in the slice. Columns beyond the last belong to another output, and are never
 * written. */
template <int BN, int WIDE, bool BACK, typename Block>
__device__ static inline direct_four direct_weight(const ls_gpu_direct &d,
                                                   const ls_gpu_direct_class &c, const Block &s,
                                                   int first, int slice, int item)
{
    direct_four got = {};
    if constexpr (BACK) {
        const int r = item / Block::ACROSS, column = first + item % Block::ACROSS * DIRECT_FOUR;
        const int n = column < d.to_channels ? column : 0;
        const direct_term t = s.terms[slice * Block::FOURS + r / DIRECT_FOUR];
        const int pitch = d.taps * d.to_channels;
        if (t.bit)
            got = *(const direct_four *)(d.weight + (t.weight + r % DIRECT_FOUR * pitch + n));
    } else {
        const int column = first + item / Block::FOURS;
        const int n = column < d.to_channels ? column : 0;
        const int k = slice * Block::BK + item % Block::FOURS * DIRECT_FOUR;
        const float *weight = d.weight + (n * c.terms + k);
        if (WIDE == DIRECT_FOUR && k < c.terms)
            got = *(const direct_four *)weight;
#pragma unroll
        for (int j = 0; WIDE == 1 && j < DIRECT_FOUR; j++)
            if (k + j < c.terms)
                got.element[j] = weight[j];
    }
    return got;
}

template <bool BACK, typename Block>
__device__ static inline void direct_put_weight(float *weight, int item, const direct_four &got)
{
    enum { BN = Block::ACROSS * DIRECT_FOUR };
    if constexpr (BACK) {
        const int r = item / Block::ACROSS, n = item % Block::ACROSS * DIRECT_FOUR;
        const int at = Block::template weight_at<BACK>(r / DIRECT_FOUR, n) + r % DIRECT_FOUR * BN;
        *(direct_four *)(weight + at) = got;
    } else {
        const int at = Block::template weight_at<BACK>(item % Block::FOURS, item / Block::FOURS);
#pragma unroll
        for (int j = 0; j < DIRECT_FOUR; j++)
            weight[at + j * BN] = got.element[j];
    }
}

/* A thread's share of a slice's products. */
template <int BN, int TM, bool BACK, typename Block>
__device__ static inline void direct_multiply(const float *image, const float *weight, int down,
                                              int across, direct_four *sum)
{
#pragma unroll
    for (int q = 0; q < Block::FOURS; q++) {
        direct_four a[TM];
#pragma unroll
        for (int i = 0; i < TM; i++) /* DOWN is a multiple of 8, so the order of fours does not
                                        change */
            a[i] = *(const direct_four *)(image + Block::image_at(down, q) +
                                          i * Block::DOWN * Block::BK);
#pragma unroll
        for (int j = 0; j < DIRECT_FOUR; j++) {
            const direct_four b =
                *(const direct_four *)(weight +
                                       Block::template weight_at<BACK>(q, across * DIRECT_FOUR) +
                                       j * BN);
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int n = 0; n < DIRECT_FOUR; n++)
                    sum[i].element[n] = fmaf(a[i].element[j], b.element[n], sum[i].element[n]);
        }
    }
}

/* Writes four columns, from `n` on, of a position of a class. */
template <bool BACK>
__device__ static inline void direct_finish(const ls_gpu_direct &d, const ls_gpu_direct_class &c,
                                            int number, int n, direct_four sum)
{
    int pixel = number;
    if (BACK) {
        const direct_position p = direct_position_of(c, number);
        pixel = (p.row * d.to_height + p.y * c.y.step + c.y.first) * d.to_width + p.x * c.x.step +
                c.x.first;
    }
#pragma unroll
    for (int i = 0; i < DIRECT_FOUR; i++) {
        if (d.bias)
            sum.element[i] += d.bias[n + i];
        if (d.relu)
            sum.element[i] = ls_relu(sum.element[i]);
    }
    *(direct_four *)(d.to + ((int64_t)pixel * d.to_channels + n)) = sum;
}

/* What a thread brings of a slice to shared memory: four `four` of positions `at`, at + STEP, ...
 * of the block, and some fours of the weights. */
template <int BN, int TM> struct direct_load {
    typedef direct_block<BN, TM> block;
    enum { STEP = DIRECT_THREADS / block::FOURS };
    direct_source source[block::IMAGE_LOADS];
    direct_four image[block::IMAGE_LOADS], weight[block::WEIGHT_LOADS];
    int at, four;

    /* `first`: the block's first position. */
    template <bool BACK>
    __device__ void open(const ls_gpu_direct &d, const ls_gpu_direct_class &c, int first)
    {
        at = (int)threadIdx.x / block::FOURS;
        four = (int)threadIdx.x % block::FOURS;
#pragma unroll
        for (int i = 0; i < block::IMAGE_LOADS; i++) {
            source[i] = direct_source{0, 0};
            if (first + at + i * STEP < c.positions)
                source[i] = direct_source_of<BACK>(d, c, first + at + i * STEP);
        }
#pragma unroll
        for (int i = 0; i < block::WEIGHT_LOADS; i++)
            weight[i] = direct_four{};
    }

    /* Whether there is an i-th four of the weights for this thread; of most, known to the compiler.
     */
    __device__ static bool has_weight(int i)
    {
        return (i + 1) * DIRECT_THREADS <= BN * block::FOURS ||
               (int)threadIdx.x + i * DIRECT_THREADS < BN * block::FOURS;
    }

    /* Starts the reads of a slice. */
    template <int WIDE, bool BACK>
    __device__ void bring(const ls_gpu_direct &d, const ls_gpu_direct_class &c, const block &s,
                          int first_column, int slice)
    {
#pragma unroll
        for (int i = 0; i < block::WEIGHT_LOADS; i++)
            if (has_weight(i))
                weight[i] = direct_weight<BN, WIDE, BACK>(d, c, s, first_column, slice,
                                                          (int)threadIdx.x + i * DIRECT_THREADS);
#pragma unroll
        for (int i = 0; i < block::IMAGE_LOADS; i++)
            image[i] = direct_image<WIDE>(d.from, source[i], s.terms, slice * block::FOURS + four);
    }

    /* Writes it to its half of the shared memory. */
    template <bool BACK> __device__ void put(block &s, int half) const
    {
        float *to = s.image[half] + block::image_at(at, four); /* STEP is a multiple of 8 */
#pragma unroll
        for (int i = 0; i < block::IMAGE_LOADS; i++)
            if ((i + 1) * STEP <= block::BM || at + i * STEP < block::BM)
                *(direct_four *)(to + i * STEP * block::BK) = image[i];
#pragma unroll
        for (int i = 0; i < block::WEIGHT_LOADS; i++)
            if (has_weight(i))
                direct_put_weight<BACK, block>(s.weight[half],
                                               (int)threadIdx.x + i * DIRECT_THREADS, weight[i]);
    }
};

template <int BN, int TM, int WIDE, bool BACK>
__global__ static void __launch_bounds__(DIRECT_THREADS) direct_kernel(ls_gpu_direct d)
{
    typedef direct_block<BN, TM> block;
    __shared__ block s;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int tiles = (d.to_channels + BN - 1) / BN, tile = (int)blockIdx.x / tiles;
    const int first_column = ((int)blockIdx.x - tile * tiles) * BN;
    const int number = BACK ? tile / d.blocks : 0;
    const ls_gpu_direct_class &c = d.classes[number];
    const int first = (tile - number * d.blocks) * block::BM;
    const int slices = (c.terms + block::BK - 1) / block::BK;
    /* Lanes 0 and 1 have the same positions, 0 and 2 the same columns. */
    const int across = warp % (block::ACROSS / 4) * 4 + lane % 2 + lane / 4 % 2 * 2;
    const int down = warp / (block::ACROSS / 4) * 8 + lane / 2 % 2 + lane / 8 * 2;

    direct_load<BN, TM> load;
    direct_four sum[TM] = {};
    load.template open<BACK>(d, c, first);
    direct_fill<WIDE, BACK>(d, c, slices * block::BK, s.terms);
    __syncthreads();
    /* A round brings a slice, and multiplies the one before. Both are conditional: the compiler
     * moves what it may behind the products, and then a block waits for it. */
    for (int slice = 0; slice <= slices; slice++) {
        const int half = slice % 2;
        if (slice < slices)
            load.template bring<WIDE, BACK>(d, c, s, first_column, slice);
        if (slice > 0)
            direct_multiply<BN, TM, BACK, block>(s.image[1 - half], s.weight[1 - half], down,
                                                 across, sum);
        if (slice < slices)
            load.template put<BACK>(s, half);
        __syncthreads();
    }

    const int n = first_column + across * DIRECT_FOUR;
#pragma unroll
    for (int i = 0; i < TM; i++) {
        const int p = first + down + i * block::DOWN;
        if (p < c.positions && n < d.to_channels)
            direct_finish<BACK>(d, c, p, n, sum[i]);
    }
}

/* ---- Launching ------------------------------------------------------------------------------- */

/* Processors among which a launch is shared evenly; on a GPU with fewer or more it is slower, with
 * the same bits. */
enum { DIRECT_PROCESSORS = 132 };

template <int BN, int TM> static int64_t direct_blocks(const ls_gpu_direct *d)
{
    return ((int64_t)d->classes[0].positions + /* no other has more */
            direct_block<BN, TM>::BM - 1) /
           direct_block<BN, TM>::BM;
}

/* How long a slice takes a processor that has the most blocks: as long as its instructions.
 * Instructions other than products cost about as much as 1.2 positions (in ptxas's code for
 * sm_90). */
template <int BN, int TM> static double direct_cost(const ls_gpu_direct *d)
{
    const int64_t tiles = (d->to_channels + BN - 1) / BN;
    const int64_t blocks = direct_blocks<BN, TM>(d) * d->count * tiles;
    const int64_t most = (blocks + DIRECT_PROCESSORS - 1) / DIRECT_PROCESSORS;
    return (double)most * (TM + 1.2);
}

template <int BN, int TM, int WIDE, bool BACK>
static int direct_launch(void *stream, const ls_gpu_direct *d)
{
    ls_gpu_direct with = *d;
    const int64_t tiles = (d->to_channels + BN - 1) / BN;
    with.blocks = (int)direct_blocks<BN, TM>(d);
    return ls_gpu_launch(stream, (unsigned)(with.blocks * d->count * tiles), DIRECT_THREADS,
                         direct_kernel<BN, TM, WIDE, BACK>, with);
}

template <int BN, int WIDE, bool BACK>
static int direct_launch_rows(void *stream, const ls_gpu_direct *d)
{
    const double of_8 = direct_cost<BN, 8>(d), of_4 = direct_cost<BN, 4>(d);
    if constexpr (BN > 16) {
        const double of_6 = direct_cost<BN, 6>(d);
        if (of_6 < of_8 && of_6 < of_4)
            return direct_launch<BN, 6, WIDE, BACK>(stream, d);
    }
    return of_8 <= of_4 ? direct_launch<BN, 8, WIDE, BACK>(stream, d)
                        : direct_launch<BN, 4, WIDE, BACK>(stream, d);
}

template <int BN> static int direct_launch_columns(void *stream, const ls_gpu_direct *d)
{
    if (d->back)
        return direct_launch_rows<BN, 4, true>(stream, d);
    if (d->from_channels % DIRECT_FOUR == 0)
        return direct_launch_rows<BN, 4, false>(stream, d);
    return direct_launch<BN, 8, 1, false>(stream, d);
}

int ls_gpu_conv_direct(void *stream, const ls_gpu_direct *d)
{
    return d->to_channels <= 16   ? direct_launch_columns<16>(stream, d)
           : d->to_channels <= 32 ? direct_launch_columns<32>(stream, d)
                                  : direct_launch_columns<64>(stream, d);
}

int ls_gpu_load_conv_direct(void)
{
    return ls_gpu_load(direct_kernel<16, 8, 1, false>, direct_kernel<32, 8, 1, false>,
                       direct_kernel<64, 8, 1, false>, direct_kernel<16, 8, 4, false>,
                       direct_kernel<32, 8, 4, false>, direct_kernel<64, 8, 4, false>,
                       direct_kernel<32, 6, 4, false>, direct_kernel<64, 6, 4, false>,
                       direct_kernel<16, 4, 4, false>, direct_kernel<32, 4, 4, false>,
                       direct_kernel<64, 4, 4, false>, direct_kernel<16, 8, 4, true>,
                       direct_kernel<32, 8, 4, true>, direct_kernel<64, 8, 4, true>,
                       direct_kernel<32, 6, 4, true>, direct_kernel<64, 6, 4, true>,
                       direct_kernel<16, 4, 4, true>, direct_kernel<32, 4, 4, true>,
                       direct_kernel<64, 4, 4, true>);
}
