/* SPDX-License-Identifier: MIT */
/* Questions in SQL; see results_db.h. */
#include "bench/output/results_db.h"

#include "bench/output/format.h"
#include "bench/output/results_db_parts.h"
#include "bench/output/row_same.h"
#include "common/base/numbers.h"

#include <stdlib.h>
#include <string.h>

/* ---- Functions ------------------------------------------------------------------------------ */

/* The row of a JSON text, borrowed: the last one is kept, since a statement asks several times. */
static const json_t *parsed_row(sqlite3_context *context, sqlite3_value *value)
{
    ls_results *results = sqlite3_user_data(context);
    const char *text = (const char *)sqlite3_value_text(value);
    if (text && (!results->parsed_text || strcmp(text, results->parsed_text) != 0)) {
        free(results->parsed_text);
        json_decref(results->parsed);
        results->parsed_text = strdup(text);
        results->parsed = json_loads(text, 0, NULL);
    }
    return text ? results->parsed : NULL;
}

static void give_text(sqlite3_context *context, char *text)
{
    if (text)
        sqlite3_result_text(context, text, -1, free);
    else
        sqlite3_result_error_nomem(context);
}

static void number_text(sqlite3_context *context, int count, sqlite3_value **value)
{
    char text[32];
    (void)count;
    if (sqlite3_value_type(*value) == SQLITE_FLOAT)
        sqlite3_result_text(context, ls_real_text(sqlite3_value_double(*value), text), -1,
                            SQLITE_TRANSIENT);
    else if (sqlite3_value_type(*value) == SQLITE_INTEGER)
        sqlite3_result_text(context, (const char *)sqlite3_value_text(*value), -1,
                            SQLITE_TRANSIENT);
    else
        sqlite3_result_value(context, *value);
}

static void list_text(sqlite3_context *context, int count, sqlite3_value **value)
{
    const char *text = (const char *)sqlite3_value_text(*value);
    json_auto_t *list = text && (*text == '[' || *text == '{') ? json_loads(text, 0, NULL) : NULL;
    if (list)
        give_text(context, ls_value_text(list));
    else
        number_text(context, count, value);
}

static void optimizer_shown(sqlite3_context *context, int count, sqlite3_value **value)
{
    const char *text = (const char *)sqlite3_value_text(*value);
    char shown[160];
    (void)count;
    if (text)
        sqlite3_result_text(context, ls_optimizer_shown(text, shown, sizeof shown), -1,
                            SQLITE_TRANSIENT);
}

/* The value that a JSON text has, as ls_value_text. */
static void value_text(sqlite3_context *context, int count, sqlite3_value **value)
{
    const char *text = (const char *)sqlite3_value_text(*value);
    json_auto_t *all = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    (void)count;
    if (all)
        give_text(context, ls_value_text(all));
}

/* A real as C rounds it, in the form "%.*g" or "%.*f"; SQLite's own printf rounds ties away from 0.
 */
static void give_real(sqlite3_context *context, sqlite3_value **value, char form)
{
    char text[400];
    const double real = sqlite3_value_double(value[0]);
    const int digits = sqlite3_value_int(value[1]);
    if (sqlite3_value_type(value[0]) == SQLITE_NULL)
        return;
    snprintf(text, sizeof text, form == 'g' ? "%.*g" : "%.*f", digits, real);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void digits(sqlite3_context *context, int count, sqlite3_value **value)
{
    (void)count;
    give_real(context, value, 'g');
}

static void decimals(sqlite3_context *context, int count, sqlite3_value **value)
{
    (void)count;
    give_real(context, value, 'f');
}

static void escaped(sqlite3_context *context, int count, sqlite3_value **value)
{
    static const char *const names[] = {
        [LS_ESCAPE_LINE] = "line",
        [LS_ESCAPE_MARKUP] = "markup",
        [LS_ESCAPE_MARKDOWN] = "markdown",
        [LS_ESCAPE_GITHUB] = "github",
    };
    const char *text = (const char *)sqlite3_value_text(value[0]);
    const char *as = (const char *)sqlite3_value_text(value[1]);
    (void)count;
    for (size_t i = 0; text && as && i < sizeof names / sizeof *names; i++)
        if (names[i] && strcmp(names[i], as) == 0)
            give_text(context, ls_text_shown(text, (ls_escape)i));
}

static void bytes_text(sqlite3_context *context, int count, sqlite3_value **value)
{
    char text[32];
    (void)count;
    sqlite3_result_text(context, ls_format_bytes(sqlite3_value_double(*value), text), -1,
                        SQLITE_TRANSIENT);
}

static void case_key(sqlite3_context *context, int count, sqlite3_value **value)
{
    const json_t *row = parsed_row(context, value[0]);
    if (row)
        give_text(context, ls_row_identity(row, (unsigned)sqlite3_value_int(value[1]),
                                           count > 2 ? (unsigned)sqlite3_value_int(value[2]) : 0));
}

static const struct {
    const char *name;
    bool (*holds)(const json_t *row);
} switches[] = {{"uneven", ls_row_is_uneven},
                {"is_bad", ls_row_is_bad},
                {"is_predicted", ls_row_is_predicted},
                {"is_noisy", ls_row_is_noisy},
                {"is_candidate", ls_row_is_candidate}};

/* What follows from several fields; the second argument says which. */
static void derived(sqlite3_context *context, int count, sqlite3_value **value)
{
    const json_t *row = parsed_row(context, value[0]);
    const char *name = (const char *)sqlite3_value_text(value[1]);
    ls_interval figure = {0, 0, 0};
    (void)count;
    if (!row || !name)
        return;
    const bool pace = strncmp(name, "pace", 4) == 0, rate = strncmp(name, "rate", 4) == 0;
    if (pace || rate) {
        const bool known =
            pace ? ls_row_pace(row, &figure) : ls_row_rate(row, ls_row_is_uneven(row), &figure);
        const double number = !name[4]                        ? figure.value
                              : strcmp(name + 4, "_low") == 0 ? figure.low
                                                              : figure.high;
        if (name[4] ? known : figure.value > 0)
            sqlite3_result_double(context, number);
    }
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        if (strcmp(name, switches[i].name) == 0)
            sqlite3_result_int(context, switches[i].holds(row));
}

static int natural(void *context, int a_size, const void *a, int b_size, const void *b)
{
    char *x = strndup(a, (size_t)a_size), *y = strndup(b, (size_t)b_size);
    const int order = x && y ? strverscmp(x, y) : 0;
    (void)context;
    free(x);
    free(y);
    return order;
}

/* ---- Views ---------------------------------------------------------------------------------- */

static const char selection_sql[] =
    "CREATE TEMP TABLE chosen (place INTEGER PRIMARY KEY, number INTEGER);"
    "CREATE TEMP VIEW s AS SELECT chosen.place, v.* FROM temp.chosen JOIN temp.v USING (number)";

ls_status ls_results_make_ready(ls_results *results)
{
    static const struct {
        const char *name;
        int arguments;
        void (*call)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {{"number_text", 1, number_text},
                     {"list_text", 1, list_text},
                     {"optimizer_shown", 1, optimizer_shown},
                     {"bytes_text", 1, bytes_text},
                     {"value_text", 1, value_text},
                     {"digits", 2, digits},
                     {"decimals", 2, decimals},
                     {"escaped", 2, escaped},
                     {"case_key", 2, case_key},
                     {"case_key", 3, case_key},
                     {"row_derived", 2, derived}};
    int code = sqlite3_create_collation(results->db, "NUMBERED", SQLITE_UTF8, NULL, natural);
    for (size_t i = 0; i < sizeof functions / sizeof *functions && code == SQLITE_OK; i++)
        code = sqlite3_create_function(results->db, functions[i].name, functions[i].arguments,
                                       SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS,
                                       results, functions[i].call, NULL, NULL);
    char *view = ls_results_view_sql(true);
    ls_status status = code == SQLITE_OK && view ? LS_OK : ls_fail_memory("results", 1);
    if (!status)
        status = ls_results_execute(results, "PRAGMA temp_store = MEMORY");
    if (!status)
        status = ls_results_execute(results, view);
    if (!status)
        status = ls_results_execute(results, selection_sql);
    free(view);
    return status;
}

/* ---- Statements ----------------------------------------------------------------------------- */

ls_status ls_results_prepare(ls_results *results, const char *sql, sqlite3_stmt **out)
{
    const int code = sqlite3_prepare_v2(results->db, sql, -1, out, NULL);
    return code == SQLITE_OK ? LS_OK : ls_results_refuse_sqlite(results, code);
}

ls_status ls_results_keep(ls_results *results, const char *sql, sqlite3_stmt **out)
{
    ls_status status = LS_OK;
    if (results->kept_sql != sql) {
        sqlite3_finalize(results->kept);
        results->kept = NULL;
        status = ls_results_prepare(results, sql, &results->kept);
        results->kept_sql = status ? NULL : sql;
    }
    *out = results->kept;
    if (!status)
        sqlite3_clear_bindings(results->kept);
    return status;
}

ls_status ls_results_step(ls_results *results, sqlite3_stmt *statement, bool *more)
{
    const int code = sqlite3_step(statement);
    *more = code == SQLITE_ROW;
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return LS_OK;
    sqlite3_reset(statement); /* before the file's locks are looked at */
    return ls_results_refuse_sqlite(results, code);
}

ls_status ls_results_execute(ls_results *results, const char *sql)
{
    const int code = sqlite3_exec(results->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? LS_OK : ls_results_refuse_sqlite(results, code);
}

ls_status ls_results_ask(ls_results *results, const char *sql, int64_t *out)
{
    sqlite3_stmt *statement;
    bool more;
    LS_TRY(ls_results_prepare(results, sql, &statement));
    ls_status status = ls_results_step(results, statement, &more);
    *out = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

const char *ls_results_text(sqlite3_stmt *statement, int column)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return text ? text : "";
}
