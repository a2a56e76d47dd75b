/* SPDX-License-Identifier: MIT */
/*
 * For repeating a report: its rows, a plan (bench/cli/options.h) with each case of them once,
 * and the commands for both. A field of `case` is the option of the same name; a plan has no label,
 * so that rows of another run can have another one; what it cannot express (a launcher's ranks,
 * micro, peers) is listed in comments.
 */
#include "bench/cli/option_set.h"
#include "bench/cli/option_table.h"
#include "bench/cli/option_values.h"
#include "bench/output/format.h"
#include "bench/report/page.h"
#include "bench/rows/row.h"
#include "common/base/grow.h"
#include "template_repeat.h"

#include <stdlib.h>
#include <string.h>

/* The row's value of an option that defines cases; owned by the caller (free); NULL if there is
 * none. */
static char *text_of(const json_t *row, const ls_option *option)
{
    const char *name = option->name, *comm = ls_row_string(row, LS_F_case_comm);
    const bool launched = *comm && strcmp(comm, "thread") != 0 && strcmp(comm, "device") != 0;
    if (strcmp(name, "comm") == 0 || (strcmp(name, "ranks") == 0 && launched) ||
        (strcmp(name, "steps") == 0 && ls_row_has(row, LS_F_case_epochs)))
        return NULL; /* auto, from a launcher, or derived */
    return ls_option_of_row(option, row, ls_row_has(row, LS_F_provenance_gpu) ? "gpu" : "cpu");
}

/* Writes `model: "mlp"`; in a list, which is not split, if it would be. */
static void put_option(FILE *stream, const char *before, const ls_option *option, const char *text)
{
    char *split = NULL, *shown = ls_text_shown(text, LS_ESCAPE_JSON);
    size_t size = 0;
    FILE *whole = open_memstream(&split, &size);
    if (whole)
        ls_option_put_value(whole, option, text);
    const bool list = whole && fclose(whole) == 0 && strcmp(split, text) != 0;
    fprintf(stream, list ? "%s%s: [\"%s\"]" : "%s%s: \"%s\"", before, option->name,
            shown ? shown : "");
    free(split);
    free(shown);
}

/* Writes `{model: "mlp", devices: "2", ...}`: the case's options in the order of the table, where
 * an option follows the options that decide whether a case has it. False if this version does not
 * have one of them. */
static bool put_case(FILE *stream, const json_t *row)
{
    const char *before = "{";
    bool valid = true;
    const ls_option *table = ls_option_table();
    ls_case *one = calloc(1, sizeof *one);
    for (size_t i = 0; table[i].name && one && valid; i++) {
        const ls_option *option = &table[i];
        const bool runs = option->sweeps && option->commands & LS_FOR_RUN;
        char *text = runs && (!one->strategy || ls_option_applies(option, one))
                         ? text_of(row, option)
                         : NULL;
        ls_setting setting = {option, text, NULL, NULL, one, NULL};
        ls_status status = text && *text ? option->set(&setting) : LS_OK;
        valid = !status && (one->strategy || !option->of);
        if (text && *text && valid) {
            put_option(stream, before, option, text);
            before = ", ";
        }
        ls_status_free(status);
        free(text);
    }
    fputs("}", stream);
    free(one);
    return valid && *before == ',';
}

/* plan_case(row): its case as a plan has it; NULL if this version does not have it. */
static void plan_case(sqlite3_context *context, int count, sqlite3_value **value)
{
    json_auto_t *row = json_loads((const char *)sqlite3_value_text(*value), 0, NULL);
    ls_auto char *line = NULL;
    size_t size;
    FILE *stream = open_memstream(&line, &size);
    const bool known = stream && put_case(stream, row);
    (void)count;
    if (stream && fclose(stream) == 0 && known)
        sqlite3_result_text(context, line, -1, SQLITE_TRANSIENT);
}

ls_status ls_report_plan(const ls_page *page, json_t *out)
{
    sqlite3_create_function(ls_results_handle(page->results), "plan_case", 1, SQLITE_UTF8, NULL,
                            plan_case, NULL, NULL);
    return ls_page_run(page, ls_template_repeat, NULL, NULL, out);
}

ls_status ls_page_rows(FILE *stream, void *rows)
{
    const ls_format *format;
    LS_TRY(ls_format_find("jsonl", &format));
    return ls_rows_write(format, NULL, rows, stream);
}
