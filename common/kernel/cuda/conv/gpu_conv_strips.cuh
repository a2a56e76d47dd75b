/* SPDX-License-Identifier: MIT */
/*
 * What gpu_conv_weights.cu has in shared memory: a block's tile, strips of the images and of their
 * gradients, and how they are copied there in the background.
 */
#pragma once

#include "common/device/cuda/gpu_launch.cuh"
#include "common/kernel/cuda/gpu_kernels.h"

enum {
    WEIGHT_LANES = 32,
    WEIGHT_WARPS = 4 /* warps of a block */,
    WEIGHT_THREADS = WEIGHT_LANES * WEIGHT_WARPS
};
/* Positions side by side; the most runs, and floats, in shared memory at a time. */
enum { WEIGHT_RUN = 4, WEIGHT_RUNS = 128, WEIGHT_STAGE = 5632 };

/* A block's tile: SIDE: of the window; ROWS: lines of taps that a lane has, all or one; OUTS: its
 * outputs; COLUMNS: different columns in a warp; STRIDE: along a line. */
template <int SIDE_, int ROWS_, int OUTS_, int COLUMNS_, int STRIDE_> struct weights_tile {
    static constexpr int SIDE = SIDE_, ROWS = ROWS_, OUTS = OUTS_, COLUMNS = COLUMNS_;
    static constexpr int STRIDE = STRIDE_;
    static constexpr int SUMS = ROWS * SIDE * OUTS;               /* of a lane */
    static constexpr int OUTPUTS = WEIGHT_LANES / COLUMNS * OUTS; /* of the tile */
    static constexpr int CHANNELS = ROWS == 1 ? 4 : COLUMNS;      /* of a pixel in shared memory */
    static constexpr int SPAN = (WEIGHT_RUN - 1) * STRIDE + SIDE; /* pixels of a run's lines */
    static constexpr int PIECE = SUMS > 80 ? SUMS / 2 : SUMS;  /* sums of a lane added at a time */
    static constexpr int BLOCKS = SUMS > 80 ? 3 : 4;           /* at a time on a multiprocessor */
    static constexpr int PART = SUMS * WEIGHT_LANES + OUTPUTS; /* weights, and the bias */
};

/* Images. A strip has some of their lines in shared memory, with all channels or a tile of them. */
struct weights_area {
    const float *images;      /* the tile's first channel of the first one */
    int64_t of_image;         /* elements */
    int height, width, pixel; /* of an image; elements of a pixel */
    int lines, columns;       /* of a strip in shared memory */
    int left;                 /* columns there before the image */
    int used, down;           /* columns of the image there; lines that all threads copy at once */
    int there;                /* channels from the tile's first one on */
    bool fours;               /* may be copied four at a time */
};

/* A thread's first line of a strip (upper half) and its column of the image, where a pixel has
 * PACKS threads. A column beyond the last means that the thread has no pixel. */
template <int PACKS> __device__ static inline int weights_start(int used, int down)
{
    const int pixel = (int)threadIdx.x / PACKS, line = pixel / used;
    if (used > WEIGHT_THREADS / PACKS)
        return pixel;
    return line < down ? line << 16 | (pixel - line * used) : 0xFFFF;
}

/* Begins to copy a strip from line `top` of the image on, zeros for lines outside of the image.
 * FEW: what follows a pixel's channels is not written. */
template <int PACKS, bool FOURS, bool FEW>
__device__ static inline void copy_weights_lines(const weights_area &s, const float *image, int top,
                                                 int start, float *to)
{
    const int pack = (int)threadIdx.x % PACKS * 4, there = s.there - pack;
    const int height = there > 0 ? s.height : 0, last = top + s.lines;
    const int down = s.down, to_step = down * s.columns * (PACKS * 4);
    const int64_t step = (int64_t)down * s.width * s.pixel;
    for (int column = start & 0xFFFF; column < s.used; column += WEIGHT_THREADS / PACKS) {
        int line = start >> 16;
        float *at = to + (line * s.columns + s.left + column) * (PACKS * 4) + pack;
        line += top;
        const float *from = image + ((line * s.width + column) * s.pixel + pack);
#pragma unroll 1
        for (; line < last; line += down) {
            const bool valid = (unsigned)line < (unsigned)height;
            if (FOURS)
                ls_gpu_copy_ahead<16>(at, from, valid);
            else
#pragma unroll
                for (int k = 0; k < 4; k++)
                    if (!FEW || k < there)
                        ls_gpu_copy_ahead<4>(at + k, from + k, valid && k < there);
            from += step;
            at += to_step;
        }
    }
}

template <int PACKS, bool FEW>
__device__ static inline void copy_weights_area(const weights_area &s, int image, int top,
                                                int start, float *to)
{
    const float *const from = s.images + image * s.of_image;
    if (s.fours)
        copy_weights_lines<PACKS, true, FEW>(s, from, top, start, to);
    else
        copy_weights_lines<PACKS, false, FEW>(s, from, top, start, to);
}

/* Writes zeros next to the image in so many strips, where no copy writes. */
template <int PACKS>
__device__ static inline void clear_weights_area(const weights_area &s, int strips, float *to)
{
    const int margin = s.columns - s.used, all = strips * s.lines * margin * PACKS;
    for (int i = (int)threadIdx.x; i < all; i += WEIGHT_THREADS) {
        const int pixel = i / PACKS, line = pixel / margin, at = pixel - line * margin;
        const int column = at < s.left ? at : at + s.used;
        ((ls_gpu_pack<float, 4> *)to)[(line * s.columns + column) * PACKS + i % PACKS] = {};
    }
}

/* What the strips of a block are made of. It is in shared memory, since registers are scarce. */
struct weights_strips {
    weights_area x, dy;
    int starts[2][WEIGHT_THREADS];
    int x_floats, dy_floats; /* of a strip in shared memory */
    bool sums_bias;          /* its dy, too */
    float *part;             /* where the block leaves its sums */
};

template <typename Tile>
__device__ static inline void describe_weights_strips(const ls_gpu_conv_weights &a, int tile,
                                                      int chunk, weights_strips *to)
{
    const ls_window &w = a.shape.window;
    const int channels = (int)a.shape.channels, outputs = (int)a.shape.outputs;
    const int channel = Tile::ROWS > 1 ? tile % a.column_tiles * Tile::COLUMNS : 0;
    const int output = tile / a.column_tiles * Tile::OUTPUTS;
    const int lines = (a.lines - 1) * (int)w.stride_y + Tile::SIDE;
    const int width = ((int)w.out_width + WEIGHT_RUN - 1) / WEIGHT_RUN * WEIGHT_RUN;
    const int left = (int)w.left, right = a.columns - left;
    const int used = right < (int)w.in_width ? right : (int)w.in_width;
    to->starts[0][threadIdx.x] = weights_start<Tile::CHANNELS / 4>(used, a.down);
    to->starts[1][threadIdx.x] = weights_start<Tile::OUTPUTS / 4>((int)w.out_width, a.dy_down);
    if (threadIdx.x)
        return;
    to->x = {a.x + channel,
             w.in_height * w.in_width * channels,
             (int)w.in_height,
             (int)w.in_width,
             channels,
             lines,
             a.columns,
             left,
             used,
             a.down,
             channels - channel,
             channels % 4 == 0 && ls_gpu_takes_fours(a.x)};
    to->dy = {a.dy + output,
              w.out_height * w.out_width * outputs,
              (int)w.out_height,
              (int)w.out_width,
              outputs,
              a.lines,
              width,
              0,
              (int)w.out_width,
              a.dy_down,
              outputs - output,
              outputs % 4 == 0 && ls_gpu_takes_fours(a.dy)};
    to->part = a.parts + (tile * a.chunks + chunk) * Tile::PART;
    to->sums_bias = a.dbias && tile % a.column_tiles == 0;
    to->x_floats = lines * a.columns * Tile::CHANNELS;
    to->dy_floats = a.lines * width * Tile::OUTPUTS;
}

/* Begins to copy `count` strips from `first` on: x of `together`, then dy. */
template <typename Tile>
__device__ static inline void copy_weights_strips(const ls_gpu_conv_weights &a,
                                                  const weights_strips &s, int first, int count,
                                                  float *to)
{
    const int stride = (int)a.shape.window.stride_y, top = (int)a.shape.window.top;
    for (int i = 0; i < count; i++) {
        const int image = (first + i) / a.strips, line = (first + i - image * a.strips) * a.lines;
        copy_weights_area<Tile::CHANNELS / 4, Tile::ROWS == 1>(
            s.x, image, line * stride - top, s.starts[0][threadIdx.x], to + i * s.x_floats);
        copy_weights_area<Tile::OUTPUTS / 4, false>(s.dy, image, line, s.starts[1][threadIdx.x],
                                                    to + a.together * s.x_floats + i * s.dy_floats);
    }
}
