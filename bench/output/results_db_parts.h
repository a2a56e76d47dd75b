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
    json_t *shared; /* what texts of briefs that were read mean, by their hash; NULL: none yet */
};

/** From here on files have briefs as this program makes them. */
enum { LS_RESULTS_BRIEFS = 3 };

/** "<why>; --results FILE names another" */
ls_status ls_results_refuse(const char *path, const char *why);

/** What SQLite's code means. Not before the statement that failed is reset or finalized. */
ls_status ls_results_refuse_sqlite(const ls_results *results, int code);

/** SQLite's code. */
int ls_results_execute(ls_results *results, const char *sql);

/** The first number that a statement gives; SQLite's code. */
int ls_results_query(ls_results *results, const char *sql, int *out);

/** Makes the briefs of the rows from this number on; within a transaction. */
ls_status ls_results_make_briefs(ls_results *results, int64_t first);
