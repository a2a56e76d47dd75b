/* SPDX-License-Identifier: MIT */
/*
 * Matches the rows of both sides by case (bench/output/row_same.h). Of the rows left on both sides,
 * those match whose common fields are equal, since one program may lack a field. The number of
 * blocks is ignored, and so are steps where alternating runs choose their number.
 */
#include "bench/regress/compared.h"
#include "bench/output/row_same.h"
#include "bench/report/case_keys.h"
#include "common/base/clock.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_case(const ls_regress_task *task, const json_t *row, const json_t *other,
                    bool common)
{
    const unsigned but = LS_BUT_BLOCKS | (task->fixed_steps ? LS_BUT_TRAINED : LS_BUT_STEPS);
    return ls_row_same_case(row, other, but, common);
}

ls_regress_case *ls_regress_find(const ls_regress *regress, const ls_regress_task *task, int side,
                                 const json_t *row)
{
    for (int look = 0; look < LS_SIDES; look++) /* first among its own side's rows */
        for (size_t i = 0; i < regress->count; i++)
            if (is_case(task, row, regress->cases[i].row[look ? !side : side], false))
                return &regress->cases[i];
    return NULL;
}

/* ---- Times ---------------------------------------------------------------------------------- */

double ls_regress_time(const json_t *row)
{
    ls_interval step;
    ls_row_pace(row, &step);
    return isfinite(step.value) && step.value > 0 ? step.value : 0;
}

/* 0: the row has no interval. */
static double half_interval(const json_t *row)
{
    ls_interval step;
    return ls_row_pace(row, &step) ? 0.5 * log(step.high / step.low) : 0;
}

ls_status ls_log_push(ls_log_list *list, double value)
{
    LS_TRY(ls_grow("times", &list->items, list->count, sizeof *list->items));
    list->items[list->count++] = value;
    return LS_OK;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

const char *ls_regress_status(const json_t *row)
{
    const char *text = json_string_value(json_object_get(json_object_get(row, "result"), "status"));
    return text ? text : "unknown";
}

/* Rank of a row: the highest one of a side represents its case. On NEW a bad row ranks highest, so
 * that no repeat hides it; on BASE a good one. An interrupted row is repeated, or reported. */
static int rank_of(int side, const json_t *row)
{
    const char *status = ls_regress_status(row);
    if (strcmp(status, "interrupted") == 0)
        return 0;
    const int rank = ls_regress_failed(row) ? 1 : strcmp(status, "ok") == 0 ? 3 : 2;
    return side == LS_BASE ? rank : 4 - rank;
}

static void set_row(ls_regress_case *one, int side, const json_t *row)
{
    json_decref(one->row[side]);
    one->row[side] = json_incref((json_t *)(size_t)row);
}

void ls_regress_replace(const ls_regress_task *task, ls_regress_case *one, int side,
                        const json_t *row)
{
    if (!one->row[side] || strcmp(ls_regress_status(one->row[side]), "ok") != 0)
        return;
    set_row(one, side, row);
    ls_regress_judge_case(task, one);
    one->decided = true;
}

static ls_status add_case(ls_regress *regress, ls_regress_case **out)
{
    LS_TRY(ls_grow("cases", &regress->cases, regress->count, sizeof *regress->cases));
    *out = &regress->cases[regress->count++];
    **out = (ls_regress_case){.worse = json_array(), .differences = json_array()};
    for (int side = 0; side < LS_SIDES; side++)
        (*out)->figures[side] = json_object();
    return LS_OK;
}

ls_status ls_regress_add(ls_regress *regress, const ls_regress_task *task, int side,
                         const json_t *row)
{
    bool meant;
    LS_TRY(ls_row_filter_holds(task->where, row, &meant));
    if (!meant || !json_object_get(row, "case") || !ls_row_filter_mixes(task->where, row))
        return LS_OK;
    ls_regress_case *one = ls_regress_find(regress, task, side, row);
    if (!one)
        LS_TRY(add_case(regress, &one));
    if (!one->row[side] || rank_of(side, row) > rank_of(side, one->row[side]))
        set_row(one, side, row);
    ls_regress_note(task, one, side, row);
    if (one->half[side] <= 0)
        one->half[side] = half_interval(row);
    const double time = ls_regress_time(row);
    return time > 0 ? ls_log_push(&one->logs[side], log(time)) : LS_OK;
}

ls_status ls_regress_repeat(ls_regress *regress, size_t count, double slowed)
{
    for (size_t i = 0; i < count; i++) {
        ls_regress_case *copy = NULL, *one;
        LS_TRY(add_case(regress, &copy));
        one = &regress->cases[i];
        copy->slowed = slowed;
        copy->decided = one->decided;
        copy->name = strdup(one->name);
        for (int side = 0; side < LS_SIDES; side++) {
            copy->row[side] = json_incref(one->row[side]);
            json_object_update(copy->figures[side], one->figures[side]);
        }
        if (!copy->name)
            return ls_fail_memory("names of cases", 0);
    }
    return LS_OK;
}

static void close_case(ls_regress_case *one)
{
    for (int side = 0; side < LS_SIDES; side++) {
        json_decref(one->row[side]);
        json_decref(one->figures[side]);
        free(one->logs[side].items);
    }
    json_decref(one->worse);
    json_decref(one->differences);
    free(one->name);
    free(one->error);
}

void ls_regress_close(ls_regress *regress)
{
    for (size_t i = 0; i < regress->count; i++)
        close_case(&regress->cases[i]);
    free(regress->cases);
    json_decref(regress->instructions);
    *regress = (ls_regress){0};
}

/* Matches the rows that are left on both sides. */
void ls_regress_join(ls_regress *regress, const ls_regress_task *task)
{
    for (size_t i = 0; i < regress->count; i++) {
        ls_regress_case *base = &regress->cases[i];
        for (size_t j = 0; j < regress->count && base->row[LS_BASE] && !base->row[LS_NEW]; j++) {
            ls_regress_case *other = &regress->cases[j];
            if (other->row[LS_BASE] || !is_case(task, base->row[LS_BASE], other->row[LS_NEW], true))
                continue;
            base->row[LS_NEW] = other->row[LS_NEW];
            json_object_update(base->figures[LS_NEW], other->figures[LS_NEW]);
            base->logs[LS_NEW] = other->logs[LS_NEW];
            base->half[LS_NEW] = other->half[LS_NEW];
            other->row[LS_NEW] = NULL;
            other->logs[LS_NEW].items = NULL;
            close_case(other);
            memmove(other, other + 1, (regress->count - j - 1) * sizeof *other);
            regress->count--;
            if (j < i)
                i--;
            break;
        }
    }
}

/* ---- Names ---------------------------------------------------------------------------------- */

static const json_t *row_of(const ls_regress_case *one)
{
    return one->row[LS_NEW] ? one->row[LS_NEW] : one->row[LS_BASE];
}

static const json_t *model_of(const ls_regress_case *one)
{
    return json_object_get(json_object_get(row_of(one), "case"), "model");
}

ls_status ls_regress_name(ls_regress *regress)
{
    json_t *rows = json_array();
    bool sizes = false, failed = false;
    for (size_t i = 0; i < regress->count; i++) {
        const json_t *row = row_of(&regress->cases[i]);
        sizes |= ls_report_devices(row) != ls_report_devices(row_of(regress->cases));
        json_array_append(rows, (json_t *)(size_t)row);
    }
    json_t *differences = ls_report_differences(rows, "case.model", NULL);
    for (size_t i = 0; i < regress->count; i++) {
        char label[LS_LABEL_SIZE];
        ls_regress_case *one = &regress->cases[i];
        ls_report_label(row_of(one), differences, sizes, NULL, label);
        failed |= asprintf(&one->name, "%s %s", json_string_value(model_of(one)), label) < 0;
    }
    json_decref(differences);
    json_decref(rows);
    return failed ? ls_fail_memory("names of cases", 0) : LS_OK;
}

/* ---- A comparison from its beginning to its end --------------------------------------------- */

static ls_status compare(const ls_regress_task *task, ls_regress *out)
{
    const bool files = ls_regress_is_file(task->side[LS_BASE]);
    if (files != ls_regress_is_file(task->side[LS_NEW]))
        return ls_fail(LS_CODE_USAGE, "regress", task->side[files],
                       "is a program and %s a results file; give two programs or two files "
                       "(PROGRAM run --format jsonl prints the rows of a file)",
                       task->side[!files]);
    if (files && (task->option_count > 0 || task->instructions))
        return ls_fail(LS_CODE_USAGE, "option",
                       task->instructions ? "--instructions" : task->options[0],
                       "applies to programs that are run, and both sides are results files; use "
                       "--where to choose cases");
    if (files)
        return ls_regress_read(task, out);
    LS_TRY(ls_regress_can_count(task));
    LS_TRY(ls_regress_turns(task, out));
    return task->instructions ? ls_regress_instructions(task, &out->instructions) : LS_OK;
}

ls_status ls_regress_compare(const ls_regress_task *task, ls_regress *out)
{
    const uint64_t begin = ls_clock_ns();
    *out = (ls_regress){0};
    LS_TRY(compare(task, out));
    out->seconds = (double)(ls_clock_ns() - begin) * 1e-9;
    for (size_t i = 0; i < out->count; i++) { /* nothing measured is not a pass */
        ls_regress_case *one = &out->cases[i];
        if (one->result.blocks == 0 && !one->error && json_array_size(one->worse) == 0)
            one->error = strdup("no block was measured on both sides");
    }
    return LS_OK;
}
