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

/* The row without the groups that these columns do not need, and its case as a text: parsing rows
 * takes most of the time. Owned by the caller (sqlite3_free). */
static char *needed_part(const ls_columns *columns)
{
    static const char *const always[] = {"case", "micro", "result", "peer"};
    sqlite3_str *sql = sqlite3_str_new(NULL);
    sqlite3_str_appendall(sql, "json_set(json_remove(row");
    for (size_t i = 0; i < ls_field_group_count; i++) {
        const char *name = ls_field_groups[i].path;
        const size_t length = strlen(name);
        bool needed = strchr(name, '.'); /* goes, or stays, with the group around it */
        for (size_t k = 0; k < sizeof always / sizeof *always; k++)
            needed |= strcmp(name, always[k]) == 0;
        for (size_t k = 0; k < columns->count; k++) {
            const char *path = ls_column_path(&columns->column[k]);
            needed |= strncmp(path, name, length) == 0 && path[length] == '.';
        }
        if (!needed)
            sqlite3_str_appendf(sql, ", '$.%s'", name);
    }
    sqlite3_str_appendall(sql, "), '$.case', (row->'$.case')||'')");
    return sqlite3_str_finish(sql);
}

typedef struct listed_rows {
    json_t *rows;
    json_t *cases; /* by their texts: many rows share one */
} listed_rows;

static ls_status collect(void *context, int64_t number, const json_t *row)
{
    const listed_rows *all = context;
    json_t *own = (json_t *)(size_t)row, *given = json_object_get(own, "case");
    const char *text = json_string_value(given);
    json_t *its = text ? json_object_get(all->cases, text) : NULL;
    if (text && !its)
        json_object_set_new(all->cases, text, its = json_loads(text, 0, NULL));
    if (its)
        json_object_set(own, "case", its);
    else if (json_is_null(given)) /* a row of `micro` */
        json_object_del(own, "case");
    return ls_results_collect(all->rows, number, own);
}

/* As a table, for which all rows are read first. */
static ls_status list_table(ls_results_task *task, size_t *count)
{
    json_auto_t *rows = json_array(), *cases = json_object();
    listed_rows all = {rows, cases};
    ls_columns columns = {.column = listed, .count = sizeof listed / sizeof *listed, .leading = 3};
    LS_TRY(ls_selection_choose(&task->selection, task->results, count));
    LS_TRY(is_one_command(task->results, *count, &columns.ranks));
    const ls_columns *shown = ls_results_columns(task, &columns);
    char *part = columns.ranks ? NULL : needed_part(shown);
    ls_status status = ls_results_chosen(task->results, part ? part : "row", collect, &all);
    sqlite3_free(part);
    if (!status && *count > 0)
        status = ls_rows_write(task->form, shown, rows, ls_output());
    return status;
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
