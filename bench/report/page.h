/* SPDX-License-Identifier: MIT */
/* Page: values for the templates of a report's files (reports/page.html and others), and the files
 * that need no template. */
#pragma once

#include "bench/report/report.h"
#include "bench/rows/row.h"
#include "bench/statistics/statistics.h"
#include "common/base/escape.h"

#include <stdio.h>

/** A file that is made by a template (template.h). */
typedef struct ls_page_template {
    const char *name; /**< "index.html" */
    const char *text;
    ls_escape escape;
} ls_page_template;

enum { LS_PAGE_TEMPLATES = 5 };
extern const ls_page_template ls_page_templates[LS_PAGE_TEMPLATES];

/** What a report is made of; borrowed. */
typedef struct ls_page {
    ls_results *results; /**< in memory, with the rows chosen (results_db.h) */
    const json_t *rows;  /**< the same, oldest first */
    json_t *left_out;    /**< texts: why things are missing; the page has them, too */
    const ls_report_options *options;
    const json_t *differences; /**< of all rows: what their labels say; set by ls_page_values */
} ls_page;

/** Adds what the templates show to `out`, an object: the results of reports/page.sql, and figures
 * (pictures.h), where `svg` is each one's drawing as the page has it, if there is one. */
ls_status ls_page_values(ls_page *page, json_t *figures, json_t *out);

/** Write files, as ls_whole_file does: the rows as JSON lines, and a figure's data. */
ls_status ls_page_rows(FILE *stream, void *rows);
ls_status ls_page_csv(FILE *stream, void *figure);

/* ---- Parts of these values ------------------------------------------------------------------- */

/** Adds {again: {cases: lines of a plan; commands: those that run it in the report's folder and
 * compare both}}, unless no row is of a case that a plan can have; and how many `others` are not,
 * from the queries `repeated` and `repeat`. */
void ls_report_plan(const json_t *rows, json_t *out);

/** Makes the table `told` (place, pool, title, name, v, low, high) for the queries: a line for each
 * row of the model and batch with most strategies, by pools of rows that may be compared
 * (ranking.h; "NUMBER|by what"), with its case's title and name and its figure to compare by; and,
 * for --against, in the pool `pair`, a line for each row with its case as title and its value as
 * name. */
ls_status ls_page_tell(const ls_page *page);

/** The fields in which two rows, by place, are of different cases or machines, besides the key of
 * --against, as text; owned by the caller (free). */
char *ls_page_between(const ls_page *page, size_t place, size_t other);

/** "bounded", "exact", "not compared", "FAILED". */
const char *ls_gate_word(const json_t *row);
