/* SPDX-License-Identifier: MIT */
/*
 * Compares the rows of two results files, unpaired. They were measured at different times, so
 * bounds include how much one program drifts between two times. Both must come from one class of
 * machine. Rows with the same id are the same measurement, hence equal.
 */
#include "bench/output/row_same.h"
#include "bench/output/rows_file.h"
#include "bench/regress/regress.h"
#include "bench/rows/row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Standard deviation of the logarithm of a median step between two times on one machine. */
static const double drift = 0.01;

bool ls_regress_is_file(const char *path)
{
    static const char *const endings[] = {".jsonl", ".db", ".json", ".sqlite"};
    const char *end = strrchr(path, '.');
    struct stat facts;
    bool found = stat(path, &facts) == 0 && S_ISDIR(facts.st_mode); /* of a report */
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        found |= end && end != path && strcmp(end, endings[i]) == 0;
    return found;
}

/* Refuses a row that was measured on another class of machine than the base. */
static ls_status check_class(const char *base_path, const json_t *base, const char *fresh_path,
                             const json_t *fresh)
{
    const char *path =
        base && fresh ? ls_row_other_machine(base, fresh, LS_OF_CLASS | LS_OF_SHARE) : NULL;
    if (!path)
        return LS_OK;
    json_auto_t *before = ls_row_value(base, path), *after = ls_row_value(fresh, path);
    char *a = ls_value_text(before), *b = ls_value_text(after);
    ls_status status = ls_fail(
        LS_CODE_MISSING, "regress", base_path,
        "the two files were measured on different classes of machines: %s is %s in this file, but "
        "%s in %s; measure both on one machine, or use a baseline from such a machine",
        strchr(path, '.') + 1, a && *a ? a : "none", b && *b ? b : "none", fresh_path);
    free(a);
    free(b);
    return status;
}

/* Adds the rows of a file. */
static ls_status read_side(const ls_regress_task *task, int side, ls_regress *regress)
{
    ls_regress_task strict = *task; /* rows with other steps are matched once all are read */
    json_auto_t *rows = json_array();
    bool any = false;
    strict.fixed_steps = true;
    LS_TRY(ls_rows_each("regress", task->side[side], ls_results_collect, rows));
    LS_TRY(ls_regress_add(regress, &strict, side, rows));
    for (size_t i = 0; i < regress->count; i++) {
        const ls_regress_case *one = &regress->cases[i];
        for (size_t k = 0; k < json_array_size(one->rows[side]); k++, any = true)
            LS_TRY(check_class(task->side[side], ls_regress_row(one, side), task->side[side],
                               json_array_get(one->rows[side], k)));
    }
    return any ? LS_OK
               : ls_fail(LS_CODE_MISSING, "regress", task->side[side],
                         "this file has no row of a case%s; lockstep run --format jsonl > FILE "
                         "makes such a file",
                         task->where.narrows ? " that matches --where" : "");
}

/* The times of a side, and half of the first interval of a row, in logarithms. */
static ls_ratio_side times_of(const ls_regress_case *one, int side)
{
    ls_ratio_side out = {one->logs[side].items, one->logs[side].count, 0};
    json_t *row;
    size_t index;
    json_array_foreach(one->rows[side], index, row)
    {
        ls_interval step;
        if (out.half <= 0 && ls_row_pace(row, &step))
            out.half = 0.5 * log(step.high / step.low);
    }
    return out;
}

ls_status ls_regress_read(const ls_regress_task *task, ls_regress *out)
{
    LS_TRY(read_side(task, LS_BASE, out));
    LS_TRY(read_side(task, LS_NEW, out));
    LS_TRY(ls_regress_judge(task, out));
    const ls_ratio_test test = {.threshold = task->threshold, .cases = out->count};
    for (size_t i = 0; i < out->count; i++) {
        ls_regress_case *one = &out->cases[i];
        const json_t *a = ls_regress_row(one, LS_BASE), *b = ls_regress_row(one, LS_NEW);
        const ls_ratio_side base = times_of(one, LS_BASE), fresh = times_of(one, LS_NEW);
        LS_TRY(check_class(task->side[LS_BASE], a, task->side[LS_NEW], b));
        if (one->decided)
            continue;
        if (ls_row_has(a, LS_F_id) && json_equal(ls_row_get(a, LS_F_id), ls_row_get(b, LS_F_id)) &&
            base.count == fresh.count &&
            memcmp(base.logs, fresh.logs, base.count * sizeof *base.logs) == 0)
            one->result = (ls_ratio_result){LS_VERDICT_SAME, 1, {1, 1}, base.count, 0};
        else
            ls_ratio_unpaired(&test, &base, &fresh, drift, &one->result);
    }
    return LS_OK;
}
