/* SPDX-License-Identifier: MIT */
/*
 * Selection: the rows of a results file that --where, --since and --last select, ordered by time or
 * by --sort. Shared by the verbs of `results`.
 */
#pragma once

#include "bench/cli/option_set.h"
#include "bench/output/format_parts.h"
#include "bench/output/results_db.h"
#include "bench/output/row_filter.h"

typedef struct ls_selection {
    ls_row_filter *filter; /**< NULL: all rows */
    char since[21];        /**< "": of all times */
    int64_t last;          /**< INT64_MAX: all */
    ls_row_key sort;       /**< "": by time */
    bool descending;
} ls_selection;

/** Reads the options. */
ls_status ls_selection_open(const ls_option_set *set, ls_selection *out);
void ls_selection_close(ls_selection *selection);

/** Visits the selected rows, whole or brief; *count, which may be NULL, is set to their number. */
ls_status ls_selection_each(const ls_selection *selection, ls_results *results, ls_rows_kind kind,
                            ls_row_visit visit, void *context, size_t *count);

/** The row that a person names: an id, the beginning of one, "last", "last~2" (two before it).
 *  Owned by the caller (json_decref). */
ls_status ls_selection_one(ls_results *results, const char *name, json_t **out);
