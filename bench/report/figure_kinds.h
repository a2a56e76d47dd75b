/* SPDX-License-Identifier: MIT */
/* Kinds of figures of lines: what each takes from a row, and how it says what it found. */
#ifndef LS_BENCH_REPORT_FIGURE_KINDS_H
#define LS_BENCH_REPORT_FIGURE_KINDS_H

#include "bench/report/figures.h"

enum {
    LS_LINE_FALLS = 1,   /**< the smaller is the better */
    LS_LINE_LOG_X = 2,   /**< where the numbers allow it */
    LS_LINE_LOG_Y = 4,   /**< the same */
    LS_LINE_ONE = 8,     /**< a series of one place will do */
    LS_LINE_SCALES = 16, /**< a figure of strong and one of weak rows: NAME-strong, NAME-weak */
    LS_LINE_FIRST = 32,  /**< comes before the bars */
    LS_LINE_SHARES = 64  /**< a list's elements are shares of its sum */
};

typedef struct ls_line_kind {
    const char *name, *x, *y, *unit;
    const char *of;           /**< path of y: a number, or a list, whose elements are a line */
    const char *at;           /**< path of x; NULL: devices, or the place in the list */
    const char *title;        /**< of series, y and x of the best one */
    const char *means;        /**< what a point is, for the caption */
    const char *want;         /**< what would make the picture */
    const char *const *group; /**< paths: a figure each */
    unsigned flags;           /**< LS_LINE_* */
    const char *ideal;        /**< see figures.h */
    const char *by;           /**< path of what tells series apart, in place of the case */
    const char *formula;      /**< path of what the points are to be */
    const char *from, *pace; /**< of a list, paths: place of its first, and ms from one to the next;
                                NULL: 0, and x counts places */
} ls_line_kind;

extern const ls_line_kind ls_line_kinds[];
extern const size_t ls_line_kind_count;

#endif
