/* SPDX-License-Identifier: MIT */
/*
 * Rows of the results database; see results_db.h.
 *   Append: a transaction, synchronous=EXTRA: on return the row is on disk, and the journal removed
 * from the folder. Read: some rows at a time, without a lock while they are
 * shown: a slow reader blocks no writer.
 */
#include "bench/output/results_db_parts.h"
#include "common/base/digest.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_AT_ONCE = 256 };

/* ---- Briefs --------------------------------------------------------------------------------- */

enum { COMMAND = 3, HOST, CASE, STATUS, REASON, WARNINGS, MEDIAN, LOW, HIGH, RATE, BRIEF };

/* What a list shows, and sort keys. SQLite takes them out of the rows' JSON three times as fast as
 * whole rows are parsed. Only the case is JSON text, parsed once for all rows that share it; rows
 * of micro have their group `micro` there. */
static const char *const brief_path[BRIEF] = {"id",
                                              "timestamp",
                                              "label",
                                              "command",
                                              "provenance.host",
                                              "case",
                                              "result.status",
                                              "result.reason",
                                              "result.warnings",
                                              "time.step_ms.median",
                                              "time.step_ms.ci95",
                                              "time.step_ms.ci95",
                                              "time.samples_per_s"};

/* The interval is read together with `time.step_ms`. */
bool ls_results_brief_has(const char *path)
{
    if (strncmp(path, "case.", 5) == 0 || strcmp(path, "result") == 0)
        return true;
    for (size_t i = 0; i < BRIEF; i++)
        if (i != CASE && i != LOW && i != HIGH && strcmp(brief_path[i], path) == 0)
            return true;
    return false;
}

static ls_status prepare(const ls_results *results, const char *sql, sqlite3_stmt **out)
{
    const int code = sqlite3_prepare_v2(results->db, sql, -1, out, NULL);
    return code == SQLITE_OK ? LS_OK : ls_results_refuse_sqlite(results, code);
}

/* Finishes a statement after its last step. */
static ls_status finish(const ls_results *results, sqlite3_stmt *statement, int code)
{
    sqlite3_finalize(statement);
    return code == SQLITE_ROW || code == SQLITE_DONE ? LS_OK
                                                     : ls_results_refuse_sqlite(results, code);
}

/* SQLite reads the rows' JSON; a list's text is its elements joined by '+'. */
static const char row_sql[] =
    "INSERT INTO rows SELECT json_extract(row, '$.id'), json_extract(row, '$.timestamp'),"
    " json_extract(row, '$.result.status'), json_extract(row, '$.case.model'),"
    " json_extract(row, '$.case.strategy'), json_extract(row, '$.label'), row"
    " FROM (SELECT ? AS row)";
static const char brief_sql[] =
    "SELECT rowid, id, timestamp, label, json_extract(row, '$.command'),"
    " json_extract(row, '$.provenance.host'),"
    " coalesce(json_extract(row, '$.case'), json_extract(row, '$.micro')), status,"
    " json_extract(row, '$.result.reason'),"
    " CASE WHEN json_type(row, '$.result.warnings') = 'array' THEN coalesce("
    "(SELECT group_concat(value, '+') FROM json_each(row, '$.result.warnings')), '') END,"
    " json_extract(row, '$.time.step_ms.median'), json_extract(row, '$.time.step_ms.ci95[0]'),"
    " json_extract(row, '$.time.step_ms.ci95[1]'), json_extract(row, '$.time.samples_per_s')"
    " FROM rows WHERE rowid > ? ORDER BY rowid LIMIT ?";

static json_t *split_words(const char *text)
{
    json_t *words = json_array();
    for (size_t length; *text; text += length + (text[length] == '+')) {
        length = strcspn(text, "+");
        json_array_append_new(words, json_stringn_nocheck(text, length));
    }
    return words;
}

static const char *text_of(sqlite3_stmt *statement, int column)
{
    return (const char *)sqlite3_column_text(statement, column + 1);
}

static void put_text(json_t *to, const char *name, sqlite3_stmt *statement, int column)
{
    const char *text = text_of(statement, column);
    if (text)
        json_object_set_new_nocheck(to, name, json_string_nocheck(text));
}

static json_t *build_result(sqlite3_stmt *statement)
{
    json_t *result = json_object();
    const char *warnings = text_of(statement, WARNINGS);
    put_text(result, "status", statement, STATUS);
    put_text(result, "reason", statement, REASON);
    if (warnings)
        json_object_set_new_nocheck(result, "warnings", split_words(warnings));
    return result;
}

static json_t *build_shared(sqlite3_stmt *statement, int column)
{
    const char *text = text_of(statement, column);
    if (column == STATUS)
        return build_result(statement);
    if (!text)
        return NULL;
    if (column == CASE)
        return json_loads(text, 0, NULL);
    return column == HOST ? json_pack("{s:o}", "host", json_string_nocheck(text))
                          : json_string_nocheck(text);
}

/* Sets the parsed value of the JSON texts in columns [first, last]; a hash of the texts finds one
 * that an earlier row has. */
static void put_shared(json_t *to, const char *name, ls_results *results, sqlite3_stmt *statement,
                       int first, int last)
{
    char key[17] = "";
    uint64_t hash = (uint64_t)first;
    for (int i = first; i <= last; i++) {
        const char *text = text_of(statement, i);
        hash = 31 * hash + (text ? ls_hash64(text, strlen(text)) : 0);
    }
    for (int i = 0; i < 16; i++)
        key[i] = (char)('a' + (hash >> 4 * i & 15));
    if (!results->shared)
        results->shared = json_object();
    json_t *value = json_object_get(results->shared, key);
    if (!value) {
        value = build_shared(statement, first);
        json_object_set_new_nocheck(results->shared, key, value);
    }
    json_object_set_new_nocheck(to, name, json_incref(value));
}

static void put_number(json_t *to, const char *name, sqlite3_stmt *statement, int column)
{
    if (sqlite3_column_type(statement, column + 1) == SQLITE_FLOAT)
        json_object_set_new_nocheck(to, name,
                                    json_real(sqlite3_column_double(statement, column + 1)));
}

static json_t *build_time(sqlite3_stmt *statement)
{
    json_t *time = json_object(), *step = json_object();
    put_number(step, "median", statement, MEDIAN);
    if (sqlite3_column_type(statement, HIGH + 1) == SQLITE_FLOAT)
        json_object_set_new_nocheck(step, "ci95",
                                    json_pack("[f,f]", sqlite3_column_double(statement, LOW + 1),
                                              sqlite3_column_double(statement, HIGH + 1)));
    json_object_set_new_nocheck(time, "step_ms", step);
    put_number(time, "samples_per_s", statement, RATE);
    return time;
}

/* Builds the row from the columns. */
static json_t *build_brief(ls_results *results, sqlite3_stmt *statement)
{
    json_t *row = json_object();
    for (int i = 0; i < COMMAND; i++)
        put_text(row, brief_path[i], statement, i);
    put_shared(row, "command", results, statement, COMMAND, COMMAND);
    put_shared(row, "provenance", results, statement, HOST, HOST);
    put_shared(row, "case", results, statement, CASE, CASE);
    json_t *micro = json_object_get(row, "case");
    if (json_object_get(micro, "op")) {
        json_object_set(row, "micro", micro);
        json_object_del(row, "case");
    }
    put_shared(row, "result", results, statement, STATUS, WARNINGS);
    if (sqlite3_column_type(statement, MEDIAN + 1) == SQLITE_FLOAT)
        json_object_set_new_nocheck(row, "time", build_time(statement));
    return row;
}

/* ---- Transactions --------------------------------------------------------------------------- */

static ls_status perform(ls_results *results, const char *sql)
{
    int code = ls_results_execute(results, sql);
    return code == SQLITE_OK ? LS_OK : ls_results_refuse_sqlite(results, code);
}

ls_status ls_results_begin(ls_results *results)
{
    return perform(results, "BEGIN IMMEDIATE");
}

ls_status ls_results_end(ls_results *results, ls_status status)
{
    if (!status)
        status = perform(results, "COMMIT");
    if (status)
        ls_results_execute(results, "ROLLBACK");
    return status;
}

/* ---- Rows in -------------------------------------------------------------------------------- */

ls_status ls_results_put(ls_results *results, const json_t *row)
{
    sqlite3_stmt *statement;
    char *text = json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!text)
        return ls_fail_memory("row for the results", 0);
    ls_status status = prepare(results, row_sql, &statement);
    if (!status) {
        sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC);
        status = finish(results, statement, sqlite3_step(statement));
    }
    free(text);
    return status;
}

ls_status ls_results_append(ls_results *results, const json_t *row)
{
    if (!results || !json_is_string(json_object_get(row, "id")))
        return ls_fail(LS_CODE_MISSING, "results", results ? results->path : "none",
                       "a row without an id, or no open file; open one and name the row");
    LS_TRY(ls_results_begin(results));
    return ls_results_end(results, ls_results_put(results, row));
}

ls_status ls_results_has(ls_results *results, const char *id, bool *out)
{
    sqlite3_stmt *statement;
    LS_TRY(prepare(results, "SELECT 1 FROM rows WHERE id = ?", &statement));
    sqlite3_bind_text(statement, 1, id, -1, SQLITE_STATIC);
    const int code = sqlite3_step(statement);
    *out = code == SQLITE_ROW;
    return finish(results, statement, code);
}

ls_status ls_results_delete(ls_results *results, int64_t number)
{
    char sql[64];
    snprintf(sql, sizeof sql, "DELETE FROM rows WHERE rowid = %lld", (long long)number);
    return perform(results, sql);
}

ls_status ls_results_relabel(ls_results *results, const char *id, const char *label)
{
    sqlite3_stmt *statement;
    LS_TRY(prepare(results,
                   "UPDATE rows SET label = ?2, row = CASE WHEN ?2 IS NULL"
                   " THEN json_remove(row, '$.label') ELSE json_set(row, '$.label', ?2) END"
                   " WHERE id = ?1",
                   &statement));
    sqlite3_bind_text(statement, 1, id, -1, SQLITE_STATIC);
    if (*label)
        sqlite3_bind_text(statement, 2, label, -1, SQLITE_STATIC);
    return finish(results, statement, sqlite3_step(statement));
}

/* ---- Rows out ------------------------------------------------------------------------------- */

static ls_status parse_row(const ls_results *results, sqlite3_stmt *statement, json_t **out)
{
    json_error_t error;
    const char *text = (const char *)sqlite3_column_text(statement, 1);
    *out = text ? json_loads(text, 0, &error) : NULL;
    return *out ? LS_OK
                : ls_results_refuse(results->path, "is damaged: a row in it is not valid JSON");
}

/* Some rows, and their numbers. */
typedef struct row_page {
    json_t *row[READ_AT_ONCE];
    sqlite3_int64 number[READ_AT_ONCE];
    size_t count;
} row_page;

/* Reads some rows after `last`. Numbers that do not increase mean a damaged file. */
static ls_status read_page(ls_results *results, const char *sql, sqlite3_int64 last, row_page *page)
{
    sqlite3_stmt *statement;
    int code = SQLITE_DONE;
    page->count = 0;
    LS_TRY(prepare(results, sql, &statement));
    sqlite3_bind_int64(statement, 1, last);
    sqlite3_bind_int(statement, 2, READ_AT_ONCE);
    ls_status status = LS_OK;
    while (!status && page->count < READ_AT_ONCE &&
           (code = sqlite3_step(statement)) == SQLITE_ROW) {
        const sqlite3_int64 number = sqlite3_column_int64(statement, 0);
        if (number <= last)
            status = ls_results_refuse(results->path, "is damaged: its rows are out of order");
        else if (sqlite3_column_count(statement) > 2)
            page->row[page->count] = build_brief(results, statement);
        else
            status = parse_row(results, statement, &page->row[page->count]);
        if (!status)
            page->number[page->count++] = last = number;
    }
    return ls_status_first(status, finish(results, statement, code));
}

ls_status ls_results_collect(void *array, int64_t number, const json_t *row)
{
    (void)number;
    json_array_append(array, (json_t *)(size_t)row);
    return LS_OK;
}

ls_status ls_results_each(ls_results *results, ls_rows_kind kind, ls_row_visit visit, void *context)
{
    const char *sql = kind == LS_ROWS_BRIEF
                          ? brief_sql
                          : "SELECT rowid, row FROM rows WHERE rowid > ? ORDER BY rowid LIMIT ?";
    row_page *page = malloc(sizeof *page);
    if (!page)
        return ls_fail_memory("rows", sizeof *page);
    sqlite3_int64 last = INT64_MIN;
    ls_status status = LS_OK;
    do {
        status = read_page(results, sql, last, page);
        for (size_t i = 0; i < page->count; i++) {
            last = page->number[i];
            if (!status)
                status = visit(context, last, page->row[i]);
            json_decref(page->row[i]);
        }
    } while (!status && page->count == READ_AT_ONCE);
    free(page);
    return status;
}

ls_status ls_results_at(ls_results *results, int64_t number, json_t **out)
{
    sqlite3_stmt *statement;
    *out = NULL;
    LS_TRY(prepare(results, "SELECT rowid, row FROM rows WHERE rowid = ?", &statement));
    sqlite3_bind_int64(statement, 1, number);
    const int code = sqlite3_step(statement);
    ls_status status = code == SQLITE_ROW ? parse_row(results, statement, out) : LS_OK;
    return ls_status_first(status, finish(results, statement, code));
}

/* The row whose id is, or begins with, `id`; an exact match comes first. */
ls_status ls_results_find(ls_results *results, const char *id, json_t **out)
{
    sqlite3_stmt *statement;
    json_t *row = NULL;
    if (!*id)
        return ls_fail(LS_CODE_USAGE, "row", "''", "an empty id; lockstep results list shows ids");
    LS_TRY(prepare(results,
                   "SELECT id = ?1 AS whole, row FROM rows WHERE substr(id, 1, length(?1)) = ?1"
                   " ORDER BY whole DESC LIMIT 2",
                   &statement));
    sqlite3_bind_text(statement, 1, id, -1, SQLITE_STATIC);
    int code = sqlite3_step(statement);
    ls_status status = code == SQLITE_ROW ? parse_row(results, statement, &row) : LS_OK;
    if (row && !sqlite3_column_int(statement, 0))
        code = sqlite3_step(statement);
    else
        code = row ? SQLITE_DONE : code;
    status = ls_status_first(status, finish(results, statement, code));
    if (!status && !row)
        status = ls_fail(LS_CODE_MISSING, "row", id,
                         "not in %s; lockstep results list shows the ids", results->path);
    else if (!status && code == SQLITE_ROW)
        status = ls_fail(LS_CODE_USAGE, "row", id,
                         "several ids in %s begin so; give more characters", results->path);
    if (status)
        json_decref(row);
    else
        *out = row;
    return status;
}
