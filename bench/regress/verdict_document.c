/* SPDX-License-Identifier: MIT */
/* A comparison as one JSON document; what the other formats say of it is made by verdict.sql. */
#include "bench/regress/regress.h"
#include "common/base/grow.h"
#include "common/base/log.h"
#include "common/base/registry.h"
#include "template_verdict.h"

#include <stdlib.h>
#include <string.h>

ls_status ls_regress_document(const ls_regress_task *task, const ls_regress *regress,
                              json_t **document, int *exit_status)
{
    json_auto_t *cases = json_array(), *exits = json_array();
    LS_TRY(ls_results_query(regress->results, "SELECT * FROM verdicts", NULL, cases));
    *document =
        json_pack("{s:s,s:f,s:s,s:s,s:f,s:O*,s:O}", "verdict", "", "threshold", task->threshold,
                  "base", task->side[LS_BASE], "new", task->side[LS_NEW], "seconds",
                  regress->seconds, "instructions", regress->instructions, "cases", cases);
    LS_TRY(ls_document_query(ls_template_verdict, *document, "exit", exits));
    const char *text = "3 error"; /* nothing known is not a pass */
    json_unpack(exits, "[{s:s}]", "text", &text);
    *exit_status = (int)strtol(text, NULL, 10);
    json_object_set_new(*document, "verdict", json_string(text + strcspn(text, " ") + 1));
    return LS_OK;
}

void ls_regress_tell_error(const json_t *document)
{
    json_auto_t *found = json_array();
    const char *text;
    ls_status_free(ls_document_query(ls_template_verdict, document, "error", found));
    if (json_unpack(found, "[{s:s}]", "text", &text) == 0)
        ls_log_stderr("regress: %s", text);
}

ls_status ls_verdict_check(const char *format)
{
    static const char *const formats[] = {"table", "json", "md", "junit", "github", NULL};
    return ls_name_is_among(format, formats)
               ? LS_OK
               : ls_fail(LS_CODE_USAGE, "--format", format,
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

/* ---- Calibration -----------------------------------------------------------------------------
 *
 * How often each verdict results when a program is compared with itself, with NEW's times unchanged
 * or lengthened by 1, 2, 3, 5 and 10%. Each of N comparisons runs its own blocks. It is judged at
 * every slowdown independently, with its own looks and early end. */

static const ls_column calibrated[] = {
    LS_PATH_COLUMN("slower by %", "slowed_percent", LS_WIDTH_ANY, true, LS_CELL_VALUE, 0),
    LS_PATH_COLUMN("comparisons", "comparisons", LS_WIDTH_ANY, true, LS_CELL_TEXT, 0),
    LS_PATH_COLUMN("median ratio", "ratio", LS_WIDTH_ANY, true, LS_CELL_FIGURE, 1),
    LS_PATH_COLUMN("slower", "slower", 0, true, LS_CELL_TEXT, 0),
    LS_PATH_COLUMN("same", "same", 0, true, LS_CELL_TEXT, 0),
    LS_PATH_COLUMN("faster", "faster", 0, true, LS_CELL_TEXT, 0),
    LS_PATH_COLUMN("cannot tell", "cannot tell", LS_WIDTH_ANY, true, LS_CELL_TEXT, 0),
    LS_PATH_COLUMN("s each", "seconds_each", 0, true, LS_CELL_FIGURE, 0)};

const ls_columns ls_calibration_columns = {
    .column = calibrated, .count = sizeof calibrated / sizeof *calibrated, .alone = true};

/* Appends the verdicts of one comparison of all cases. */
static ls_status compare_once(const ls_regress_task *task, json_t *verdicts)
{
    ls_closing(ls_regress_close) ls_regress regress = {0};
    json_auto_t *found = json_array();
    const char *name, *why;
    LS_TRY(ls_regress_compare(task, &regress));
    LS_TRY(ls_regress_do(&regress, "wrong", NULL, found));
    if (json_unpack(found, "[{s:s,s:s}]", "name", &name, "why", &why) == 0)
        return ls_fail(LS_CODE_MISSING, "regress", name, "%s", why);
    return ls_regress_do(&regress, "verdicts", NULL, verdicts);
}

ls_status ls_regress_calibrate(const ls_regress_task *task, size_t n, json_t **rows)
{
    ls_regress_task one = *task;
    json_auto_t *verdicts = json_array();
    one.calibrates = true;
    *rows = json_array();
    for (; one.seed < task->seed + n; one.seed++)
        LS_TRY(compare_once(&one, verdicts));
    json_auto_t *values = json_pack("{s:O}", "verdicts", verdicts);
    ls_closing(ls_regress_close) ls_regress regress = {0};
    LS_TRY(ls_results_functions(&regress.results));
    return ls_regress_do(&regress, "calibration", values, *rows);
}
