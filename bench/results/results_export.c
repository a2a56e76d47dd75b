/* SPDX-License-Identifier: MIT */
/*
 * `results export`: rows in other programs' formats, to standard output or a file. The writer has
 * our own formats; the others are views of exports.sql, whose rows become JSON objects.
 */
#include "bench/results/results_verbs.h"
#include "common/base/log.h"
#include "common/base/registry.h"
#include "common/base/whole_file.h"
#include "template_exports.h"

#include <string.h>

static const char *const own[] = {"jsonl", "csv", "md", NULL};
static const char *const others[] = {"google-benchmark", "benchmark-action", "mlperf", NULL};

ls_status ls_export(FILE *stream, ls_results *results, const char *form)
{
    const bool lines = strcmp(form, "mlperf") == 0, google = strcmp(form, "google-benchmark") == 0;
    json_auto_t *objects = json_array(), *about = json_array(), *whole = json_object();
    const char *differ = NULL;
    json_t *context = NULL, *one;
    char sql[64];
    size_t i;
    snprintf(sql, sizeof sql, "SELECT * FROM \"%s\"", form);
    LS_TRY(ls_results_execute(results, ls_template_exports));
    LS_TRY(ls_results_query(results, sql, NULL, objects));
    LS_TRY(ls_results_query(results, "SELECT * FROM about", NULL, about));
    json_unpack(json_array_get(about, 0), "{s?s,s:o}", "differ", &differ, "context", &context);
    if (differ && !lines)
        ls_log_stderr("results: export: rows that are exported under one name differ in %s; choose "
                      "comparable rows with --where",
                      differ);
    if (!lines) {
        json_object_set(whole, "context", context);
        json_object_set(whole, "benchmarks", objects);
        ls_json_print(stream, google ? whole : objects, 2);
        fputc('\n', stream);
        return ls_output_flush(stream, NULL);
    }
    json_array_foreach(objects, i, one)
    {
        fputs(":::MLLOG ", stream);
        ls_json_print(stream, one, -1);
        fputc('\n', stream);
    }
    return ls_output_flush(stream, NULL);
}

/* ---- The verb ------------------------------------------------------------------------------- */

static ls_status write_row(void *context, int64_t number, const json_t *row)
{
    (void)number;
    return ls_writer_row(context, row);
}

ls_status ls_results_write(const ls_results_task *task, FILE *stream)
{
    ls_writer *writer;
    LS_TRY(ls_writer_open(task->form, stream, &writer));
    writer->deferred = true;
    writer->columns = ls_results_columns(task, NULL);
    ls_status status = ls_results_chosen(task->results, write_row, writer);
    return ls_status_first(status, ls_writer_close(writer));
}

static ls_status write_rows(FILE *stream, void *context)
{
    ls_results_task *task = context;
    const char *form = ls_option_set_text(task->set, "to", NULL);
    size_t count;
    LS_TRY(ls_selection_choose(&task->selection, task->results, &count));
    if (ls_name_is_among(form, others))
        return ls_export(stream, task->results, form);
    LS_TRY(ls_format_find(form, &task->form));
    return ls_results_write(task, stream);
}

ls_status ls_results_check_export(const ls_option_set *set)
{
    static const char valid[] = "jsonl, csv, md, google-benchmark, benchmark-action, mlperf";
    const char *form = ls_option_set_text(set, "to", NULL);
    if (!form)
        return ls_fail(LS_CODE_USAGE, "results", "export",
                       "the format is missing; use --to NAME, where NAME is one of %s", valid);
    if (!ls_name_is_among(form, own) && !ls_name_is_among(form, others))
        return ls_fail(LS_CODE_USAGE, "--to", form, "this is not a format of export; valid are: %s",
                       valid);
    if (!ls_name_is_among(form, own) && ls_option_set_has(set, "columns"))
        return ls_fail(LS_CODE_USAGE, "--columns", form,
                       "this format has fixed fields, so columns cannot be chosen; remove "
                       "--columns, or use --to jsonl, csv or md");
    return LS_OK;
}

ls_status ls_results_export(ls_results_task *task)
{
    const char *path = ls_option_set_text(task->set, "out", NULL);
    return path ? ls_whole_file("--out", path, write_rows, task) : write_rows(ls_output(), task);
}
