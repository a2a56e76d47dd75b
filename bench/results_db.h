/* SPDX-License-Identifier: MIT */
/*
 * Results database: rows of figures in one SQLite file.
 *
 * A row is committed in a transaction of its own before it is printed, with full synchronisation,
 * so a killed run loses no finished row. Several programs may write at once, also those of several
 * hosts where the file system has locks; where it has none, the file is refused. A file that is no
 * SQLite database, is one of another program, or has a newer schema is refused and left as it is.
 */
#ifndef LS_BENCH_RESULTS_DB_H
#define LS_BENCH_RESULTS_DB_H

#include "common/base/status.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct ls_results ls_results;

/** The file that `run` writes and `results` reads, unless told otherwise. */
#define LS_RESULTS_DEFAULT "results/lockstep.db"

/** Opens `path`; where `create`, makes it if missing, and of LS_RESULTS_DEFAULT its folder, too.
 *  LS_CODE_MISSING names the file and says what is wrong with it. */
ls_status ls_results_open(const char *path, bool create, ls_results **out);

/** Commits a row: its text, and the columns that `results list` shows and filters by. */
ls_status ls_results_append(ls_results *results, const json_t *row);

/** Calls `visit` for every row, oldest first; it borrows the row, and may take as long as it likes:
 *  the file is not locked meanwhile. Stops at a failure. */
ls_status ls_results_each(ls_results *results, ls_status (*visit)(void *context, const json_t *row),
                          void *context);

/** The row of this id (or of the only id that starts so), owned by the caller (json_decref). */
ls_status ls_results_find(ls_results *results, const char *id, json_t **out);

/** Takes NULL. */
void ls_results_close(ls_results *results);

#endif
