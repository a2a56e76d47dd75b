/* SPDX-License-Identifier: MIT */
/*
 * Rows of the results database; see results_db.h.
 *   Append: a transaction, synchronous=EXTRA: on return the row is on disk, and the journal removed
 * from the folder. Read: a row at a time, without a lock while it is shown: a slow reader
 * blocks no writer.
 */
#include "bench/output/results_db_parts.h"
#include "bench/rows/row.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "template_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

ls_status ls_results_put(ls_results *results, const json_t *row, bool *known)
{
    json_auto_t *values = json_pack("{s:O,s:i}", "row", row, "skips", known != NULL);
    LS_TRY(ls_results_do(results, "put", values, NULL));
    if (known)
        *known = sqlite3_changes(results->db) == 0;
    return LS_OK;
}

ls_status ls_results_append(ls_results *results, const json_t *row)
{
    LS_TRY(ls_results_begin(results));
    return ls_results_end(results, ls_results_put(results, row, NULL));
}

/* ---- Rows out ------------------------------------------------------------------------------- */

ls_status ls_results_each(ls_results *results, ls_row_visit visit, void *context)
{
    LS_TRY(ls_results_execute(results, "DELETE FROM chosen; INSERT INTO chosen (number)"
                                       " SELECT rowid FROM main.rows ORDER BY rowid"));
    return ls_results_chosen(results, visit, context);
}

ls_status ls_results_chosen(ls_results *results, ls_row_visit visit, void *context)
{
    sqlite3_stmt *statement;
    bool more = true;
    LS_TRY(ls_results_prepare(results,
                              "SELECT place, number, row FROM chosen JOIN main.rows"
                              " ON rows.rowid = number WHERE place > ? ORDER BY place LIMIT 1",
                              &statement));
    ls_status status = LS_OK;
    for (int64_t place = 0; more && !status;) {
        sqlite3_bind_int64(statement, 1, place);
        status = ls_results_step(results, statement, &more);
        place = sqlite3_column_int64(statement, 0);
        const int64_t number = sqlite3_column_int64(statement, 1);
        json_auto_t *row = json_loads(ls_results_text(statement, 2), 0, NULL);
        if (!status && more && !row)
            status =
                ls_results_refuse(results->path, "this file is damaged (a row is not valid JSON)");
        sqlite3_reset(statement); /* no lock while the row is shown */
        if (!status && more)
            status = visit(context, number, row);
    }
    sqlite3_finalize(statement);
    return status;
}

ls_status ls_results_of_rows(const json_t *rows, ls_results **out)
{
    json_auto_t *values = json_pack("{s:O*}", "rows", rows);
    LS_TRY(ls_results_memory(out));
    return ls_results_do(*out, "put_all", values, NULL);
}

ls_status ls_results_collect(void *array, int64_t number, const json_t *row)
{
    (void)number;
    json_array_append(array, (json_t *)(size_t)row);
    return LS_OK;
}

/* The value of a column; NULL if there is none. */
static json_t *value_at(sqlite3_stmt *statement, int column, bool is_json)
{
    const char *text = ls_results_text(statement, column);
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_NULL:
        return NULL;
    case SQLITE_INTEGER:
        return json_integer(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT:
        return json_real(sqlite3_column_double(statement, column));
    default:
        return is_json ? json_loads(text, JSON_DECODE_ANY, NULL) : json_string(text);
    }
}

/* Binds the members of `values` to the parameters of their names. */
static void bind_values(sqlite3_stmt *statement, const json_t *values)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(size_t)values, name, value)
    {
        char parameter[40];
        snprintf(parameter, sizeof parameter, ":%s", name);
        const int at = sqlite3_bind_parameter_index(statement, parameter);
        if (at && json_is_integer(value))
            sqlite3_bind_int64(statement, at, json_integer_value(value));
        else if (at && json_is_real(value))
            sqlite3_bind_double(statement, at, json_real_value(value));
        else if (at && json_is_string(value))
            sqlite3_bind_text(statement, at, json_string_value(value), -1, SQLITE_STATIC);
        else if (at)
            sqlite3_bind_text(statement, at,
                              json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17)), -1, free);
    }
}

static ls_status add_objects(ls_results *results, sqlite3_stmt *statement, json_t *out)
{
    bool more;
    for (;;) {
        LS_TRY(ls_results_step(results, statement, &more));
        if (!more)
            return LS_OK;
        json_auto_t *one = json_object();
        for (int i = 0; out && i < sqlite3_column_count(statement); i++) {
            char name[64];
            snprintf(name, sizeof name, "%s", sqlite3_column_name(statement, i));
            char *end = strstr(name, ":json");
            json_t *value = value_at(statement, i, end);
            if (end)
                *end = 0;
            if (value)
                json_object_set_new(one, name, value);
        }
        json_array_append(out, one);
    }
}

ls_status ls_results_query(ls_results *results, const char *sql, const json_t *values, json_t *out)
{
    sqlite3_stmt *statement;
    for (;; sql += strlen(sqlite3_sql(statement)), sqlite3_finalize(statement)) {
        LS_TRY(ls_results_prepare(results, sql, &statement));
        if (!statement)
            return LS_OK;
        bind_values(statement, values);
        ls_status status = add_objects(results, statement, out);
        if (status) {
            sqlite3_finalize(statement);
            return status;
        }
    }
}

ls_status ls_document_query(const char *sql, const json_t *document, const char *format,
                            json_t *out)
{
    ls_results *results;
    json_auto_t *values = json_pack("{s:O,s:s*}", "document", document, "format", format);
    LS_TRY(values ? ls_results_functions(&results) : ls_fail_memory("document", 0));
    ls_status status = ls_results_query(results, sql, values, out);
    ls_results_close(results);
    return status;
}

char *ls_sql_section(const char **text, char name[32])
{
    static const char begin[] = "\n\n-- ";
    const char *at = strstr(*text, begin), *end;
    if (!at)
        return NULL;
    at += strlen(begin);
    snprintf(name, 32, "%.*s", (int)strcspn(at, ":\n"), at);
    at = strchr(at, '\n');
    end = strstr(at, begin);
    *text = end ? end : "";
    return strndup(at, end ? (size_t)(end - at) : strlen(at));
}

/* The section of this name. */
static char *section_of(const char *text, const char *name)
{
    char found[32] = "", *sql;
    while ((sql = ls_sql_section(&text, found)) && strcmp(found, name) != 0)
        free(sql);
    return sql;
}

char *ls_results_part(const char *name)
{
    return section_of(ls_template_store, name);
}

ls_status ls_results_section(ls_results *results, const char *text, const char *name,
                             const json_t *values, json_t *out)
{
    ls_auto char *sql = section_of(text, name);
    return sql ? ls_results_query(results, sql, values, out) : ls_fail_memory(name, 0);
}

ls_status ls_results_do(ls_results *results, const char *step, const json_t *values, json_t *out)
{
    return ls_results_section(results, ls_template_store, step, values, out);
}

ls_status ls_results_find(ls_results *results, const char *name, json_t **out)
{
    const bool last = strncmp(name, "last", 4) == 0;
    int64_t before = 0;
    int whole = 0;
    json_t *row = NULL;
    json_auto_t *found = json_array();
    *out = NULL;
    if (!*name)
        return ls_fail(LS_CODE_USAGE, "row", "''",
                       "the id is empty; lockstep results list shows the ids of all rows");
    if (last && name[4] && (name[4] != '~' || !ls_parse_integer(name + 5, 0, 1000000000, &before)))
        return ls_fail(LS_CODE_USAGE, "row", name,
                       "this is not an id; give an id (lockstep results list shows the ids), "
                       "'last' for the last row, or 'last~2' for the row two before it");
    json_auto_t *values = json_pack("{s:s,s:I}", "name", name, "before", (json_int_t)before);
    LS_TRY(ls_results_do(results, last ? "by_time" : "by_id", values, found));
    json_unpack(json_array_get(found, 0), "{s:i,s:o}", "whole", &whole, "row", &row);
    if (json_array_size(found) == 0)
        return ls_fail(
            LS_CODE_MISSING, "row", name,
            last ? "%s has too few rows for this; lockstep results list shows all rows"
                 : "no row of %s has this id; lockstep results list shows the ids of all rows",
            results->path);
    if (json_array_size(found) > 1 && !whole)
        return ls_fail(LS_CODE_USAGE, "row", name,
                       "several ids in %s begin like this; give more characters of the id",
                       results->path);
    if (!json_is_object(row))
        return ls_results_refuse(results->path, "this file is damaged (a row is not valid JSON)");
    *out = json_incref(json_array_get(found, 0));
    return LS_OK;
}

/* ---- Files of rows --------------------------------------------------------------------------- */

/* Why the line is not a row; NULL if it is one. */
static const char *why_no_row(const json_t *row)
{
    if (!json_is_object(row))
        return "this line is not a JSON object";
    if (!*ls_row_string(row, LS_F_id))
        return "this line has no id, so it is not a row";
    if (!json_is_string(ls_row_get(row, LS_F_timestamp)))
        return "this line has no timestamp, so it is not a row";
    if (ls_row_integer(row, LS_F_schema) != LS_ROW_SCHEMA)
        return "this row was written by a version of lockstep with another row format";
    return NULL;
}

static ls_status read_lines(const char *what, FILE *stream, const char *path, ls_row_visit visit,
                            void *context)
{
    char *line = NULL, where[64];
    size_t capacity = 0;
    int64_t number = 0;
    ssize_t length;
    ls_status status = LS_OK;
    while (!status && (length = getline(&line, &capacity, stream)) >= 0) {
        number++;
        if (strspn(line, " \t\r\n") == (size_t)length)
            continue;
        json_auto_t *row = json_loadb(line, (size_t)length, 0, NULL);
        const char *why = row ? why_no_row(row) : "this line is not valid JSON";
        snprintf(where, sizeof where, "line %lld", (long long)number);
        if (why)
            status = ls_status_within(
                what, path,
                ls_fail(LS_CODE_MISSING, where, NULL,
                        "%s (no row of this file is used); give a file that --format jsonl of this "
                        "version printed, or a results file",
                        why));
        else
            status = visit(context, number, row);
    }
    free(line);
    if (!status && !feof(stream)) /* too long a line is not an error of the stream */
        status = ls_fail(LS_CODE_MISSING, what, path,
                         "cannot be read: %s; name a file that can be read", strerror(errno));
    return status;
}

static ls_status read_results(const char *path, ls_row_visit visit, void *context)
{
    ls_results *from;
    LS_TRY(ls_results_open(path, false, &from));
    ls_status status = ls_results_each(from, visit, context);
    ls_results_close(from);
    return status;
}

ls_status ls_rows_each(const char *what, const char *path, ls_row_visit visit, void *context)
{
    char start[16] = "", inside[4096];
    struct stat facts;
    const bool folder = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
    snprintf(inside, sizeof inside, folder ? "%s/" LS_ROWS_NAME : "%s", path);
    FILE *stream = fopen(inside, "rb");
    if (!stream)
        return ls_fail(LS_CODE_MISSING, what, path,
                       "%s; give a file of JSON lines (--format jsonl) or a results file",
                       folder ? "this is a folder without " LS_ROWS_NAME : strerror(errno));
    const bool database = fread(start, 1, sizeof start, stream) == sizeof start &&
                          memcmp(start, "SQLite format 3", sizeof start) == 0;
    rewind(stream);
    ls_status status = database ? read_results(path, visit, context)
                                : read_lines(what, stream, path, visit, context);
    fclose(stream);
    return status;
}

typedef struct loading {
    ls_results *into;
    size_t *counts; /* added, known */
} loading;

static ls_status add(void *context, int64_t number, const json_t *row)
{
    const loading *load = context;
    bool known;
    (void)number;
    LS_TRY(ls_results_put(load->into, row, &known));
    load->counts[known]++;
    return LS_OK;
}

ls_status ls_results_load(ls_results *results, const char *what, const char *path, size_t counts[2])
{
    loading load = {results, counts};
    memset(counts, 0, 2 * sizeof *counts);
    LS_TRY(ls_results_begin(results));
    return ls_results_end(results, ls_rows_each(what, path, add, &load));
}
