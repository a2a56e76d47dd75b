/* SPDX-License-Identifier: MIT */
/*
 * Pictures: each is a file reports/NAME.sql, with the template of gnuplot that it names. Its head
 * are comments, "-- name: text"; what follows is one query in SQL (results_db.h), whose rows are
 * points:
 *     number   of the row that a point is of; NULL: of none, as of an ideal line
 *     part     the name of the point's series; NULL: that of the row's case
 *     x, y, low, high
 * The query reads `r`: rows in their order (place), with the fields of `v` that it names in double
 * quotes, their rate and pace with bounds, is_candidate, and
 *     trainers                            how many devices train
 *     delay, bandwidth, latency           of the fault, ms; of the link, MB/s and us
 *     held_over, step_over, .._low, .._high   over those of the row of mirrored beside it
 * first of all rows, then of each picture's: those that have points (or hold `of`), and agree in
 * `by`.
 * The head:
 *     title, y, x, unit, caption, wanted  (an option list that would make the picture)
 *     template  lines; bars and ranges, whose x is `place`
 *     by        columns: a picture each of the rows that agree in them; and in the machine
 *     of        a condition: its rows, where a row's point depends on other rows; else points tell
 *     without   what rows lack that have no point, or do not hold `of`
 *     passed    what the chosen rows are that have no point
 *     each      a column whose values make pictures of their own names: NAME-VALUE
 *     at        the path of x, if it is an option
 *     series    the column that names series; none: the case does
 *     log       x, y or xy: logarithmic if the numbers allow it
 *     one       a series of one point is enough
 *     median    of a case with several rows, the median one is shown
 *     place     on the page
 */
#pragma once

#include "bench/output/results_db.h"
#include "common/base/status.h"

#include <jansson.h>

/** All pictures of the rows that are ok, an array, by place: objects of
 *   name, title, heading (title, and what sets it apart from pictures of the same title), sub (of
 *   what), foot (machine, commit, day), caption, alt, x, y, unit, kind (the
 *   template), log_x, log_y, categories (names of bars and ranges), styles (of categories),
 *   series: [{name, style, variant, points: [[x, y, low, high], ..]}]; x of bars and ranges is the
 *   index of a category; style is a strategy's index in its registry or one of draw.h
 *
 * Why there are no others, and no rows, is added to `left_out`, an array of texts. `against` is the
 * path of a key, or NULL. `rows` are those chosen in `results` (results_db.h), whose view `s`
 * has only fields that reports name from then on. */
ls_status ls_pictures(ls_results *results, const json_t *rows, const char *against,
                      json_t *left_out, json_t **out);
