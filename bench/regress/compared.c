/* SPDX-License-Identifier: MIT */
/*
 * Matches the rows of both sides by case (bench/output/row_same.h). Rows left on both sides match
 * if their common fields are equal, since one program may not have a field. The number of blocks is
 * ignored, and so are steps where alternating runs choose their number.
 */
#include "bench/output/row_same.h"
#include "bench/regress/regress.h"
#include "bench/report/report.h"
#include "bench/rows/row.h"
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

ls_regress_case *ls_regress_find(const ls_regress *regress, const ls_regress_task *task,
                                 const json_t *row)
{
    for (size_t i = 0; i < regress->count; i++)
        for (int side = 0; side < LS_SIDES; side++)
            if (is_case(task, row, json_array_get(regress->cases[i].rows[side], 0), false))
                return &regress->cases[i];
    return NULL;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

double ls_regress_time(const json_t *row)
{
    ls_interval step;
    ls_row_pace(row, &step);
    return isfinite(step.value) && step.value > 0 ? step.value : 0;
}

ls_status ls_log_push(ls_log_list *list, double value)
{
    LS_TRY(ls_grow("times", &list->items, list->count, sizeof *list->items));
    list->items[list->count++] = value;
    return LS_OK;
}

bool ls_regress_is_ok(const json_t *row)
{
    return strcmp(ls_row_string(row, LS_F_result_status), "ok") == 0;
}

/* Whether the gate, or another check, failed. */
static bool has_failed(const json_t *row)
{
    return json_is_false(ls_row_get(row, LS_F_equivalence_pass)) ||
           strcmp(ls_row_string(row, LS_F_result_status), "failed") == 0;
}

/* The highest row of a side represents its case. On NEW a bad row ranks highest, so that no repeat
 * hides it; on BASE a good one. An interrupted row is repeated, or reported. */
static int rank_of(int side, const json_t *row)
{
    if (strcmp(ls_row_string(row, LS_F_result_status), "interrupted") == 0)
        return 0;
    const int rank = has_failed(row) ? 1 : ls_regress_is_ok(row) ? 3 : 2;
    return side == LS_BASE ? rank : 4 - rank;
}

const json_t *ls_regress_row(const ls_regress_case *one, int side)
{
    const json_t *highest = json_array_get(one->rows[side], 0);
    json_t *row;
    size_t index;
    json_array_foreach(one->rows[side], index, row)
    {
        if (rank_of(side, row) > rank_of(side, highest))
            highest = row;
    }
    return highest;
}

const json_t *ls_regress_either(const ls_regress_case *one)
{
    return ls_regress_row(one, json_array_size(one->rows[LS_NEW]) > 0 ? LS_NEW : LS_BASE);
}

/* ---- Cases ---------------------------------------------------------------------------------- */

static ls_status add_case(ls_regress *regress, ls_regress_case **out)
{
    LS_TRY(ls_grow("cases", &regress->cases, regress->count, sizeof *regress->cases));
    *out = &regress->cases[regress->count++];
    **out = (ls_regress_case){
        .rows = {json_array(), json_array()}, .worse = json_array(), .differences = json_array()};
    return LS_OK;
}

ls_status ls_regress_add(ls_regress *regress, const ls_regress_task *task, int side,
                         const json_t *rows)
{
    json_auto_t *meant = json_array();
    json_t *row;
    size_t index;
    LS_TRY(ls_selection_of(&task->where, rows, meant));
    json_array_foreach(meant, index, row)
    {
        const double time = ls_regress_time(row);
        if (!ls_row_group(row, LS_G_case))
            continue;
        ls_regress_case *one = ls_regress_find(regress, task, row);
        if (!one)
            LS_TRY(add_case(regress, &one));
        json_array_append(one->rows[side], row);
        if (time > 0)
            LS_TRY(ls_log_push(&one->logs[side], log(time)));
    }
    return LS_OK;
}

ls_status ls_regress_repeat(ls_regress *regress, size_t count, double slowed)
{
    for (size_t i = 0; i < count; i++) {
        ls_regress_case *copy = NULL;
        LS_TRY(add_case(regress, &copy));
        const ls_regress_case *one = &regress->cases[i];
        copy->slowed = slowed;
        copy->decided = one->decided;
        copy->name = strdup(one->name);
        for (int side = 0; side < LS_SIDES; side++)
            json_array_extend(copy->rows[side], one->rows[side]);
        if (!copy->name)
            return ls_fail_memory("names of cases", 0);
    }
    return LS_OK;
}

static void close_case(ls_regress_case *one)
{
    for (int side = 0; side < LS_SIDES; side++) {
        json_decref(one->rows[side]);
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
    json_decref(regress->known);
    *regress = (ls_regress){0};
}

/* Gives a case of BASE the first case of NEW that is left and agrees in the common fields, and
 * leaves that case of NEW empty. */
static void join(ls_regress *regress, const ls_regress_task *task, ls_regress_case *base)
{
    for (size_t i = 0; i < regress->count && json_array_size(base->rows[LS_NEW]) == 0; i++) {
        ls_regress_case *other = &regress->cases[i];
        if (json_array_size(other->rows[LS_BASE]) > 0 ||
            !is_case(task, ls_regress_row(base, LS_BASE), ls_regress_row(other, LS_NEW), true))
            continue;
        json_array_extend(base->rows[LS_NEW], other->rows[LS_NEW]);
        json_array_clear(other->rows[LS_NEW]);
        base->logs[LS_NEW] = other->logs[LS_NEW];
        other->logs[LS_NEW] = (ls_log_list){0};
    }
}

static ls_status name_cases(ls_regress *regress)
{
    json_auto_t *rows = json_array();
    json_auto_t *names = NULL;
    for (size_t i = 0; i < regress->count; i++)
        json_array_append(rows, (json_t *)(size_t)ls_regress_either(&regress->cases[i]));
    LS_TRY(ls_report_names(rows, &names));
    for (size_t i = 0; i < regress->count; i++) {
        const json_t *row = json_array_get(rows, i);
        const char *label = "";
        json_unpack(json_array_get(names, i), "{s:s}", "name", &label);
        const char *model = ls_row_string(row, LS_F_case_model);
        const char *rest = label + strspn(label, " "); /* either may be missing */
        if (asprintf(&regress->cases[i].name, "%s%s%s", model, *model && *rest ? " " : "", rest) <
            0)
            return ls_fail_memory("names of cases", 0);
    }
    return LS_OK;
}

ls_status ls_regress_judge(const ls_regress_task *task, ls_regress *regress)
{
    size_t count = 0;
    for (size_t i = 0; i < regress->count; i++)
        join(regress, task, &regress->cases[i]);
    for (size_t i = 0; i < regress->count; i++) {
        if (ls_regress_either(&regress->cases[i]))
            regress->cases[count++] = regress->cases[i];
        else
            close_case(&regress->cases[i]);
    }
    regress->count = count;
    if (count == 0)
        return ls_fail(LS_CODE_MISSING, "regress", task->side[LS_NEW],
                       "there is no case to compare, since no row has a time%s; name a file with "
                       "rows of lockstep run",
                       task->where.narrows ? ", or no row with a time matches --where" : "");
    for (size_t i = 0; i < count; i++) {
        LS_TRY(ls_regress_judge_case(task, regress, &regress->cases[i]));
        regress->cases[i].decided |= regress->cases[i].error != NULL;
    }
    for (size_t k = 0; k < task->fail_count; k++) /* a key that no row has would always pass */
        if (json_object_get(regress->known, "") &&
            !json_object_get(regress->known, task->fail_on[k].path))
            return ls_fail(LS_CODE_USAGE, "--fail-on", task->fail_on[k].path,
                           "no row of either side has this key; name a key that the rows have");
    return name_cases(regress);
}

/* ---- A comparison from its beginning to its end --------------------------------------------- */

static ls_status compare(const ls_regress_task *task, ls_regress *out)
{
    const bool files = ls_regress_is_file(task->side[LS_BASE]);
    if (files != ls_regress_is_file(task->side[LS_NEW]))
        return ls_fail(LS_CODE_USAGE, "regress", task->side[files],
                       "this is a program, but %s is a results file; name two programs or two "
                       "files (PROGRAM run --format jsonl > FILE makes a file)",
                       task->side[!files]);
    if (files && (task->option_count > 0 || task->instructions))
        return ls_fail(LS_CODE_USAGE, "option",
                       task->instructions ? "--instructions" : task->options[0],
                       "applies only to two programs, but two results files are compared; remove "
                       "this option (--where chooses cases)");
    if (files)
        return ls_regress_read(task, out);
    LS_TRY(ls_regress_can_count(task));
    LS_TRY(ls_regress_turns(task, out));
    return task->instructions ? ls_regress_instructions(task, &out->instructions) : LS_OK;
}

ls_status ls_regress_compare(const ls_regress_task *task, ls_regress *out)
{
    const uint64_t begin = ls_clock_ns();
    *out = (ls_regress){.known = json_object()};
    LS_TRY(compare(task, out));
    out->seconds = (double)(ls_clock_ns() - begin) * 1e-9;
    for (size_t i = 0; i < out->count; i++) { /* nothing measured is not a pass */
        ls_regress_case *one = &out->cases[i];
        if (one->result.blocks == 0 && !one->error && json_array_size(one->worse) == 0)
            one->error = strdup("no block was measured on both sides");
    }
    return LS_OK;
}
