/* SPDX-License-Identifier: MIT */
/*
 * Calibration: how often a comparison of a program with itself says what, as it is and with the
 * times of one side counted 1, 2, 3, 5, 10% longer. These are counted, not made: a program that is
 * slower by so much on purpose would need other sources. Every comparison runs its own blocks.
 * Where rows are kept, the blocks' log ratios can be taken from these (labels regress base, new).
 */
#include "bench/regress/compared.h"

#include <stdio.h>

static const double slowed[] = {0, 0.01, 0.02, 0.03, 0.05, 0.10};

enum { SLOWED = sizeof slowed / sizeof *slowed };

/* Adds the verdicts of one comparison of all cases. */
static ls_status compare_once(const ls_regress_task *task, json_t *counts, double *seconds)
{
    ls_regress regress;
    ls_status status = ls_regress_compare(task, &regress);
    for (size_t i = 0; i < regress.count && !status; i++) {
        const ls_regress_case *one = &regress.cases[i];
        const char *name = ls_verdict_name(one->result.verdict);
        if (one->error)
            status = ls_fail(LS_CODE_MISSING, "regress", one->name, "%s", one->error);
        json_object_set_new(counts, name,
                            json_integer(json_integer_value(json_object_get(counts, name)) + 1));
    }
    *seconds += regress.seconds;
    ls_regress_close(&regress);
    return status;
}

ls_status ls_regress_calibrate(const ls_regress_task *task, size_t n, const char *format,
                               FILE *stream)
{
    static const ls_column column[] = {
        {"slower by %", "slowed_percent", LS_WIDTH_ANY, true, LS_CELL_FIGURE, 0},
        {"comparisons", "comparisons", LS_WIDTH_ANY, true, LS_CELL_TEXT, 0},
        {"slower", "slower", 0, true, LS_CELL_TEXT, 0},
        {"same", "same", 0, true, LS_CELL_TEXT, 0},
        {"faster", "faster", 0, true, LS_CELL_TEXT, 0},
        {"cannot tell", "cannot tell", LS_WIDTH_ANY, true, LS_CELL_TEXT, 0},
        {"s each", "seconds_each", 0, true, LS_CELL_FIGURE, 0}};
    const ls_columns columns = {
        .column = column, .count = sizeof column / sizeof *column, .alone = true};
    const ls_format *form;
    ls_writer *writer;
    LS_TRY(ls_format_find(format, &form));
    if (ls_regress_is_file(task->side[LS_NEW]))
        return ls_fail(LS_CODE_USAGE, "--calibrate", task->side[LS_NEW],
                       "is a results file; give a program");
    LS_TRY(ls_writer_open(form, stream, &writer));
    ls_writer_hold(writer);
    ls_writer_choose(writer, &columns);
    ls_status status = LS_OK;
    for (size_t s = 0; s < SLOWED && !status; s++) {
        ls_regress_task one = *task;
        double seconds = 0;
        json_t *row =
            json_pack("{s:f,s:i,s:i,s:i,s:i,s:i}", "slowed_percent", 100 * slowed[s], "comparisons",
                      0, "slower", 0, "same", 0, "faster", 0, "cannot tell", 0);
        one.slowed = slowed[s];
        for (size_t i = 0; i < n && !status; i++) {
            one.seed = task->seed + 1 + s * n + i;
            status = compare_once(&one, row, &seconds);
        }
        json_object_set_new(row, "comparisons", json_integer((json_int_t)n));
        json_object_set_new(row, "seconds_each", json_real(seconds / (double)n));
        if (!status)
            status = ls_writer_row(writer, row);
        json_decref(row);
    }
    return ls_status_first(status, ls_writer_close(writer));
}
