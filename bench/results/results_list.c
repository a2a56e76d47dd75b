/* SPDX-License-Identifier: MIT */
/* `results list`: the rows in columns: their identity, then as `run` prints them. */
#include "bench/results/results_verbs.h"
#include "common/base/log.h"

#include <string.h>

static const ls_column listed[] = {
    LS_COLUMN(id, 29, 0),
    LS_COLUMN(timestamp, 20, LS_DROP_FIRST), /* the id begins with it */
    LS_COLUMN(label, 12, 2),
    LS_COLUMN(micro_op, 16, 0),
    LS_COLUMN(micro_shape, 26, 0),
    LS_COLUMN(micro_size_bytes, 11, 0),
    LS_COLUMN(micro_time_us, 9, 0),
    LS_COLUMN(time_step_ms_median, 7, 0),
    LS_COLUMN(time_step_ms_ci95, 5, 3),
    LS_COLUMN(time_samples_per_s, 9, 5),
    LS_COLUMN(result_status, LS_WIDTH_ANY, 0),
};

enum { RANKED_MOST = 256 };

/* Rows of one command on one host were measured in turns, unless a case is there again, from
 * another time: their ranking is meaningful. */
static ls_status is_one_command(ls_results *results, size_t rows, bool *out)
{
    int64_t is = 0;
    if (rows <= RANKED_MOST)
        LS_TRY(ls_results_ask(results,
                              "SELECT count(DISTINCT command) = 1 AND count(command) = count(*)"
                              " AND count(DISTINCT \"provenance.host\") = 1"
                              " AND count(\"provenance.host\") = count(*)"
                              " AND count(DISTINCT case_key(row, 8192)) = count(*)"
                              " FROM s",
                              &is));
    *out = is;
    return LS_OK;
}

/* Reads the chosen rows, or the members of them that a table in these columns needs: parsing takes
 * most of the time. */
static ls_status read_rows(ls_results *results, const ls_columns *columns, json_t *rows)
{
    if (columns->ranks)
        return ls_results_chosen(results, ls_results_collect, rows);
    json_auto_t *names =
        json_pack("{s:n,s:n,s:n,s:n,s:n,s:n}", "id", "label", "case", "micro", "result", "peer");
    sqlite3_str *text = sqlite3_str_new(NULL);
    const char *name;
    json_t *unused;
    for (size_t i = 0; i < columns->count; i++) {
        const ls_column *one = &columns->column[i];
        const char *path = one->path ? one->path : ls_fields[one->of].path;
        json_object_setn_new(names, path, strcspn(path, "."), json_null());
    }
    json_object_foreach(names, name, unused)
    {
        (void)unused;
        sqlite3_str_appendf(text, "%s row->'$.%s' AS \"%s:json\"",
                            sqlite3_str_length(text) ? "," : "SELECT", name, name);
    }
    sqlite3_str_appendall(text,
                          " FROM chosen JOIN main.rows ON rows.rowid = number ORDER BY place");
    char *sql = sqlite3_str_finish(text);
    ls_status status = sql ? ls_results_query(results, sql, NULL, rows) : ls_fail_memory("rows", 0);
    sqlite3_free(sql);
    return status;
}

/* As a table, for which all rows are read first. */
static ls_status list_table(ls_results_task *task, size_t *count)
{
    json_auto_t *rows = json_array();
    ls_columns columns = {.column = listed, .count = sizeof listed / sizeof *listed, .leading = 3};
    LS_TRY(ls_selection_choose(&task->selection, task->results, count));
    LS_TRY(is_one_command(task->results, *count, &columns.ranks));
    const ls_columns *shown = ls_results_columns(task, &columns);
    LS_TRY(read_rows(task->results, shown, rows));
    return *count > 0 ? ls_rows_write(task->form, shown, rows, ls_output()) : LS_OK;
}

ls_status ls_results_list(ls_results_task *task)
{
    size_t count = 0;
    const char *form = task->form ? task->form->name : "table";
    const bool table = strcmp(form, "table") == 0 || strcmp(form, "md") == 0;
    LS_TRY(table ? list_table(task, &count) : ls_results_write(task, ls_output(), &count));
    if (count == 0)
        ls_log_stderr("results: %s: no rows%s", task->file,
                      task->selection.narrows ? " that fit" : "");
    return LS_OK;
}
