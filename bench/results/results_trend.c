/* SPDX-License-Identifier: MIT */
/*
 * `results trend KEY`: the median of a figure by commit, in the order of the commits' first rows,
 * and where its level changes (bench/statistics/level_changes.h). Rows of one case and one machine
 * (bench/output/row_same.h) are a *series*; others are separate series. Rows without the figure, or
 * without a commit, are skipped. trend.sql finds all of it.
 */
#include "bench/results/results_verbs.h"
#include "bench/statistics/level_changes.h"
#include "common/base/log.h"
#include "template_trend.h"
#include "template_trend_figure.h"

#include <stdlib.h>
#include <string.h>

/* levels(list): for each number of the list the number of its level, from 0. */
static void levels(sqlite3_context *context, int count, sqlite3_value **value)
{
    json_auto_t *list = json_loads((const char *)sqlite3_value_text(*value), 0, NULL),
                *out = json_array();
    const size_t n = json_array_size(list);
    double *numbers = calloc(n + 1, sizeof *numbers);
    bool *changes = calloc(n + 1, sizeof *changes);
    (void)count;
    for (size_t i = 0; numbers && i < n; i++)
        numbers[i] = json_number_value(json_array_get(list, i));
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

/* Makes the table `figures` of the rows that have the figure, and a commit. */
static ls_status read_figures(ls_results *results, const char *path)
{
    int64_t texts;
    char *sql = sqlite3_mprintf("SELECT count(*) FROM s WHERE typeof(\"%w\") = 'text'", path);
    ls_status status = sql ? ls_results_ask(results, sql, &texts) : ls_fail_memory("trend", 0);
    sqlite3_free(sql);
    LS_TRY(status);
    if (texts > 0)
        return ls_fail(LS_CODE_USAGE, "trend", path,
                       "is not a number, so it has no trend; use a number such as "
                       "time.step_ms.median or time.samples_per_s");
    sql = sqlite3_mprintf(
        "CREATE TEMP TABLE figures AS SELECT number, place, timestamp, \"provenance.commit\" AS "
        "name, \"provenance.dirty\" IS 'true' AS dirty, \"%w\" + 0.0 AS value, case_key(row, %d) "
        "AS kase, first_value(number) OVER (PARTITION BY case_key(row, %d, %d) ORDER BY place) AS "
        "first FROM s WHERE value IS NOT NULL"
        " AND json_type(row, '$.provenance.commit') = 'text'",
        path, LS_BUT_BLOCKS, LS_BUT_BLOCKS, LS_OF_MACHINE | LS_OF_BUILD | LS_OF_SYSTEM);
    status = sql ? ls_results_execute(results, sql) : ls_fail_memory("trend", 0);
    sqlite3_free(sql);
    LS_TRY(status);
    sqlite3_create_function(ls_results_handle(results), "levels", 1, SQLITE_UTF8, NULL, levels,
                            NULL, NULL);
    return ls_results_query(results, ls_template_trend, NULL, NULL);
}

/* Says what changed in a series besides the commit. */
static ls_status tell_surroundings(ls_results *results)
{
    json_auto_t *notes = json_array();
    json_t *note;
    size_t index;
    LS_TRY(ls_results_query(results,
                            "SELECT iif(name = '', '', ': ') || name || ': rows differ in '"
                            " || differ AS text FROM series WHERE differ IS NOT NULL",
                            NULL, notes));
    json_array_foreach(notes, index, note)
    {
        ls_log_stderr("results: trend%s, not only in the commit, which may explain a change; "
                      "choose comparable rows by --where",
                      json_string_value(json_object_get(note, "text")));
    }
    return LS_OK;
}

static ls_status print(ls_results_task *task, bool several)
{
    static const ls_column column[] = {
        LS_PATH_COLUMN("series", "series", 40, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("commit", "commit", 14, false, LS_CELL_TEXT, 0), /* 12 digits identify it */
        LS_PATH_COLUMN("dirty", "dirty", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("first row", "timestamp", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("n", "n", 0, true, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("median", "median", 0, true, LS_CELL_FIGURE, 0),
        LS_PATH_COLUMN("change", "change", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("by", "by", 0, true, LS_CELL_TEXT, 0)};
    const ls_columns columns = {.column = column + !several,
                                .count = sizeof column / sizeof *column - !several,
                                .alone = true};
    json_auto_t *commits = json_array();
    LS_TRY(
        ls_results_query(task->results,
                         "SELECT series.name AS series, commits.name AS \"commit\","
                         " iif(dirty, 'true', NULL) AS \"dirty:json\", begin AS timestamp, n,"
                         " low, high, median, iif(by IS NULL, NULL, 'true') AS \"change:json\","
                         " by FROM commits JOIN series USING (series) ORDER BY commits.series, nth",
                         NULL, commits));
    return ls_rows_write(task->form, &columns, commits, ls_output());
}

static ls_status draw(const ls_results_task *task, const char *key, const char *path)
{
    json_auto_t *figures = json_array(), *values = json_pack("{s:s}", "path", key);
    LS_TRY(ls_results_query(task->results, ls_template_trend_figure, values, figures));
    return task->draw(json_object_get(json_array_get(figures, 0), "figure"), path);
}

ls_status ls_results_trend(ls_results_task *task)
{
    const char *name = task->set->operands[1], *key;
    const char *path = ls_option_set_text(task->set, "out", NULL);
    int64_t count;
    size_t rows;
    LS_TRY(ls_row_key_find("trend", name, strlen(name), &key));
    LS_TRY(ls_selection_choose(&task->selection, task->results, &rows));
    LS_TRY(read_figures(task->results, key));
    LS_TRY(ls_results_ask(task->results, "SELECT count(*) FROM series", &count));
    if (count == 0)
        ls_log_stderr("results: %s: no matching row has %s", task->file, key);
    if (path && count > 1)
        return ls_fail(LS_CODE_USAGE, "--out", path,
                       "a picture shows one series, and the rows make %lld; remove --out to list "
                       "the series, and choose one by --where",
                       (long long)count);
    LS_TRY(tell_surroundings(task->results));
    ls_status drawn = path && count > 0 ? draw(task, key, path) : LS_OK;
    return ls_status_first(drawn, print(task, count > 1)); /* also without a picture */
}
