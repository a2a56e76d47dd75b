/* SPDX-License-Identifier: MIT */
/* Kinds of figures of lines: what each takes from a row, and how it says what it found. */
#ifndef LS_BENCH_REPORT_FIGURE_KINDS_H
#define LS_BENCH_REPORT_FIGURE_KINDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct ls_line_kind {
    const char *name, *x, *y, *unit;
    const char *title;   /**< of series, y and x of the best one, and x's unit */
    const char *means;   /**< what a point is, for the caption */
    const char *scaling; /**< of the rows; NULL: any */
    const char *group[6];
    void (*points)(const json_t *row, json_t *out);
    const char *by;   /**< a path that tells series apart, too; NULL: none */
    const char *want; /**< what would make the picture */
    const char *ideal;
    const char *formula; /**< a path: what the points are to be; NULL: none */
    const char *apart;   /**< a member of `case` that is x, and tells no series apart; NULL: none */
    int better;          /**< 1: the larger is the better */
    bool log_x, log_y, one; /**< one: a series of one place will do */
} ls_line_kind;

extern const ls_line_kind ls_line_kinds[];
extern const size_t ls_line_kind_count;
/** The first so many come before the bars. */
enum { LS_LINE_KINDS_FIRST = 5 };

/** Adds a point, if it is finite. */
void ls_figure_point(json_t *out, double x, double y, double low, double high);

#endif
