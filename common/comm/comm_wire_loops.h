/* SPDX-License-Identifier: MIT */
/*
 * Rows of numbers to fewer bits and back (comm_wire.h says how they are rounded). Row by row, so
 * that what is read twice is still in the first-level cache.
 */
#pragma once

#include "common/comm/comm.h"

/** Some of a buffer's elements, and how they lie packed: int8: [rows] scales, then [count] bytes;
 * bf16: [count]. */
typedef struct ls_wire_rows {
    ls_wire_form wire;   /**< bf16 or int8 */
    size_t count;        /**< elements */
    size_t rows;         /**< int8: number of rows; else 0 */
    const size_t *begin; /**< int8: [rows + 1] where each begins, all from the same origin */
} ls_wire_rows;

/** Sets values [count] to the sum of `ranks` packed blocks, added in float32 in their order, or
 * (`mean`) to their mean. With `ranks` 0 the values stay. Then packs the values, if `out` is not
 * NULL; it may be one of the blocks. *error: raised to the largest error of rounding so far. */
typedef struct ls_wire_work {
    ls_wire_rows rows;
    const unsigned char *const *in; /**< [ranks] */
    int ranks;
    bool mean;
    float *values;
    unsigned char *out;
    float *error; /**< NULL if `out` is, or, of bf16, if nobody asks */
} ls_wire_work;

/** The bits do not depend on the instruction set. */
void ls_wire_loop(const ls_wire_work *work);
