/* SPDX-License-Identifier: MIT */
/* `results list`: the rows in columns: their identity, then as `run` prints them, from the
 * database's briefs of rows. */
#include "bench/results/results_verbs.h"
#include "bench/output/row_same.h"
#include "common/base/log.h"

#include <string.h>

static const ls_column listed[] = {
    {"id", "id", 29, false, LS_CELL_TEXT, 0},
    {"time", "timestamp", 20, false, LS_CELL_TEXT, 9},
    {"label", "label", 12, false, LS_CELL_TEXT, 2},
    {"op", "micro.op", 16, false, LS_CELL_TEXT, 0},
    {"shape", "micro.shape", 26, false, LS_CELL_TEXT, 0},
    {"size", "micro.size_bytes", 11, true, LS_CELL_TEXT, 0},
    {"time us", "micro.time_us", 9, true, LS_CELL_FIGURE, 0},
    {"step ms", "time.step_ms.median", 7, true, LS_CELL_FIGURE, 0},
    {"±", "time.step_ms", 5, true, LS_CELL_HALF, 3},
    {"samples/s", "time.samples_per_s", 9, true, LS_CELL_FIGURE, 4},
    {"status", "result", LS_WIDTH_ANY, false, LS_CELL_STATUS, 0},
};

enum { RANKED_MOST = 256 };

/* Rows of one command on one host were measured in turns: their ranking is meaningful. */
static bool is_one_command(const json_t *rows)
{
    const json_t *first = json_array_get(rows, 0);
    size_t index;
    json_t *row;
    if (json_array_size(rows) > RANKED_MOST)
        return false;
    json_array_foreach(rows, index, row)
    {
        if (!json_equal(json_object_get(row, "command"), json_object_get(first, "command")) ||
            !json_equal(json_object_get(row, "provenance"), json_object_get(first, "provenance")))
            return false;
        for (size_t i = 0; i < index; i++) /* the same command, repeated at another time */
            if (ls_row_same_case(json_array_get(rows, i), row, LS_BUT_TRAINED, false))
                return false;
    }
    return true;
}

/* The parts of whole rows that are shown. */
typedef struct collection {
    json_t *rows;
    const ls_columns *part;
} collection;

static ls_status collect_parts(void *context, int64_t number, const json_t *row)
{
    const collection *c = context;
    (void)number;
    json_array_append_new(c->rows, ls_row_part(row, c->part));
    return LS_OK;
}

/* As a table, for which all rows are read first. */
static ls_status list_table(ls_results_task *task, size_t *count)
{
    json_auto_t *rows = json_array();
    bool brief = true;
    for (size_t i = 0; i < task->chosen.columns.count; i++)
        brief = brief && ls_results_brief_has(task->chosen.column[i].path);
    ls_column part[LS_CHOSEN_MOST + 1];
    const ls_columns parts = {.column = part, .count = task->chosen.columns.count + 1};
    memcpy(part, task->chosen.column, sizeof task->chosen.column);
    part[parts.count - 1].path = "result.reason";
    collection c = {rows, &parts};
    ls_status status = brief ? ls_selection_each(&task->selection, task->results, LS_ROWS_BRIEF,
                                                 ls_results_collect, rows, count)
                             : ls_selection_each(&task->selection, task->results, LS_ROWS_WHOLE,
                                                 collect_parts, &c, count);
    const bool ranks = is_one_command(rows);
    if (!status && ranks) { /* briefs lack the mean rate */
        json_array_clear(rows);
        status = ls_selection_each(&task->selection, task->results, LS_ROWS_WHOLE,
                                   ls_results_collect, rows, count);
    }
    const ls_columns columns = {
        .column = listed, .count = sizeof listed / sizeof *listed, .leading = 3, .ranks = ranks};
    if (!status && *count > 0)
        status = ls_rows_write(task->form, ls_results_columns(task, &columns), rows, ls_output());
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
                      task->selection.filter || *task->selection.since ? " that fit" : "");
    return LS_OK;
}
