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

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Its number of processes, if a launcher started them. */
static int64_t processes_of(const json_t *row)
{
    const char *comm = ls_row_string(row, LS_F_case_comm);
    const int64_t ranks = ls_row_integer(row, LS_F_case_ranks);
    const bool alone = !*comm || strcmp(comm, "thread") == 0 || strcmp(comm, "device") == 0;
    return alone || ranks < 1 ? 1 : ranks;
}

/* The row's value of an option that defines cases; owned by the caller (free); NULL: none. */
static char *text_of(const json_t *row, const ls_option *option)
{
    const char *name = option->name;
    if (strcmp(name, "comm") == 0 || (strcmp(name, "ranks") == 0 && processes_of(row) > 1) ||
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

/* The cases that one command can make, and what a plan says beside them. */
typedef struct plan {
    json_t *cases;     /* {line: row}, distinct */
    int64_t processes; /* for all; more than 1: a launcher's */
    bool baseline;     /* they have rows of single beside ranks: --baseline adds these */
    size_t others;     /* rows that are none of its cases */
    size_t alone;      /* of them, rows of one process beside those of ranks */
} plan;

static bool same_field(const json_t *a, const json_t *b, ls_field_number field)
{
    return json_equal(ls_row_get(a, field), ls_row_get(b, field)) ||
           (!ls_row_has(a, field) && !ls_row_has(b, field));
}

/* Whether --baseline of another row, of several processes, makes this one. */
static bool is_baseline(const json_t *row, const json_t *rows, int64_t processes)
{
    static const ls_field_number fields[] = {LS_F_case_model, LS_F_case_data, LS_F_case_optimizer,
                                             LS_F_case_seed, LS_F_case_steps};
    const json_t *other;
    size_t i;
    if (processes <= 1 || ls_row_strategy(row) != &ls_strategy_single)
        return false;
    json_array_foreach(rows, i, other)
    {
        bool same = processes_of(other) == processes &&
                    (same_field(row, other, LS_F_case_batch_global) ||
                     same_field(row, other, LS_F_case_batch_per_device));
        for (size_t f = 0; same && f < sizeof fields / sizeof *fields; f++)
            same = same_field(row, other, fields[f]);
        if (same)
            return true;
    }
    return false;
}

/* The plan of the rows; its cases are the caller's (json_decref). */
static plan plan_of(const json_t *rows)
{
    plan out = {.cases = json_object(), .processes = 1};
    json_t *row;
    size_t i, size;
    json_array_foreach(rows, i, row)
    {
        if (ls_report_is_ok(row, NULL) && processes_of(row) > out.processes)
            out.processes = processes_of(row);
    }
    json_array_foreach(rows, i, row)
    {
        char *line = NULL;
        const bool ours =
            ls_row_group(row, LS_G_case) && !ls_report_is_peer(row) && ls_report_is_ok(row, NULL);
        const bool fits = processes_of(row) == out.processes;
        if (ours && is_baseline(row, rows, out.processes)) {
            out.baseline = true;
            continue;
        }
        out.alone += ours && !fits;
        FILE *stream = ours && fits ? open_memstream(&line, &size) : NULL;
        const bool known = stream && put_case(stream, row);
        if (stream && fclose(stream) == 0 && known)
            json_object_set(out.cases, line, row);
        out.others += !known;
        free(line);
    }
    return out;
}

/* The commands that run the plan again in the report's folder and compare both, with a label that
 * no row has: "again", "again-2". */
static json_t *commands_of(const json_t *rows, const plan *made)
{
    char label[32] = "again", launcher[32] = "";
    size_t number = 1, i = 0;
    while (i < json_array_size(rows)) {
        if (strcmp(ls_row_string(json_array_get(rows, i++), LS_F_label), label) != 0)
            continue;
        snprintf(label, sizeof label, "again-%zu", ++number);
        i = 0;
    }
    if (made->processes > 1)
        snprintf(launcher, sizeof launcher, "mpirun -n %" PRId64 " ", made->processes);
    return json_pack("[o,o,o]",
                     json_sprintf("%slockstep run --plan report.yaml --label %s --results %s.db",
                                  launcher, label, label),
                     json_sprintf("lockstep report --results " LS_ROWS_NAME
                                  " --results %s.db --against label --out %s",
                                  label, label),
                     json_sprintf("lockstep regress " LS_ROWS_NAME " %s.db", label));
}

json_t *ls_report_commands(const json_t *rows)
{
    const plan made = plan_of(rows);
    json_t *out = json_object_size(made.cases) > 0
                      ? json_pack("{s:o}", "commands", commands_of(rows, &made))
                      : NULL;
    json_decref(made.cases);
    return out;
}

ls_status ls_page_plan(FILE *stream, void *rows)
{
    const plan made = plan_of(rows);
    const char *line;
    int64_t blocks = 5;
    json_t *row;
    json_object_foreach(made.cases, line, row)
    {
        if (ls_row_has(row, LS_F_case_blocks))
            blocks = ls_row_integer(row, LS_F_case_blocks);
    }
    if (json_object_size(made.cases) > 0) {
        json_auto_t *commands = commands_of(rows, &made);
        fputs("# Makes the rows of this report again, and compares both:\n", stream);
        for (size_t i = 0; i < json_array_size(commands); i++)
            fprintf(stream, "#   %s\n", json_string_value(json_array_get(commands, i)));
    }
    if (made.others > made.alone)
        fprintf(stream, "# Not here: %zu rows of peers or micro, not ok, or of another version.\n",
                made.others - made.alone);
    if (made.alone > 0)
        fprintf(stream,
                "# Not here: %zu rows of fewer processes; a report of them alone has their plan.\n",
                made.alone);
    if (json_object_size(made.cases) > 0)
        fprintf(stream, "defaults: {blocks: %" PRId64 "%s}\ncases:\n", blocks,
                made.baseline ? ", baseline: yes" : "");
    json_object_foreach(made.cases, line, row)
    {
        fprintf(stream, "  - %s\n", line);
    }
    json_decref(made.cases);
    return LS_OK;
}

ls_status ls_page_rows(FILE *stream, void *rows)
{
    const ls_format *format;
    LS_TRY(ls_format_find("jsonl", &format));
    return ls_rows_write(format, NULL, rows, stream);
}
