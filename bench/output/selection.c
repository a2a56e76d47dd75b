/* SPDX-License-Identifier: MIT */
/* Selection; see selection.h. Values of the user stand in the statement as SQL's quoted texts. */
#include "bench/output/selection.h"

#include "bench/rows/row.h"
#include "common/base/escape.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <stdlib.h>
#include <string.h>

/* ---- Conditions ----------------------------------------------------------------------------- */

static const char *const operators[] = {"!=", ">=", "<=", "=", ">", "<", "~"};

static ls_status refuse(const char *part, const char *why)
{
    return ls_fail(LS_CODE_USAGE, "--where", *part ? part : "''",
                   "%s; write KEY=VALUE, or !=, >, <, >=, <= or ~ (contains) instead of =; "
                   "separate conditions with commas, and write \\, for a comma in a value",
                   why);
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

/* The text that a question to functions.sql gets, owned by the caller (free); NULL for none. Takes
 * the document. */
static ls_status ask(const char *question, json_t *document, char **out)
{
    json_auto_t *given = document, *found = json_array();
    const char *text = NULL;
    LS_TRY(ls_document_query(question, given, NULL, found));
    json_unpack(found, "[{s:s}]", "text", &text);
    *out = text ? strdup(text) : NULL;
    return LS_OK;
}

static ls_status read_condition(const char *part, sqlite3_str *sql, bool *predictions)
{
    const size_t length = strcspn(part, "!=<>~");
    const char *rest = part + length;
    if (length == 0)
        return refuse(part, "this condition has no key");
    size_t i = 0, count = sizeof operators / sizeof *operators;
    while (i < count && strncmp(rest, operators[i], strlen(operators[i])) != 0)
        i++;
    if (i == count)
        return refuse(part, "this is not a condition");
    const char *sign = operators[i], *value = rest + strlen(sign);
    const char *key;
    char number[64];
    ls_auto char *text = NULL;
    LS_TRY(ls_row_key_find("--where", part, length, &key));
    if (!*value && strcmp(sign, "=") != 0 && strcmp(sign, "!=") != 0)
        return refuse(part, "this condition has no value");
    literal(value, number);
    LS_TRY(ask("SELECT condition(:document ->> 0, :document ->> 1, :document ->> 2,"
               " :document ->> 3) AS text",
               json_pack("[s,s,o,s?]", key, sign, ls_text_value(value), *number ? number : NULL),
               &text));
    if (!text)
        return ls_fail(LS_CODE_USAGE, "--where", key,
                       "this key is a number, but '%s' is not; give a number", value);
    *predictions |= strncmp(key, "prediction", 10) == 0 || strcmp(key, "result.warnings") == 0;
    sqlite3_str_appendf(sql, " AND %s", text);
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
    ls_auto char *found = NULL;
    LS_TRY(ask("SELECT since(:document ->> 0, :document ->> 1) AS text",
               json_pack("[o,I]", ls_text_value(text), (json_int_t)now), &found));
    snprintf(stamp, 21, "%s", found ? found : "");
    return found ? LS_OK
                 : ls_fail(LS_CODE_USAGE, "--since", text,
                           "this is neither an age nor a day; use for example 30min, 12h, 2d, 1w, "
                           "2026-11-20 or 2026-11-20T14:30");
}

/* ---- Selection ------------------------------------------------------------------------------ */

static ls_status read_options(const char *since, const char *last, const char *sort,
                              sqlite3_str *sql, char order[160])
{
    char stamp[21];
    ls_auto char *x = NULL;
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
        LS_TRY(ask("SELECT compared(:document ->> 0) AS text", json_pack("[s]", key), &x));
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
