/* SPDX-License-Identifier: MIT */
/*
 * Keys: how a user names a field of a row: by its path ("time.step_ms.median"), by the end of it
 * ("step_ms.median") if no other path ends so or it is a field of `case`, or by a table's heading
 * ("step ms", "bucket-bytes"). The paths are the fields of bench/rows/fields.def
 * and the options that strategies, models and data sets declare, so that a name means the same for
 * all rows. Some are named by path only (LS_SHOWN_BY_PATH): "accuracy" is the one reached, not the
 * target, and "messages_sent" is what a step sends.
 */
#pragma once

#include "common/base/declared.h"
#include "common/base/status.h"

#include <sqlite3.h>
#include <stddef.h>

/** The paths of all fields that a row may have, in the order of CSV, NULL-terminated. Fields of
 * other programs' rows, which CSV does not have, come last (LS_GROUP_FOREIGN). */
const char *const *ls_row_paths(void);

/** The option of a strategy, model or data source that is the field at this path, or NULL. */
const ls_declared_option *ls_row_declared(const char *path);

/** Fills SQL's table of fields (store.sql) with these, and with the groups; an SQLite code. */
int ls_row_fields(sqlite3 *db);

/** Finds the field, one of ls_row_paths. LS_CODE_USAGE, with the option and a list of candidates,
 * if the name is unknown or ambiguous. The name has `length` characters. */
ls_status ls_row_key_find(const char *option, const char *name, size_t length, const char **out);
