/* SPDX-License-Identifier: MIT */
/*
 * Questions to rows in SQL. Each connection, to a results file or to rows in memory, has
 * - the view `v`: `number` (the rowid), `row` (its JSON text), a column for each field, named by
 *   its path ("time.step_ms.median"; see results_view.c for the types), and what follows from
 *   several fields:
 *     devices                      how many
 *     pace, pace_low, pace_high    ms, as ls_row_pace; bounds are NULL where there is no interval
 *     rate, rate_low, rate_high    samples per second of the same
 *     uneven, is_bad, is_predicted, is_noisy, is_candidate   0 or 1
 * - the table `chosen` (place, number), empty at first: rows in an order; and the view `s`: of
 * these rows `place` and all that `v` has
 * - number_text(x): a number as its shortest text that reads back; a text is itself
 *   list_text(x): a JSON list or map joined by '+', as in CSV; anything else as number_text
 *   optimizer_shown(x): without values that are the optimizer's defaults
 *   bytes_text(x): "1.5 MiB"
 *   case_key(row, but): a text that is equal for rows of the same case (LS_BUT_.., row_same.h);
 *   case_key(row, but, of): and of these parts of a machine (LS_OF_..)
 *   the collation NUMBERED: "cpu:2" before "cpu:10"
 * A column that a statement does not use costs nothing.
 */
#pragma once

#include "bench/output/results_db.h"

#include <sqlite3.h>

/** Visits the rows in `chosen`, in order, without a lock on the file meanwhile; `row`: "row", or an
 * expression of SQL for the JSON text of a part of it. */
ls_status ls_results_chosen(ls_results *results, const char *row, ls_row_visit visit,
                            void *context);
