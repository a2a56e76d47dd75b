/* SPDX-License-Identifier: MIT */
/*
 * For repeating a report: its rows, a plan (bench/cli/experiment.h) with each case of them once,
 * and the commands for both. A field of `case` is the option of the same name; a plan has no label,
 * so that rows of another run can have one of their own; what it cannot express (a launcher's
 * ranks, micro, peers) is listed in comments.
 */
#include "bench/cli/option_set.h"
#include "bench/cli/option_table.h"
#include "bench/cli/option_values.h"
#include "bench/output/format.h"
#include "bench/output/format_parts.h"
#include "bench/output/rows_file.h"
#include "bench/report/case_keys.h"
#include "bench/report/page.h"
#include "bench/report/text.h"
#include "impl/strategies.h"

#include <stdlib.h>
#include <string.h>

/* Its number of processes, if a launcher started them. */
static double processes_of(const json_t *row)
{
    const char *comm = json_string_value(json_object_get(json_object_get(row, "case"), "comm"));
    const bool alone = !comm || strcmp(comm, "thread") == 0 || strcmp(comm, "device") == 0;
    return alone ? 1 : ls_report_number(row, "case.ranks", 1);
}

/* The row's value of an option that defines cases; owned by the caller (free); NULL: none. */
static char *text_of(const json_t *row, const ls_option *option)
{
    const char *name = option->name;
    const bool has_gpu = json_object_get(json_object_get(row, "provenance"), "gpu");
    if (strcmp(name, "comm") == 0 || (strcmp(name, "ranks") == 0 && processes_of(row) > 1) ||
        (strcmp(name, "steps") == 0 && json_object_get(json_object_get(row, "case"), "epochs")))
        return NULL; /* auto, from a launcher, or derived */
    return ls_option_of_row(option, row, has_gpu ? "gpu" : "cpu");
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

/* Writes `{model: "mlp", devices: "2", ...}`: the case's options in the order of the table, in
 * which an option follows those that decide whether a case has it. False if this version lacks one
 * of them. */
static bool put_case(FILE *stream, const json_t *row)
{
    const char *before = "{";
    size_t count;
    bool valid = true;
    const ls_option *table = ls_option_table(&count);
    ls_case *one = calloc(1, sizeof *one);
    for (size_t i = 0; i < count && one && valid; i++) {
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

/* The cases that one command can make: what a plan says beside them. */
typedef struct repeated {
    double processes; /* for all; more than 1: a launcher's */
    bool baseline;    /* they have rows of single beside ranks: --baseline adds these */
    size_t others;    /* rows that are none of its cases */
    size_t alone;     /* of them, rows of one process beside those of ranks */
} repeated;

static double most_processes(const json_t *rows)
{
    double most = 1;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (ls_report_is_ok(row, NULL) && processes_of(row) > most)
            most = processes_of(row);
    }
    return most;
}

static bool same_field(const json_t *a, const json_t *b, const char *field)
{
    return json_equal(json_object_get(json_object_get(a, "case"), field),
                      json_object_get(json_object_get(b, "case"), field));
}

/* Whether --baseline of another row, of several processes, makes this one. */
static bool is_baseline(const json_t *row, const json_t *rows, const repeated *of)
{
    static const char *const fields[] = {"model", "data", "optimizer", "seed", "steps"};
    if (of->processes <= 1 || ls_row_strategy(row) != &ls_strategy_single)
        return false;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *other = json_array_get(rows, i);
        bool same =
            processes_of(other) == of->processes &&
            (same_field(row, other, "batch_global") || same_field(row, other, "batch_per_device"));
        for (size_t f = 0; same && f < sizeof fields / sizeof *fields; f++)
            same = same_field(row, other, fields[f]);
        if (same)
            return true;
    }
    return false;
}

/* The distinct cases of the rows as lines, {line: row}. */
static json_t *cases_of(const json_t *rows, repeated *out)
{
    json_t *cases = json_object(), *row;
    size_t i, size;
    *out = (repeated){.processes = most_processes(rows)};
    json_array_foreach((json_t *)(size_t)rows, i, row)
    {
        char *line = NULL;
        const bool ours =
            json_object_get(row, "case") && !ls_report_is_peer(row) && ls_report_is_ok(row, NULL);
        const bool fits = processes_of(row) == out->processes;
        if (ours && is_baseline(row, rows, out)) {
            out->baseline = true;
            continue;
        }
        out->alone += ours && !fits;
        FILE *stream = ours && fits ? open_memstream(&line, &size) : NULL;
        const bool known = stream && put_case(stream, row);
        if (stream && fclose(stream) == 0 && known)
            json_object_set(cases, line, row);
        out->others += !known;
        free(line);
    }
    return cases;
}

ls_status ls_page_rows(FILE *stream, void *of)
{
    const ls_page *page = of;
    const ls_format *format;
    LS_TRY(ls_format_find("jsonl", &format));
    return ls_rows_write(format, NULL, page->rows, stream);
}

/* A label that no row has: "again", "again-2". */
static void name_again(const json_t *rows, char label[32])
{
    size_t number = 1, i = 0;
    snprintf(label, 32, "again");
    while (i < json_array_size(rows)) {
        if (strcmp(ls_text_of(json_array_get(rows, i++), "label"), label) != 0)
            continue;
        snprintf(label, 32, "again-%zu", ++number);
        i = 0;
    }
}

char *ls_report_commands(const json_t *rows)
{
    char label[32], *text = NULL;
    size_t size;
    repeated made;
    json_auto_t *cases = cases_of(rows, &made);
    FILE *stream = json_object_size(cases) > 0 ? open_memstream(&text, &size) : NULL;
    if (!stream)
        return NULL;
    name_again(rows, label);
    if (made.processes > 1)
        fprintf(stream, "mpirun -n %.0f ", made.processes);
    fprintf(stream,
            "lockstep run --plan report.yaml --label %s --results %s.db\n"
            "lockstep report --results " LS_ROWS_NAME " --results %s.db --against label --out %s\n"
            "lockstep regress " LS_ROWS_NAME " %s.db\n",
            label, label, label, label, label);
    fclose(stream);
    return text;
}

ls_status ls_page_plan(FILE *stream, void *of)
{
    const ls_page *page = of;
    repeated made;
    json_t *cases = cases_of(page->rows, &made), *row;
    const char *line;
    double blocks = 5;
    json_object_foreach(cases, line, row)
    {
        (void)line;
        blocks = ls_report_number(row, "case.blocks", blocks);
    }
    if (page->commands) {
        fputs("# Makes the rows of this report again, and compares both:\n", stream);
        ls_page_lines(stream, page->commands, "#   ");
    }
    if (made.others > made.alone)
        fprintf(stream, "# Not here: %zu rows of peers or micro, not ok, or of another version.\n",
                made.others - made.alone);
    if (made.alone > 0)
        fprintf(stream,
                "# Not here: %zu rows of fewer processes; a report of them alone has their plan.\n",
                made.alone);
    if (json_object_size(cases) > 0) {
        fprintf(stream, "defaults: {blocks: %.0f%s}\n", blocks,
                made.baseline ? ", baseline: yes" : "");
        fputs("cases:\n", stream);
    }
    json_object_foreach(cases, line, row)
    {
        fprintf(stream, "  - %s\n", line);
    }
    json_decref(cases);
    return LS_OK;
}
