/* SPDX-License-Identifier: MIT */
/*
 * Report: a folder with one page, pictures and their data, made from rows.
 *
 *   index.html  all of it in one file, which loads nothing else
 *   report.md   the page in short, for a pull request
 *   table.tex   its first table for LaTeX (booktabs)
 *   report.bib, report.yaml   how to cite the rows; a plan that makes them again
 *   rows.jsonl  the rows
 *   NAME.svg, NAME.png, NAME.pdf, NAME.csv   each picture and its data; in PNG and PDF letters
 *               that usual fonts do not have are written "\u65e5"
 *
 * The rows decide which pictures there are; the page gives reasons for missing ones. gnuplot draws.
 */
#pragma once

#include "bench/output/results_db.h"
#include "common/base/status.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct ls_report_options {
    const char *out;     /**< the folder; made where it is missing */
    const char *against; /**< path of a key whose values are compared side by side; NULL if none */
    bool bare;           /**< PDFs have neither title nor footer: a paper has a caption */
    double letters;      /**< printed points of their letters; 0 means 6.2 */
    const char *url;     /**< where the report or the project is, for BibTeX; NULL means nowhere */
} ls_report_options;

/** Borrows the rows (an array, oldest first), which are chosen in `results` (results_db.h).
 * LS_CODE_MISSING if the folder cannot be written, or gnuplot is missing: page, tables and data are
 * written nevertheless. */
ls_status ls_report_write(ls_results *results, const json_t *rows,
                          const ls_report_options *options);

/** [{name}, ..]: names for the rows that distinguish their cases: "ps async staleness=2 on 4".
 * Owned by the caller (json_decref). */
ls_status ls_report_names(const json_t *rows, json_t **out);
