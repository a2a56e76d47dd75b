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
    const char *commands; /**< ls_report_commands */
} ls_page;

/** Files of an ls_page, as ls_whole_file writes them; of BibTeX, its first table for LaTeX, and the
 * plan (YAML) that makes its rows again, and these as JSON lines: report_latex.c, report_plan.c. */
ls_status ls_page_html(FILE *stream, void *page);
ls_status ls_page_markdown(FILE *stream, void *page);
ls_status ls_page_bibliography(FILE *stream, void *page);
ls_status ls_page_latex(FILE *stream, void *page);
ls_status ls_page_plan(FILE *stream, void *page);
ls_status ls_page_rows(FILE *stream, void *page);

/** The commands that run the plan again in the report's folder and compare both, a line each, owned
 * by the caller (free). NULL: no row is of a case that a plan can have, or no memory. */
char *ls_report_commands(const json_t *rows);

/** Writes the text's lines, `before` in front of each. */
void ls_page_lines(FILE *stream, const char *text, const char *before);

/** The data of a figure. */
ls_status ls_page_csv(FILE *stream, void *figure);

/** Style and script of the page, as text. */
extern const char ls_page_style[], ls_page_script[];

/** {headline, proof, where, lines (texts: who is fastest in each environment, where there are
 * several), cases: [{label, rows, over: [ratio, low, high] of the fastest's rate; absent: not
 * compared with it}]}: of the rows of the model and batch with most strategies; the fastest first;
 * NULL if no row has a time. What rows of one case differ in is added to `left_out`, an array of
 * texts. */
json_t *ls_finding(const json_t *rows, const char *against, json_t *left_out);

/** [{case, values: [{label, rows}]}]: cases that have rows with several values of the key. */
json_t *ls_ratios(const json_t *rows, const char *key, json_t *left_out);

/** What of the rows was predicted, and how far it is to be trusted, a text; NULL: nothing was. */
json_t *ls_page_predicted(const json_t *rows);

/** The text of each model that is from a file (--model graph:FILE), once, to open. */
void ls_page_models(FILE *stream, const json_t *rows);

/** "bounded", "exact", "not compared", "FAILED". */
const char *ls_gate_word(const json_t *row);
