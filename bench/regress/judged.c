/* SPDX-License-Identifier: MIT */
/* The ratio test as functions of SQL. */
#include "bench/regress/regress.h"

#include <stdlib.h>

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
static void look(sqlite3_context *context, int count, sqlite3_value **value)
{
    const ls_ratio_test test = {sqlite3_value_double(value[1]),
                                (size_t)sqlite3_value_int64(value[2]),
                                sqlite3_value_double(value[3])};
    ls_ratio_result result = {0};
    size_t n;
    double *logs = ls_results_numbers(value[0], &n);
    (void)count;
    give(context, ls_ratio_look(&test, logs, n, sqlite3_value_double(value[4]), &result), &result);
    free(logs);
}

/* unpaired(base, half, new, half, threshold, cases, drift): ls_ratio_unpaired of JSON lists of
 * logarithms. */
static void unpaired(sqlite3_context *context, int count, sqlite3_value **value)
{
    const ls_ratio_test test = {sqlite3_value_double(value[4]),
                                (size_t)sqlite3_value_int64(value[5]), 0};
    ls_ratio_result result;
    ls_ratio_side side[LS_SIDES];
    double *logs[LS_SIDES];
    (void)count;
    for (int i = 0; i < LS_SIDES; i++) {
        logs[i] = ls_results_numbers(value[2 * i], &side[i].count);
        side[i].logs = logs[i];
        side[i].half = sqlite3_value_double(value[2 * i + 1]);
    }
    ls_ratio_unpaired(&test, &side[LS_BASE], &side[LS_NEW], sqlite3_value_double(value[6]),
                      &result);
    give(context, LS_OK, &result);
    free(logs[LS_BASE]);
    free(logs[LS_NEW]);
}

void ls_regress_add_functions(sqlite3 *db)
{
    sqlite3_create_function(db, "look", 5, SQLITE_UTF8, NULL, look, NULL, NULL);
    sqlite3_create_function(db, "unpaired", 7, SQLITE_UTF8, NULL, unpaired, NULL, NULL);
}
