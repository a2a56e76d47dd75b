/* SPDX-License-Identifier: MIT */
/*
 * Sums and means of ranks that travel in fewer bits. Like the all-reduce `owners`: each rank sends
 * each owner its part, rounded for the wire; the owner widens what it gets, and its own as sent,
 * adds them in float32 in the order of ranks, divides a mean by their number, and sends it round in
 * the same form. Every rank, the owner too, takes it as sent. A reduce-scatter ends with the
 * owner's float32 sum.
 *
 *     bf16   float32 rounded to its upper 16 bits, to nearest, ties to even; NaN stays NaN
 *     int8   rows (the blocks of the extent): scale = max |x| / 127 in float32, then q = x / scale
 *            to nearest, ties to even, a byte each; the value is q scale. A row of zeros has scale
 *            0; a row with a value that is not finite becomes NaN
 *
 * With P elements in K rows on n ranks: 2 (n - 1) 2 P bytes, or 2 (n - 1) (P + 4 K); messages 2 (n
 * - 1) for each rank that owns some; a reduce-scatter half of both. On GPUs sums of bf16 alone.
 */
#pragma once

#include "common/comm/comm.h"

/** What a rank brings. Rounding errors are |q - x / scale| (int8), |rounded - x| / |x| (bf16). */
typedef struct ls_wired_args {
    ls_wire_form wire;   /**< bf16 or int8 */
    ls_half half;        /**< what of it is done */
    bool mean;           /**< the sum is divided by the number of ranks */
    bool stored;         /**< the data are bf16 already, and the sum is rounded to it */
    float *data;         /**< [extent.count], in place; `stored`: of 16 bits each */
    ls_extent extent;    /**< int8: its blocks are the rows; borrowed */
    unsigned char *room; /**< [ls_wired_room(...)] bytes */
    float *error;        /**< [1] raised to the largest rounding error; bf16: NULL if not wanted */
} ls_wired_args;

/** Bytes of scratch that a rank needs. */
size_t ls_wired_room(ls_wire_form wire, int rank, int ranks, ls_extent extent);

/** Appends this rank's operations. */
ls_status ls_wired_build(ls_comm *comm, const ls_wired_args *args, ls_op_list *ops);

/** What one call moves, summed over ranks. */
ls_traffic ls_wired_formula(ls_wire_form wire, ls_half half, int ranks, ls_extent extent);

/** What sums gradients that travel in a form: the algorithm itself, or one that rounds as above,
 * without the all-gather. Its oracle is its all-reduce's; ls_wired_order makes the algorithm's
 * order that of either half. */
const ls_allreduce *ls_allreduce_wired(const ls_allreduce *algorithm, ls_wire_form wire);
ls_status ls_wired_order(ls_wire_form wire, ls_half half, ls_sum_order *order);

/** Sums data that are bf16 in memory, too: its `data` points to 16-bit elements. It has no oracle,
 * since the halves' orders are ls_wired_order's. */
extern const ls_allreduce ls_allreduce_stored;
