/* SPDX-License-Identifier: MIT */
/*
 * Ranking: which rows may be compared, and by what. Cases of equal model, data, batch, link and
 * devices (an environment) are; of these, cases of a command's several groups (time.group), which
 * were timed one after the other, only by the speed-up over each group's own `single`. Table and
 * report use it, so that both name the same fastest case.
 */
#pragma once

#include "bench/statistics/statistics.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/** By what cases are compared: the rate of the median step; samples trained over the time, where
 * the steps of one are not alike; or the speed-up over `single` of its group. */
typedef enum ls_rank_by { LS_RANK_MEDIAN, LS_RANK_MEAN, LS_RANK_SPEEDUP } ls_rank_by;

/** What cases must share to be compared: names of fields of `case`, NULL-terminated. */
extern const char *const ls_rank_environment[];

/** Rows, of the given ones, that may be compared: an array of {rows, by (a ls_rank_by), group (0:
 * all took turns, or are compared over their groups), apart (true: other groups have rows of this
 * environment, which no speed-up compares)}, in order of appearance. All measured, or all
 * predicted. */
json_t *ls_rank_pools(const json_t *rows);

/** The row's figure to compare by; false where there is none, or no interval: as ls_row_rate. */
bool ls_rank_rate(const json_t *row, ls_rank_by by, ls_interval *out);
