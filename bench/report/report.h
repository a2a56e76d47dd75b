/* SPDX-License-Identifier: MIT */
/*
 * Report: a folder with one page, pictures and their data, made of rows.
 *
 *   index.html  all of it in one file, which asks for nothing
 *   report.md   the same in short, for a pull request
 *   NAME.svg, NAME.png, NAME.pdf, NAME.csv   each picture and its data
 *
 * Which picture there is, the rows decide; what is left out is said with the reason. gnuplot draws.
 */
#pragma once

#include "common/base/status.h"

#include <jansson.h>

typedef struct ls_report_options {
    const char *out;     /**< the folder; made where it is missing */
    const char *against; /**< path of a key whose values stand side by side; NULL: none */
    const json_t *notes; /**< texts: what was not read, and why */
    /** What bounds a row, in plain words (free); may give NULL. NULL: nothing is said. */
    char *(*explain)(const json_t *row);
} ls_report_options;

/** Borrows the rows (an array, oldest first). LS_CODE_MISSING where the folder cannot be written,
 *  or gnuplot is missing: then page, tables and data are there all the same. */
ls_status ls_report_write(const json_t *rows, const ls_report_options *options);
