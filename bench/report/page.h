/* SPDX-License-Identifier: MIT */
/* Page: writes index.html and report.md. */
#pragma once

#include "bench/report/case_keys.h"
#include "bench/report/report.h"

#include <stdio.h>

/** The contents of a page; borrowed. */
typedef struct ls_page {
    const json_t *rows;     /**< oldest first */
    const json_t *figures;  /**< see figures.h; `svg` holds each one's drawing, if there is one */
    const json_t *left_out; /**< texts */
    const json_t *finding;  /**< see ls_finding */
    const json_t *ratios;   /**< of --against; see ls_ratios */
    const json_t *machines; /**< {machine: provenance of its newest row} */
    const ls_report_options *options;
} ls_page;

void ls_page_write(FILE *stream, const ls_page *page);
void ls_page_markdown(FILE *stream, const ls_page *page);

/** Writes the table of rows, each of which can be opened. */
void ls_page_rows(FILE *stream, const ls_page *page);

/** Style and script of the page, as text. */
extern const char ls_page_style[], ls_page_script[];

/** {headline, proof, where, fastest (one of the cases), cases: [{label, rows, name}]}: the largest
 * comparable set of cases, ordered by rate; NULL where no row has a time. */
json_t *ls_finding(const json_t *rows, const char *against);

/** [{case, values: [{label, rows}]}]: cases that have rows with several values of the key. */
json_t *ls_ratios(const json_t *rows, const char *key);

/** The row that stands for such a case, and its rate; see ls_report_median. */
const json_t *ls_case_row(const json_t *one, ls_rate *rate);

/** Write BibTeX for the report, and a plan (YAML) that repeats its rows (report_plan.c). */
void ls_page_bibliography(FILE *stream, const ls_page *page);
void ls_page_plan(FILE *stream, const ls_page *page);

/** "bounded", "exact", "not compared", "FAILED". */
const char *ls_gate_word(const json_t *row);
