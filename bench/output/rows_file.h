/* SPDX-License-Identifier: MIT */
/*
 * Rows file: rows of JSON lines, as --format jsonl prints them, or of a results database; which of
 * these a file is, its first bytes say.
 */
#pragma once

#include "bench/output/results_db.h"

/** Visits every row. LS_CODE_MISSING, of `what`, where the file cannot be read, or names the line
 *  that is no row of this schema. *unfinished: the last line is being written and was passed over;
 *  NULL: it is refused like any other. */
ls_status ls_rows_each(const char *what, const char *path, bool *unfinished, ls_row_visit visit,
                       void *context);
