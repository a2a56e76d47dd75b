/* SPDX-License-Identifier: MIT */
/*
 * Results database: rows of figures in one SQLite file. A row is committed in its own transaction
 * before it is printed, with full synchronisation, so a killed run loses no finished row. Several
 * programs may write at once, even on several hosts if the file system has locks; without locks,
 * the file is refused. A file that is not an SQLite database, belongs to another program, or has a
 * newer schema is refused and unchanged. One with an older schema is read unchanged, and upgraded
 * when it is opened for writing.
 */
#pragma once

#include "common/base/status.h"

#include <jansson.h>
#include <sqlite3.h>
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

/** One without rows and their views, which is opened in a tenth of the time: for statements on
 * documents. */
ls_status ls_results_functions(ls_results **out);

/** Commits a row: its text, and the columns that people filter by with SQL. */
ls_status ls_results_append(ls_results *results, const json_t *row);

/** A transaction: begin, then additions and deletions, then end, which undoes all of them if
 * `status` is a failure, and relays that. */
ls_status ls_results_begin(ls_results *results);
ls_status ls_results_end(ls_results *results, ls_status status);

/** Adds a row, in a transaction. Its id (text) must be new or, if `known` is given, the row is
 * skipped, and *known set. */
ls_status ls_results_put(ls_results *results, const json_t *row, bool *known);

/** Borrows the row; `number` is its position in the file. */
typedef ls_status (*ls_row_visit)(void *context, int64_t number, const json_t *row);

/** A visit: appends the row to the context, an array. */
ls_status ls_results_collect(void *array, int64_t number, const json_t *row);

/** Visits every row, in the order of the file, which is not locked. Stops at a failure. */
ls_status ls_results_each(ls_results *results, ls_row_visit visit, void *context);

/** The row that a person names: an id, the only one that begins so, "last", or "last~2" (two before
 * it, by time): {number, row}, owned by the caller (json_decref). */
ls_status ls_results_find(ls_results *results, const char *id, json_t **out);

/* ---- Files of rows: JSON lines, as --format jsonl prints them, or a results database; the first
 * bytes tell which. A report's folder stands for the rows in it. */

#define LS_ROWS_NAME "rows.jsonl" /**< in a report's folder */

/** Visits every row; a last line needs no line feed. LS_CODE_MISSING, about `what`, if the file
 * cannot be read, or a line (which it names) is not a row of this schema. */
ls_status ls_rows_each(const char *what, const char *path, ls_row_visit visit, void *context);

/** Adds the rows of a file to one in memory: JSON lines, a database, or a report's folder; as
 * ls_rows_each. A row whose id is known is skipped. counts: how many rows were added, how many were
 * known. */
ls_status ls_results_load(ls_results *results, const char *what, const char *path,
                          size_t counts[2]);

/* ---- Statements of SQL ---------------------------------------------------------------------- */

/* Questions to rows in SQL. What each connection has for them, to a results file or to rows in
 * memory, is said in store.sql (views and tables) and functions.sql. */

/** A statement, to be given to sqlite3_finalize. LS_CODE_MISSING names the file. */
ls_status ls_results_prepare(ls_results *results, const char *sql, sqlite3_stmt **out);

/** The next row of its result; *more is false after the last. */
ls_status ls_results_step(ls_results *results, sqlite3_stmt *statement, bool *more);

/** Performs each statement of a text, whose parameters :NAME are members of `values` (NULL if there
 * is none): a number, a text, or else JSON text. Appends an object for each row of a result
 * to `out` unless that is NULL. A column is a member, "name:json" one whose JSON text it has; NULL
 * leaves it out. */
ls_status ls_results_query(ls_results *results, const char *sql, const json_t *values, json_t *out);

/** As above, on a database without rows: in the query, :document is the JSON text and :format a
 * text (NULL if there is none). */
ls_status ls_document_query(const char *sql, const json_t *document, const char *format,
                            json_t *out);

/** Performs a section of a text, as ls_results_query does. Sections begin after an empty line with
 * "-- NAME", up to a colon or the line's end. */
ls_status ls_results_section(ls_results *results, const char *text, const char *name,
                             const json_t *values, json_t *out);

/** A section of store.sql. */
ls_status ls_results_do(ls_results *results, const char *step, const json_t *values, json_t *out);

/** The next section of *text, owned by the caller (free), and its name; *text becomes what follows.
 * NULL after the last one. */
char *ls_sql_section(const char **text, char name[32]);

/** Performs statements that have no result. */
ls_status ls_results_execute(ls_results *results, const char *sql);

/** The connection, for functions of a caller's own. Borrowed. */
sqlite3 *ls_results_handle(ls_results *results);

/** Visits the rows in `chosen`, in order, without a lock on the file meanwhile. */
ls_status ls_results_chosen(ls_results *results, ls_row_visit visit, void *context);

/** A database in memory with the rows of an array, numbered from 1, all chosen; they need no id.
 * Close it also after a failure, unless it is NULL. */
ls_status ls_results_of_rows(const json_t *rows, ls_results **out);

/** *out: the first number of a statement's result; 0 if it has no row. */
ls_status ls_results_ask(ls_results *results, const char *sql, int64_t *out);

/** The text of a column; "" for NULL. Borrowed until the next step. */
const char *ls_results_text(sqlite3_stmt *statement, int column);

/** Takes NULL. */
void ls_results_close(ls_results *results);
