/* SPDX-License-Identifier: MIT */
/* Functions of SQL, and what else a connection has for questions; see results_db.h. */
#include "bench/output/results_db.h"

#include "bench/output/cells.h"
#include "bench/output/results_db_parts.h"
#include "bench/output/row_keys.h"
#include "bench/output/row_same.h"
#include "bench/statistics/verdict.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "common/device/link.h"

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

static const char *text_argument(sqlite3_value *value)
{
    const char *text = (const char *)sqlite3_value_text(value);
    return text ? text : "";
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
    else
        sqlite3_result_text(context, (const char *)sqlite3_value_text(*value), -1,
                            SQLITE_TRANSIENT);
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
    json_auto_t *all = json_loads(text_argument(*value), JSON_DECODE_ANY, NULL);
    (void)count;
    if (all)
        give_text(context, ls_value_text(all));
}

/* A real as C rounds it, in the form "g" or "f": SQLite's own printf rounds ties away from 0. */
static void rounded(sqlite3_context *context, int count, sqlite3_value **value)
{
    char text[400];
    (void)count;
    if (sqlite3_value_type(value[0]) == SQLITE_NULL)
        return;
    const char *form = sqlite3_user_data(context);
    snprintf(text, sizeof text, *form == 'g' ? "%.*g" : "%.*f", sqlite3_value_int(value[1]),
             sqlite3_value_double(value[0]));
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
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

static void wrapped(sqlite3_context *context, int count, sqlite3_value **value)
{
    const char *text = (const char *)sqlite3_value_text(value[0]);
    char *out = NULL;
    size_t size;
    FILE *stream = text ? open_memstream(&out, &size) : NULL;
    (void)count;
    if (!stream)
        return;
    ls_text_wrap(stream, text, sqlite3_value_int(value[1]), sqlite3_value_int(value[2]),
                 sqlite3_value_int(value[3]));
    fclose(stream);
    give_text(context, out);
}

/* ratio(a, low, high, b, low, high) */
static void ratio(sqlite3_context *context, int count, sqlite3_value **value)
{
    const ls_interval of = ls_statistics_ratio(
        (ls_interval){sqlite3_value_double(value[0]), sqlite3_value_double(value[1]),
                      sqlite3_value_double(value[2])},
        (ls_interval){sqlite3_value_double(value[3]), sqlite3_value_double(value[4]),
                      sqlite3_value_double(value[5])});
    json_auto_t *out =
        json_pack("{s:o*,s:o*,s:o*,s:s}", "value", json_real(of.value), "low", json_real(of.low),
                  "high", json_real(of.high), "verdict", ls_verdict_name(ls_verdict_of_pair(of)));
    (void)count;
    give_text(context, json_dumps(out, JSON_REAL_PRECISION(17)));
}

static void key_path(sqlite3_context *context, int count, sqlite3_value **value)
{
    const char *name = text_argument(*value), *path = NULL;
    (void)count;
    ls_status_free(ls_row_key_find("key", name, strlen(name), &path));
    sqlite3_result_text(context, path, -1, SQLITE_STATIC); /* NULL of NULL */
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
    const json_t *row = parsed_row(context, value[0], 0);
    if (row)
        give_text(context, ls_row_identity(row, (unsigned)sqlite3_value_int(value[1]),
                                           count > 2 ? (unsigned)sqlite3_value_int(value[2]) : 0));
}

/* machine_of(scope, row, of): the number of the row's machine among the scope's machines so far. */
static void machine_of(sqlite3_context *context, int count, sqlite3_value **value)
{
    memory *kept = sqlite3_user_data(context);
    const char *scope = text_argument(value[0]);
    const json_t *row = parsed_row(context, value[1], 0);
    (void)count;
    if (!json_object_get(kept->machines, scope))
        json_object_set_new(kept->machines, scope, json_array());
    if (row)
        sqlite3_result_int64(context,
                             (int64_t)ls_row_machine(json_object_get(kept->machines, scope), row,
                                                     (unsigned)sqlite3_value_int(value[2])));
}

/* same_but(row, other, common, field, ..): see ls_row_same_but. */
static void same_but(sqlite3_context *context, int count, sqlite3_value **value)
{
    enum { MOST = 8 };
    const char *fields[MOST + 1] = {NULL};
    const json_t *row = parsed_row(context, value[0], 0);
    const json_t *other = parsed_row(context, value[1], 1);
    for (int i = 3; i < count && i < 3 + MOST; i++)
        fields[i - 3] = text_argument(value[i]);
    sqlite3_result_int(
        context, row && other && ls_row_same_but(row, other, fields, sqlite3_value_int(value[2])));
}

/* same_case(a, b, but): in the fields that both rows have. */
static void same_case(sqlite3_context *context, int count, sqlite3_value **value)
{
    const json_t *a = parsed_row(context, value[0], 0), *b = parsed_row(context, value[1], 1);
    (void)count;
    sqlite3_result_int(context,
                       ls_row_same_case(a, b, (unsigned)sqlite3_value_int(value[2]), true));
}

/* other_machine(a, b, of): the first field in which these parts of two machines differ. */
static void other_machine(sqlite3_context *context, int count, sqlite3_value **value)
{
    const json_t *a = parsed_row(context, value[0], 0), *b = parsed_row(context, value[1], 1);
    (void)count;
    sqlite3_result_text(context, ls_row_other_machine(a, b, (unsigned)sqlite3_value_int(value[2])),
                        -1, SQLITE_STATIC); /* NULL of NULL */
}

/* row_text(row, path): the value that CSV has there. */
static void row_text(sqlite3_context *context, int count, sqlite3_value **value)
{
    const json_t *row = parsed_row(context, value[0], 0);
    json_auto_t *found = row ? ls_row_value(row, text_argument(value[1])) : NULL;
    (void)count;
    if (found)
        give_text(context, ls_value_text(found));
}

/* cell(row, path), heading(path) */
static void cell(sqlite3_context *context, int count, sqlite3_value **value)
{
    char title[LS_TITLE_SIZE], text[LS_CELL_SIZE];
    const ls_column column = ls_column_of(text_argument(value[count - 1]), title);
    if (count > 1)
        ls_cell_write(&column, parsed_row(context, value[0], 0), text);
    sqlite3_result_text(context, count > 1 ? text : title, -1, SQLITE_TRANSIENT);
}

/* field_fact(path, what): see bench/rows/fields.h; whether "less" is worse; the "list" of objects
 * that has the field; for "diff" whether `results diff` names it, NULL for an unknown path. A
 * member of `case` that is not a field is an option of another version. */
static void field_fact(sqlite3_context *context, int count, sqlite3_value **value)
{
    static const struct {
        const char *name;
        unsigned identifies, shown;
    } facts[] = {{"case", LS_IS_CASE, 0},
                 {"blocks", LS_BUT_BLOCKS, 0},
                 {"repeats", LS_BUT_REPEATS, 0},
                 {"share", LS_OF_SHARE, 0},
                 {"machine", LS_OF_MACHINE, 0},
                 {"machine or label", LS_OF_CLASS | LS_OF_HOST | LS_OF_LABEL, 0},
                 {"follows", 0, LS_SHOWN_LAST},
                 {"kept", 0, LS_SHOWN_KEPT},
                 {"derived", 0, LS_SHOWN_DERIVED}};
    static const char group[] = "case.";
    const char *path = text_argument(value[0]), *what = text_argument(value[1]);
    const ls_field *field = ls_field_find(path);
    const bool option = strstr(path, group) == path;
    const ls_declared_option *declared = field ? NULL : ls_row_declared(path);
    const unsigned shown = field ? field->shown : declared && declared->follows ? LS_SHOWN_LAST : 0;
    (void)count;
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        const unsigned is = facts[i].identifies;
        if (strcmp(what, facts[i].name) == 0)
            sqlite3_result_int(context, !is                ? (shown & facts[i].shown) != 0
                                        : field || !option ? ls_row_is_of(path, is) ||
                                                                 (field && field->identifies & is)
                                                           : is == LS_IS_CASE);
    }
    if (strcmp(what, "diff") == 0 && field)
        sqlite3_result_int(context, (field->shown & LS_SHOWN_DIFF) != 0);
    else if (strcmp(what, "less") == 0)
        sqlite3_result_int(context, field && field->worse == LS_WORSE_LESS);
    else if (strcmp(what, "list") == 0 && ls_field_group_of(path, LS_GROUP_EACH))
        sqlite3_result_text(context, ls_field_group_of(path, LS_GROUP_EACH)->path, -1,
                            SQLITE_STATIC);
    else if (strcmp(what, "place") == 0)
        sqlite3_result_int(context,
                           (int)(shown & LS_SHOWN_AT ? shown & LS_SHOWN_AT : LS_SHOWN_LAST - 1));
    else if (strcmp(what, "order") == 0) {
        int order = 0;
        for (const char *const *one = ls_row_paths(); *one && strcmp(*one, path) != 0; one++)
            order++;
        sqlite3_result_int(context, order);
    }
}

/* strategy_fact(name, what): its "place" in the registry (the registry's size for an unknown name);
 * whether one device is a "holder" of the variables; whether its cases stand "alone"; whether it is
 * "replicated", as an unknown one counts; the option that sets its "period", NULL if there is no
 * such option. */
static void strategy_fact(sqlite3_context *context, int count, sqlite3_value **value)
{
    const char *name = text_argument(value[0]), *what = text_argument(value[1]);
    const ls_strategy *strategy = ls_registry_find(&ls_strategies, name, strlen(name));
    const ls_declared_option *period = strategy ? strategy->average.period : NULL;
    size_t place = 0;
    (void)count;
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

/* link_fact(link, "MB/s" or "us"): NULL if the link does not have it. */
static void link_fact(sqlite3_context *context, int count, sqlite3_value **value)
{
    static const char flat[] = "flat:";
    const char *text = text_argument(value[0]);
    ls_link link = {0};
    (void)count;
    if (*text)
        ls_status_free(ls_link_parse(
            text + (strncmp(text, flat, strlen(flat)) == 0 ? strlen(flat) : 0), &link));
    if (strcmp(text_argument(value[1]), "us") == 0)
        sqlite3_result_double(context, (double)link.latency_ns * 1e-3);
    else if (link.bytes_per_s > 0)
        sqlite3_result_double(context, link.bytes_per_s * 1e-6);
}

/* row_figure(row, name): what follows from several fields; see results_db.h. */
static void row_figure(sqlite3_context *context, int count, sqlite3_value **value)
{
    const json_t *row = parsed_row(context, value[0], 0);
    const char *name = text_argument(value[1]), *bound = strchr(name, '_');
    ls_interval figure;
    (void)count;
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

/* The values of a group whose median is asked for. */
typedef struct numbers {
    double *items;
    size_t count;
} numbers;

static void add_number(sqlite3_context *context, int count, sqlite3_value **value)
{
    numbers *all = sqlite3_aggregate_context(context, sizeof *all);
    (void)count;
    if (!all || sqlite3_value_numeric_type(*value) > SQLITE_FLOAT)
        return;
    ls_status status = ls_grow("rows", &all->items, all->count, sizeof *all->items);
    if (!status)
        all->items[all->count++] = sqlite3_value_double(*value);
    ls_status_free(status);
}

static void give_median(sqlite3_context *context)
{
    numbers *all = sqlite3_aggregate_context(context, 0);
    if (all && all->count > 0)
        sqlite3_result_double(context, ls_statistics_median(all->items, all->count));
    if (all)
        free(all->items);
}

double *ls_results_numbers(sqlite3_value *list, size_t *count)
{
    json_auto_t *values = json_loads(text_argument(list), 0, NULL);
    double *out = calloc(json_array_size(values) + 1, sizeof *out);
    *count = out ? json_array_size(values) : 0;
    for (size_t i = 0; i < *count; i++)
        out[i] = json_number_value(json_array_get(values, i));
    return out;
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

/* `differences`: the paths in which the rows of a group `g` of `keyed` differ, found in their
 * case_key. A field of the case that only some rows have differs, too. */
static const char views_sql[] =
    "CREATE TEMP TABLE IF NOT EXISTS chosen (place INTEGER PRIMARY KEY, number INTEGER);"
    "CREATE TEMP VIEW IF NOT EXISTS s AS SELECT chosen.place, v.* FROM temp.chosen"
    " JOIN temp.v USING (number);"
    "CREATE TEMP TABLE IF NOT EXISTS keyed (g, key);"
    "CREATE INDEX IF NOT EXISTS temp.keyed_g ON keyed (g);"
    "CREATE TEMP VIEW IF NOT EXISTS differences AS SELECT g, field.key AS path FROM keyed,"
    " json_each(keyed.key) AS part, json_each(part.value) AS field"
    " GROUP BY g, part.key, field.key"
    " HAVING count(DISTINCT field.type || coalesce(number_text(field.value), '')) > 1"
    " OR (part.key = 0 AND count(*) < (SELECT count(*) FROM keyed AS k WHERE k.g = keyed.g))"
    " ORDER BY g, field_fact(field.key, 'order')";

int ls_results_attach(sqlite3 *db)
{
    enum { PURE = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS };
    static const struct {
        const char *name;
        int arguments;
        void (*call)(sqlite3_context *, int, sqlite3_value **);
        const char *form; /* of `rounded` */
    } functions[] = {{"number_text", 1, number_text, NULL},
                     {"list_text", 1, list_text, NULL},
                     {"optimizer_shown", 1, optimizer_shown, NULL},
                     {"bytes_text", 1, bytes_text, NULL},
                     {"value_text", 1, value_text, NULL},
                     {"digits", 2, rounded, "g"},
                     {"decimals", 2, rounded, "f"},
                     {"escaped", 2, escaped, NULL},
                     {"wrapped", 4, wrapped, NULL},
                     {"ratio", 6, ratio, NULL},
                     {"key_path", 1, key_path, NULL},
                     {"field_fact", 2, field_fact, NULL},
                     {"strategy_fact", 2, strategy_fact, NULL},
                     {"link_fact", 2, link_fact, NULL},
                     {"case_key", 2, case_key, NULL},
                     {"case_key", 3, case_key, NULL},
                     {"same_but", -1, same_but, NULL},
                     {"same_case", 3, same_case, NULL},
                     {"other_machine", 3, other_machine, NULL},
                     {"row_text", 2, row_text, NULL},
                     {"cell", 2, cell, NULL},
                     {"heading", 1, cell, NULL},
                     {"row_figure", 2, row_figure, NULL}};
    memory *kept = calloc(1, sizeof *kept); /* for all functions; freed with machine_of */
    char *view = ls_results_view_text(true);
    int code = kept && view ? SQLITE_OK : SQLITE_NOMEM;
    if (kept) { /* which is freed also where this fails */
        kept->machines = json_object();
        code = sqlite3_create_function_v2(db, "machine_of", 3, SQLITE_UTF8, kept, machine_of, NULL,
                                          NULL, free_memory);
    }
    if (code == SQLITE_OK)
        code = sqlite3_create_collation(db, "NUMBERED", SQLITE_UTF8, NULL, natural);
    for (size_t i = 0; i < sizeof functions / sizeof *functions && code == SQLITE_OK; i++)
        code = sqlite3_create_function(db, functions[i].name, functions[i].arguments, PURE,
                                       functions[i].form ? (void *)(size_t)functions[i].form : kept,
                                       functions[i].call, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_create_function(db, "median", 1, PURE, NULL, NULL, add_number, give_median);
    if (code == SQLITE_OK)
        code = view ? sqlite3_exec(db, view, NULL, NULL, NULL) : SQLITE_NOMEM;
    if (code == SQLITE_OK)
        code = sqlite3_exec(db, views_sql, NULL, NULL, NULL);
    free(view);
    return code;
}
