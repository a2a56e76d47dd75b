/* SPDX-License-Identifier: MIT */
/*
 * Compares the rows of two results files, unpaired. They were measured at different times, so
 * bounds include how much one program drifts between two times. Both must come from one class of
 * machine. Rows with the same id are the same measurement, hence equal.
 */
#include "bench/output/row_same.h"
#include "bench/output/rows_file.h"
#include "bench/regress/compared.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Standard deviation of the logarithm of a median step between two times on one machine. */
static const double drift = 0.01;

bool ls_regress_is_file(const char *path)
{
    static const char *const endings[] = {".jsonl", ".db", ".json", ".sqlite"};
    const size_t length = strlen(path);
    struct stat facts;
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) /* of a report */
        return true;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t n = strlen(endings[i]);
        if (length > n && strcmp(path + length - n, endings[i]) == 0)
            return true;
    }
    return false;
}

/* Owned by the caller (free); NULL: no memory. */
static char *value_text(const json_t *row, const char *path)
{
    json_auto_t *value = ls_row_find(row, path);
    return ls_value_text(value);
}

/* Refuses two rows of different machine classes; NULL matches any class. */
static ls_status check_class(const char *base_path, const json_t *base, const char *fresh_path,
                             const json_t *fresh)
{
    const char *path =
        base && fresh ? ls_row_other_machine(base, fresh, LS_OF_CLASS | LS_OF_SHARE) : NULL;
    if (!path)
        return LS_OK;
    char *a = value_text(base, path), *b = value_text(fresh, path);
    ls_status status =
        ls_fail(LS_CODE_MISSING, "regress", base_path,
                "was measured on another class of machine: %s is %s there and %s in %s; measure "
                "both on one machine, or give a baseline of this class",
                strchr(path, '.') + 1, a && *a ? a : "none", b && *b ? b : "none", fresh_path);
    free(a);
    free(b);
    return status;
}

/* ---- Reading -------------------------------------------------------------------------------- */

typedef struct reading {
    const ls_regress_task *task;
    ls_regress *regress;
    int side;
} reading;

static ls_status take(void *context, int64_t number, const json_t *row)
{
    reading *r = context;
    const char *path = r->task->side[r->side];
    (void)number;
    LS_TRY(ls_regress_add(r->regress, r->task, r->side, row));
    const ls_regress_case *one = ls_regress_find(r->regress, r->task, r->side, row);
    return one ? check_class(path, one->row[r->side], path, row) : LS_OK;
}

static void judge(const ls_regress_task *task, ls_regress *regress)
{
    const ls_ratio_test test = {.threshold = task->threshold, .cases = regress->count};
    for (size_t i = 0; i < regress->count; i++) {
        ls_regress_case *one = &regress->cases[i];
        if (one->decided)
            continue;
        const json_t *id = json_object_get(one->row[LS_BASE], "id");
        const ls_log_list *a = &one->logs[LS_BASE], *b = &one->logs[LS_NEW];
        const ls_ratio_side base = {a->items, a->count, one->half[LS_BASE]};
        const ls_ratio_side fresh = {b->items, b->count, one->half[LS_NEW]};
        if (id && json_equal(id, json_object_get(one->row[LS_NEW], "id")) && a->count == b->count &&
            memcmp(a->items, b->items, a->count * sizeof *a->items) == 0)
            one->result = (ls_ratio_result){LS_VERDICT_SAME, 1, {1, 1}, a->count, 0};
        else
            ls_ratio_unpaired(&test, &base, &fresh, drift, &one->result);
    }
}

ls_status ls_regress_read(const ls_regress_task *task, ls_regress *out)
{
    for (int side = 0; side < LS_SIDES; side++) {
        ls_regress_task strict = *task; /* rows with other steps are matched once all are read */
        strict.fixed_steps = true;
        reading r = {&strict, out, side};
        const size_t before = out->count;
        LS_TRY(ls_rows_each("regress", task->side[side], NULL, take, &r));
        bool any = out->count > before;
        for (size_t i = 0; i < out->count && !any; i++)
            any = out->cases[i].row[side];
        if (!any)
            return ls_fail(LS_CODE_MISSING, "regress", task->side[side],
                           "has no row of a case%s; lockstep run --format jsonl prints some",
                           task->where ? " that fits --where" : "");
    }
    LS_TRY(ls_regress_judge(task, out));
    for (size_t i = 0; i < out->count; i++)
        LS_TRY(check_class(task->side[LS_BASE], out->cases[i].row[LS_BASE], task->side[LS_NEW],
                           out->cases[i].row[LS_NEW]));
    judge(task, out);
    return LS_OK;
}
