/* SPDX-License-Identifier: MIT */
/*
 * `results list`: the rows in columns: their identity, then as `run` prints them. `results export`:
 * rows in other programs' formats, to standard output or a file. The writer has our own formats;
 * the others are views of exports.sql, whose rows become JSON objects.
 */
#include "bench/results/results_verbs.h"
#include "common/base/log.h"
#include "common/base/registry.h"
#include "common/base/whole_file.h"
#include "template_exports.h"

#include <string.h>

static ls_status write_row(void *context, int64_t number, const json_t *row)
{
    (void)number;
    return ls_writer_row(context, row);
}

/* Writes the chosen rows, whole, one by one. */
static ls_status write_chosen(const ls_results_task *task, FILE *stream)
{
    ls_writer *writer;
    LS_TRY(ls_writer_open(task->form, stream, &writer));
    writer->deferred = true;
    writer->columns = ls_results_columns(task, NULL);
    ls_status status = ls_results_chosen(task->results, write_row, writer);
    return ls_status_first(status, ls_writer_close(writer));
}

/* ---- List ------------------------------------------------------------------------------------ */

static const ls_column listed[] = {
#define LISTED(...) LS_COLUMN(__VA_ARGS__),
#include "bench/output/table/columns.def"
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

/* As a table, for which all rows are read first; only what the usual columns show, since parsing
 * takes most of the time. */
static ls_status list_table(ls_results_task *task, size_t count)
{
    json_auto_t *rows = json_array();
    ls_columns columns = {.column = listed, .count = sizeof listed / sizeof *listed, .leading = 3};
    LS_TRY(is_one_command(task->results, count, &columns.ranks));
    const ls_columns *shown = ls_results_columns(task, &columns);
    LS_TRY(shown == &columns && !columns.ranks
               ? ls_results_do(task->results, "usual", NULL, rows)
               : ls_results_chosen(task->results, ls_results_collect, rows));
    return count > 0 ? ls_rows_write(task->form, shown, rows, ls_output()) : LS_OK;
}

ls_status ls_results_list(ls_results_task *task)
{
    size_t count = 0;
    const char *form = task->form ? task->form->name : "table";
    const bool table = strcmp(form, "table") == 0 || strcmp(form, "md") == 0;
    LS_TRY(ls_selection_choose(&task->selection, task->results, &count));
    LS_TRY(table ? list_table(task, count) : write_chosen(task, ls_output()));
    if (count == 0)
        ls_log_stderr("results: %s: no rows%s", task->file,
                      task->selection.narrows ? " match; use another --where or --since"
                                              : "; name another file with --results");
    return LS_OK;
}

/* ---- Export ---------------------------------------------------------------------------------- */

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

static ls_status write_rows(FILE *stream, void *context)
{
    ls_results_task *task = context;
    const char *form = ls_option_set_text(task->set, "to", NULL);
    size_t count;
    LS_TRY(ls_selection_choose(&task->selection, task->results, &count));
    if (ls_name_is_among(form, others))
        return ls_export(stream, task->results, form);
    LS_TRY(ls_format_find(form, &task->form));
    return write_chosen(task, stream);
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
