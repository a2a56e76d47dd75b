/* SPDX-License-Identifier: MIT */
/*
 * The model: a multiprocessor runs some blocks at a time, as many as its registers hold; such a
 * round is repeated until all blocks have run. A round takes the time of its multiply-adds at the
 * share of the peak that a kernel of this tile reaches; the last round, with fewer blocks per
 * multiprocessor, at least half of that, since fewer warps hide less. A block's begin and end cost
 * as much as 100 terms. Pieces are written, and read to be added.
 *
 * The numbers were measured with cuBLAS 13.1's kernels in float32, on an H100 with 132
 * multiprocessors at 1.98 GHz (test_kernels_emulated.c has their times).
 */
#include "common/kernel/cuda/product/cuda_product_cost.h"

#include <math.h>
#include <stddef.h>

enum { END_TERMS = 100 };

/* Multiply-adds of a multiprocessor, and bytes of the GPU, in a microsecond. */
static const double per_us = 128 * 1980, bytes_per_us = 2.7e6;

/* A tile, either way round; blocks at a time on a multiprocessor, and their share of the peak. */
static const struct {
    int larger, smaller, resident;
    double share;
} tiles[] = {
    {256, 128, 1, 0.81}, {128, 128, 2, 0.83}, {128, 64, 2, 0.80}, {128, 32, 4, 0.75},
    {64, 64, 4, 0.84},   {64, 32, 8, 0.75},   {32, 32, 8, 0.60},
};

static int64_t round_up(int64_t count, int64_t by)
{
    return (count + by - 1) / by;
}

/* Microseconds to write the pieces, and to read them again. */
static double moving_us(const ls_product_size *size)
{
    const double bytes =
        2.0 * (double)sizeof(float) * size->pieces * (double)size->m * (double)size->n;
    return size->pieces > 1 ? bytes / bytes_per_us : 0;
}

double ls_product_cost(const ls_product_size *size, ls_product_tile tile, int multiprocessors)
{
    const int larger = tile.rows > tile.columns ? tile.rows : tile.columns;
    const int smaller = tile.rows + tile.columns - larger;
    size_t i = 0;
    while (i < sizeof tiles / sizeof *tiles &&
           (tiles[i].larger != larger || tiles[i].smaller != smaller))
        i++;
    if (i == sizeof tiles / sizeof *tiles)
        return INFINITY;
    const int64_t blocks =
        round_up(size->m, tile.rows) * round_up(size->n, tile.columns) * size->pieces;
    const int64_t at_a_time = (int64_t)multiprocessors * tiles[i].resident;
    const int64_t left = blocks % at_a_time;
    double rounds = (double)(blocks / at_a_time);
    if (left)
        rounds += 0.5 + 0.5 * (double)round_up(left, multiprocessors) / tiles[i].resident;
    const double terms = (double)size->k / size->pieces + END_TERMS;
    const double round =
        tiles[i].resident * (double)larger * smaller * terms / (per_us * tiles[i].share);
    return rounds * round + moving_us(size);
}

/* Rows, columns and terms of our own kernel, and microseconds of a block: its begin and end; a
 * slice of 32 terms where a's terms are not neighbours in memory, b's are not, or both are. */
enum { SIDE = 128, SLICE = 32 };
static const double block_us = 4.2, slice_us[] = {1.40, 1.31, 1.20};

int64_t ls_product_tiles(const ls_product_size *size)
{
    return round_up(size->m, SIDE) * round_up(size->n, SIDE) * size->pieces;
}

double ls_product_tiles_cost(const ls_product_size *size, bool a_by_terms, bool b_by_terms,
                             int multiprocessors)
{
    const int64_t rounds = round_up(ls_product_tiles(size), multiprocessors);
    const int64_t slices = round_up(size->k / size->pieces, SLICE);
    const double slice = slice_us[!a_by_terms ? 0 : b_by_terms ? 2 : 1];
    return (double)rounds * (block_us + (double)slices * slice) + moving_us(size);
}
