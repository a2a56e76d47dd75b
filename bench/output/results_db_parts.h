/* SPDX-License-Identifier: MIT */
/* Parts of the results database: the open file, for results_db.c, which opens it, and
 * results_rows.c. */
#pragma once

#include "bench/output/results_db.h"

#include <sqlite3.h>

struct ls_results {
    sqlite3 *db;
    char *path;        /* as the user wrote it */
    char *parsed_text; /* the last row that a function of SQL parsed, and its text; NULL: none */
    json_t *parsed;
    sqlite3_stmt *kept; /* the last one that was to be kept, and its text */
    const char *kept_sql;
};

/** "<why>; --results FILE names another" */
ls_status ls_results_refuse(const char *path, const char *why);

/** The failure of an SQLite code. Reset or finalize the failed statement first. */
ls_status ls_results_refuse_sqlite(const ls_results *results, int code);

/** Adds the functions and views of results_db.h to the connection. */
ls_status ls_results_make_ready(ls_results *results);

/* ---- The view `v` (results_view.c) ---------------------------------------------------------- */

/** Its text, owned by the caller (free); NULL: out of memory. `own`: that of this connection, with
 * what results_db.h says; else that of the file. */
char *ls_results_view_sql(bool own);

/** Makes the file's, or replaces an older one of ours, not what a user has of that name; in a
 * transaction. */
ls_status ls_results_renew_view(ls_results *results);
