/* SPDX-License-Identifier: MIT */
/*
 * Selection: which rows are meant, and their order: `--where`, `--since`, `--last` and `--sort`, as
 * one statement of SQL on the view `v` (results_db.h).
 *
 * `--where` is a list of conditions, KEY OPERATOR VALUE, all of which have to hold; in a value a
 * comma is written \, and a backslash before a comma or a backslash \\ (ls_list_cut). What each
 * operator means is said in functions.sql (`condition`).
 *   Order: by time or, with `--sort`, by a field: numbers, texts, and last, in either direction,
 * rows without it; equal ones by time. `--last` counts by time.
 */
#pragma once

#include "bench/output/results_db.h"
#include "bench/output/row_keys.h"

#include <time.h>

/** All zero: all rows. */
typedef struct ls_selection {
    char *sql;    /**< SELECT number FROM v .., in order; owned */
    bool narrows; /**< --where or --since is given */
    bool
        predictions; /**< a condition names predictions, so predicted rows may join measured ones */
} ls_selection;

/** Reads the options' texts; NULL if not given. LS_CODE_USAGE names what is wrong in one, as a text
 * for a field that is a number. */
ls_status ls_selection_open(const char *where, const char *since, const char *last,
                            const char *sort, ls_selection *out);
void ls_selection_close(ls_selection *selection);

/** Fills the table `chosen`; *count is how many rows that are. */
ls_status ls_selection_choose(const ls_selection *selection, ls_results *results, size_t *count);

/** Leaves predicted rows out of `chosen`, unless a condition speaks of them. Places
 * have no gaps. */
ls_status ls_selection_unmix(const ls_selection *selection, ls_results *results);

/** "2d", "12h", "30min", "1w" before `now`, or a date, with or without a time (UTC), as the
 *  timestamp that rows are compared with: "2026-11-20T00:00:00Z". */
ls_status ls_since_read(const char *text, time_t now, char stamp[21]);
