/* SPDX-License-Identifier: MIT */
/*
 * Rows file: JSON lines, as --format jsonl prints them, or a results database; the first bytes tell
 * which.
 */
#pragma once

#include "bench/output/results_db.h"

/** Visits every row. LS_CODE_MISSING, about `what`, if the file cannot be read, or a line (which it
 * names) is not a row of this schema. *unfinished: the last line was skipped, since it is still
 * being written; NULL: such a line is refused. */
ls_status ls_rows_each(const char *what, const char *path, bool *unfinished, ls_row_visit visit,
                       void *context);
