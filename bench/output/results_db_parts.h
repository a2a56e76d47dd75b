/* SPDX-License-Identifier: MIT */
/* Parts of the results database: what its files share: the connection in
 * results_db.c, rows in results_rows.c, the view in results_view.c, functions in results_query.c.
 */
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

/** Adds the functions and views of results_db.h to the connection; an SQLite code. */
int ls_results_attach(sqlite3 *db);

/** Begins the text of a view of ours. A user's own object of that name is left alone. */
#define LS_RESULTS_VIEW_MARK "CREATE VIEW v AS /* lockstep */ "

/** The text of the view `v`, owned by the caller (free); NULL if memory is short. With `own` the
 * view of this connection, with the columns that results_db.h adds; else the file's. */
char *ls_results_view_text(bool own);
