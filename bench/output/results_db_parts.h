/* SPDX-License-Identifier: MIT */
/* Parts of the results database: the open file, for results_db.c, which opens it, and
 * results_rows.c. */
#pragma once

#include "bench/output/results_db.h"

#include <sqlite3.h>

struct ls_results {
    sqlite3 *db;
    char *path;        /* as the user wrote it */
    json_t *shared;    /* texts that brief rows refer to by hash, as far as they were read; NULL:
                          none */
    bool ready;        /* has the functions and views of results_query.h */
    char *parsed_text; /* the last row that a function of SQL parsed, and its text; NULL: none */
    json_t *parsed;
};

/** "<why>; --results FILE names another" */
ls_status ls_results_refuse(const char *path, const char *why);

/** The failure of an SQLite code. Reset or finalize the failed statement first. */
ls_status ls_results_refuse_sqlite(const ls_results *results, int code);

/** Returns SQLite's code. */
int ls_results_execute(ls_results *results, const char *sql);

/** Sets *out to the first number of a statement's result; returns SQLite's code. */
int ls_results_query(ls_results *results, const char *sql, int *out);

/* ---- The view `v` (results_view.c) ---------------------------------------------------------- */

/** Its text, owned by the caller (free); NULL: out of memory. `own`: that of this connection, with
 * what results_query.h adds; else that of the file. */
char *ls_results_view_sql(bool own);

/** *out: the file has this view, or something of that name that a user made. SQLite's code. */
int ls_results_view_is_ours(ls_results *results, const char *view, bool *out);

/** Makes it, or replaces an older one of ours; in a transaction. Returns SQLite's code. */
int ls_results_renew_view(ls_results *results, const char *view);
