/* SPDX-License-Identifier: MIT */
/* Columns, as `--columns KEY,..` names them. */
#pragma once

#include "bench/output/format.h"
#include "bench/output/row_keys.h"

enum { LS_CHOSEN_MOST = 64 };

typedef struct ls_chosen {
    ls_columns columns; /**< none: --columns was not given */
    ls_column column[LS_CHOSEN_MOST];
    char title[LS_CHOSEN_MOST][96]; /**< the keys as they were given */
} ls_chosen;

/** Reads "strategy,time.step_ms.median" (NULL: not given). `out` points into itself: do not move
 * it. LS_CODE_USAGE as of ls_row_key_find. */
ls_status ls_chosen_read(const char *keys, ls_chosen *out);
