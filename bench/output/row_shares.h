/* SPDX-License-Identifier: MIT */
/* What shares save and cost: a row of `zero`, alone or in `hybrid`, beside one of `mirrored`. */
#pragma once

#include "bench/statistics/statistics.h"
#include "impl/strategy.h"

#include <jansson.h>
#include <stdbool.h>

/** The strategy that reduces gradients and shares nothing: `mirrored`. */
const ls_strategy *ls_whole_strategy(void);

/** Whether its devices held shares, and how many bytes is known. */
bool ls_row_has_shares(const json_t *row);

/** Whether `whole` is a row of `mirrored` beside which the row can stand: the same case but for
 * what `mirrored` has not, for all-reduce and buckets, and for repeats (row_same.h); on the same
 * machine; and what its devices held is known. */
bool ls_row_is_beside(const json_t *row, const json_t *whole);

/** Of the rows, oldest first, the last one beside which the row can stand: one with a step if there
 * is one (`--steps 0` times none), and of those one of the same buckets. NULL: none. Borrowed. */
const json_t *ls_row_beside(const json_t *row, const json_t *rows);

/** A row's figures beside those of `whole`; 0: not known. */
typedef struct ls_saving {
    double held, whole_held; /**< bytes of the fullest device */
    double sent;             /**< bytes sent a step, over those of `whole` */
    ls_interval step;        /**< its time over that of `whole`; without an interval low is 0 */
} ls_saving;

ls_saving ls_row_saving(const json_t *row, const json_t *whole);
