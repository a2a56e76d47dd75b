/* SPDX-License-Identifier: MIT */
/*
 * Keys: how a person names a field of a row: by its path ("time.step_ms.median"), or by the last
 * part of it where no other path ends so ("median"). The paths are those of CSV, so that a name
 * means the same whatever rows there are. Fields of `train.target` are named by path only, so that
 * "accuracy" is the one that was reached.
 */
#pragma once

#include "common/base/status.h"

#include <stddef.h>

enum { LS_ROW_PATH_SIZE = 96 };

typedef struct ls_row_key {
    char path[LS_ROW_PATH_SIZE];
} ls_row_key;

/** Finds the field. LS_CODE_USAGE, which names the option and lists candidates, where the name is
 * unknown or ambiguous. The name has `length` characters. */
ls_status ls_row_key_find(const char *option, const char *name, size_t length, ls_row_key *out);
