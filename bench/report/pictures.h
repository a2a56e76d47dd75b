/* SPDX-License-Identifier: MIT */
/*
 * Pictures: each is a file reports/NAME.sql, with the template of gnuplot that it names. Its head
 * are comments, "-- name: text"; what follows is one query in SQL (results_db.h), whose rows are
 * points:
 *     number   of the row that a point is of; NULL means of none, as of an ideal line
 *     part     the name of the point's series; NULL means that of the row's case
 *     x, y, low, high
 * The query reads `r`: rows in their order (place), with all that reports/rows.sql knows of them
 * (table `read`), as the fields of `v` that it names in double quotes, rate and pace with bounds,
 * is_candidate, and
 *     trainers                      how many devices train
 *     delay, bandwidth, latency     of the fault, ms; of the link, MB/s and us
 *     of_mirrored                   list: memory, step, its low and high over the figures of the
 *                                   row of mirrored next to it
 * first all rows, then each picture's: the rows with points (or for which `of` holds) that agree in
 * `by`.
 * The head:
 *     title, y, x, unit, caption, wanted  (an option list that would make the picture)
 *     template  lines; bars and ranges, whose x is `place`
 *     by        columns: a picture each of the rows that agree in them; and in the machine
 *     of        a condition that selects the rows, if a row's point depends on other rows
 *     without   what is missing in rows without a point, or for which `of` does not hold
 *     passed    what chosen rows without a point are
 *     each      a column whose values make separate pictures: NAME-VALUE
 *     at        the path of x, if it is an option
 *     series    the column that names series; without it the case does
 *     colours   "series": each series has its own; else its strategy does
 *     log       x, y or xy: logarithmic if the numbers allow it
 *     one       a series of one point is enough
 *     median    of a case with several rows, the median one is shown
 *     place     on the page
 * reports/pictures.sql does the rest.
 */
#pragma once

#include "bench/report/page.h"

/** All pictures of the rows that are ok, an array, by place: objects of
 *   name, title, heading (title, and what distinguishes it from pictures of the same title), sub
 *   (what it shows), foot (machine, commit, day), caption, alt, x, y, unit, kind (the template),
 *   log_x, log_y (1), categories (names of bars and ranges), styles (of categories),
 *   series: [{name, style, variant, points: [[x, y, low, high], ..]}]; x of bars and ranges is the
 *   index of a category; style is a strategy's index in its registry, or as frame.gp says;
 *   heads, points: the data as a table, as far as the page has room
 *
 * Why there are no others, and no rows, is added to page->left_out. */
ls_status ls_pictures(const ls_page *page, json_t **out);

/** Visits the texts of SQL that make pictures. */
void ls_pictures_each_text(void (*visit)(const char *text, json_t *out), json_t *out);
