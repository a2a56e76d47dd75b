/* SPDX-License-Identifier: MIT */
/* Selection; see selection.h. Values of the user stand in the statement as SQL's quoted texts. */
#include "bench/output/selection.h"

#include "bench/rows/row.h"
#include "common/base/escape.h"
#include "common/base/numbers.h"

#include <stdlib.h>
#include <string.h>

/* ---- Conditions ----------------------------------------------------------------------------- */

/* Whether the operator holds for equal values. */
static const struct {
    const char *text;
    bool same;
} operators[] = {{"!=", false}, {">=", true}, {"<=", true}, {"=", true},
                 {">", false},  {"<", false}, {"~", false}};

static ls_status refuse(const char *part, const char *why)
{
    return ls_fail(LS_CODE_USAGE, "--where", *part ? part : "''",
                   "%s; write KEY=VALUE, or !=, >, <, >=, <= or ~ (contains) instead of =; "
                   "separate conditions with commas, and write \\, for a comma in a value",
                   why);
}

/* The value of a list of objects is the list of all elements' values, or the fullest element's. */
static bool is_list(const ls_field *field)
{
    return field->type >= LS_TYPE_TEXTS || (ls_field_group_of(field->path, LS_GROUP_EACH) &&
                                            !ls_field_group_of(field->path, LS_GROUP_FULLEST));
}

/* Whether the field has a number, in each row that has it. */
static bool is_number(const char *path)
{
    const ls_field *field = ls_field_find(path);
    if (field)
        return (field->type == LS_TYPE_INT || field->type == LS_TYPE_REAL) && !is_list(field);
    const ls_declared_option *option = ls_row_declared(path);
    return option && (option->type == LS_DECLARED_NUMBER || option->type == LS_DECLARED_REAL);
}

/* The field as conditions and orders see it. */
static void column(const char *path, char sql[128])
{
    const ls_field *field = ls_field_find(path);
    snprintf(sql, 128, field && is_list(field) ? "list_text(\"%s\")" : "\"%s\"", path);
}

/* How a value is also written, as SQL; "" means only one way. */
static void also_written(const char *path, const char *x, char sql[256])
{
    const ls_field *field = ls_field_find(path);
    *sql = 0;
    if (field && field->cell == LS_CELL_OPTIMIZER)
        snprintf(sql, 256, "optimizer_shown(%s)", x);
    else if (!field || field->type == LS_TYPE_BOOL) /* a declared option may be a switch */
        snprintf(sql, 256, "CASE %s WHEN 'true' THEN 'yes' WHEN 'false' THEN 'no' END", x);
}

/* A number as SQL has it; "" if it is not a number. SQLite reads it as it reads rows' reals. */
static void literal(const char *text, char sql[64])
{
    int64_t whole;
    double real;
    *sql = 0;
    if (ls_parse_integer(text, INT64_MIN, INT64_MAX, &whole))
        snprintf(sql, 64, whole == INT64_MIN ? "(-9223372036854775807-1)" : "%lld",
                 (long long)whole);
    else if (ls_parse_real(text, &real))
        sqlite3_snprintf(64, sql, "CAST(%Q AS REAL)", text);
}

/* Appends the condition, which is 0 or 1 for each row. */
static void put_condition(sqlite3_str *sql, const char *path, size_t operator, const char * value)
{
    const char *sign = operators[operator].text;
    char x[128], other[256], number[64];
    column(path, x);
    also_written(path, x, other);
    literal(value, number);
    if (*sign == '~') {
        sqlite3_str_appendf(sql, " AND coalesce(instr(number_text(%s), %Q) > 0, 0)", x, value);
        return;
    }
    sqlite3_str_appendf(sql, " AND CASE WHEN %s = %Q THEN %d ELSE ", *other ? other : "NULL", value,
                        operators[operator].same);
    if (strcmp(sign, "=") == 0 || strcmp(sign, "!=") == 0)
        sqlite3_str_appendf(sql, "coalesce(%s, '') %s IN (%Q%s%s)", x, *sign == '!' ? "NOT" : "",
                            value, *number ? ", " : "", number);
    else if (*number)
        sqlite3_str_appendf(sql, "coalesce(%s %s %s AND typeof(%s) != 'text', 0)", x, sign, number,
                            x);
    else
        sqlite3_str_appendf(sql, "coalesce(%s %s %Q AND typeof(%s) = 'text', 0)", x, sign, value,
                            x);
    sqlite3_str_appendall(sql, " END");
}

static ls_status read_condition(const char *part, sqlite3_str *sql, bool *predictions)
{
    const size_t length = strcspn(part, "!=<>~");
    const char *rest = part + length;
    if (length == 0)
        return refuse(part, "this condition has no key");
    size_t i = 0, count = sizeof operators / sizeof *operators;
    while (i < count && strncmp(rest, operators[i].text, strlen(operators[i].text)) != 0)
        i++;
    if (i == count)
        return refuse(part, "this is not a condition");
    const char *sign = operators[i].text, *value = rest + strlen(sign);
    double real;
    const char *key;
    LS_TRY(ls_row_key_find("--where", part, length, &key));
    if (!*value && strcmp(sign, "=") != 0 && strcmp(sign, "!=") != 0)
        return refuse(part, "this condition has no value");
    if (*value && *sign != '~' && is_number(key) && !ls_parse_real(value, &real))
        return ls_fail(LS_CODE_USAGE, "--where", key,
                       "this key is a number, but '%s' is not; give a number", value);
    *predictions |= strncmp(key, "prediction", 10) == 0 || strcmp(key, "result.warnings") == 0;
    put_condition(sql, key, i, value);
    return LS_OK;
}

static ls_status read_where(const char *text, sqlite3_str *sql, bool *predictions)
{
    char *copy = strdup(text);
    ls_status status = copy ? LS_OK : ls_fail_memory("--where", strlen(text));
    for (char *part = copy, *next; part && !status; part = next) {
        next = ls_list_cut(part, NULL);
        status = read_condition(part, sql, predictions);
    }
    free(copy);
    return status;
}

/* ---- Since ---------------------------------------------------------------------------------- */

ls_status ls_since_read(const char *text, time_t now, char stamp[21])
{
    json_auto_t *given =
        json_pack("{s:o,s:I}", "text", ls_text_value(text), "now", (json_int_t)now);
    json_auto_t *found = json_array();
    const char *out = "";
    ls_results *results;
    LS_TRY(ls_results_functions(&results));
    ls_status status = ls_results_do(results, "since", given, found);
    ls_results_close(results);
    LS_TRY(status);
    json_unpack(json_array_get(found, 0), "{s:s}", "stamp", &out);
    snprintf(stamp, 21, "%s", out);
    return *out ? LS_OK
                : ls_fail(LS_CODE_USAGE, "--since", text,
                          "this is neither an age nor a day; use for example 30min, 12h, 2d, 1w, "
                          "2026-11-20 or 2026-11-20T14:30");
}

/* ---- Selection ------------------------------------------------------------------------------ */

static ls_status read_options(const char *since, const char *last, const char *sort,
                              sqlite3_str *sql, char order[160])
{
    char stamp[21], x[128];
    int64_t count = -1; /* all */
    const char *key;
    if (since) {
        LS_TRY(ls_since_read(since, time(NULL), stamp));
        sqlite3_str_appendf(sql, " AND timestamp >= %Q", stamp);
    }
    if (last && !ls_parse_integer(last, 1, INT64_MAX, &count))
        return ls_fail(LS_CODE_USAGE, "--last", last,
                       "this is not a number of rows; give a whole number, 1 or more");
    sqlite3_str_appendf(sql, " ORDER BY timestamp DESC, number DESC LIMIT %lld) ORDER BY ",
                        (long long)count);
    *order = 0;
    if (sort) {
        const bool down = *sort == '-';
        LS_TRY(ls_row_key_find("--sort", sort + down, strlen(sort + down), &key));
        column(key, x);
        snprintf(order, 160, ", %s AS key", x);
        sqlite3_str_appendf(sql, "key IS NULL, key %s, ", down ? "DESC" : "");
    }
    sqlite3_str_appendall(sql, "timestamp, number");
    return LS_OK;
}

ls_status ls_selection_open(const char *where, const char *since, const char *last,
                            const char *sort, ls_selection *out)
{
    sqlite3_str *conditions = sqlite3_str_new(NULL);
    char key[160];
    *out = (ls_selection){.narrows = where || since};
    ls_status status = where ? read_where(where, conditions, &out->predictions) : LS_OK;
    if (!status)
        status = read_options(since, last, sort, conditions, key);
    char *text = sqlite3_str_finish(conditions);
    if (!status) {
        out->sql = sqlite3_mprintf(
            "SELECT number FROM (SELECT number, timestamp%s FROM v WHERE 1%s", key, text);
        status = text && out->sql ? LS_OK : ls_fail_memory("selection", 1);
    }
    sqlite3_free(text);
    return status;
}

void ls_selection_close(ls_selection *selection)
{
    sqlite3_free(selection->sql);
    selection->sql = NULL;
}

ls_status ls_selection_choose(const ls_selection *selection, ls_results *results, size_t *count)
{
    int64_t rows = 0;
    char *sql = sqlite3_mprintf("INSERT INTO chosen (number) %s",
                                selection->sql ? selection->sql : "SELECT number FROM v");
    ls_status status = ls_results_execute(results, "DELETE FROM chosen");
    if (!status)
        status = sql ? ls_results_execute(results, sql) : ls_fail_memory("selection", 1);
    if (!status)
        status = ls_results_ask(results, "SELECT count(*) FROM chosen", &rows);
    sqlite3_free(sql);
    *count = (size_t)rows;
    return status;
}

ls_status ls_selection_unmix(const ls_selection *selection, ls_results *results)
{
    return selection->predictions ? LS_OK : ls_results_do(results, "unmix", NULL, NULL);
}
