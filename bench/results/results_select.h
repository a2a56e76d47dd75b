/* SPDX-License-Identifier: MIT */
/*
 * Selection: the rows of a results file that --where, --since and --last leave, in the order of
 * their time, or of --sort. What verbs of `results` share.
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
    ls_row_key sort;       /**< NULL: by time */
    bool descending;
} ls_selection;

/** Reads the options. */
ls_status ls_selection_open(const ls_option_set *set, ls_selection *out);
void ls_selection_close(ls_selection *selection);

/** Visits the rows, whole or (where that will do) brief; *count, which may be NULL, says how many
 *  there are. */
ls_status ls_selection_each(const ls_selection *selection, ls_results *results, ls_rows_kind kind,
                            ls_row_visit visit, void *context, size_t *count);

/** The row that a person names: an id, the beginning of one, "last", "last~2" (two before it).
 *  Owned by the caller (json_decref). */
ls_status ls_selection_one(ls_results *results, const char *name, json_t **out);
