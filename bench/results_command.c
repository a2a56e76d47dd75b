/* SPDX-License-Identifier: MIT */
/*
 * `lockstep results`: lists the rows of a results file, or shows one of them whole. The file is
 * only read. Leaves out export, import and prune.
 */
#include "bench/command.h"
#include "bench/format_parts.h"
#include "bench/option_set.h"
#include "bench/results_db.h"

#include <string.h>

static const ls_column list_column[] = {
    {"id", "id", 29, false, LS_CELL_TEXT},
    {"time", "timestamp", 20, false, LS_CELL_TEXT},
    {"label", "label", 12, false, LS_CELL_TEXT},
    {"model", "case.model", 20, false, LS_CELL_TEXT},
    {"strategy", "case.strategy", 14, false, LS_CELL_TEXT},
    {"devices", "case.devices", 11, false, LS_CELL_DEVICES},
    {"step ms", "time.step_ms.median", 9, true, LS_CELL_FIGURE},
    {"samples/s", "time.samples_per_s", 9, true, LS_CELL_FIGURE},
    {"status", "result.status", 6, false, LS_CELL_TEXT},
};

static const ls_columns list_columns = {list_column, sizeof list_column / sizeof *list_column};

typedef struct results_task {
    ls_results *results;
    ls_writer *writer;
    size_t rows;
} results_task;

static ls_status write_row(void *context, const json_t *row)
{
    results_task *task = context;
    task->rows++;
    return ls_writer_row(task->writer, row);
}

static ls_status list_rows(results_task *task, const char *file)
{
    ls_writer_set_columns(task->writer, &list_columns);
    LS_TRY(ls_results_each(task->results, write_row, task));
    if (task->rows == 0)
        fprintf(stderr, "lockstep: results: %s: no rows\n", file);
    return LS_OK;
}

/* One row: in a format, or where none is asked for, as JSON over many lines. */
static ls_status show_row(results_task *task, const char *id, bool formatted)
{
    json_t *row;
    LS_TRY(ls_results_find(task->results, id, &row));
    ls_status status = LS_OK;
    if (formatted) {
        status = ls_writer_row(task->writer, row);
    } else {
        ls_json_print(stdout, row, 2);
        fputc('\n', stdout);
        if (fflush(stdout) != 0)
            status = ls_fail(LS_CODE_MISSING, "row", "standard output",
                             "cannot be written; give it room");
    }
    json_decref(row);
    return status;
}

static ls_status check_operands(const ls_option_set *set)
{
    const char *action = set->operand_count > 0 ? set->operands[0] : NULL;
    static const char *const later[] = {"export", "import", "prune"};
    if (!action)
        return ls_fail(LS_CODE_USAGE, "results", "command line",
                       "what to do is missing; list, or show ID");
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strcmp(action, later[i]) == 0)
            return ls_fail(LS_CODE_USAGE, "results", action,
                           "not in this version; list and show ID are");
    bool show = strcmp(action, "show") == 0;
    if (!show && strcmp(action, "list") != 0)
        return ls_fail(LS_CODE_USAGE, "results", *action ? action : "''",
                       "unknown; valid are: list, show ID");
    if (show && set->operand_count < 2)
        return ls_fail(LS_CODE_USAGE, "results", "show",
                       "the row's id is missing; lockstep results list shows ids");
    if (!show && set->operand_count > 1)
        return ls_fail(LS_CODE_USAGE, "argument", set->operands[1],
                       "unexpected; lockstep results list takes options only");
    return LS_OK;
}

static ls_status perform(const ls_option_set *set)
{
    results_task task = {0};
    const ls_format *format;
    const char *file = ls_option_set_text(set, "results", LS_RESULTS_DEFAULT);
    bool formatted = ls_option_set_find(set, "format")->count > 0;
    LS_TRY(check_operands(set));
    LS_TRY(ls_format_find(ls_option_set_text(set, "format", "table"), &format));
    if (strcmp(file, "none") == 0)
        return ls_fail(LS_CODE_USAGE, "--results", "none", "there is nothing to read; give a file");
    bool show = strcmp(set->operands[0], "show") == 0;
    LS_TRY(ls_results_open(file, false, &task.results));
    ls_status status = LS_OK;
    if (!show || formatted)
        status = ls_writer_open(format, stdout, &task.writer);
    if (!status)
        status = show ? show_row(&task, set->operands[1], formatted) : list_rows(&task, file);
    ls_results_close(task.results);
    return ls_status_first(status, ls_writer_close(task.writer));
}

ls_status ls_command_results(int argc, char **argv, int *exit_status)
{
    ls_option_set set;
    LS_TRY(ls_option_set_open(LS_FOR_RESULTS, &set));
    ls_status status = ls_option_set_read(&set, argc, argv, 2);
    if (!status)
        status = perform(&set);
    ls_option_set_close(&set);
    *exit_status = (int)ls_status_code(status);
    return status;
}
