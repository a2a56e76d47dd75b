/* SPDX-License-Identifier: MIT */
/* A filter on rows that are in no database: the conditions of `--where` (selection.h). */
#pragma once

#include "bench/output/row_keys.h"
#include "common/base/status.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct ls_row_filter ls_row_filter;

/** LS_CODE_USAGE names what is wrong in the text, as a text for a field that is a number. */
ls_status ls_row_filter_open(const char *text, ls_row_filter **out);

/** Takes NULL. */
void ls_row_filter_close(ls_row_filter *filter);

/** Whether the row meets all conditions; NULL has none. */
ls_status ls_row_filter_holds(const ls_row_filter *filter, const json_t *row, bool *out);

/** Whether a row may stand beside measured ones: it was measured, or a condition speaks of
 * predictions. */
bool ls_row_filter_mixes(const ls_row_filter *filter, const json_t *row);
