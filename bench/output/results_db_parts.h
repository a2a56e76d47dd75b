/* SPDX-License-Identifier: MIT */
/* Parts of the results database: what its files share: the connection in
 * results_db.c, rows in results_rows.c, functions in functions.sql, results_query.c and
 * results_numbers.c, statements in store.sql. */
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

/** The failure of an SQLite code. The failed statement must be reset or finalized before. */
ls_status ls_results_failure(const ls_results *results, int code);

/** Adds the functions of functions.sql and, for a connection with rows, the views of store.sql. */
ls_status ls_results_attach(ls_results *results, bool rows);

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

/** The text of the view `v` (functions.sql), owned by the caller (free); NULL without memory. */
char *ls_results_view_text(sqlite3 *db, const char *derived);
