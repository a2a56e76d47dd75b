/* SPDX-License-Identifier: MIT */
/*
 * Rows of the results database; see results_db.h.
 *   Append: a transaction, synchronous=EXTRA: on return the row is on disk, and the journal removed
 * from the folder. Read: some rows at a time, without a lock while they are shown: a slow reader
 * blocks no writer.
 */
#include "bench/output/results_db_parts.h"
#include "bench/output/results_db.h"
#include "bench/rows/row.h"
#include "common/base/numbers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { READ_AT_ONCE = 256 };

/* ---- Rows in -------------------------------------------------------------------------------- */

ls_status ls_results_begin(ls_results *results)
{
    return ls_results_execute(results, "BEGIN IMMEDIATE");
}

ls_status ls_results_end(ls_results *results, ls_status status)
{
    if (!status)
        status = ls_results_execute(results, "COMMIT");
    if (status && !sqlite3_get_autocommit(results->db))
        ls_status_free(ls_results_execute(results, "ROLLBACK"));
    return status;
}

/* Finishes a statement after its last step. */
static ls_status finish(const ls_results *results, sqlite3_stmt *statement, int code)
{
    sqlite3_finalize(statement);
    return code == SQLITE_ROW || code == SQLITE_DONE ? LS_OK
                                                     : ls_results_refuse_sqlite(results, code);
}

ls_status ls_results_put(ls_results *results, const json_t *row, bool *known)
{
    static const char sql[] =
        "INSERT INTO rows SELECT json_extract(row, '$.id'), json_extract(row, '$.timestamp'),"
        " json_extract(row, '$.result.status'), json_extract(row, '$.case.model'),"
        " json_extract(row, '$.case.strategy'), json_extract(row, '$.label'), row"
        " FROM (SELECT ?1 AS row) WHERE NOT (?2 AND EXISTS"
        " (SELECT 1 FROM rows WHERE id = json_extract(?1, '$.id')))";
    sqlite3_stmt *statement;
    char *text = json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!text)
        return ls_fail_memory("row for the results", 0);
    ls_status status = ls_results_prepare(results, sql, &statement);
    if (!status) {
        sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC);
        sqlite3_bind_int(statement, 2, known != NULL);
        status = finish(results, statement, sqlite3_step(statement));
    }
    if (known)
        *known = sqlite3_changes(results->db) == 0;
    free(text);
    return status;
}

ls_status ls_results_append(ls_results *results, const json_t *row)
{
    if (!results || !*ls_row_string(row, LS_F_id))
        return ls_fail(LS_CODE_MISSING, "results", results ? results->path : "none",
                       "a row without an id, or no open file; open one and name the row");
    LS_TRY(ls_results_begin(results));
    return ls_results_end(results, ls_results_put(results, row, NULL));
}

ls_status ls_results_relabel(ls_results *results, const char *id, const char *label)
{
    sqlite3_stmt *statement;
    LS_TRY(ls_results_prepare(results,
                              "UPDATE rows SET label = ?2, row = CASE WHEN ?2 IS NULL"
                              " THEN json_remove(row, '$.label')"
                              " ELSE json_set(row, '$.label', ?2) END WHERE id = ?1",
                              &statement));
    sqlite3_bind_text(statement, 1, id, -1, SQLITE_STATIC);
    if (*label)
        sqlite3_bind_text(statement, 2, label, -1, SQLITE_STATIC);
    return finish(results, statement, sqlite3_step(statement));
}

/* ---- Rows out ------------------------------------------------------------------------------- */

static ls_status parse_row(const ls_results *results, sqlite3_stmt *statement, int column,
                           json_t **out)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    *out = text ? json_loads(text, 0, NULL) : NULL;
    return *out ? LS_OK
                : ls_results_refuse(results->path, "is damaged: a row in it is not valid JSON");
}

/* Some rows, and their numbers. */
typedef struct row_page {
    json_t *row[READ_AT_ONCE];
    int64_t number[READ_AT_ONCE];
    size_t count;
} row_page;

/* Reads some rows after the place `last`, and moves it. Places that do not increase mean a damaged
 * file. */
static ls_status read_page(ls_results *results, const char *sql, int64_t *last, row_page *page)
{
    sqlite3_stmt *statement;
    int code = SQLITE_DONE;
    page->count = 0;
    LS_TRY(ls_results_prepare(results, sql, &statement));
    sqlite3_bind_int64(statement, 1, *last);
    sqlite3_bind_int(statement, 2, READ_AT_ONCE);
    ls_status status = LS_OK;
    while (!status && page->count < READ_AT_ONCE &&
           (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const int64_t place = sqlite3_column_int64(statement, 0);
        if (place <= *last)
            status = ls_results_refuse(results->path, "is damaged: its rows are out of order");
        else
            status = parse_row(results, statement, 2, &page->row[page->count]);
        page->number[page->count] = sqlite3_column_int64(statement, 1);
        page->count += !status;
        *last = place;
    }
    return ls_status_first(status, finish(results, statement, code));
}

/* Visits the rows (place, number, row) that the statement gives after a place. */
static ls_status visit_rows(ls_results *results, const char *sql, ls_row_visit visit, void *context)
{
    row_page *page = malloc(sizeof *page);
    if (!page)
        return ls_fail_memory("rows", sizeof *page);
    int64_t last = INT64_MIN;
    ls_status status = LS_OK;
    do {
        status = read_page(results, sql, &last, page);
        for (size_t i = 0; i < page->count; i++) {
            if (!status)
                status = visit(context, page->number[i], page->row[i]);
            json_decref(page->row[i]);
        }
    } while (!status && page->count == READ_AT_ONCE);
    free(page);
    return status;
}

ls_status ls_results_each(ls_results *results, ls_row_visit visit, void *context)
{
    return visit_rows(results,
                      "SELECT rowid, rowid, row FROM main.rows WHERE rowid > ? ORDER BY rowid"
                      " LIMIT ?",
                      visit, context);
}

ls_status ls_results_chosen(ls_results *results, const char *row, ls_row_visit visit, void *context)
{
    char *sql = sqlite3_mprintf("SELECT place, number, %s FROM chosen JOIN main.rows"
                                " ON rows.rowid = number WHERE place > ? ORDER BY place LIMIT ?",
                                row);
    ls_status status =
        sql ? visit_rows(results, sql, visit, context) : ls_fail_memory("rows", strlen(row));
    sqlite3_free(sql);
    return status;
}

ls_status ls_results_collect(void *array, int64_t number, const json_t *row)
{
    (void)number;
    json_array_append(array, (json_t *)(size_t)row);
    return LS_OK;
}

/* "last~2": how many before the last. */
static ls_status read_last(const char *name, int64_t *out)
{
    *out = 0;
    if (!name[4] || (name[4] == '~' && ls_parse_integer(name + 5, 0, 1000000000, out)))
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "row", name,
                   "is not an id; give an id, last, or last~N for the row N before the last");
}

/* Neither is there one, nor are there several. */
static ls_status refuse_name(ls_results *results, const char *name, bool by_time, bool several)
{
    int64_t rows;
    LS_TRY(ls_results_ask(results, "SELECT count(*) FROM main.rows", &rows));
    if (by_time)
        return ls_fail(LS_CODE_MISSING, "row", name,
                       "there are %lld rows; lockstep results list shows them", (long long)rows);
    if (several)
        return ls_fail(LS_CODE_USAGE, "row", name,
                       "several ids in %s begin so; give more characters", results->path);
    return ls_fail(LS_CODE_MISSING, "row", name, "not in %s; lockstep results list shows the ids",
                   results->path);
}

ls_status ls_results_find(ls_results *results, const char *name, json_t **out)
{
    const bool by_time = strncmp(name, "last", 4) == 0;
    int64_t before = 0;
    bool found = false, several = false;
    sqlite3_stmt *statement;
    *out = NULL;
    if (!*name)
        return ls_fail(LS_CODE_USAGE, "row", "''", "an empty id; lockstep results list shows ids");
    if (by_time)
        LS_TRY(read_last(name, &before));
    LS_TRY(ls_results_prepare(
        results,
        by_time ? "SELECT row, 1 FROM main.rows ORDER BY timestamp DESC, rowid DESC"
                  " LIMIT 1 OFFSET ?2"
                : "SELECT row, id = ?1 AS whole FROM main.rows"
                  " WHERE substr(id, 1, length(?1)) = ?1 ORDER BY whole DESC LIMIT 2 OFFSET ?2",
        &statement));
    sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, before);
    ls_status status = ls_results_step(results, statement, &found);
    if (!status && found)
        status = parse_row(results, statement, 0, out);
    if (!status && found && !sqlite3_column_int(statement, 1))
        status = ls_results_step(results, statement, &several);
    sqlite3_finalize(statement);
    if (!status && (!found || several))
        status = refuse_name(results, name, by_time, several);
    if (status) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}
