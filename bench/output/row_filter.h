/* SPDX-License-Identifier: MIT */
/*
 * Filter: which rows are selected, and their order: `--where`, `--since` and `--sort`.
 *
 * `--where` is a list of conditions, KEY OPERATOR VALUE, all of which have to hold; in a value a
 * comma is written \, and a backslash before a comma or a backslash \\ (ls_list_cut). Numbers are
 * compared exactly (value_order.h).
 *   =  !=         equal, as numbers where both are, else as text. A field that a row lacks is the
 *                 empty text.
 *   > < >= <=     two numbers, or two texts by their bytes (timestamps). Between a number and a
 *                 text, and of a field that a row lacks, never true.
 *   ~             the field's text contains the value.
 * A list's text is its elements joined by '+'; of a switch, yes and no are the same as true and
 * false.
 */
#pragma once

#include "bench/output/row_keys.h"
#include "common/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <time.h>

typedef struct ls_row_filter ls_row_filter;

/** LS_CODE_USAGE names what is wrong in the text, as a text for a field that is a number. */
ls_status ls_row_filter_open(const char *text, ls_row_filter **out);

/** Takes NULL. */
void ls_row_filter_close(ls_row_filter *filter);

/** Whether the row meets all conditions; NULL has none. Fails for lack of memory only. */
ls_status ls_row_filter_holds(const ls_row_filter *filter, const json_t *row, bool *out);

/** Whether a row may stand beside measured ones: it was measured, or a condition speaks of
 * predictions (a field of the group `prediction`, or result.warnings). */
bool ls_row_filter_mixes(const ls_row_filter *filter, const json_t *row);

/** The paths of the conditions, one by one; NULL after the last. */
const char *ls_row_filter_path(const ls_row_filter *filter, size_t index);

/** "2d", "12h", "30min", "1w" before `now`, or a date, with or without a time (UTC), as the
 *  timestamp that rows are compared with: "2026-11-20T00:00:00Z". */
ls_status ls_since_read(const char *text, time_t now, char stamp[21]);
