/* SPDX-License-Identifier: MIT */
/*
 * Calibration: how often each verdict results when a program is compared with itself, with NEW's
 * times unchanged or lengthened by 1, 2, 3, 5 and 10%. Each of N comparisons runs its own blocks.
 * It is judged at every slowdown independently, with its own looks and early end.
 */
#include "bench/regress/regress.h"
#include "bench/statistics/statistics.h"
#include "common/base/grow.h"

#include <stdlib.h>

static const double slowed[] = {0, 0.01, 0.02, 0.03, 0.05, 0.10};

enum { SLOWED = sizeof slowed / sizeof *slowed };

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

/* What came of the comparisons at one slowdown. */
typedef struct tally {
    int counts[LS_VERDICT_SLOWER + 1];
    double seconds;
    ls_log_list ratios;
} tally;

/* Adds the verdicts of one comparison of all cases. */
static ls_status compare_once(const ls_regress_task *task, tally tallies[SLOWED])
{
    ls_closing(ls_regress_close) ls_regress regress = {0};
    LS_TRY(ls_regress_compare(task, &regress));
    for (size_t i = 0; i < regress.count; i++) {
        const ls_regress_case *one = &regress.cases[i];
        tally *level = &tallies[i / (regress.count / SLOWED)];
        if (one->error || json_array_size(one->worse) > 0)
            return ls_fail(LS_CODE_MISSING, "regress", one->name, "%s",
                           one->error ? one->error
                                      : "NEW fails the gate in this case, or sends more bytes or "
                                        "needs more memory than BASE; name two equal programs");
        level->counts[one->result.verdict]++;
        level->seconds += one->seconds;
        LS_TRY(ls_log_push(&level->ratios, one->result.ratio));
    }
    return LS_OK;
}

ls_status ls_regress_calibrate(const ls_regress_task *task, size_t n, json_t **rows)
{
    ls_regress_task one = *task;
    tally tallies[SLOWED] = {0};
    ls_status status = LS_OK;
    one.slowed = slowed;
    one.slowed_count = SLOWED;
    *rows = json_array();
    for (; one.seed < task->seed + n && !status; one.seed++)
        status = compare_once(&one, tallies);
    for (size_t i = 0; i < SLOWED; i++) {
        tally *level = &tallies[i];
        ls_statistics ratios;
        ls_statistics_compute(level->ratios.items, level->ratios.count, &ratios);
        json_array_append_new(*rows,
                              json_pack("{s:f,s:i,s:f,s:i,s:i,s:i,s:i,s:f}", "slowed_percent",
                                        100 * slowed[i], "comparisons", (int)ratios.n, "ratio",
                                        ratios.median, "slower", level->counts[LS_VERDICT_SLOWER],
                                        "same", level->counts[LS_VERDICT_SAME], "faster",
                                        level->counts[LS_VERDICT_FASTER], "cannot tell",
                                        level->counts[LS_VERDICT_CANNOT_TELL], "seconds_each",
                                        level->seconds / (double)ratios.n));
        free(level->ratios.items);
    }
    return status;
}
