/* SPDX-License-Identifier: MIT */
/* A comparison as one JSON document; what the other formats say of it is made by verdict.sql. */
#include "bench/output/document.h"
#include "bench/regress/regress.h"
#include "bench/row/findings.h"
#include "bench/rows/row.h"
#include "bench/statistics/statistics.h"
#include "template_verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Median of a side's times; NaN without a ratio. Sorts the list; nothing uses its order later. */
static double median_ms(const ls_regress_case *one, int side)
{
    const ls_log_list *logs = &one->logs[side];
    return one->result.blocks ? exp(ls_statistics_median(logs->items, logs->count)) : NAN;
}

/* A figure that is not finite has no member. */
static json_t *case_document(const ls_regress_case *one)
{
    const ls_ratio_result *result = &one->result;
    const bool timed = result->blocks > 0, more = result->more > 0;
    char noise[512] =
        ""; /* what keeps the case from being told: "other programs used core 1 for 40% of .." */
    if (ls_row_noise_words(ls_regress_row(one, LS_NEW), noise, sizeof noise) ||
        ls_row_noise_words(ls_regress_row(one, LS_BASE), noise, sizeof noise))
        noise[strcspn(noise, ";")] = 0;
    return json_pack(
        "{s:O*,s:s,s:s,s:I,s:o*,s:o*,s:o*,s:o*,s:o*,s:o*,s:b,s:o*,s:s*,s:O,s:O,s:s*}", "case",
        ls_row_group(ls_regress_either(one), LS_G_case), "name", one->name, "verdict",
        ls_verdict_name(result->verdict), "blocks", (json_int_t)result->blocks, "ratio",
        json_real(timed ? result->ratio : NAN), "ci95",
        timed ? ls_interval_value(result->ci95[0], result->ci95[1]) : NULL, "base_ms",
        json_real(median_ms(one, LS_BASE)), "new_ms", json_real(median_ms(one, LS_NEW)),
        "more_blocks", more ? json_integer((json_int_t)result->more) : NULL, "more_minutes",
        json_real(more && timed && one->seconds > 0
                      ? (double)result->more * one->seconds / (double)result->blocks / 60
                      : NAN),
        "paired", one->seconds > 0, "undecided",
        one->undecided ? json_integer(one->undecided) : NULL, "noise", *noise ? noise : NULL,
        "worse", one->worse, "differences", one->differences, "error", one->error);
}

ls_status ls_regress_document(const ls_regress_task *task, const ls_regress *regress,
                              json_t **document, int *exit_status)
{
    json_t *cases = json_array();
    json_auto_t *exits = json_array();
    for (size_t i = 0; i < regress->count; i++)
        json_array_append_new(cases, case_document(&regress->cases[i]));
    *document =
        json_pack("{s:s,s:f,s:s,s:s,s:f,s:O*,s:o}", "verdict", "", "threshold", task->threshold,
                  "base", task->side[LS_BASE], "new", task->side[LS_NEW], "seconds",
                  regress->seconds, "instructions", regress->instructions, "cases", cases);
    LS_TRY(ls_document_query(ls_template_verdict, *document, "exit", exits));
    const char *text = "3 error"; /* nothing known is not a pass */
    json_unpack(exits, "[{s:s}]", "text", &text);
    *exit_status = (int)strtol(text, NULL, 10);
    json_object_set_new(*document, "verdict", json_string(text + strcspn(text, " ") + 1));
    return LS_OK;
}

ls_status ls_verdict_check(const char *format)
{
    static const char *const formats[] = {"table", "json", "md", "junit", "github"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i], format) == 0)
            return LS_OK;
    return ls_fail(LS_CODE_USAGE, "--format", format,
                   "this is not a format; valid are: table, json, md, junit, github");
}

ls_status ls_verdict_write(const char *format, const json_t *document, FILE *stream)
{
    static const ls_column column[] = {
        LS_PATH_COLUMN("case", "name", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("verdict", "verdict", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("new/base", "ratio", 0, true, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("95% interval", "interval", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("blocks", "blocks", 0, true, LS_CELL_TEXT, 2),
        LS_PATH_COLUMN("base ms", "base_ms", 0, true, LS_CELL_FIGURE, 3),
        LS_PATH_COLUMN("new ms", "new_ms", 0, true, LS_CELL_FIGURE, 3)};
    const ls_columns columns = {
        .column = column, .count = sizeof column / sizeof *column, .alone = true};
    if (strcmp(format, "json") != 0)
        return ls_document_write(ls_template_verdict, document, format, &columns, stream);
    ls_json_print(stream, document, 2);
    fputc('\n', stream);
    return LS_OK;
}
