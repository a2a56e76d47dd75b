/* SPDX-License-Identifier: MIT */
/* Functions of SQL on numbers; see results_db.h. */
#include "bench/output/results_db_parts.h"

#include "bench/statistics/ratio_test.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "common/device/link.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- As text -------------------------------------------------------------------------------- */

LS_SQL_FUNCTION(bytes_text)
{
    char text[32];
    ls_sql_give(context, ls_format_bytes(sqlite3_value_double(*value), text));
}

/* A real as C rounds it, in the form "g" or "f": SQLite's own printf rounds ties away from 0. */
LS_SQL_FUNCTION(rounded)
{
    char text[400];
    if (sqlite3_value_type(value[0]) == SQLITE_NULL)
        return;
    const char *form = sqlite3_user_data(context);
    snprintf(text, sizeof text, *form == 'g' ? "%.*g" : "%.*f", sqlite3_value_int(value[1]),
             sqlite3_value_double(value[0]));
    ls_sql_give(context, text);
}

/* ---- Of texts ------------------------------------------------------------------------------- */

/* link_fact(link, "MB/s" or "us"): NULL if the link does not have it. */
LS_SQL_FUNCTION(link_fact)
{
    static const char flat[] = "flat:";
    const char *text = ls_sql_text(value[0]);
    ls_link link = {0};
    if (*text)
        ls_status_free(ls_link_parse(
            text + (strncmp(text, flat, strlen(flat)) == 0 ? strlen(flat) : 0), &link));
    if (strcmp(ls_sql_text(value[1]), "us") == 0)
        sqlite3_result_double(context, (double)link.latency_ns * 1e-3);
    else if (link.bytes_per_s > 0)
        sqlite3_result_double(context, link.bytes_per_s * 1e-6);
}

/* delay_ms(fault): 0 without a fault, negative of another one. */
LS_SQL_FUNCTION(delay_ms)
{
    const char *text = ls_sql_text(*value), *colon = strchr(text, ':');
    uint64_t ns;
    const bool delays =
        strncmp(text, "delay=", 6) == 0 && colon && ls_parse_duration(colon + 1, &ns);
    sqlite3_result_double(context, delays ? (double)ns * 1e-6 : *text ? -1 : 0);
}

/* ---- Statistics ----------------------------------------------------------------------------- */

/* ratio(a, low, high, b, low, high) */
LS_SQL_FUNCTION(ratio)
{
    const ls_interval of = ls_statistics_ratio(
        (ls_interval){sqlite3_value_double(value[0]), sqlite3_value_double(value[1]),
                      sqlite3_value_double(value[2])},
        (ls_interval){sqlite3_value_double(value[3]), sqlite3_value_double(value[4]),
                      sqlite3_value_double(value[5])});
    json_auto_t *out =
        json_pack("{s:o*,s:o*,s:o*,s:s}", "value", json_real(of.value), "low", json_real(of.low),
                  "high", json_real(of.high), "verdict", ls_verdict_name(ls_verdict_of_pair(of)));
    sqlite3_result_text(context, json_dumps(out, JSON_REAL_PRECISION(17)), -1, free);
}

/* The numbers of a JSON list, to be freed, and how many they are; NULL if memory is short. */
static double *numbers_of(sqlite3_value *list, size_t *count)
{
    json_auto_t *values = json_loads(ls_sql_text(list), 0, NULL);
    double *out = calloc(json_array_size(values) + 1, sizeof *out);
    *count = out ? json_array_size(values) : 0;
    for (size_t i = 0; i < *count; i++)
        out[i] = json_number_value(json_array_get(values, i));
    return out;
}

/* levels(list): for each number of the list the number of its level, from 0. */
LS_SQL_FUNCTION(levels)
{
    json_auto_t *out = json_array();
    size_t n;
    double *numbers = numbers_of(*value, &n);
    bool *changes = calloc(n + 1, sizeof *changes);
    ls_status status =
        numbers && changes ? ls_level_changes(numbers, n, changes) : ls_fail_memory("levels", n);
    json_int_t level = 0;
    for (size_t i = 0; i < n && !status; i++)
        json_array_append_new(out, json_integer(level += i > 0 && changes[i]));
    if (status)
        sqlite3_result_error(context, ls_status_text(status), -1);
    else
        sqlite3_result_text(context, json_dumps(out, JSON_COMPACT), -1, free);
    ls_status_free(status);
    free(numbers);
    free(changes);
}

static void give(sqlite3_context *context, ls_status status, const ls_ratio_result *result)
{
    json_auto_t *out =
        json_pack("{s:s,s:o*,s:o*,s:o*,s:I,s:I}", "verdict", ls_verdict_name(result->verdict),
                  "ratio", json_real(result->ratio), "low", json_real(result->ci95[0]), "high",
                  json_real(result->ci95[1]), "blocks", (json_int_t)result->blocks, "more",
                  (json_int_t)result->more);
    if (status)
        sqlite3_result_error(context, ls_status_text(status), -1);
    else
        sqlite3_result_text(context, json_dumps(out, JSON_REAL_PRECISION(17)), -1, free);
    ls_status_free(status);
}

/* look(logs, threshold, cases, spent, share): ls_ratio_look of a JSON list of log ratios. */
LS_SQL_FUNCTION(look)
{
    const ls_ratio_test test = {sqlite3_value_double(value[1]),
                                (size_t)sqlite3_value_int64(value[2]),
                                sqlite3_value_double(value[3])};
    ls_ratio_result result = {0};
    size_t n;
    double *logs = numbers_of(value[0], &n);
    give(context, ls_ratio_look(&test, logs, n, sqlite3_value_double(value[4]), &result), &result);
    free(logs);
}

/* unpaired(base, half, new, half, threshold, cases, drift): ls_ratio_unpaired of JSON lists of
 * logarithms. */
LS_SQL_FUNCTION(unpaired)
{
    const ls_ratio_test test = {sqlite3_value_double(value[4]),
                                (size_t)sqlite3_value_int64(value[5]), 0};
    ls_ratio_result result;
    ls_ratio_side side[2];
    double *logs[2];
    for (int i = 0; i < 2; i++) {
        logs[i] = numbers_of(value[2 * i], &side[i].count);
        side[i].logs = logs[i];
        side[i].half = sqlite3_value_double(value[2 * i + 1]);
    }
    ls_ratio_unpaired(&test, &side[0], &side[1], sqlite3_value_double(value[6]), &result);
    give(context, LS_OK, &result);
    free(logs[0]);
    free(logs[1]);
}

/* The values of a group whose median is asked for. */
typedef struct numbers {
    double *items;
    size_t count;
} numbers;

LS_SQL_FUNCTION(add_number)
{
    numbers *all = sqlite3_aggregate_context(context, sizeof *all);
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

int ls_results_add_numbers(sqlite3 *db)
{
    static const struct {
        const char *name;
        int arguments;
        void (*call)(sqlite3_context *, int, sqlite3_value **);
        const char *form; /* of `rounded` */
    } functions[] = {{"bytes_text", 1, bytes_text, NULL}, {"digits", 2, rounded, "g"},
                     {"decimals", 2, rounded, "f"},       {"link_fact", 2, link_fact, NULL},
                     {"delay_ms", 1, delay_ms, NULL},     {"ratio", 6, ratio, NULL},
                     {"levels", 1, levels, NULL},         {"look", 5, look, NULL},
                     {"unpaired", 7, unpaired, NULL}};
    int code =
        sqlite3_create_function(db, "median", 1, LS_PURE, NULL, NULL, add_number, give_median);
    for (size_t i = 0; i < sizeof functions / sizeof *functions && code == SQLITE_OK; i++)
        code = sqlite3_create_function(db, functions[i].name, functions[i].arguments, LS_PURE,
                                       (void *)(size_t)functions[i].form, functions[i].call, NULL,
                                       NULL);
    return code;
}
