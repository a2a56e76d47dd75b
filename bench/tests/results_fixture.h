/* SPDX-License-Identifier: MIT */
/* What the tests of the results database share: a folder that is removed, rows, and refusals. */
#pragma once

#include "bench/output/results_db.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { PATH_SIZE = 512, FILE_SIZE = 65536 };

static char folder[PATH_SIZE - 64];

static char *in_folder(const char *name, char path[PATH_SIZE])
{
    snprintf(path, PATH_SIZE, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/lockstep-results-XXXXXX", base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[PATH_SIZE];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static json_t *new_row(const char *id)
{
    return json_pack("{s:i,s:s,s:s,s:{s:s,s:f},s:{s:s}}", "schema", 1, "id", id, "timestamp",
                     "2026-11-21T05:17:00Z", "case", "model", "mlp", "lr", 0.1, "result", "status",
                     "ok");
}

static void assert_ok(ls_status status)
{
    if (status)
        fail_msg("%s", ls_status_text(status));
}

static ls_results *open_results(const char *path)
{
    ls_results *results;
    assert_ok(ls_results_open(path, true, &results));
    return results;
}

static void append(ls_results *results, const char *id)
{
    json_t *row = new_row(id);
    assert_ok(ls_results_append(results, row));
    json_decref(row);
}

/* Refused with this code, in a line that names the file and says `why`. */
static void assert_refused(ls_status status, ls_code code, const char *path, const char *why)
{
    assert_non_null(status);
    const char *text = ls_status_text(status);
    if (ls_status_code(status) != code || !strstr(text, path) || !strstr(text, why) ||
        strchr(text, '\n'))
        fail_msg("%d: %s", (int)ls_status_code(status), text);
    ls_status_free(status);
}

static json_t *all_rows(const char *path)
{
    ls_results *results;
    json_t *rows = json_array();
    assert_ok(ls_results_open(path, false, &results));
    assert_ok(ls_results_each(results, ls_results_collect, rows));
    ls_results_close(results);
    return rows;
}

static size_t read_whole(const char *path, uint8_t bytes[FILE_SIZE])
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, FILE_SIZE, file);
    fclose(file);
    return size;
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}
