/* SPDX-License-Identifier: MIT */
/*
 * Figures: the contents of a report's pictures, before anything is drawn. Each is a JSON object:
 *
 *   name, title (what it says), sub (of what), foot (machine, commit, day), caption, alt
 *   kind        "lines", "bars" (stacked parts of one row each) or "ranges"
 *   x, y        labels of the axes; unit: how y is written
 *   log_x, log_y
 *   categories  names of bars and ranges; looks: [style, variant] of each
 *   series      [{name, style, variant, points: [[x, y, low, high], ...]}]; x of bars and ranges is
 *               the index in the categories; style is a strategy's index in its registry or one of
 *               draw_look.h; shown: what is drawn in place of the name
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/** All figures of the rows that are ok (an array); why there are no others, and no rows, is added
 *  to `left_out`, an array of texts. `against` is the path of a key, or NULL. */
json_t *ls_report_figures(const json_t *rows, const char *against, json_t *left_out);

/* ---- For the files that make them ------------------------------------------------------------ */

enum { LS_FIGURES_OF_A_KIND = 3, LS_SERIES_MOST = 14, LS_CATEGORIES_MOST = 24 };

/** The state of making figures. */
typedef struct ls_figures {
    json_t *list;
    json_t *used;        /**< {id: true} of rows that are in a figure */
    json_t *reasons;     /**< {reason: {figure: true}}: what is missing in figures */
    json_t *missing;     /**< {what would make it: {figure: true}}: figures that no rows make */
    json_t *variants;    /**< {style: {name: number}} */
    json_t *differences; /**< of all rows: what sets a strategy's variants apart */
    const char *against;
    bool predicted; /**< some rows were not measured; they look different, variant by variant */
} ls_figures;

/** Properties of a kind of figures, and the function that makes them. */
typedef struct ls_figure_kind {
    const char *name, *kind, *x, *y, *unit, *caption;
    const char *want; /**< what would make the picture */
    const char *const
        *group;       /**< paths, NULL-terminated: a figure each of rows that differ there */
    const char *more; /**< for the sub-title, besides what the rows have in common */
    const void *of;   /**< for those who make it */
    bool (*holds)(const json_t *row, const void *of);
    const char *without; /**< what rows lack that it does not apply to */
    /** False if these rows make none, which is then reported. */
    bool (*make)(ls_figures *figures, const struct ls_figure_kind *kind, const json_t *rows);
} ls_figure_kind;

/** Makes the figures of this kind from the rows to which it applies, by group and, unless `against`
 * stands for machines, one for each value, by machine; for the largest groups, at most
 * LS_FIGURES_OF_A_KIND. The rest is reported. */
void ls_figures_make(ls_figures *figures, const ls_figure_kind *kind, const json_t *rows);

/** How many machines these rows are of. */
size_t ls_figure_machines(const json_t *rows);

/** {key: [rows]} of these groups. */
json_t *ls_figure_groups(const json_t *rows, const char *const *paths, const char *against);

/** The style of a row's strategy; and the number of its variant in all figures (of micro rows, by
 * `label`). */
int ls_figure_style(const json_t *row);
int ls_figure_variant(ls_figures *figures, const json_t *row, const char *label);

/** Reports what is missing and why, after the figure's name, and how many; nothing if 0. */
void ls_figure_leave(ls_figures *figures, const char *name, size_t count, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** Notes in what the rows of one label of a figure differ (ls_report_merged), and reports it once
 * the figure is to stay. */
void ls_figure_merged(json_t *figure, const json_t *cases, const char *at, bool line);
void ls_figure_tell_merged(ls_figures *figures, const json_t *figure);

/** Notes that the rows make no figure of this kind. */
void ls_figure_miss(ls_figures *figures, const ls_figure_kind *kind);

/** A figure with all but title, series and categories, which `figures` has then; borrowed. */
json_t *ls_figure_add(ls_figures *figures, const ls_figure_kind *kind, const json_t *rows);

/** Sets the title (takes ownership), and `alt` from it and from `about`, which describes the
 * drawing. Marks the rows as used. */
void ls_figure_title(ls_figures *figures, json_t *figure, const json_t *rows, json_t *title,
                     const char *about);

/** Adds an empty series; borrowed. If another one has the variant's mark and colour, it gets the
 * next variant with a free mark or, where there is none, with other dashes. */
json_t *ls_figure_series(json_t *figure, const char *name, int style, int variant);

/** Adds a point, unless it is too far away for any axis (1e100); so are not its bounds. */
void ls_figure_point(json_t *series, double x, double y, double low, double high);

/** Sorts a series by x and merges points of the same x: their median,
 * with the range as its bar. Returns how many points are left. */
size_t ls_figure_merge(json_t *series);

/** The points of all series: a new array. */
json_t *ls_figure_points(const json_t *figure);

/** Number `index` of a point. */
double ls_figure_at(const json_t *point, size_t index);

/** "1.2 ms", "83%", "571,445": a value as people read it. */
char *ls_figure_value(double value, const char *unit, char out[48]);

/** Adds line figures; `first`: those before the bars, otherwise the rest. */
void ls_figures_of_lines(ls_figures *figures, const json_t *rows, bool first);
/** Adds the figures of what shares save and cost beside `mirrored`, if there are such rows. */
void ls_figures_of_shares(ls_figures *figures, const json_t *rows);
void ls_figures_of_layouts(ls_figures *figures, const json_t *rows);
/** Adds the figures with a bar for each case. */
void ls_figures_of_cases(ls_figures *figures, const json_t *rows);

/** Parts of a row that add up to a whole, with the names that figures and tables give them. */
typedef struct ls_row_parts {
    const char *title, *root;     /**< root: path of the group */
    const char *shown[8], *of[8]; /**< names for people, NULL-terminated; names of the members */
    const char *unit;
} ls_row_parts;
extern const ls_row_parts ls_parts_of_step, ls_parts_of_memory;

/** The value of part `index`; `fallback` where the row has none. */
double ls_part_value(const json_t *row, const ls_row_parts *parts, size_t index, double fallback);
/** Of all parts. */
double ls_parts_sum(const json_t *row, const ls_row_parts *parts);
