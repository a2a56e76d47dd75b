/* SPDX-License-Identifier: MIT */
/*
 * Results database: rows of figures in one SQLite file. A row is committed in its own transaction
 * before it is printed, with full synchronisation, so a killed run loses no finished row. Several
 * programs may write at once, even on several hosts if the file system has locks; without locks,
 * the file is refused. A file that is not an SQLite database, belongs to another program, or has a
 * newer schema is refused and unchanged. One with an older schema is read as it is, and upgraded
 * when it is opened for writing.
 */
#pragma once

#include "common/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ls_results ls_results;

/** The default file that `run` writes and `results` reads. */
#define LS_RESULTS_DEFAULT "results/lockstep.db"

/** Opens `path`; with `create`, creates it if it is missing (and the folder of LS_RESULTS_DEFAULT).
 * LS_CODE_MISSING names the file and what is wrong with it. */
ls_status ls_results_open(const char *path, bool create, ls_results **out);

/** An empty database in memory. */
ls_status ls_results_memory(ls_results **out);

/** Commits a row: its text, and the columns that people filter by with SQL. */
ls_status ls_results_append(ls_results *results, const json_t *row);

/** A transaction: begin, then additions and deletions, then end, which undoes all of them if
 * `status` is a failure, and relays that. */
ls_status ls_results_begin(ls_results *results);
ls_status ls_results_end(ls_results *results, ls_status status);

/** Adds a row, whose id (text) must be new; in a transaction. */
ls_status ls_results_put(ls_results *results, const json_t *row);
/** Deletes the row of this number; in a transaction. */
ls_status ls_results_delete(ls_results *results, int64_t number);
/** Gives the row of this id another label, or with "" none; in a transaction. */
ls_status ls_results_relabel(ls_results *results, const char *id, const char *label);
/** Whether there is a row of this id. */
ls_status ls_results_has(ls_results *results, const char *id, bool *out);

/** Rows with all fields, or only with the fields of ls_results_brief_has, which is ten times as
 * fast. */
typedef enum ls_rows_kind { LS_ROWS_WHOLE, LS_ROWS_BRIEF } ls_rows_kind;

/** Whether brief rows have the field of this path. */
bool ls_results_brief_has(const char *path);

/** Borrows the row; `number` is its position in the file. */
typedef ls_status (*ls_row_visit)(void *context, int64_t number, const json_t *row);

/** A visit: appends the row to the context, an array. */
ls_status ls_results_collect(void *array, int64_t number, const json_t *row);

/** Visits every row, in the order of the file, which is not locked meanwhile. Stops at a failure.
 */
ls_status ls_results_each(ls_results *results, ls_rows_kind kind, ls_row_visit visit,
                          void *context);

/** The row with this number, owned by the caller (json_decref); NULL if it was deleted. */
ls_status ls_results_at(ls_results *results, int64_t number, json_t **out);

/** The row of this id (or of the only id that starts so), owned by the caller (json_decref). */
ls_status ls_results_find(ls_results *results, const char *id, json_t **out);

/** Takes NULL. */
void ls_results_close(ls_results *results);
