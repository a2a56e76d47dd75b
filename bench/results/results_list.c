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
    json_auto_t *found = json_array();
    int is = 0;
    if (rows <= RANKED_MOST)
        LS_TRY(ls_results_do(results, "one_command", NULL, found));
    json_unpack(found, "[{s:i}]", "is", &is);
    *out = is;
    return LS_OK;
}

/* Reads the chosen rows; only what the usual columns show, if so asked, since parsing takes most of
 * the time. */
static ls_status read_rows(ls_results *results, bool usual, json_t *rows)
{
    return usual ? ls_results_do(results, "usual", NULL, rows)
                 : ls_results_chosen(results, ls_results_collect, rows);
}

/* As a table, for which all rows are read first. */
static ls_status list_table(ls_results_task *task, size_t count)
{
    json_auto_t *rows = json_array();
    ls_columns columns = {.column = listed, .count = sizeof listed / sizeof *listed, .leading = 3};
    LS_TRY(is_one_command(task->results, count, &columns.ranks));
    const ls_columns *shown = ls_results_columns(task, &columns);
    LS_TRY(read_rows(task->results, shown == &columns && !columns.ranks, rows));
    return count > 0 ? ls_rows_write(task->form, shown, rows, ls_output()) : LS_OK;
}

ls_status ls_results_list(ls_results_task *task)
{
    size_t count = 0;
    const char *form = task->form ? task->form->name : "table";
    const bool table = strcmp(form, "table") == 0 || strcmp(form, "md") == 0;
    LS_TRY(ls_selection_choose(&task->selection, task->results, &count));
    LS_TRY(table ? list_table(task, count) : ls_results_write(task, ls_output()));
    if (count == 0)
        ls_log_stderr("results: %s: no rows%s", task->file,
                      task->selection.narrows ? " that match" : "");
    return LS_OK;
}
