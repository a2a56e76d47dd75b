/* SPDX-License-Identifier: MIT */
/* Kinds of line figures: what each uses of a row; see figure_lines.c. */
#pragma once

#include "bench/report/figures.h"

#include <stdint.h>

/** Properties of a kind. */
enum {
    LS_LINE_FALLS = 1,    /* smaller is better */
    LS_LINE_LOG_X = 2,    /* if the numbers allow it */
    LS_LINE_LOG_Y = 4,    /* the same */
    LS_LINE_ONE = 8,      /* a series with a single point is enough */
    LS_LINE_SCALES = 16,  /* one figure for strong and one for weak rows: NAME-strong, NAME-weak */
    LS_LINE_FIRST = 32,   /* before the bar figures */
    LS_LINE_SHARES = 64,  /* of a list's elements in its sum; the title names the largest */
    LS_LINE_LINEAR = 128, /* the ideal grows like x */
    LS_LINE_FLAT = 256,   /* the ideal is 1 */
    LS_LINE_PACED = 512,  /* grows with the row's rate, or step: has their interval */
    LS_LINE_PACE = 1024   /* it is that rate, or step: of unlike steps that of their mean */
};

typedef struct ls_line_kind {
    const char *name, *x, *y, *unit;
    const char *of;           /* path of y: a number, or a list, whose elements form a line */
    const char *at;           /* path of x; NULL: devices, or the index in the list */
    const char *title;        /* of series, y and x of the best one */
    const char *means;        /* what a point means, for the caption */
    const char *want;         /* what is needed to draw the picture */
    const char *const *group; /* paths: one figure per combination */
    unsigned flags;           /* see above */
    const char *by;           /* path of the value that separates series; NULL: the case */
    const char *formula;      /* path of the predicted value */
    const char *from, *pace;  /* for a list, paths: x of its first element, and ms between elements;
                               * NULL: 0, and x is the index */
} ls_line_kind;

extern const ls_line_kind ls_line_kinds[];
extern const size_t ls_line_kind_count;

/** ls_line_kind.at of figures over the bandwidth of links, one for each latency. */
extern const char ls_line_link[];

/** A row's x at that path; negative: it has none. */
double ls_line_x(const json_t *row, const char *at);

/** Bandwidth of the row's link, in MB/s, and its latency; negative: it has none, or no limit. */
double ls_line_bandwidth(const json_t *row, uint64_t *latency_ns);

/** Adds the row's points to a series. */
void ls_line_add(const json_t *row, const ls_line_kind *kind, json_t *series);
