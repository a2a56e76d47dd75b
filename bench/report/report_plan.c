/* SPDX-License-Identifier: MIT */
/*
 * For repeating a report: its rows, a plan (bench/cli/experiment.h) with each case of them once,
 * and the commands for both. A field of `case` is the option of the same name; a plan has no label,
 * so that rows of another run can have another one; what it cannot express (a launcher's ranks,
 * micro, peers) is listed in comments.
 */
#include "bench/cli/option_set.h"
#include "bench/cli/option_table.h"
#include "bench/cli/option_values.h"
#include "bench/output/format.h"
#include "bench/output/rows_file.h"
#include "bench/report/page.h"
#include "bench/rows/row.h"

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

void ls_report_plan(const json_t *rows, json_t *out)
{
    json_auto_t *lines = json_object(); /* {line: true}: distinct */
    json_t *one, *repeated = NULL, *cases = json_array();
    const char *text;
    size_t i, size;
    json_int_t others = 0;
    json_unpack(out, "{s:o,s:[{s?I}]}", "repeated", &repeated, "repeat", "others", &others);
    json_array_foreach(repeated, i, one)
    {
        json_int_t place = 0;
        json_unpack(one, "{s:I}", "place", &place);
        char *line = NULL;
        FILE *stream = open_memstream(&line, &size);
        const bool known = stream && put_case(stream, json_array_get(rows, (size_t)place - 1));
        if (stream && fclose(stream) == 0 && known)
            json_object_set_new(lines, line, json_true());
        others += !known;
        free(line);
    }
    json_object_foreach(lines, text, one)
    {
        json_array_append_new(cases, json_string(text));
    }
    if (others > 0)
        json_object_set_new(out, "others", json_integer(others));
    if (json_array_size(cases) > 0)
        json_object_set_new(out, "again", json_pack("{s:O}", "cases", cases));
    json_decref(cases);
}

ls_status ls_page_rows(FILE *stream, void *rows)
{
    const ls_format *format;
    LS_TRY(ls_format_find("jsonl", &format));
    return ls_rows_write(format, NULL, rows, stream);
}
