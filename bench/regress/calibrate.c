/* SPDX-License-Identifier: MIT */
/*
 * Calibration: how often each verdict results when a program is compared with itself, with NEW's
 * times unchanged or lengthened by 1, 2, 3, 5 and 10%. Each of N comparisons runs its own blocks.
 * It is judged at every slowdown independently, with its own looks and early end.
 */
#include "bench/regress/regress.h"
#include "common/base/grow.h"

static const ls_column column[] = {
    LS_PATH_COLUMN("slower by %", "slowed_percent", LS_WIDTH_ANY, true, LS_CELL_VALUE, 0),
    LS_PATH_COLUMN("comparisons", "comparisons", LS_WIDTH_ANY, true, LS_CELL_TEXT, 0),
    LS_PATH_COLUMN("median ratio", "ratio", LS_WIDTH_ANY, true, LS_CELL_FIGURE, 1),
    LS_PATH_COLUMN("slower", "slower", 0, true, LS_CELL_TEXT, 0),
    LS_PATH_COLUMN("same", "same", 0, true, LS_CELL_TEXT, 0),
    LS_PATH_COLUMN("faster", "faster", 0, true, LS_CELL_TEXT, 0),
    LS_PATH_COLUMN("cannot tell", "cannot tell", LS_WIDTH_ANY, true, LS_CELL_TEXT, 0),
    LS_PATH_COLUMN("s each", "seconds_each", 0, true, LS_CELL_FIGURE, 0)};

const ls_columns ls_calibration_columns = {
    .column = column, .count = sizeof column / sizeof *column, .alone = true};

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
