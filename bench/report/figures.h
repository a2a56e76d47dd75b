/* SPDX-License-Identifier: MIT */
/*
 * Figures: what the pictures of a report show, before anything is drawn. Each is a JSON object:
 *
 *   name, title (what it says), sub (of what), foot (machine, commit, day), caption, alt
 *   kind        "lines", "bars" (stacked parts of one row each) or "ranges"
 *   x, y        labels of the axes; unit: how y is written
 *   log_x, log_y, ideal ("linear", "one" or absent)
 *   categories  names of bars and ranges
 *   series      [{name, style, variant, points: [[x, y, low, high], ...]}]; x of bars and ranges is
 *               the place in the categories; style is a place in the palette, -1 a peer's
 */
#ifndef LS_BENCH_REPORT_FIGURES_H
#define LS_BENCH_REPORT_FIGURES_H

#include <jansson.h>
#include <stddef.h>

/** All figures of the rows (an array); why there are no others is added to `left_out`, an array of
 *  texts. `against` is the path of a key, or NULL. */
json_t *ls_report_figures(const json_t *rows, const char *against, json_t *left_out);

/* ---- For the files that make them ------------------------------------------------------------ */

enum { LS_FIGURES_OF_A_KIND = 3, LS_SERIES_MOST = 14, LS_CATEGORIES_MOST = 24 };

/** Members of `case` that no series is told apart by. */
extern const char ls_report_plain[];

/** Rows of one group: {key: {rows: [...]}}, by machine (unless `against`) and paths of `case`. */
json_t *ls_figure_groups(const json_t *rows, const char *const *paths, const char *against);

/** The groups with the most rows first; at most LS_FIGURES_OF_A_KIND, the others told. */
json_t *ls_figure_largest(const json_t *groups, const char *name, json_t *left_out);

/** A figure with sub and foot of these rows. `figures` gets it, numbered; it is borrowed. */
json_t *ls_figure_add(json_t *figures, const char *name, const char *kind, const json_t *rows,
                      const char *about);

/** Place in the palette of a strategy. */
int ls_figure_style(const char *strategy);

/** "1.2 ms", "83%", "571,445": a value as people read it. */
char *ls_figure_value(double value, const char *unit, char out[48]);

void ls_report_shares(json_t *figures, const json_t *rows, const char *against, json_t *left_out);

#endif
