/* SPDX-License-Identifier: MIT */
/*
 * Report of a comparison: a table, Markdown for a comment (the verdict first), one JSON document,
 * JUnit XML, GitHub annotations. A case's `verdict` concerns its time; without a verdict, `error`
 * or `worse` says why.
 */
#include "bench/regress/regress.h"
#include "bench/row/row_noise.h"
#include "bench/rows/row.h"
#include "bench/statistics/statistics.h"
#include "common/base/escape.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Outcomes ------------------------------------------------------------------------------- */

typedef enum outcome { PASSED, FAILED, BROKEN, OPEN, OUTCOMES } outcome;

static outcome outcome_of(const ls_regress_case *one)
{
    if (one->result.verdict == LS_VERDICT_SLOWER || json_array_size(one->worse) > 0)
        return FAILED;
    return one->error ? BROKEN : one->result.verdict == LS_VERDICT_CANNOT_TELL ? OPEN : PASSED;
}

static void count_outcomes(const ls_regress *regress, size_t counts[OUTCOMES])
{
    memset(counts, 0, OUTCOMES * sizeof *counts);
    for (size_t i = 0; i < regress->count; i++)
        counts[outcome_of(&regress->cases[i])]++;
}

int ls_regress_exit(const ls_regress *regress)
{
    size_t counts[OUTCOMES];
    count_outcomes(regress, counts);
    return counts[FAILED]                          ? LS_CODE_CHECK
           : counts[BROKEN] || regress->count == 0 ? LS_CODE_MISSING
           : counts[OPEN]                          ? LS_CODE_UNDECIDED
                                                   : LS_CODE_OK;
}

static const char *overall(const ls_regress *regress)
{
    bool found[LS_VERDICT_SLOWER + 1] = {false};
    for (size_t i = 0; i < regress->count; i++)
        found[regress->cases[i].result.verdict] = true;
    switch (ls_regress_exit(regress)) {
    case LS_CODE_CHECK:
        return found[LS_VERDICT_SLOWER] ? "slower" : "worse";
    case LS_CODE_MISSING:
        return "error";
    case LS_CODE_UNDECIDED:
        return "cannot tell";
    default:
        return found[LS_VERDICT_FASTER] ? "faster" : "same";
    }
}

/* ---- Figures of a case ---------------------------------------------------------------------- */

/* Median of a side's times; NaN without a ratio. Sorts the list; nothing uses its order later. */
static double median_ms(const ls_regress_case *one, int side)
{
    const ls_log_list *logs = &one->logs[side];
    return one->result.blocks ? exp(ls_statistics_median(logs->items, logs->count)) : NAN;
}

/* In how many minutes more blocks would tell. */
static double minutes_more(const ls_regress_case *one)
{
    const ls_ratio_result *result = &one->result;
    return (double)result->more * one->seconds / (double)result->blocks / 60;
}

/* What keeps the case from being told: "others had core 1 for 40% of .."; "": nothing. */
static const char *noise_of(const ls_regress_case *one, char words[512])
{
    *words = 0;
    if (ls_row_noise_words(ls_regress_row(one, LS_NEW), words, 512) ||
        ls_row_noise_words(ls_regress_row(one, LS_BASE), words, 512))
        words[strcspn(words, ";")] = 0;
    return words;
}

/* By `form`: "0.998 to 1.003"; "" if there is no interval. */
static const char *interval_text(const ls_ratio_result *result, const char *form, char text[64])
{
    *text = 0;
    if (result->blocks > 0 && isfinite(result->ci95[0]))
        snprintf(text, 64, form, result->ci95[0], result->ci95[1]);
    return text;
}

/* ---- Words ---------------------------------------------------------------------------------- */

/* "traffic.bytes_sent 100 -> 200, ..." */
static void print_changes(FILE *stream, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *before = NULL, *after = NULL;
        const char *key = "", *reason = "";
        json_unpack(json_array_get(list, i), "{s:s,s?o,s?o,s?s}", "key", &key, "base", &before,
                    "new", &after, "reason", &reason);
        char *base = ls_value_text(before), *fresh = ls_value_text(after);
        fprintf(stream, "%s%s %s -> %s%s%s", i ? ", " : "", key, base && *base ? base : "none",
                fresh && *fresh ? fresh : "none", *reason ? ": " : "", reason);
        free(base);
        free(fresh);
    }
}

/* What would tell. */
static void print_remedy(FILE *stream, const ls_regress_case *one)
{
    const ls_ratio_result *result = &one->result;
    const bool paired = one->seconds > 0;
    char noise[512];
    fputs("; ", stream);
    if (result->more > 0 && *noise_of(one, noise))
        fprintf(stream, "%s: ", noise);
    if (result->more > 0 && paired && minutes_more(one) > 60)
        fputs("an hour more would not tell; --instructions counts without noise", stream);
    else if (result->more > 0 && paired)
        fprintf(stream,
                "about %.2g more minutes would tell (--max-time), and --instructions counts "
                "without noise",
                minutes_more(one));
    else if (result->more > 0)
        fprintf(stream, "about %zu more runs of each side would tell", result->more);
    else if (result->blocks < 2 && !isfinite(result->ci95[0]))
        fputs("a row of one step has no interval, more --steps would tell", stream);
    else if (result->blocks < 2 && !paired)
        fputs("one run of a side is too few, give eight of each", stream);
    else
        fputs("too near to the threshold for any number of blocks", stream);
}

static void print_sentence(FILE *stream, const ls_regress_case *one)
{
    const ls_ratio_result *result = &one->result;
    const char *next = "";
    char interval[64];
    if (result->blocks > 0) {
        fprintf(stream, "%s: %.4g times the base (%s%s%zu %s%s, medians %.4g to %.4g ms a step)",
                ls_verdict_name(result->verdict), result->ratio,
                interval_text(result, "95%% interval %.4g to %.4g, ", interval),
                one->seconds > 0 ? "by the ratios of " : "", result->blocks,
                one->seconds > 0 ? "pair" : "run", result->blocks > 1 ? "s" : "",
                median_ms(one, LS_BASE), median_ms(one, LS_NEW));
        if (result->verdict == LS_VERDICT_CANNOT_TELL)
            print_remedy(stream, one);
        next = "; ";
    }
    if (one->error)
        fprintf(stream, "%s%s", next, one->error);
    if (json_array_size(one->worse) > 0) {
        fprintf(stream, "%sworse: ", one->error ? "; " : next);
        print_changes(stream, one->worse);
    }
}

/* Differences that fail nothing. */
static void print_differences(FILE *stream, const ls_regress_case *one)
{
    fprintf(stream, "%s, besides: ", one->name);
    print_changes(stream, one->differences);
}

/* What is printed, as text, owned by the caller (free); NULL: out of memory. */
static char *text_of(const ls_regress_case *one,
                     void (*print)(FILE *stream, const ls_regress_case *one))
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    print(stream, one);
    fclose(stream);
    return text;
}

static void put_text(FILE *stream, const ls_regress_case *one,
                     void (*print)(FILE *stream, const ls_regress_case *one), ls_escape as)
{
    char *text = text_of(one, print);
    ls_escape_put(stream, text, SIZE_MAX, as);
    free(text);
}

/* ---- Table, Markdown ------------------------------------------------------------------------ */

/* "2 cases: 1 pass, 1 worse; threshold 3%, 20 s" */
static void print_summary(FILE *stream, const ls_regress_task *task, const ls_regress *regress)
{
    static const char *const words[] = {"pass", "worse", "not to be compared", "not to be told"};
    size_t counts[OUTCOMES];
    count_outcomes(regress, counts);
    fprintf(stream, "%zu case%s", regress->count, regress->count == 1 ? "" : "s");
    for (int i = 0, any = 0; i < OUTCOMES; i++)
        if (counts[i])
            fprintf(stream, "%s%zu %s", any++ ? ", " : ": ", counts[i], words[i]);
    fprintf(stream, "; threshold %g%%, %.0f s\n", 100 * task->threshold, regress->seconds);
}

static json_t *shown_row(const ls_regress_case *one)
{
    const ls_ratio_result *result = &one->result;
    const outcome what = outcome_of(one);
    char ratio[32] = "", interval[64];
    if (result->blocks > 0)
        snprintf(ratio, sizeof ratio, "%.3f", result->ratio);
    const char *verdict = what == FAILED && result->verdict != LS_VERDICT_SLOWER ? "worse"
                          : one->error                                           ? "error"
                                       : ls_verdict_name(result->verdict);
    char *text = what == PASSED ? NULL : text_of(one, print_sentence);
    json_t *row =
        json_pack("{s:s,s:s,s:s,s:s,s:I,s:o*,s:o*,s:o*}", "name", one->name, "verdict", verdict,
                  "ratio", ratio, "interval", interval_text(result, "%.3f to %.3f", interval),
                  "blocks", (json_int_t)result->blocks, "base_ms",
                  json_real(median_ms(one, LS_BASE)), "new_ms", json_real(median_ms(one, LS_NEW)),
                  "result", text ? json_pack("{s:s}", "reason", text) : NULL);
    free(text); /* tables print it below the row, or in a last column */
    return row;
}

/* Below the cases: what differs besides, and instructions. */
static void print_rest(const ls_regress *regress, const char *bullet, ls_escape as, FILE *stream)
{
    double base, fresh, ratio;
    fputc('\n', stream);
    for (size_t i = 0; i < regress->count; i++) {
        if (json_array_size(regress->cases[i].differences) == 0)
            continue;
        fputs(bullet, stream);
        put_text(stream, &regress->cases[i], print_differences, as);
        fputc('\n', stream);
    }
    if (json_is_string(regress->instructions))
        fprintf(stream, "\ninstructions: %s\n", json_string_value(regress->instructions));
    else if (json_unpack(regress->instructions, "{s:F,s:F,s:F}", "base", &base, "new", &fresh,
                         "ratio", &ratio) == 0)
        fprintf(stream, "\ninstructions by callgrind: %.0f, base %.0f: %.4f times\n", fresh, base,
                ratio);
}

static ls_status write_table(const char *format, const ls_regress_task *task,
                             const ls_regress *regress, FILE *stream)
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
    const ls_format *form;
    const bool markdown = strcmp(format, "md") == 0;
    json_auto_t *rows = json_array();
    for (size_t i = 0; i < regress->count; i++)
        json_array_append_new(rows, shown_row(&regress->cases[i]));
    LS_TRY(ls_format_find(format, &form));
    if (markdown) {
        fprintf(stream, "**Performance: %s**: ", overall(regress));
        print_summary(stream, task, regress);
        fputc('\n', stream);
    }
    LS_TRY(ls_rows_write(form, &columns, rows, stream));
    print_rest(regress, markdown ? "- " : "", markdown ? LS_ESCAPE_MARKDOWN : LS_ESCAPE_LINE,
               stream);
    if (!markdown) {
        fprintf(stream, "%s: ", overall(regress));
        print_summary(stream, task, regress);
    }
    return LS_OK;
}

/* ---- JSON, JUnit, GitHub -------------------------------------------------------------------- */

/* A figure that is not finite has no member. */
static json_t *case_document(const ls_regress_case *one)
{
    const ls_ratio_result *result = &one->result;
    const bool more = result->more > 0, timed = result->blocks > 0;
    char noise[512];
    return json_pack(
        "{s:O*,s:s,s:s,s:I,s:o*,s:o*,s:o*,s:o*,s:o*,s:o*,s:b,s:o*,s:s*,s:O,s:O,s:s*}", "case",
        ls_row_group(ls_regress_either(one), LS_G_case), "name", one->name, "verdict",
        ls_verdict_name(result->verdict), "blocks", (json_int_t)result->blocks, "ratio",
        json_real(timed ? result->ratio : NAN), "ci95",
        timed && isfinite(result->ci95[0]) ? ls_reals(result->ci95, 2) : NULL, "base_ms",
        json_real(median_ms(one, LS_BASE)), "new_ms", json_real(median_ms(one, LS_NEW)),
        "more_blocks", more ? json_integer((json_int_t)result->more) : NULL, "more_minutes",
        json_real(more && timed && one->seconds > 0 ? minutes_more(one) : NAN), "paired",
        one->seconds > 0, "undecided", one->undecided ? json_integer(one->undecided) : NULL,
        "noise", *noise_of(one, noise) ? noise : NULL, "worse", one->worse, "differences",
        one->differences, "error", one->error);
}

static ls_status write_json(const char *format, const ls_regress_task *task,
                            const ls_regress *regress, FILE *stream)
{
    json_t *cases = json_array();
    (void)format;
    for (size_t i = 0; i < regress->count; i++)
        json_array_append_new(cases, case_document(&regress->cases[i]));
    json_auto_t *document = json_pack("{s:s,s:f,s:s,s:s,s:f,s:O*,s:o}", "verdict", overall(regress),
                                      "threshold", task->threshold, "base", task->side[LS_BASE],
                                      "new", task->side[LS_NEW], "seconds", regress->seconds,
                                      "instructions", regress->instructions, "cases", cases);
    ls_json_print(stream, document, 2);
    fputc('\n', stream);
    return LS_OK;
}

static ls_status write_junit(const char *format, const ls_regress_task *task,
                             const ls_regress *regress, FILE *stream)
{
    static const char *const tags[] = {"system-out", "failure", "error", "skipped"};
    size_t counts[OUTCOMES];
    (void)format, (void)task;
    count_outcomes(regress, counts);
    fprintf(stream,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite "
            "name=\"lockstep regress\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" "
            "skipped=\"%zu\" time=\"%.1f\">\n",
            regress->count, counts[FAILED], counts[BROKEN], counts[OPEN], regress->seconds);
    for (size_t i = 0; i < regress->count; i++) {
        const ls_regress_case *one = &regress->cases[i];
        const outcome what = outcome_of(one);
        fputs("    <testcase classname=\"lockstep.regress\" name=\"", stream);
        ls_escape_put(stream, one->name, SIZE_MAX, LS_ESCAPE_MARKUP);
        fprintf(stream, "\">\n      <%s%s", tags[what], what == PASSED ? ">" : " message=\"");
        put_text(stream, one, print_sentence, LS_ESCAPE_MARKUP);
        fprintf(stream, "%s\n    </testcase>\n", what == PASSED ? "</system-out>" : "\"/>");
    }
    fputs("  </testsuite>\n</testsuites>\n", stream);
    return LS_OK;
}

static ls_status write_github(const char *format, const ls_regress_task *task,
                              const ls_regress *regress, FILE *stream)
{
    static const char *const kinds[] = {"notice", "error", "error", "warning"};
    (void)format, (void)task;
    for (size_t i = 0; i < regress->count; i++) {
        const ls_regress_case *one = &regress->cases[i];
        fprintf(stream, "::%s title=lockstep regress::", kinds[outcome_of(one)]);
        ls_escape_put(stream, one->name, SIZE_MAX, LS_ESCAPE_GITHUB);
        fputs(": ", stream);
        put_text(stream, one, print_sentence, LS_ESCAPE_GITHUB);
        fputc('\n', stream);
    }
    return LS_OK;
}

ls_status ls_verdict_write(const char *format, const ls_regress_task *task,
                           const ls_regress *regress, FILE *stream)
{
    static const struct {
        const char *name;
        ls_status (*write)(const char *, const ls_regress_task *, const ls_regress *, FILE *);
    } forms[] = {{"table", write_table},
                 {"json", write_json},
                 {"md", write_table},
                 {"junit", write_junit},
                 {"github", write_github}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].name, format) == 0)
            return stream ? forms[i].write(format, task, regress, stream) : LS_OK;
    return ls_fail(LS_CODE_USAGE, "--format", format,
                   "no such format; valid are: table, json, md, junit, github");
}
