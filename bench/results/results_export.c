/* SPDX-License-Identifier: MIT */
/*
 * `results export`: rows in other programs' formats, to standard output or a file. The writer has
 * our own formats; the others are in export_formats.c.
 */
#include "common/base/whole_file.h"
#include "bench/results/results_verbs.h"

#include <string.h>

typedef struct export_form {
    const char *name;
    /* Writes an array of rows; NULL: the writer's format of this name. */
    ls_status (*write)(FILE *stream, const json_t *rows);
} export_form;

static const export_form forms[] = {
    {"jsonl", NULL},
    {"csv", NULL},
    {"md", NULL},
    {"google-benchmark", ls_export_google_benchmark},
    {"benchmark-action", ls_export_benchmark_action},
    {"mlperf", ls_export_mlperf},
};

static ls_status find_form(const ls_option_set *set, const export_form **out)
{
    static const char valid[] = "jsonl, csv, md, google-benchmark, benchmark-action, mlperf";
    const char *name = ls_option_set_text(set, "to", NULL);
    if (!name)
        return ls_fail(LS_CODE_USAGE, "results", "export",
                       "the format is missing; --to NAME, one of %s", valid);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(forms[i].name, name) == 0) {
            *out = &forms[i];
            return LS_OK;
        }
    }
    return ls_fail(LS_CODE_USAGE, "--to", name, "no such format; valid are: %s", valid);
}

static ls_status write_row(void *context, int64_t number, const json_t *row)
{
    (void)number;
    return ls_writer_row(context, row);
}

ls_status ls_results_write(const ls_results_task *task, FILE *stream, size_t *count)
{
    const ls_format *form = task->form;
    ls_writer *writer;
    if (!form)
        LS_TRY(ls_format_find("table", &form));
    LS_TRY(ls_writer_open(form, stream, &writer));
    ls_writer_hold(writer);
    ls_writer_set_columns(writer, ls_results_columns(task, NULL));
    ls_status status = ls_selection_each(&task->selection, task->results, write_row, writer, count);
    return ls_status_first(status, ls_writer_close(writer));
}

static ls_status write_rows(FILE *stream, void *context)
{
    ls_results_task *task = context;
    const export_form *form = NULL;
    LS_TRY(find_form(task->set, &form));
    if (form->write) {
        json_t *rows = json_array();
        ls_status status =
            ls_selection_each(&task->selection, task->results, ls_results_collect, rows, NULL);
        if (!status)
            status = form->write(stream, rows);
        json_decref(rows);
        return status;
    }
    LS_TRY(ls_format_find(form->name, &task->form));
    return ls_results_write(task, stream, NULL);
}

ls_status ls_results_check_export(const ls_option_set *set)
{
    const export_form *form = NULL;
    LS_TRY(find_form(set, &form));
    if (form->write && ls_option_set_has(set, "columns"))
        return ls_fail(LS_CODE_USAGE, "--columns", form->name,
                       "a format of fixed fields; leave it out, or --to jsonl, csv, md");
    return LS_OK;
}

ls_status ls_results_export(ls_results_task *task)
{
    const char *path = ls_option_set_text(task->set, "out", NULL);
    return path ? ls_whole_file("--out", path, write_rows, task) : write_rows(ls_output(), task);
}
