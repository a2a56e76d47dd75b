/* SPDX-License-Identifier: MIT */
/*
 * Report of a comparison: one JSON document, and formats derived from it: a table, Markdown for a
 * comment (the verdict first), JUnit XML, GitHub annotations. A case's `verdict` concerns its time;
 * without a verdict, `error` or `worse` says why.
 */
#include "bench/regress/compared.h"
#include "bench/report/text.h"
#include "bench/row/row_noise.h"
#include "bench/statistics/statistics.h"
#include "common/base/escape.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The document --------------------------------------------------------------------------- */

static bool is_worse(const ls_regress_case *one)
{
    return one->result.verdict == LS_VERDICT_SLOWER || json_array_size(one->worse) > 0;
}

int ls_regress_exit(const ls_regress *regress)
{
    bool worse = false, error = regress->count == 0, open = false;
    for (size_t i = 0; i < regress->count; i++) {
        const ls_regress_case *one = &regress->cases[i];
        worse |= is_worse(one);
        error |= one->error != NULL;
        open |= one->result.verdict == LS_VERDICT_CANNOT_TELL;
    }
    return worse ? LS_CODE_CHECK : error ? LS_CODE_MISSING : open ? LS_CODE_UNDECIDED : LS_CODE_OK;
}

static const char *overall(const ls_regress *regress)
{
    bool slower = false, faster = false;
    for (size_t i = 0; i < regress->count; i++) {
        slower |= regress->cases[i].result.verdict == LS_VERDICT_SLOWER;
        faster |= regress->cases[i].result.verdict == LS_VERDICT_FASTER;
    }
    switch (ls_regress_exit(regress)) {
    case LS_CODE_CHECK:
        return slower ? "slower" : "worse";
    case LS_CODE_MISSING:
        return "error";
    case LS_CODE_UNDECIDED:
        return "cannot tell";
    default:
        return faster ? "faster" : "same";
    }
}

/* Sorts the list; nothing uses its order later. */
static double median_ms(ls_log_list *list)
{
    return exp(ls_statistics_median(list->items, list->count));
}

static json_t *case_document(ls_regress_case *one)
{
    const json_t *row = one->row[LS_NEW] ? one->row[LS_NEW] : one->row[LS_BASE];
    const ls_ratio_result *result = &one->result;
    json_t *out = json_pack("{s:O,s:s,s:s,s:I}", "case", json_object_get(row, "case"), "name",
                            one->name, "verdict", ls_verdict_name(result->verdict), "blocks",
                            (json_int_t)result->blocks);
    if (result->blocks > 0) {
        json_object_set_new(out, "ratio", json_real(result->ratio));
        if (isfinite(result->ci95[0]))
            json_object_set_new(out, "ci95", json_pack("[f,f]", result->ci95[0], result->ci95[1]));
        json_object_set_new(out, "base_ms", json_real(median_ms(&one->logs[LS_BASE])));
        json_object_set_new(out, "new_ms", json_real(median_ms(&one->logs[LS_NEW])));
    }
    if (result->more > 0)
        json_object_set_new(out, "more_blocks", json_integer((json_int_t)result->more));
    if (result->more > 0 && result->blocks > 0 && one->seconds > 0)
        json_object_set_new(
            out, "more_minutes",
            json_real((double)result->more * one->seconds / (double)result->blocks / 60));
    json_object_set_new(out, "paired", json_boolean(one->seconds > 0));
    if (one->undecided)
        json_object_set_new(out, "undecided", json_integer(one->undecided));
    char noise[512];
    if (ls_row_noise_words(one->row[LS_NEW], noise, sizeof noise) ||
        ls_row_noise_words(one->row[LS_BASE], noise, sizeof noise))
        json_object_set_new(out, "noise", json_sprintf("%.*s", (int)strcspn(noise, ";"), noise));
    json_object_set(out, "worse", one->worse);
    json_object_set(out, "differences", one->differences);
    if (one->error)
        json_object_set_new(out, "error", json_string(one->error));
    return out;
}

json_t *ls_regress_document(const ls_regress_task *task, const ls_regress *regress)
{
    json_t *cases = json_array();
    for (size_t i = 0; i < regress->count; i++)
        json_array_append_new(cases, case_document(&regress->cases[i]));
    return json_pack("{s:s,s:f,s:s,s:s,s:f,s:O*,s:o}", "verdict", overall(regress), "threshold",
                     task->threshold, "base", task->side[LS_BASE], "new", task->side[LS_NEW],
                     "seconds", regress->seconds, "instructions", regress->instructions, "cases",
                     cases);
}

/* ---- Words ---------------------------------------------------------------------------------- */

static double number_of(const json_t *object, const char *field)
{
    return json_number_value(json_object_get(object, field));
}

/* "traffic.bytes_sent 100 -> 200, ..." */
static void print_changes(FILE *stream, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        char *base = ls_value_text(json_object_get(one, "base"));
        char *fresh = ls_value_text(json_object_get(one, "new"));
        const char *reason = ls_text_of(one, "reason");
        fprintf(stream, "%s%s %s -> %s%s%s", i ? ", " : "", ls_text_of(one, "key"),
                base && *base ? base : "none", fresh && *fresh ? fresh : "none",
                *reason ? ": " : "", reason);
        free(base);
        free(fresh);
    }
}

/* "0.998 to 1.003"; "" if there is no interval. */
static char *interval_text(const json_t *one, const char *form, char text[64])
{
    const json_t *ci95 = json_object_get(one, "ci95");
    *text = 0;
    if (ci95)
        snprintf(text, 64, form, json_number_value(json_array_get(ci95, 0)),
                 json_number_value(json_array_get(ci95, 1)));
    return text;
}

/* The report of one case in a line; owned by the caller. */
static char *sentence(const json_t *one)
{
    char *text = NULL, interval[64];
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    const json_t *worse = json_object_get(one, "worse");
    const char *next = "";
    if (json_object_get(one, "ratio")) {
        const bool paired = json_is_true(json_object_get(one, "paired"));
        fprintf(stream, "%s: %.4g times the base (%s%s%.0f %s%s, medians %.4g to %.4g ms a step)",
                ls_text_of(one, "verdict"), number_of(one, "ratio"),
                interval_text(one, "95%% interval %.4g to %.4g, ", interval),
                paired ? "by the ratios of " : "", number_of(one, "blocks"),
                paired ? "pair" : "run", number_of(one, "blocks") > 1 ? "s" : "",
                number_of(one, "base_ms"), number_of(one, "new_ms"));
        next = "; ";
        const double more = number_of(one, "more_blocks");
        const double minutes = number_of(one, "more_minutes");
        if (strcmp(ls_text_of(one, "verdict"), "cannot tell") == 0 && more > 0 && paired &&
            minutes > 60)
            fprintf(stream,
                    "; %s%san hour more would not tell; --instructions counts without noise",
                    ls_text_of(one, "noise"), *ls_text_of(one, "noise") ? ": " : "");
        else if (strcmp(ls_text_of(one, "verdict"), "cannot tell") == 0 && more > 0 && paired)
            fprintf(stream,
                    "; %s%sabout %.2g more minutes would tell (--max-time), and --instructions "
                    "counts without noise",
                    ls_text_of(one, "noise"), *ls_text_of(one, "noise") ? ": " : "", minutes);
        else if (strcmp(ls_text_of(one, "verdict"), "cannot tell") == 0 && more > 0)
            fprintf(stream, "; %s%sabout %.0f more runs of each side would tell",
                    ls_text_of(one, "noise"), *ls_text_of(one, "noise") ? ": " : "", more);
        else if (strcmp(ls_text_of(one, "verdict"), "cannot tell") == 0 &&
                 number_of(one, "blocks") < 2 && !json_object_get(one, "ci95"))
            fputs("; a row of one step has no interval, more --steps would tell", stream);
        else if (strcmp(ls_text_of(one, "verdict"), "cannot tell") == 0 && !paired &&
                 number_of(one, "blocks") < 2)
            fputs("; one run of a side is too few, give eight of each", stream);
        else if (strcmp(ls_text_of(one, "verdict"), "cannot tell") == 0)
            fputs("; too near to the threshold for any number of blocks", stream);
    }
    if (*ls_text_of(one, "error")) {
        fprintf(stream, "%s%s", next, ls_text_of(one, "error"));
        next = "; ";
    }
    if (json_array_size(worse) > 0) {
        fprintf(stream, "%sworse: ", next);
        print_changes(stream, worse);
    }
    fclose(stream);
    return text;
}

typedef enum outcome { PASSED, FAILED, BROKEN, OPEN } outcome;

static outcome outcome_of(const json_t *one)
{
    const char *verdict = ls_text_of(one, "verdict");
    if (strcmp(verdict, "slower") == 0 || json_array_size(json_object_get(one, "worse")) > 0)
        return FAILED;
    if (*ls_text_of(one, "error"))
        return BROKEN;
    return strcmp(verdict, "cannot tell") == 0 ? OPEN : PASSED;
}

static void count_outcomes(const json_t *cases, size_t counts[4])
{
    memset(counts, 0, 4 * sizeof *counts);
    for (size_t i = 0; i < json_array_size(cases); i++)
        counts[outcome_of(json_array_get(cases, i))]++;
}

/* "2 cases: 1 pass, 1 worse; threshold 3%, 20 s" */
static void print_summary(FILE *stream, const json_t *document)
{
    static const char *const words[] = {"pass", "worse", "not to be compared", "not to be told"};
    const json_t *cases = json_object_get(document, "cases");
    size_t counts[4];
    count_outcomes(cases, counts);
    fprintf(stream, "%zu case%s", json_array_size(cases), json_array_size(cases) == 1 ? "" : "s");
    for (int i = 0, any = 0; i < 4; i++)
        if (counts[i])
            fprintf(stream, "%s%zu %s", any++ ? ", " : ": ", counts[i], words[i]);
    fprintf(stream, "; threshold %g%%, %.0f s", 100 * number_of(document, "threshold"),
            number_of(document, "seconds"));
}

static void print_instructions(FILE *stream, const json_t *document)
{
    const json_t *counted = json_object_get(document, "instructions");
    if (json_is_string(counted))
        fprintf(stream, "\ninstructions: %s\n", json_string_value(counted));
    else if (counted)
        fprintf(stream, "\ninstructions by callgrind: %.0f, base %.0f: %.4f times\n",
                number_of(counted, "new"), number_of(counted, "base"), number_of(counted, "ratio"));
}

/* ---- Table, Markdown ------------------------------------------------------------------------ */

static json_t *shown_row(const json_t *one)
{
    char ratio[32] = "", interval[64];
    const json_t *number = json_object_get(one, "ratio");
    if (number)
        snprintf(ratio, sizeof ratio, "%.3f", json_number_value(number));
    const bool worse = json_array_size(json_object_get(one, "worse")) > 0;
    const char *verdict = worse && strcmp(ls_text_of(one, "verdict"), "slower") != 0 ? "worse"
                          : *ls_text_of(one, "error")                                ? "error"
                                                      : ls_text_of(one, "verdict");
    json_t *row =
        json_pack("{s:s,s:s,s:s,s:s,s:O*,s:O*,s:O*}", "name", ls_text_of(one, "name"), "verdict",
                  verdict, "ratio", ratio, "interval", interval_text(one, "%.3f to %.3f", interval),
                  "blocks", json_object_get(one, "blocks"), "base_ms",
                  json_object_get(one, "base_ms"), "new_ms", json_object_get(one, "new_ms"));
    if (outcome_of(one) != PASSED) { /* tables print it below the row, or in a last column */
        char *text = sentence(one);
        json_object_set_new(row, "result", json_pack("{s:s}", "reason", text ? text : ""));
        free(text);
    }
    return row;
}

static ls_status write_cases(const json_t *document, const char *format, FILE *stream)
{
    static const ls_column column[] = {
        {"case", "name", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0},
        {"verdict", "verdict", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0},
        {"new/base", "ratio", 0, true, LS_CELL_TEXT, 0},
        {"95% interval", "interval", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0},
        {"blocks", "blocks", 0, true, LS_CELL_TEXT, 2},
        {"base ms", "base_ms", 0, true, LS_CELL_FIGURE, 3},
        {"new ms", "new_ms", 0, true, LS_CELL_FIGURE, 3}};
    const ls_columns columns = {
        .column = column, .count = sizeof column / sizeof *column, .alone = true};
    const json_t *cases = json_object_get(document, "cases");
    const ls_format *form;
    json_t *rows = json_array();
    for (size_t i = 0; i < json_array_size(cases); i++)
        json_array_append_new(rows, shown_row(json_array_get(cases, i)));
    ls_status status = ls_format_find(format, &form);
    if (!status)
        status = ls_rows_write(form, &columns, rows, stream);
    json_decref(rows);
    return status;
}

/* Differences that fail nothing. */
static void print_differences(FILE *stream, const json_t *document, const char *bullet,
                              ls_escape as)
{
    const json_t *cases = json_object_get(document, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i), *others = json_object_get(one, "differences");
        if (json_array_size(others) == 0)
            continue;
        char *text = NULL;
        size_t size;
        FILE *changes = open_memstream(&text, &size);
        if (!changes)
            continue;
        fprintf(changes, "%s, besides: ", ls_text_of(one, "name"));
        print_changes(changes, others);
        fclose(changes);
        fputs(bullet, stream);
        ls_escape_put(stream, text, SIZE_MAX, as);
        fputc('\n', stream);
        free(text);
    }
}

static ls_status write_table(const json_t *document, FILE *stream)
{
    LS_TRY(write_cases(document, "table", stream));
    fputc('\n', stream);
    print_differences(stream, document, "", LS_ESCAPE_LINE);
    print_instructions(stream, document);
    fprintf(stream, "%s: ", ls_text_of(document, "verdict"));
    print_summary(stream, document);
    fputc('\n', stream);
    return LS_OK;
}

static ls_status write_markdown(const json_t *document, FILE *stream)
{
    fprintf(stream, "**Performance: %s**: ", ls_text_of(document, "verdict"));
    print_summary(stream, document);
    fputs("\n\n", stream);
    LS_TRY(write_cases(document, "md", stream));
    fputc('\n', stream);
    print_differences(stream, document, "- ", LS_ESCAPE_MARKDOWN);
    print_instructions(stream, document);
    return LS_OK;
}

static ls_status write_json(const json_t *document, FILE *stream)
{
    ls_json_print(stream, document, 2);
    fputc('\n', stream);
    return LS_OK;
}

/* ---- JUnit, GitHub -------------------------------------------------------------------------- */

static ls_status write_junit(const json_t *document, FILE *stream)
{
    static const char *const tags[] = {"system-out", "failure", "error", "skipped"};
    const json_t *cases = json_object_get(document, "cases");
    const size_t count = json_array_size(cases);
    size_t counts[4];
    count_outcomes(cases, counts);
    fprintf(stream,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite "
            "name=\"lockstep regress\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" "
            "skipped=\"%zu\" time=\"%.1f\">\n",
            count, counts[FAILED], counts[BROKEN], counts[OPEN], number_of(document, "seconds"));
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(cases, i);
        const outcome what = outcome_of(one);
        char *text = sentence(one);
        fputs("    <testcase classname=\"lockstep.regress\" name=\"", stream);
        ls_markup(stream, ls_text_of(one, "name"), SIZE_MAX);
        fprintf(stream, "\">\n      <%s%s", tags[what], what == PASSED ? ">" : " message=\"");
        ls_markup(stream, text ? text : "", SIZE_MAX);
        fprintf(stream, "%s\n    </testcase>\n", what == PASSED ? "</system-out>" : "\"/>");
        free(text);
    }
    fputs("  </testsuite>\n</testsuites>\n", stream);
    return LS_OK;
}

static ls_status write_github(const json_t *document, FILE *stream)
{
    static const char *const kinds[] = {"notice", "error", "error", "warning"};
    const json_t *cases = json_object_get(document, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        char *text = sentence(one);
        fprintf(stream, "::%s title=lockstep regress::", kinds[outcome_of(one)]);
        ls_escape_put(stream, ls_text_of(one, "name"), SIZE_MAX, LS_ESCAPE_GITHUB);
        fputs(": ", stream);
        ls_escape_put(stream, text, SIZE_MAX, LS_ESCAPE_GITHUB);
        fputc('\n', stream);
        free(text);
    }
    return LS_OK;
}

static const struct {
    const char *name;
    ls_status (*write)(const json_t *document, FILE *stream);
} forms[] = {{"table", write_table},
             {"json", write_json},
             {"md", write_markdown},
             {"junit", write_junit},
             {"github", write_github}};

ls_status ls_verdict_write(const char *format, const json_t *document, FILE *stream)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].name, format) == 0)
            return stream ? forms[i].write(document, stream) : LS_OK;
    return ls_fail(LS_CODE_USAGE, "--format", format,
                   "no such format; valid are: table, json, md, junit, github");
}
