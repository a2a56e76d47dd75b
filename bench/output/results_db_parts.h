/* SPDX-License-Identifier: MIT */
/* Parts of the results database: the open file, for results_db.c, which opens it, and
 * results_rows.c. */
#pragma once

#include "bench/output/results_db.h"

#include <sqlite3.h>

struct ls_results {
    sqlite3 *db;
    char *path;     /* as the user wrote it */
    int schema;     /* of the file */
    json_t *shared; /* texts that brief rows refer to by hash, as far as they were read; NULL:
                       none */
};

/** Schema from which on files have brief rows. */
enum { LS_RESULTS_BRIEFS = 3 };

/** "<why>; --results FILE names another" */
ls_status ls_results_refuse(const char *path, const char *why);

/** The failure of an SQLite code. Reset or finalize the failed statement first. */
ls_status ls_results_refuse_sqlite(const ls_results *results, int code);

/** Returns SQLite's code. */
int ls_results_execute(ls_results *results, const char *sql);

/** Sets *out to the first number of a statement's result; returns SQLite's code. */
int ls_results_query(ls_results *results, const char *sql, int *out);

/** Makes the briefs of the rows from this number on; within a transaction. */
ls_status ls_results_make_briefs(ls_results *results, int64_t first);
