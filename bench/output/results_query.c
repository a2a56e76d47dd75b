/* SPDX-License-Identifier: MIT */
/* Functions of SQL, and what else a connection has for questions; see results_db.h. */

#include "bench/output/cells.h"
#include "bench/output/results_db_parts.h"
#include "bench/output/row_keys.h"
#include "bench/output/row_same.h"
#include "common/base/grow.h"
#include "impl/strategy.h"
#include "template_functions.h"

#include <stdlib.h>
#include <string.h>

/* ---- Functions ------------------------------------------------------------------------------ */

/* The row of a JSON text, parsed: a statement asks several things of one row. */
typedef struct parsed {
    char *text;
    json_t *row;
} parsed;

/* What a connection's functions keep. */
typedef struct memory {
    parsed last[2];   /* of functions of two rows the first and the second */
    json_t *machines; /* {scope: [facts]} of the machines that machine_of has seen */
} memory;

static void forget(parsed *last)
{
    json_decref(last->row);
    free(last->text);
}

static void free_memory(void *context)
{
    memory *kept = context;
    forget(&kept->last[0]);
    forget(&kept->last[1]);
    json_decref(kept->machines);
    free(kept);
}

/* `which`: of the two that are kept. NULL of NULL, and of a damaged text. */
static json_t *parsed_row(sqlite3_context *context, sqlite3_value *value, size_t which)
{
    const char *text = (const char *)sqlite3_value_text(value);
    parsed *last = &((memory *)sqlite3_user_data(context))->last[which];
    if (text && (!last->text || strcmp(text, last->text) != 0)) {
        forget(last);
        *last = (parsed){strdup(text), json_loads(text, 0, NULL)};
    }
    return text ? last->row : NULL;
}

static void give_text(sqlite3_context *context, char *text)
{
    if (text)
        sqlite3_result_text(context, text, -1, free);
    else
        sqlite3_result_error_nomem(context);
}

LS_SQL_FUNCTION(number_text)
{
    char text[32];
    if (sqlite3_value_type(*value) == SQLITE_FLOAT)
        ls_sql_give(context, ls_real_text(sqlite3_value_double(*value), text));
    else
        ls_sql_give(context, (const char *)sqlite3_value_text(*value));
}

LS_SQL_FUNCTION(list_text)
{
    const char *text = (const char *)sqlite3_value_text(*value);
    json_auto_t *list = text && (*text == '[' || *text == '{') ? json_loads(text, 0, NULL) : NULL;
    if (list)
        give_text(context, ls_value_text(list));
    else
        number_text(context, count, value);
}

LS_SQL_FUNCTION(optimizer_shown)
{
    const char *text = (const char *)sqlite3_value_text(*value);
    char shown[160];
    if (text)
        ls_sql_give(context, ls_optimizer_shown(text, shown, sizeof shown));
}

/* The value that a JSON text has, as ls_value_text. */
LS_SQL_FUNCTION(value_text)
{
    json_auto_t *all = json_loads(ls_sql_text(*value), JSON_DECODE_ANY, NULL);
    if (all)
        give_text(context, ls_value_text(all));
}

LS_SQL_FUNCTION(escaped)
{
    static const char *const names[] = {
        [LS_ESCAPE_LINE] = "line",       [LS_ESCAPE_FONT] = "font",
        [LS_ESCAPE_MARKUP] = "markup",   [LS_ESCAPE_MARKDOWN] = "markdown",
        [LS_ESCAPE_GNUPLOT] = "gnuplot", [LS_ESCAPE_GITHUB] = "github",
    };
    const char *text = (const char *)sqlite3_value_text(value[0]);
    const char *as = (const char *)sqlite3_value_text(value[1]);
    for (size_t i = 0; text && as && i < sizeof names / sizeof *names; i++)
        if (names[i] && strcmp(names[i], as) == 0)
            give_text(context, ls_text_shown(text, (ls_escape)i));
}

LS_SQL_FUNCTION(wrapped)
{
    const char *text = (const char *)sqlite3_value_text(value[0]);
    char *out = NULL;
    size_t size;
    FILE *stream = text ? open_memstream(&out, &size) : NULL;
    if (!stream)
        return;
    ls_text_wrap(stream, text, sqlite3_value_int(value[1]), sqlite3_value_int(value[2]),
                 sqlite3_value_int(value[3]));
    fclose(stream);
    give_text(context, out);
}

LS_SQL_FUNCTION(case_key)
{
    const json_t *row = parsed_row(context, value[0], 0);
    if (row)
        give_text(context, ls_row_identity(row, (unsigned)sqlite3_value_int(value[1]),
                                           count > 2 ? (unsigned)sqlite3_value_int(value[2]) : 0));
}

/* machine_of(scope, row, of): the number of the row's machine among the scope's machines so far. */
LS_SQL_FUNCTION(machine_of)
{
    memory *kept = sqlite3_user_data(context);
    const char *scope = ls_sql_text(value[0]);
    const json_t *row = parsed_row(context, value[1], 0);
    if (!json_object_get(kept->machines, scope))
        json_object_set_new(kept->machines, scope, json_array());
    if (row)
        sqlite3_result_int64(context,
                             (int64_t)ls_row_machine(json_object_get(kept->machines, scope), row,
                                                     (unsigned)sqlite3_value_int(value[2])));
}

/* same_but(row, other, common, field, ..): see ls_row_same_but. */
LS_SQL_FUNCTION(same_but)
{
    enum { MOST = 8 };
    const char *fields[MOST + 1] = {NULL};
    const json_t *row = parsed_row(context, value[0], 0);
    const json_t *other = parsed_row(context, value[1], 1);
    for (int i = 3; i < count && i < 3 + MOST; i++)
        fields[i - 3] = ls_sql_text(value[i]);
    sqlite3_result_int(
        context, row && other && ls_row_same_but(row, other, fields, sqlite3_value_int(value[2])));
}

/* same_case(a, b, but): in the fields that both rows have. */
LS_SQL_FUNCTION(same_case)
{
    const json_t *a = parsed_row(context, value[0], 0), *b = parsed_row(context, value[1], 1);
    sqlite3_result_int(context,
                       ls_row_same_case(a, b, (unsigned)sqlite3_value_int(value[2]), true));
}

/* other_machine(a, b, of): the first field in which these parts of two machines differ. */
LS_SQL_FUNCTION(other_machine)
{
    const json_t *a = parsed_row(context, value[0], 0), *b = parsed_row(context, value[1], 1);
    sqlite3_result_text(context, ls_row_other_machine(a, b, (unsigned)sqlite3_value_int(value[2])),
                        -1, SQLITE_STATIC); /* NULL of NULL */
}

/* row_text(row, path): the value that CSV has there. */
LS_SQL_FUNCTION(row_text)
{
    const json_t *row = parsed_row(context, value[0], 0);
    json_auto_t *found = row ? ls_row_value(row, ls_sql_text(value[1])) : NULL;
    if (found)
        give_text(context, ls_value_text(found));
}

/* cell(row, path), heading(path) */
LS_SQL_FUNCTION(cell)
{
    char title[LS_TITLE_SIZE], text[LS_CELL_SIZE];
    const ls_column column = ls_column_of(ls_sql_text(value[count - 1]), title);
    if (count > 1)
        ls_cell_write(&column, parsed_row(context, value[0], 0), text);
    ls_sql_give(context, count > 1 ? text : title);
}

/* strategy_fact(name, what): its "place" in the registry (the registry's size for an unknown name);
 * whether one device is a "holder" of the variables; whether its cases stand "alone"; whether it is
 * "replicated", as an unknown one counts; the option that sets its "period", NULL if there is no
 * such option. */
LS_SQL_FUNCTION(strategy_fact)
{
    const char *name = ls_sql_text(value[0]), *what = ls_sql_text(value[1]);
    const ls_strategy *strategy = ls_registry_find(&ls_strategies, name, strlen(name));
    const ls_declared_option *period = strategy ? strategy->average.period : NULL;
    size_t place = 0;
    while (ls_strategies.entries[place] && ls_strategies.entries[place] != strategy)
        place++;
    if (strcmp(what, "place") == 0)
        sqlite3_result_int64(context, (int64_t)place);
    else if (strcmp(what, "holder") == 0)
        sqlite3_result_int(context, strategy && ls_strategy_holds(strategy));
    else if (strcmp(what, "alone") == 0)
        sqlite3_result_int(context, strategy && ls_strategy_alone(strategy));
    else if (strcmp(what, "replicated") == 0)
        sqlite3_result_int(context, !strategy || ls_strategy_replicates(strategy));
    else if (period)
        sqlite3_result_text(context, period->name, -1, SQLITE_STATIC);
}

/* row_figure(row, name): what follows from several fields; see results_db.h. */
LS_SQL_FUNCTION(row_figure)
{
    const json_t *row = parsed_row(context, value[0], 0);
    const char *name = ls_sql_text(value[1]), *bound = strchr(name, '_');
    ls_interval figure;
    if (!row)
        return;
    if (*name == 'u') {
        sqlite3_result_int(context, ls_row_is_uneven(row));
        return;
    }
    const bool known = *name == 'p'
                           ? ls_row_pace(row, &figure)
                           : ls_row_rate(row, *name == 'm' || ls_row_is_uneven(row), &figure);
    if (bound ? known : figure.value > 0)
        sqlite3_result_double(context, !bound                       ? figure.value
                                       : strcmp(bound, "_low") == 0 ? figure.low
                                                                    : figure.high);
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

/* ---- Connections ---------------------------------------------------------------------------- */

/* A function that is a statement. */
LS_SQL_FUNCTION(stated)
{
    sqlite3_stmt *statement = sqlite3_user_data(context);
    for (int i = 0; i < count; i++)
        sqlite3_bind_value(statement, i + 1, value[i]);
    const int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        sqlite3_result_value(context, sqlite3_column_value(statement, 0));
    else if (code != SQLITE_DONE)
        sqlite3_result_error_code(context, code);
    sqlite3_reset(statement);
}

static int add_stated(sqlite3 *db)
{
    const char *text = ls_template_functions;
    char name[32];
    int code = SQLITE_OK;
    for (char *sql; code == SQLITE_OK && (sql = ls_sql_section(&text, name)); free(sql)) {
        sqlite3_stmt *statement; /* finalized by ls_results_close */
        code = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL);
        if (code == SQLITE_OK)
            code = sqlite3_create_function(db, name, sqlite3_bind_parameter_count(statement),
                                           LS_PURE, statement, stated, NULL, NULL);
    }
    return code;
}

char *ls_results_view_text(sqlite3 *db, const char *derived)
{
    sqlite3_stmt *statement;
    char *text = NULL;
    if (sqlite3_prepare_v2(db, "SELECT view_text(?)", -1, &statement, NULL) != SQLITE_OK)
        return NULL;
    sqlite3_bind_text(statement, 1, derived, -1, SQLITE_STATIC); /* NULL of NULL */
    if (sqlite3_step(statement) == SQLITE_ROW)
        text = strdup(ls_results_text(statement, 0));
    sqlite3_finalize(statement);
    return text;
}

/* The view of the connection's rows, and what statements say of it. */
static int add_views(sqlite3 *db)
{
    ls_auto char *derived = ls_results_part("derived"), *views = ls_results_part("views");
    ls_auto char *view = derived && views ? ls_results_view_text(db, derived) : NULL;
    const int code = view ? sqlite3_exec(db, view, NULL, NULL, NULL) : SQLITE_NOMEM;
    return code == SQLITE_OK ? sqlite3_exec(db, views, NULL, NULL, NULL) : code;
}

ls_status ls_results_attach(ls_results *results, bool rows)
{
    static const struct {
        const char *name;
        int arguments;
        void (*call)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {{"number_text", 1, number_text},
                     {"list_text", 1, list_text},
                     {"optimizer_shown", 1, optimizer_shown},
                     {"value_text", 1, value_text},
                     {"escaped", 2, escaped},
                     {"wrapped", 4, wrapped},
                     {"strategy_fact", 2, strategy_fact},
                     {"case_key", 2, case_key},
                     {"case_key", 3, case_key},
                     {"same_but", -1, same_but},
                     {"same_case", 3, same_case},
                     {"other_machine", 3, other_machine},
                     {"row_text", 2, row_text},
                     {"cell", 2, cell},
                     {"heading", 1, cell},
                     {"row_figure", 2, row_figure}};
    sqlite3 *db = results->db;
    memory *kept; /* for all functions; freed with machine_of */
    LS_TRY(ls_results_do(results, "fields", NULL, NULL));
    int code = ls_row_fields(db);
    LS_TRY(code == SQLITE_OK ? ls_results_execute(results, "COMMIT")
                             : ls_results_failure(results, code));
    LS_TRY(ls_allocate("results", &kept, 1, sizeof *kept));
    kept->machines = json_object();
    code = sqlite3_create_function_v2(db, "machine_of", 3, SQLITE_UTF8, kept, machine_of, NULL,
                                      NULL, free_memory); /* also where this fails */
    for (size_t i = 0; i < sizeof functions / sizeof *functions && code == SQLITE_OK; i++)
        code = sqlite3_create_function(db, functions[i].name, functions[i].arguments, LS_PURE, kept,
                                       functions[i].call, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_create_collation(db, "NUMBERED", SQLITE_UTF8, NULL, natural);
    if (code == SQLITE_OK)
        code = ls_results_add_numbers(db);
    if (code == SQLITE_OK)
        code = add_stated(db);
    if (code == SQLITE_OK && rows)
        code = add_views(db);
    return code == SQLITE_OK ? LS_OK : ls_results_failure(results, code);
}
