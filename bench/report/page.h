/* SPDX-License-Identifier: MIT */
/* Page: the rows of a report as tables that statements of SQL ask (reports/rows.sql), and what its
 * files show of them (reports/page.sql). */
#pragma once

#include "bench/report/report.h"
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
    const json_t *rows;  /**< the chosen rows, oldest first */
    json_t *left_out;    /**< [{text}]: why things are missing */
    const ls_report_options *options;
} ls_page;

/** Makes the tables of reports/rows.sql: from then on the view `s` has only fields that reports
 * name. The page must outlive the statements. Adds `names` for all rows to an object, unless it is
 * NULL. */
ls_status ls_page_open(ls_page *page, json_t *names);

/** Performs a section of a text of SQL (NULL means all sections). A section begins after an empty
 * line with "-- NAME". Its places (template.h) are filled from `values`, which may be NULL. Adds
 * the results to `out`, an object, by the section's name, as ls_results_query does. */
ls_status ls_page_run(const ls_page *page, const char *text, const char *section,
                      const json_t *values, json_t *out);

/** Adds what the templates show to `out`, an object: the results of reports/page.sql, and the
 * pictures (pictures.h), where `svg` is each one's drawing as the page has it, if there is one. */
ls_status ls_page_values(const ls_page *page, json_t *figures, json_t *out);

/** Write files, as ls_whole_file does: the rows as JSON lines, and a picture's data. */
ls_status ls_page_rows(FILE *stream, void *rows);
ls_status ls_page_csv(FILE *stream, void *figure);

/** Adds what report.yaml shows: the results of reports/repeat.sql. */
ls_status ls_report_plan(const ls_page *page, json_t *out);
