/* SPDX-License-Identifier: MIT */
/*
 * Cases of a comparison: which rows of two sides are of one case. Two rows are, whose groups `case`
 * are equal; and, of what is left over on both sides, those whose common fields are: one program
 * may know a field that the other does not. How the steps were cut does not matter, and in turns,
 * which fit the number of steps, neither does that.
 */
#include "bench/regress/compared.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_ignored(const ls_regress_task *task, const char *field)
{
    return strcmp(field, "blocks") == 0 || strcmp(field, "devices_asked") == 0 ||
           strcmp(field, "parameters") == 0 || (!task->fixed_steps && strcmp(field, "steps") == 0);
}

/* Whether each field of `a` is in `b`, and equal; `common`: or is not in `b`. */
static bool fields_agree(const ls_regress_task *task, json_t *a, const json_t *b, bool common)
{
    const char *field;
    json_t *value;
    json_object_foreach(a, field, value)
    {
        json_t *other = json_object_get(b, field);
        if (is_ignored(task, field) || (common && !other))
            continue;
        if (!other || !json_equal(value, other))
            return false;
    }
    return true;
}

static bool is_case(const ls_regress_task *task, const json_t *row, const json_t *other,
                    bool common)
{
    json_t *a = json_object_get(row, "case"), *b = json_object_get(other, "case");
    return a && b && fields_agree(task, a, b, common) && fields_agree(task, b, a, common);
}

ls_regress_case *ls_regress_find(const ls_regress *regress, const ls_regress_task *task, int side,
                                 const json_t *row)
{
    for (int look = 0; look < LS_SIDES; look++) /* among its own rows first */
        for (size_t i = 0; i < regress->count; i++)
            if (is_case(task, row, regress->cases[i].row[look ? !side : side], false))
                return &regress->cases[i];
    return NULL;
}

/* ---- Times ---------------------------------------------------------------------------------- */

double ls_regress_time(const json_t *row)
{
    const json_t *step = json_object_get(json_object_get(row, "time"), "step_ms");
    const double median = json_number_value(json_object_get(step, "median"));
    return isfinite(median) && median > 0 ? median : 0;
}

static double half_interval(const json_t *row)
{
    const json_t *step = json_object_get(json_object_get(row, "time"), "step_ms");
    const json_t *ci95 = json_object_get(step, "ci95");
    const double low = json_number_value(json_array_get(ci95, 0));
    const double high = json_number_value(json_array_get(ci95, 1));
    return low > 0 && high >= low ? 0.5 * log(high / low) : 0;
}

ls_status ls_log_push(ls_log_list *list, double value)
{
    if (list->count == list->room) {
        const size_t room = list->room ? 2 * list->room : 16;
        double *items = realloc(list->items, room * sizeof *items);
        if (!items)
            return ls_fail_memory("times", room * sizeof *items);
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = value;
    return LS_OK;
}

/* ---- Rows ----------------------------------------------------------------------------------- */

ls_status ls_regress_add(ls_regress *regress, const ls_regress_task *task, int side,
                         const json_t *row)
{
    bool meant;
    LS_TRY(ls_row_filter_holds(task->where, row, &meant));
    if (!meant || !json_object_get(row, "case"))
        return LS_OK;
    ls_regress_case *one = ls_regress_find(regress, task, side, row);
    if (!one) {
        ls_regress_case *cases =
            realloc(regress->cases, (regress->count + 1) * sizeof *regress->cases);
        if (!cases)
            return ls_fail_memory("cases", sizeof *cases);
        regress->cases = cases;
        one = &cases[regress->count++];
        *one = (ls_regress_case){.worse = json_array(), .differences = json_array()};
    }
    if (!one->row[side]) {
        one->row[side] = json_incref((json_t *)(size_t)row);
        one->half[side] = half_interval(row);
    }
    const double time = ls_regress_time(row);
    return time > 0 ? ls_log_push(&one->logs[side], log(time)) : LS_OK;
}

static void close_case(ls_regress_case *one)
{
    for (int side = 0; side < LS_SIDES; side++) {
        json_decref(one->row[side]);
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

/* What is left over of one side goes to what is left over of the other. */
void ls_regress_join(ls_regress *regress, const ls_regress_task *task)
{
    for (size_t i = 0; i < regress->count; i++) {
        ls_regress_case *base = &regress->cases[i];
        for (size_t j = 0; j < regress->count && base->row[LS_BASE] && !base->row[LS_NEW]; j++) {
            ls_regress_case *other = &regress->cases[j];
            if (other->row[LS_BASE] || !is_case(task, base->row[LS_BASE], other->row[LS_NEW], true))
                continue;
            base->row[LS_NEW] = other->row[LS_NEW];
            base->logs[LS_NEW] = other->logs[LS_NEW];
            base->half[LS_NEW] = other->half[LS_NEW];
            other->row[LS_NEW] = NULL;
            other->logs[LS_NEW] = (ls_log_list){0};
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

static const json_t *group_of(const ls_regress_case *one)
{
    return json_object_get(one->row[LS_NEW] ? one->row[LS_NEW] : one->row[LS_BASE], "case");
}

static bool differs_between(const ls_regress *regress, const char *field)
{
    const json_t *first = json_object_get(group_of(&regress->cases[0]), field);
    for (size_t i = 1; i < regress->count; i++) {
        const json_t *value = json_object_get(group_of(&regress->cases[i]), field);
        if ((value || first) && !json_equal(value, first))
            return true;
    }
    return false;
}

/* Model and strategy, and what else differs between cases. */
static char *make_name(const ls_regress *regress, const ls_regress_case *one)
{
    /* the last four are mostly the model's own */
    static const char *const derived[] = {
        "model",         "strategy", "batch_per_device", "hosts",     "parameters", "blocks",
        "devices_asked", "data",     "batch_global",     "optimizer", "lr"};
    const size_t count = differs_between(regress, "model") ? 11 : 7;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    json_t *group = (json_t *)(size_t)group_of(one), *value;
    const char *field;
    if (!stream)
        return NULL;
    fprintf(stream, "%s %s", json_string_value(json_object_get(group, "model")),
            json_string_value(json_object_get(group, "strategy")));
    json_object_foreach(group, field, value)
    {
        bool is_derived = false;
        for (size_t i = 0; i < count; i++)
            is_derived |= strcmp(field, derived[i]) == 0;
        if (is_derived || !differs_between(regress, field))
            continue;
        char *shown = ls_value_text(value);
        fprintf(stream, " %s=%s", field, shown ? shown : "");
        free(shown);
    }
    fclose(stream);
    return text;
}

ls_status ls_regress_name(ls_regress *regress)
{
    for (size_t i = 0; i < regress->count; i++) {
        regress->cases[i].name = make_name(regress, &regress->cases[i]);
        if (!regress->cases[i].name)
            return ls_fail_memory("names of cases", 0);
    }
    return LS_OK;
}
