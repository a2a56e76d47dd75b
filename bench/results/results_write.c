/* SPDX-License-Identifier: MIT */
/* How verbs of `results` print rows; see results_verbs.h. */
#include "bench/results/results_verbs.h"

static ls_status open_writer(const ls_results_task *task, FILE *stream, const ls_columns *columns,
                             ls_writer **out)
{
    const ls_format *form = task->form;
    if (!form)
        LS_TRY(ls_format_find("table", &form));
    LS_TRY(ls_writer_open(form, stream, out));
    ls_writer_hold(*out);
    if (task->chosen.columns.count > 0)
        ls_writer_choose(*out, &task->chosen.columns);
    else
        ls_writer_set_columns(*out, columns);
    return LS_OK;
}

ls_status ls_results_print(const ls_results_task *task, const ls_columns *columns,
                           const json_t *rows)
{
    ls_writer *writer;
    LS_TRY(open_writer(task, stdout, columns, &writer));
    ls_status status = LS_OK;
    for (size_t i = 0; i < json_array_size(rows) && !status; i++)
        status = ls_writer_row(writer, json_array_get(rows, i));
    return ls_status_first(status, ls_writer_close(writer));
}

static ls_status write_row(void *context, int64_t number, const json_t *row)
{
    (void)number;
    return ls_writer_row(context, row);
}

ls_status ls_results_write(const ls_results_task *task, FILE *stream, size_t *count)
{
    ls_writer *writer;
    LS_TRY(open_writer(task, stream, NULL, &writer));
    ls_status status =
        ls_selection_each(&task->selection, task->results, LS_ROWS_WHOLE, write_row, writer, count);
    return ls_status_first(status, ls_writer_close(writer));
}
