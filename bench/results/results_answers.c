/* SPDX-License-Identifier: MIT */
/*
 * Verbs that print what a query answers:
 * - `results show`: what limits a row's step, then the figures that tell most, 45 lines at most
 *   (show.sql); with --all all fields, group by group, one per line (diff.sql); or in a format
 * - `results diff A B`: the keys in which two rows differ, and the ratio of their times (diff.sql)
 * - `results trend KEY`: the median of a figure by commit, in the order of the commits' first rows,
 *   and where its level changes (trend.sql, bench/statistics/statistics.h). Rows of one case and
 *   one machine (bench/output/row_same.h) are a *series*
 */
#include "bench/results/results_verbs.h"
#include "common/base/log.h"

#include "template_bound.h"
#include "template_diff.h"
#include "template_show.h"
#include "template_trend.h"
#include "template_trend_figure.h"

#include <string.h>

ls_status ls_results_show(ls_results_task *task)
{
    json_auto_t *found = NULL;
    LS_TRY(ls_results_find(task->results, task->set->operands[1], &found));
    json_auto_t *rows = json_pack("[O]", json_object_get(found, "row"));
    if (task->form || task->chosen.columns.count > 0)
        return ls_rows_write(task->form, ls_results_columns(task, NULL), rows, ls_output());
    const bool all = ls_option_set_yes(task->set, "all");
    json_auto_t *fields = json_pack("{s:O,s:i,s:i,s:i}", "a", json_object_get(found, "number"),
                                    "people", 0, "all", 1, "show", 1);
    json_object_set_new(found, "all", json_integer(all));
    LS_TRY(ls_results_execute(task->results, ls_template_bound));
    LS_TRY(ls_answer_write(task->results, ls_template_show, found, NULL, ls_output()));
    return all ? ls_answer_write(task->results, ls_template_diff, fields, NULL, ls_output())
               : LS_OK;
}

ls_status ls_results_diff(ls_results_task *task)
{
    static const ls_column column[] = {
        LS_PATH_COLUMN("key", "key", 43, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("A", "a", 24, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("B", "b", 24, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("ratio", "ratio", 0, true, LS_CELL_FIGURE, 0),
        LS_PATH_COLUMN("ci95", "ci95", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0)};
    const char *name = task->form ? task->form->name : "table";
    const bool people = strcmp(name, "table") == 0 || strcmp(name, "md") == 0;
    const ls_columns columns = {.column = column, .count = people ? 3 : 5, .alone = true};
    json_auto_t *a = NULL, *b = NULL;
    LS_TRY(ls_results_find(task->results, task->set->operands[1], &a));
    LS_TRY(ls_results_find(task->results, task->set->operands[2], &b));
    json_auto_t *values = json_pack("{s:O,s:O,s:s,s:i,s:i,s:i}", "a", json_object_get(a, "number"),
                                    "b", json_object_get(b, "number"), "format", name, "people",
                                    people, "all", ls_option_set_yes(task->set, "all"), "show", 0);
    return ls_answer_write(task->results, ls_template_diff, values, &columns, ls_output());
}

/* ---- Trend ---------------------------------------------------------------------------------- */

/* Makes trend.sql's tables of the chosen rows. */
static ls_status find_series(ls_results *results, const char *path)
{
    int64_t texts = 0;
    char *sql =
        sqlite3_mprintf("CREATE TEMP VIEW figure AS SELECT \"%w\" AS value, * FROM s", path);
    ls_status status = sql ? ls_results_execute(results, sql) : ls_fail_memory("trend", 0);
    sqlite3_free(sql);
    LS_TRY(status);
    LS_TRY(ls_results_ask(results, "SELECT count(*) FROM figure WHERE typeof(value) = 'text'",
                          &texts));
    if (texts > 0)
        return ls_fail(LS_CODE_USAGE, "trend", path,
                       "this key is not a number, so there is no trend; use a key such as "
                       "time.step_ms.median or time.samples_per_s");
    return ls_results_query(results, ls_template_trend, NULL, NULL);
}

/* What changed in a series besides the commit, and the picture, which is drawn. */
static ls_status tell(const ls_results_task *task, const char *key, const char *path)
{
    json_auto_t *values = json_pack("{s:s,s:i}", "path", key, "draws", path != NULL);
    json_auto_t *found = json_array();
    json_t *one;
    size_t i;
    LS_TRY(ls_results_query(task->results, ls_template_trend_figure, values, found));
    json_array_foreach(found, i, one)
    {
        const char *note = json_string_value(json_object_get(one, "note"));
        if (note)
            ls_log_stderr("results: trend%s, not only in the commit, so a change may have another "
                          "cause; choose comparable rows with --where",
                          note);
        else
            LS_TRY(task->draw(json_object_get(one, "figure"), path));
    }
    return LS_OK;
}

ls_status ls_results_trend(ls_results_task *task)
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
    const char *name = task->set->operands[1], *key;
    const char *path = ls_option_set_text(task->set, "out", NULL);
    json_auto_t *commits = json_array();
    int64_t count;
    size_t rows;
    LS_TRY(ls_row_key_find("trend", name, strlen(name), &key));
    LS_TRY(ls_selection_choose(&task->selection, task->results, &rows));
    LS_TRY(find_series(task->results, key));
    LS_TRY(ls_results_ask(task->results, "SELECT count(*) FROM series", &count));
    if (count == 0)
        ls_log_stderr("results: %s: none of the selected rows has the key %s; select other rows, "
                      "or name another key",
                      task->file, key);
    if (path && count > 1)
        return ls_fail(LS_CODE_USAGE, "--out", path,
                       "a picture shows a single series, but the rows form %lld series; use "
                       "--where to choose one, or remove --out to list all",
                       (long long)count);
    const ls_columns columns = {.column = column + (count < 2),
                                .count = sizeof column / sizeof *column - (count < 2),
                                .alone = true};
    ls_status told = tell(task, key, path); /* the table is printed also without a picture */
    ls_status status = ls_results_query(task->results, "SELECT * FROM trend", NULL, commits);
    if (!status)
        status = ls_rows_write(task->form, &columns, commits, ls_output());
    return ls_status_first(told, status);
}
