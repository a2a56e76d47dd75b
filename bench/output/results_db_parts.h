/* SPDX-License-Identifier: MIT */
/* Parts of the results database: what its files share: the connection in
 * results_db.c, rows in results_rows.c, the view in results_view.c, functions in results_query.c
 * and results_numbers.c, statements in store.sql. */
#pragma once

#include "bench/output/results_db.h"

struct ls_results {
    sqlite3 *db;
    char *path;        /* as the user wrote it */
    bool opening;      /* all waiting for locks while opening counts together */
    uint64_t wait_end; /* when waiting for a lock ends (ls_clock_ns) */
};

/** "<why>; --results FILE names another" */
ls_status ls_results_refuse(const char *path, const char *why);

/** A section of store.sql, owned by the caller (free); NULL if memory is short. */
char *ls_results_part(const char *name);

/** Adds the functions and, for a connection with rows, views of results_db.h; an SQLite code. */
int ls_results_attach(sqlite3 *db, bool rows);

/** Adds the functions on numbers (results_numbers.c). */
int ls_results_add_numbers(sqlite3 *db);

/** The head of a function of SQL. */
#define LS_SQL_FUNCTION(name)                                                                      \
    static void name(sqlite3_context *context, __attribute__((unused)) int count,                  \
                     sqlite3_value **value)

/** An argument as text; "" for NULL. */
static inline const char *ls_sql_text(sqlite3_value *value)
{
    const char *text = (const char *)sqlite3_value_text(value);
    return text ? text : "";
}

/** Gives a copy of the text as the result; NULL for NULL. */
static inline void ls_sql_give(sqlite3_context *context, const char *text)
{
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

/** Functions whose result follows from their arguments alone. */
enum { LS_PURE = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS };

/** Begins the text of a view of ours. A user's own object of that name is left alone. */
#define LS_RESULTS_VIEW_MARK "CREATE VIEW v AS /* lockstep */ "

/** The text of the view `v`, owned by the caller (free); NULL if memory is short. With `own` the
 * view of this connection, with the columns that results_db.h adds; else the file's. */
char *ls_results_view_text(bool own);
