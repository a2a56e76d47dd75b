/* SPDX-License-Identifier: MIT */
/*
 * Rows file: JSON lines, as --format jsonl prints them, or a results database; the first bytes tell
 * which. A report's folder stands for the rows in it.
 */
#pragma once

#include "bench/output/results_db.h"

#define LS_ROWS_NAME "rows.jsonl" /**< in a report's folder */

/** Visits every row; a last line needs no line feed. LS_CODE_MISSING, about `what`, if the file
 * cannot be read, or a line (which it names) is not a row of this schema. */
ls_status ls_rows_each(const char *what, const char *path, ls_row_visit visit, void *context);

/** Adds the rows of a file to one in memory: JSON lines, a database, or a report's folder; as
 * ls_rows_each. A row whose id is known is skipped. counts: how many rows were added, how many were
 * known. */
ls_status ls_results_load(ls_results *results, const char *what, const char *path,
                          size_t counts[2]);
