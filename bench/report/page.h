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

/** Adds what the templates show to `out`, an object. `rows`: those chosen in `results`
 * (results_query.h), oldest first; `figures`: see pictures.h, where `svg` is each one's drawing as
 * the page has it, if there is one. Why things are missing is added to `left_out`, an array of
 * texts, which the page has, too. */
ls_status ls_page_values(ls_results *results, const json_t *rows, json_t *figures, json_t *left_out,
                         const ls_report_options *options, json_t *out);

/** Write files, as ls_whole_file does: the rows as JSON lines, and a figure's data. */
ls_status ls_page_rows(FILE *stream, void *rows);
ls_status ls_page_csv(FILE *stream, void *figure);

/* ---- Parts of these values ------------------------------------------------------------------- */

/** Adds {again: {cases: lines of a plan; commands: those that run it in the report's folder and
 * compare both}}, unless no row is of a case that a plan can have; and how many `others` are not,
 * from the queries `repeated` and `repeat`. */
void ls_report_plan(const json_t *rows, json_t *out);

/** {headline, where, text; lines, cases: the table's lines}: of the rows of the model and
 * batch with most strategies; NULL if no row has a time. What rows of one case differ in is added
 * to `left_out`. */
json_t *ls_finding(const json_t *rows, const char *against, json_t *left_out);

/** {pairs: the table's lines; alone: texts}: cases by the values of the key at this path. */
json_t *ls_against(const json_t *rows, const char *key, json_t *left_out);

/** Set a member to a text; to a number, unless that is not finite; to a figure with its interval,
 * if it has one: "25,600 (25,347 to 25,859)". */
void ls_page_text(json_t *to, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void ls_page_number(json_t *to, const char *name, const char *format, double value);
void ls_page_interval(json_t *to, const char *name, ls_interval figure);

/** The median of a number over rows; NaN: none has it. Of time.step_ms.median that of the pace
 * (ls_row_pace), as pictures and titles have it. */
double ls_page_median(const json_t *rows, ls_field_number field);

/** {key: [rows]} of the rows with a time, by machine and these fields [count]. */
json_t *ls_page_groups(const json_t *rows, const ls_field_number *fields, size_t count,
                       const char *against);
bool ls_page_is_timed(const json_t *row, const void *unused); /**< for ls_report_those */

/** Reports in what the rows of one case, {label: [rows]}, of a table differ. */
void ls_page_merged(const char *table, const json_t *cases, json_t *left_out);

/** "bounded", "exact", "not compared", "FAILED". */
const char *ls_gate_word(const json_t *row);
