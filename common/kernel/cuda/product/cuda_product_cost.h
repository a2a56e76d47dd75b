/* SPDX-License-Identifier: MIT */
/*
 * A model of the time that a product takes on a GPU, by its tiles, so that a kernel and a number of
 * pieces can be chosen without timing them. cuBLASLt's own order ignores how few blocks the last
 * round has: on an H100 its first choice took up to twice the time of the fastest
 * (results/README.md).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Elements that a block computes. */
typedef struct ls_product_tile {
    int rows, columns;
} ls_product_tile;

/** A product of [m,k] and [k,n], its sum split into `pieces`. */
typedef struct ls_product_size {
    int64_t m, n, k;
    int32_t pieces;
} ls_product_size;

/** Microseconds on a GPU of so many multiprocessors as fast as an H100's, in float32; INFINITY for
 * a tile size that was not measured. A function of its arguments alone. */
double ls_product_cost(const ls_product_size *size, ls_product_tile tile, int multiprocessors);

/** Blocks of our own kernel. */
int64_t ls_product_tiles(const ls_product_size *size);

/** Microseconds of our own kernel on an H100 (an H200 is as fast; others of compute capability 9.0
 *  were not measured); `by_terms`: neighbours in memory are terms of a
 * row of op(a), or of a column of op(b). */
double ls_product_tiles_cost(const ls_product_size *size, bool a_by_terms, bool b_by_terms,
                             int multiprocessors);
