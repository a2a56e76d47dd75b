/* SPDX-License-Identifier: MIT */
/*
 * The gradient of a convolution's weights and bias, straight from the images; windows of 3 x 3 or 5
 * x 5, strides along a line of 1 or 2. A block sums a tile of the weights over a chunk of the
 * positions, strip by strip: some lines of dy, and the lines of x that their windows cover, padding
 * as zeros, are in shared memory, while the next strips are on their way there. A lane has one
 * column of the tile, for some outputs, and keeps all their sums in registers: with more than four
 * channels a column is a channel, and its sums are all taps; otherwise it is a channel and a line
 * of taps. So a pixel that a lane has read counts for all taps of a line. Runs of four positions
 * are dealt out to the block's four warps, whose sums are added at the end, in order. What the
 * chunks leave is added by a second launch, in order of the chunks, which writes the weights in
 * their stored order. Blocks of the first column sum the bias, too. The division into strips and
 * chunks is a function of the shape alone; so are the bits.
 *
 * A run of a lane in the code for sm_90, 3 x 3 with many channels: 288 FFMA of 326 instructions, 27
 * of which read shared memory; 5 x 5: 400 of 458, 45; with few channels 96 of 120 and 160 of 186.
 */
#include "common/kernel/cuda/conv/gpu_conv_strips.cuh"

/* sum += a run's positions: `pixel`: the lane's first of x; `dy`: its outputs at the first. */
template <typename Tile>
__device__ static inline void add_weights_run(const float *pixel, const float *dy, int pitch,
                                              float (&sum)[Tile::SUMS])
{
    typedef ls_gpu_pack<float, 4> pack;
    float window[Tile::ROWS][Tile::SPAN];
#pragma unroll
    for (int r = 0; r < Tile::ROWS; r++)
#pragma unroll
        for (int c = 0; c < Tile::SPAN; c++)
            window[r][c] = pixel[r * pitch + c * Tile::CHANNELS];
#pragma unroll
    for (int p = 0; p < WEIGHT_RUN; p++) {
        pack factor[Tile::OUTS / 4];
#pragma unroll
        for (int k = 0; k < Tile::OUTS / 4; k++)
            factor[k] = *(const pack *)(dy + p * Tile::OUTPUTS + 4 * k);
#pragma unroll
        for (int r = 0; r < Tile::ROWS; r++)
#pragma unroll
            for (int t = 0; t < Tile::SIDE; t++)
#pragma unroll
                for (int o = 0; o < Tile::OUTS; o++) {
                    float &s = sum[(r * Tile::SIDE + t) * Tile::OUTS + o];
                    s = fmaf(window[r][p * Tile::STRIDE + t], factor[o / 4].element[o % 4], s);
                }
    }
}

/* A lane's column: its first pixel in the strip's x. Columns beyond the last one count as the
 * first, and are left out in the end. */
template <typename Tile>
__device__ static inline int weights_column(const ls_gpu_conv_weights &a, int first, int lane)
{
    const int column = lane % Tile::COLUMNS, channels = (int)a.shape.channels;
    if (Tile::ROWS > 1)
        return column;
    const int of_all = first + column < channels * Tile::SIDE ? first + column : 0;
    const int row = of_all / channels;
    return row * a.columns * Tile::CHANNELS + of_all - row * channels;
}

/* Adds the warps' sums, in order, and writes them as a part. */
template <typename Tile>
__device__ static inline void leave_weights(const float (&sum)[Tile::SUMS], float *space,
                                            float *part)
{
    constexpr int COUNT = Tile::PIECE * WEIGHT_LANES;
    const int lane = (int)threadIdx.x % WEIGHT_LANES, warp = (int)threadIdx.x / WEIGHT_LANES;
#pragma unroll
    for (int piece = 0; piece < Tile::SUMS; piece += Tile::PIECE) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < Tile::PIECE; i++)
            space[warp * COUNT + i * WEIGHT_LANES + lane] = sum[piece + i];
        __syncthreads();
        for (int i = (int)threadIdx.x; i < COUNT; i += WEIGHT_THREADS) {
            float all = space[i];
#pragma unroll
            for (int k = 1; k < WEIGHT_WARPS; k++)
                all += space[k * COUNT + i];
            part[piece * WEIGHT_LANES + i] = all;
        }
    }
}

/* Adds the `count` values of dy to the sums; this thread reads fours of one set of outputs. */
__device__ static inline void add_weights_bias(const float *dy, int count,
                                               ls_gpu_pack<float, 4> *sums)
{
    ls_gpu_pack<float, 4> sum = *sums;
#pragma unroll 4
    for (int i = (int)threadIdx.x * 4; i < count; i += WEIGHT_THREADS * 4) {
        const ls_gpu_pack<float, 4> value = *(const ls_gpu_pack<float, 4> *)(dy + i);
#pragma unroll
        for (int k = 0; k < 4; k++)
            sum.element[k] += value.element[k];
    }
    *sums = sum;
}

/* Adds the threads' sums for each output; behind a barrier of leave_weights. */
template <typename Tile>
__device__ static inline void leave_weights_bias(const float *sums, float *part)
{
    const int o = (int)threadIdx.x;
    if (o >= Tile::OUTPUTS)
        return;
    float all = 0;
    for (int at = o; at < WEIGHT_THREADS * 4; at += Tile::OUTPUTS)
        all += sums[at];
    part[Tile::SUMS * WEIGHT_LANES + o] = all;
}

template <typename Tile>
__global__ void __launch_bounds__(WEIGHT_THREADS, Tile::BLOCKS)
    conv_weights_kernel(ls_gpu_conv_weights a)
{
    typedef ls_gpu_pack<float, 4> pack;
    __shared__ pack packs[2 * WEIGHT_STAGE / 4];
    __shared__ int starts[WEIGHT_RUNS];
    __shared__ weights_strips strips;
    __shared__ pack bias[WEIGHT_THREADS]; /* a thread's sums of dy */
    float *const space = packs[0].element;
    const int tiles = a.column_tiles * a.output_tiles;
    const int chunk = (int)blockIdx.x / tiles, tile = (int)blockIdx.x - chunk * tiles;
    const int column_tile = tile % a.column_tiles, lane = (int)threadIdx.x % WEIGHT_LANES;
    const int warp = (int)threadIdx.x / WEIGHT_LANES, pitch = a.columns * Tile::CHANNELS;
    const int line_runs = ((int)a.shape.window.out_width + WEIGHT_RUN - 1) / WEIGHT_RUN;
    const int strip_runs = a.lines * line_runs, stride_y = (int)a.shape.window.stride_y;
    describe_weights_strips<Tile>(a, tile, chunk, &strips);
    const int first = chunk * (int)a.chunk_strips, end = first + (int)a.chunk_strips;
    const int all = (int)a.shape.rows * a.strips, last = end < all ? end : all;
    const auto there = [&](int at) { return last - at < a.together ? last - at : a.together; };
    __syncthreads();
    copy_weights_strips<Tile>(a, strips, first, there(first), space);
    for (int stage = 0; stage < 2; stage++) {
        float *const x = space + stage * WEIGHT_STAGE;
        clear_weights_area<Tile::CHANNELS / 4>(strips.x, a.together, x);
        clear_weights_area<Tile::OUTPUTS / 4>(strips.dy, a.together,
                                              x + a.together * strips.x_floats);
    }
    for (int i = (int)threadIdx.x; i < a.together * strip_runs; i += WEIGHT_THREADS) {
        const int line = i / line_runs, strip = line / a.lines;
        starts[i] = strip * strips.x_floats + (line - strip * a.lines) * stride_y * pitch +
                    (i - line * line_runs) * (WEIGHT_RUN * Tile::STRIDE * Tile::CHANNELS);
    }
    const int own_column = weights_column<Tile>(a, column_tile * Tile::COLUMNS, lane);
    const int dy_mine = a.together * strips.x_floats + lane / Tile::COLUMNS * Tile::OUTS;
    float sum[Tile::SUMS] = {};
    bias[threadIdx.x] = pack{};
    int stage = 0;
    for (int at = first; at < last; at += a.together) {
        const float *const now = space + stage * WEIGHT_STAGE;
        const int runs = there(at) * strip_runs;
        ls_gpu_await_copies();
        __syncthreads(); /* also for reads of memory that is written next */
        stage = 1 - stage;
        copy_weights_strips<Tile>(a, strips, at + a.together, there(at + a.together),
                                  space + stage * WEIGHT_STAGE);
        for (int i = warp; i < runs; i += WEIGHT_WARPS)
            add_weights_run<Tile>(now + starts[i] + own_column,
                                  now + dy_mine + i * (WEIGHT_RUN * Tile::OUTPUTS), pitch, sum);
        if (strips.sums_bias)
            add_weights_bias(now + a.together * strips.x_floats, runs * WEIGHT_RUN * Tile::OUTPUTS,
                             &bias[threadIdx.x]);
    }
    leave_weights<Tile>(sum, space, strips.part);
    if (strips.sums_bias)
        leave_weights_bias<Tile>(bias[0].element, strips.part);
}

/* ---- The sum of the parts -------------------------------------------------------------------- */

/* A tile, as numbers. */
struct weights_numbers {
    int side, rows, outs, columns, sums, outputs;
};

/* `ways` warps add one of the sums of all lanes of a tile, each some neighbouring chunks; their
 * sums are then added, each in order. The last sum of a tile is the bias. */
enum { WEIGHT_ADD_WARPS = 16, WEIGHT_ADD_THREADS = WEIGHT_ADD_WARPS * WEIGHT_LANES };

__device__ static inline void write_weight_sum(const ls_gpu_conv_weights &a,
                                               const weights_numbers &n, int tile, int sum,
                                               int lane, float value)
{
    const int channels = (int)a.shape.channels, outputs = (int)a.shape.outputs;
    const int tap = sum / n.outs, row = tap / n.side, kx = tap - row * n.side;
    const int column = tile % a.column_tiles * n.columns + lane % n.columns;
    const int o = tile / a.column_tiles * n.outputs + lane / n.columns * n.outs + sum % n.outs;
    const int line = n.rows > 1 ? 0 : column / channels;
    const int channel = column - line * channels, ky = line + row;
    if (o < outputs && channel < channels && ky < n.side)
        a.dweight[(((int64_t)o * channels + channel) * n.side + ky) * n.side + kx] = value;
}

__global__ static void __launch_bounds__(WEIGHT_ADD_THREADS)
    add_conv_parts_kernel(ls_gpu_conv_weights a, weights_numbers n, int ways)
{
    __shared__ float space[WEIGHT_ADD_WARPS][WEIGHT_LANES];
    const int lane = (int)threadIdx.x % WEIGHT_LANES, warp = (int)threadIdx.x / WEIGHT_LANES;
    const int all_sums = a.column_tiles * a.output_tiles * (n.sums + 1);
    const int at = (int)blockIdx.x * (WEIGHT_ADD_WARPS / ways) + warp / ways, way = warp % ways;
    const int tile = at / (n.sums + 1), sum = at - tile * (n.sums + 1), chunks = (int)a.chunks;
    const int of_way = (chunks + ways - 1) / ways, first = way * of_way;
    const int end = first + of_way < chunks ? first + of_way : chunks;
    const bool of_bias = sum == n.sums;
    const bool valid =
        at < all_sums && (!of_bias || (a.dbias && tile % a.column_tiles == 0 && lane < n.outputs));
    float all = 0;
    if (valid) {
        const float *part =
            a.parts + (tile * a.chunks + first) * a.part_floats + sum * WEIGHT_LANES + lane;
#pragma unroll 16
        for (int i = first; i < end; i++, part += a.part_floats)
            all += *part;
    }
    space[warp][lane] = all;
    __syncthreads();
    if (!valid || way)
        return;
    for (int i = 1; i < ways; i++)
        all += space[warp + i][lane];
    const int64_t o = (int64_t)(tile / a.column_tiles) * n.outputs + lane;
    if (!of_bias)
        write_weight_sum(a, n, tile, sum, lane, all);
    else if (o < a.shape.outputs)
        a.dbias[o] = all;
}

/* ---- The plan -------------------------------------------------------------------------------- */

struct weights_kind {
    weights_numbers tile;
    int stride, channels, span, part, blocks;
    void (*kernel)(ls_gpu_conv_weights);
};

template <typename Tile> static constexpr weights_kind kind_of()
{
    return {{Tile::SIDE, Tile::ROWS, Tile::OUTS, Tile::COLUMNS, Tile::SUMS, Tile::OUTPUTS},
            Tile::STRIDE,
            Tile::CHANNELS,
            Tile::SPAN,
            Tile::PART,
            Tile::BLOCKS,
            conv_weights_kernel<Tile>};
}

/* Tiles for many channels; for few; and for few channels that need few columns. For a stride of 1
 * or 2. */
typedef weights_tile<3, 3, 8, 16, 1> weights_3x3;
typedef weights_tile<3, 3, 8, 16, 2> weights_3x3_by_2;
typedef weights_tile<5, 5, 4, 16, 1> weights_5x5;
typedef weights_tile<5, 5, 4, 16, 2> weights_5x5_by_2;
typedef weights_tile<3, 1, 4, 4, 1> weights_3x3_one;
typedef weights_tile<3, 1, 4, 4, 2> weights_3x3_one_by_2;
typedef weights_tile<3, 1, 8, 16, 1> weights_3x3_few;
typedef weights_tile<3, 1, 8, 16, 2> weights_3x3_few_by_2;
typedef weights_tile<5, 1, 8, 16, 1> weights_5x5_few;
typedef weights_tile<5, 1, 8, 16, 2> weights_5x5_few_by_2;

static const weights_kind weights_kinds[] = {
    kind_of<weights_3x3>(),     kind_of<weights_3x3_by_2>(),
    kind_of<weights_5x5>(),     kind_of<weights_5x5_by_2>(),
    kind_of<weights_3x3_one>(), kind_of<weights_3x3_one_by_2>(),
    kind_of<weights_3x3_few>(), kind_of<weights_3x3_few_by_2>(),
    kind_of<weights_5x5_few>(), kind_of<weights_5x5_few_by_2>()};
static const int WEIGHTS_KINDS = sizeof weights_kinds / sizeof *weights_kinds;

/* Blocks are planned for a GPU of this size, whatever the GPU. */
static const int64_t WEIGHT_MULTIPROCESSORS = 132, WEIGHT_FEW_CHANNELS = 4;

static int64_t weights_over(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The first kind that has enough columns for few channels; -1 if there is none. */
static int find_weights_kind(const ls_conv_shape *s)
{
    const ls_window *w = &s->window;
    const bool few = s->channels <= WEIGHT_FEW_CHANNELS;
    for (int i = 0; i < WEIGHTS_KINDS; i++) {
        const weights_numbers &t = weights_kinds[i].tile;
        if (t.side != w->width || t.side != w->height || weights_kinds[i].stride != w->stride_x)
            continue;
        if (few ? t.rows == 1 && (t.columns >= 16 || t.columns >= s->channels * t.side)
                : t.rows > 1)
            return i;
    }
    return -1;
}

/* Columns of the weights' tiles. */
static int64_t weights_columns(const weights_kind &k, const ls_conv_shape *s)
{
    return k.tile.rows > 1 ? s->channels : s->channels * k.tile.side;
}

/* Whether at least a quarter of the kernel's products belong to the result, and numbers fit. */
static bool suits_weights(const weights_kind &k, const ls_conv_shape *s)
{
    const ls_window *w = &s->window;
    const int64_t columns = weights_columns(k, s), most = INT32_MAX / 4;
    const int64_t useful = columns * s->outputs * w->out_width;
    const int64_t all = weights_over(columns, k.tile.columns) * k.tile.columns *
                        weights_over(s->outputs, k.tile.outputs) * k.tile.outputs *
                        weights_over(w->out_width, WEIGHT_RUN) * WEIGHT_RUN;
    return 4 * useful >= all && w->in_height * w->in_width <= most / s->channels &&
           w->out_height * w->out_width <= most / s->outputs &&
           weights_over(columns, k.tile.columns) * weights_over(s->outputs, k.tile.outputs) <=
               LS_GPU_BLOCKS &&
           s->rows <= most / w->out_height;
}

/* Sets what follows from `lines`; returns an estimate of a block's instructions, or -1 if its
 * strips do not fit. */
static int64_t plan_weights_lines(const ls_conv_shape *s, int64_t lines, ls_gpu_conv_weights *p)
{
    enum { OF_RUN = 40, OF_COPY = 12, OF_STRIP = 120, RUNS_WANTED = 4 * WEIGHT_WARPS };
    enum { FLOATS_ALONE = 5 /* copied in an instruction's time, before there is any to add */ };
    const weights_kind &k = weights_kinds[p->kernel];
    const ls_window *w = &s->window;
    const int64_t line_runs = weights_over(w->out_width, WEIGHT_RUN), runs = lines * line_runs;
    const int64_t x_lines = (lines - 1) * w->stride_y + k.tile.side;
    const int64_t x = x_lines * p->columns * k.channels;
    const int64_t floats = x + runs * WEIGHT_RUN * k.tile.outputs;
    const int64_t tiles = (int64_t)p->column_tiles * p->output_tiles;
    const int64_t most = WEIGHT_MULTIPROCESSORS * k.blocks / tiles;
    if (floats > WEIGHT_STAGE || runs > WEIGHT_RUNS)
        return -1;
    p->lines = (int)lines;
    p->strips = (int)weights_over(w->out_height, lines);
    p->chunk_strips = weights_over(s->rows * p->strips, most < 1 ? 1 : most);
    p->chunks = weights_over(s->rows * p->strips, p->chunk_strips);
    int64_t together = weights_over(RUNS_WANTED, runs);
    together = together < WEIGHT_STAGE / floats ? together : WEIGHT_STAGE / floats;
    together = together < WEIGHT_RUNS / runs ? together : WEIGHT_RUNS / runs;
    p->together = (int)(together < p->chunk_strips ? together : p->chunk_strips);
    const int64_t copies = weights_over(x_lines, p->down) + weights_over(lines, p->dy_down);
    return p->chunk_strips * (weights_over(runs * p->together, WEIGHT_WARPS) *
                                  (k.tile.sums * WEIGHT_RUN + OF_RUN) / p->together +
                              copies * OF_COPY + OF_STRIP) +
           floats * p->together / FLOATS_ALONE;
}

/* Lines that all threads copy at once, of so many pixels with so many channels. */
static int lines_at_once(int64_t channels, int64_t pixels)
{
    const int64_t lines = 4 * WEIGHT_THREADS / channels / pixels;
    return (int)(lines < 1 ? 1 : lines);
}

bool ls_gpu_conv_weights_plan(const ls_conv_shape *s, ls_gpu_conv_weights *out)
{
    const ls_window *w = &s->window;
    ls_gpu_conv_weights best = {}, p = {};
    int64_t least = -1;
    if (s->rows < 1 || s->outputs < 1 || s->channels < 1 || w->out_height < 1 || w->out_width < 1 ||
        w->in_height < 1 || w->in_width < 1)
        return false;
    p.shape = *s;
    p.kernel = find_weights_kind(s);
    if (p.kernel < 0 || !suits_weights(weights_kinds[p.kernel], s))
        return false;
    const weights_kind &k = weights_kinds[p.kernel];
    p.part_floats = k.part;
    p.column_tiles = (int)weights_over(weights_columns(k, s), k.tile.columns);
    p.output_tiles = (int)weights_over(s->outputs, k.tile.outputs);
    const int64_t columns =
        (weights_over(w->out_width, WEIGHT_RUN) - 1) * WEIGHT_RUN * w->stride_x + k.span;
    if (columns > WEIGHT_STAGE || w->left < 0 || w->top < 0 || w->left >= columns)
        return false;
    /* An odd number of four floats: the lines of a column are in different banks. */
    p.columns = (int)(k.tile.rows > 1 ? columns : columns | 1);
    const int64_t right = p.columns - w->left;
    p.down = lines_at_once(k.channels, right < w->in_width ? right : w->in_width);
    p.dy_down = lines_at_once(k.tile.outputs, w->out_width);
    for (int64_t strips = 1; strips <= w->out_height; strips++) {
        const int64_t cost = plan_weights_lines(s, weights_over(w->out_height, strips), &p);
        if (cost >= 0 && (least < 0 || cost < least)) {
            least = cost;
            best = p;
        }
    }
    *out = best;
    return least >= 0;
}

int ls_gpu_conv_weights_run(void *stream, const ls_gpu_conv_weights *a)
{
    enum { OF_WAY = 8 /* chunks that a warp adds, where there are few */ };
    const weights_kind &k = weights_kinds[a->kernel];
    const int64_t tiles = (int64_t)a->column_tiles * a->output_tiles;
    const int64_t sums = tiles * (k.tile.sums + 1);
    int ways = 1;
    while (ways < WEIGHT_ADD_WARPS && ways * OF_WAY < a->chunks)
        ways *= 2;
    const int error =
        ls_gpu_launch(stream, (unsigned)(a->chunks * tiles), WEIGHT_THREADS, k.kernel, *a);
    return error ? error
                 : ls_gpu_launch(stream, (unsigned)weights_over(sums * ways, WEIGHT_ADD_WARPS),
                                 WEIGHT_ADD_THREADS, add_conv_parts_kernel, *a, k.tile, ways);
}

int ls_gpu_load_conv_weights(void)
{
    return ls_gpu_load(
        add_conv_parts_kernel, conv_weights_kernel<weights_3x3>,
        conv_weights_kernel<weights_3x3_by_2>, conv_weights_kernel<weights_5x5>,
        conv_weights_kernel<weights_5x5_by_2>, conv_weights_kernel<weights_3x3_one>,
        conv_weights_kernel<weights_3x3_one_by_2>, conv_weights_kernel<weights_3x3_few>,
        conv_weights_kernel<weights_3x3_few_by_2>, conv_weights_kernel<weights_5x5_few>,
        conv_weights_kernel<weights_5x5_few_by_2>);
}
