/* SPDX-License-Identifier: MIT */
/*
 * `results export`: rows in other programs' formats, to standard output or a file. The writer has
 * our own formats; the others are views of exports.sql, whose rows become JSON objects.
 */
#include "bench/results/results_verbs.h"
#include "common/base/whole_file.h"
#include "template_exports.h"

#include <string.h>

/* Our own formats first. */
static const char *const forms[] = {"jsonl",  "csv", "md", "google-benchmark", "benchmark-action",
                                    "mlperf", NULL};
enum { OWN = 3 };

static ls_status find_form(const ls_option_set *set, size_t *out)
{
    static const char valid[] = "jsonl, csv, md, google-benchmark, benchmark-action, mlperf";
    const char *name = ls_option_set_text(set, "to", NULL);
    if (!name)
        return ls_fail(LS_CODE_USAGE, "results", "export",
                       "the format is missing; --to NAME, one of %s", valid);
    for (*out = 0; forms[*out]; ++*out)
        if (strcmp(forms[*out], name) == 0)
            return LS_OK;
    return ls_fail(LS_CODE_USAGE, "--to", name, "no such format; valid are: %s", valid);
}

/* ---- Formats of other programs -------------------------------------------------------------- */

/* Warns if rows that get the same name differ: other programs take them for repeats of one case. */
static ls_status tell_mixed(ls_results *results)
{
    static const char sql[] =
        "DELETE FROM keyed; INSERT INTO keyed SELECT name, identity FROM named;"
        "SELECT group_concat(path, ', ') AS differ FROM (SELECT DISTINCT path FROM differences"
        " ORDER BY field_fact(path, 'order'))";
    json_auto_t *found = json_array();
    LS_TRY(ls_results_query(results, sql, NULL, found));
    const char *differ = json_string_value(json_object_get(json_array_get(found, 0), "differ"));
    if (differ)
        ls_log_stderr("results: export: rows that get the same name differ in %s; choose "
                      "comparable rows by --where",
                      differ);
    return LS_OK;
}

ls_status ls_export(FILE *stream, ls_results *results, const char *form)
{
    json_auto_t *objects = json_array(), *contexts = json_array();
    const bool lines = strcmp(form, "mlperf") == 0, google = strcmp(form, "google-benchmark") == 0;
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT * FROM \"%s\"", form);
    LS_TRY(ls_results_execute(results, ls_template_exports));
    if (!lines) {
        LS_TRY(ls_results_execute(results, "DROP TABLE IF EXISTS temp.rates;"
                                           "CREATE TEMP TABLE rates AS SELECT * FROM timed"));
        LS_TRY(tell_mixed(results));
    }
    LS_TRY(ls_results_query(results, sql, NULL, objects));
    if (google)
        LS_TRY(ls_results_query(results, "SELECT * FROM \"google-benchmark context\"", NULL,
                                contexts));
    if (json_array_size(contexts) == 0)
        json_array_append_new(contexts, json_object());
    json_auto_t *whole = google ? json_pack("{s:O,s:O}", "context", json_array_get(contexts, 0),
                                            "benchmarks", objects)
                                : json_incref(objects);
    for (size_t i = 0; lines && i < json_array_size(objects); i++) {
        fputs(":::MLLOG ", stream);
        ls_json_print(stream, json_array_get(objects, i), -1);
        fputc('\n', stream);
    }
    if (!lines) {
        ls_json_print(stream, whole, 2);
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
    const ls_format *form = task->form;
    ls_writer *writer;
    if (!form)
        LS_TRY(ls_format_find("table", &form));
    LS_TRY(ls_writer_open(form, stream, &writer));
    writer->deferred = true;
    writer->columns = ls_results_columns(task, NULL);
    ls_status status = ls_results_chosen(task->results, write_row, writer);
    return ls_status_first(status, ls_writer_close(writer));
}

static ls_status write_rows(FILE *stream, void *context)
{
    ls_results_task *task = context;
    size_t form, count;
    LS_TRY(find_form(task->set, &form));
    LS_TRY(ls_selection_choose(&task->selection, task->results, &count));
    if (form >= OWN)
        return ls_export(stream, task->results, forms[form]);
    LS_TRY(ls_format_find(forms[form], &task->form));
    return ls_results_write(task, stream);
}

ls_status ls_results_check_export(const ls_option_set *set)
{
    size_t form;
    LS_TRY(find_form(set, &form));
    if (form >= OWN && ls_option_set_has(set, "columns"))
        return ls_fail(LS_CODE_USAGE, "--columns", forms[form],
                       "has fixed fields; remove --columns, or use --to jsonl, csv or md");
    return LS_OK;
}

ls_status ls_results_export(ls_results_task *task)
{
    const char *path = ls_option_set_text(task->set, "out", NULL);
    return path ? ls_whole_file("--out", path, write_rows, task) : write_rows(ls_output(), task);
}
