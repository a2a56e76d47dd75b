/* SPDX-License-Identifier: MIT */
/* `lockstep report`: reads the selected rows, oldest first, and writes the report. */
#include "bench/commands/command.h"
#include "bench/output/standard_output.h"
#include "bench/output/selection.h"
#include "common/base/whole_file.h"
#include "bench/report/report.h"
#include "common/base/escape.h"
#include "common/base/grow.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct report_task {
    ls_selection selection;
    ls_results *results; /* all that was read, in memory */
    json_t *rows;        /* the shown rows, by time */
    size_t read, left_out;
    size_t predicted; /* fitting rows that are left out unless asked for */
} report_task;

/* A row in two files counts once. */
static ls_status read_files(const ls_option_set *set, report_task *task)
{
    const ls_option_given *given = ls_option_set_find(set, "results");
    for (size_t i = 0; i < given->count || i == 0; i++) {
        const char *path = given->count ? given->values[i].text : LS_RESULTS_DEFAULT;
        size_t counts[2];
        LS_TRY(ls_results_load(task->results, "results", path, counts));
    }
    return LS_OK;
}

static ls_status choose_rows(report_task *task)
{
    int64_t read = 0, kept = 0;
    size_t fit = 0;
    LS_TRY(ls_results_ask(task->results, "SELECT count(*) FROM rows", &read));
    LS_TRY(ls_selection_choose(&task->selection, task->results, &fit));
    LS_TRY(ls_selection_unmix(&task->selection, task->results));
    LS_TRY(ls_results_ask(task->results, "SELECT count(*) FROM chosen", &kept));
    task->read = (size_t)read;
    task->left_out = task->read - (size_t)kept;
    task->predicted = fit - (size_t)kept;
    return ls_results_chosen(task->results, ls_results_collect, task->rows);
}

/* The folder's rows.jsonl becomes the rows shown: if they were read from there, none may be lost.
 */
static ls_status check_rows(const ls_option_set *set, const report_task *task, const char *out)
{
    const ls_option_given *given = ls_option_set_find(set, "results");
    ls_auto char *path = NULL;
    bool same = false;
    if (asprintf(&path, "%s/" LS_ROWS_NAME, out) < 0)
        return ls_fail_memory("--out", strlen(out));
    for (size_t i = 0; i < given->count; i++)
        same |=
            ls_same_file(given->values[i].text, path) || ls_same_file(given->values[i].text, out);
    if (same && task->left_out > 0)
        return ls_fail(
            LS_CODE_USAGE, "--out", out,
            "this folder is also the input, and %zu of its rows would be lost; name another folder",
            task->left_out);
    return LS_OK;
}

/* The size of letters in PDF, "8pt" or "8"; an address of the characters that need no escape. */
static ls_status read_style(const ls_option_set *set, ls_report_options *out)
{
    const char *size = ls_option_set_text(set, "font-size", NULL);
    const char *text = out->url = ls_option_set_text(set, "url", NULL);
    char *end = NULL;
    out->letters = size ? strtod(size, &end) : 0;
    if (size && !(out->letters >= 4 && out->letters <= 12 && (!*end || strcmp(end, "pt") == 0)))
        return ls_fail(LS_CODE_USAGE, "--font-size", size,
                       "this is not a valid size; give 4pt to 12pt");
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-._~:/?#[]@!$&'()*+,;=%";
    if (text && text[strspn(text, allowed)])
        return ls_fail(LS_CODE_USAGE, "--url", text,
                       "this is not a valid address, since '%.1s' is not allowed in an address; an "
                       "example is https://example.org/page",
                       text + strspn(text, allowed));
    return LS_OK;
}

static ls_status perform(const ls_option_set *set, report_task *task)
{
    const char *against = ls_option_set_text(set, "against", NULL);
    const char *where = ls_option_set_text(set, "where", NULL);
    ls_report_options options = {.out = ls_option_set_text(set, "out", NULL),
                                 .bare = ls_option_set_yes(set, "bare")};
    LS_TRY(read_style(set, &options));
    if (!options.out)
        return ls_fail(LS_CODE_USAGE, "report", "command line",
                       "the folder to write is missing; use --out DIR");
    if (against)
        LS_TRY(ls_row_key_find("--against", against, strlen(against), &options.against));
    LS_TRY(ls_selection_open(where, NULL, NULL, NULL, &task->selection));
    LS_TRY(ls_results_memory(&task->results));
    LS_TRY(read_files(set, task));
    LS_TRY(choose_rows(task));
    if (json_array_size(task->rows) == 0 && task->predicted)
        return ls_fail(LS_CODE_MISSING, "report", where ? where : "results",
                       "all matching rows (%zu) are predictions, not measurements; use --where "
                       "warnings~predicted to show predictions",
                       task->predicted);
    if (task->read == 0)
        return ls_fail(LS_CODE_MISSING, "report", "results",
                       "there are no rows to report; measure rows with lockstep run, or use "
                       "another --results FILE");
    if (json_array_size(task->rows) == 0)
        return ls_fail(LS_CODE_MISSING, "report", where ? where : "results",
                       "none of the %zu rows matches; use other conditions for --where or another "
                       "--results FILE, or measure rows with lockstep run",
                       task->read);
    LS_TRY(check_rows(set, task, options.out));
    LS_TRY(ls_report_write(task->results, task->rows, &options));
    ls_escape_put(ls_output(), options.out, SIZE_MAX, LS_ESCAPE_LINE);
    fputs("/index.html\n", ls_output());
    return LS_OK;
}

ls_status ls_command_report(const ls_invocation *in, int *exit_status)
{
    report_task task = {.rows = json_array()};
    ls_status status = perform(in->set, &task);
    ls_selection_close(&task.selection);
    ls_results_close(task.results);
    json_decref(task.rows);
    *exit_status = 0;
    return status;
}
