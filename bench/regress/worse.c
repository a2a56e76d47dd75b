/* SPDX-License-Identifier: MIT */
/*
 * What is worse besides the time, in the first rows of a case: a gate that passed and fails, more
 * bytes, messages or memory by formula, and what --fail-on names. Other figures that differ are
 * reported. Larger is worse, but for accuracy, rates and the like; of a text, any other one.
 * A row of the base whose label begins "intended KEY" (a baseline that was renewed with a reason)
 * says that this key may become worse: it is reported then.
 */
#include "bench/regress/compared.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Figures that fail, and that are reported; memory.formula is added up here. */
static const char *const failing[] = {"traffic.bytes_sent", "traffic.messages_sent",
                                      "memory.formula"};
static const char *const reported[] = {"program.nodes",  "program.bytes",     "memory.devices.peak",
                                       "train.accuracy", "equivalence.grade", "train.loss_last"};

static void set_error(ls_regress_case *one, const char *why, ...)
    __attribute__((format(printf, 2, 3)));

static void set_error(ls_regress_case *one, const char *why, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(text, sizeof text, why, arguments);
    va_end(arguments);
    if (!one->error)
        one->error = strdup(text);
}

/* The sum over the devices of what the formulas say. */
static json_t *sum_formulas(const json_t *row)
{
    const json_t *devices = json_object_get(json_object_get(row, "memory"), "devices");
    double sum = 0;
    bool any = false;
    for (size_t i = 0; i < json_array_size(devices); i++) {
        json_t *formula = json_object_get(json_array_get(devices, i), "formula"), *value;
        const char *name;
        json_object_foreach(formula, name, value)
        {
            if (strcmp(name, "peak") != 0 && json_is_number(value)) {
                sum += json_number_value(value);
                any = true;
            }
        }
    }
    return any ? json_integer((json_int_t)sum) : NULL;
}

static json_t *value_of(const json_t *row, const char *path)
{
    return strcmp(path, "memory.formula") == 0 ? sum_formulas(row) : ls_row_value(row, path);
}

static bool larger_is_better(const char *path)
{
    static const char *const names[] = {"accuracy",   "samples_per_s", "samples_per_s_mean",
                                        "efficiency", "speedup",       "mfu"};
    const char *last = strrchr(path, '.');
    last = last ? last + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(last, names[i]) == 0)
            return true;
    return false;
}

/* Whether the new value is worse by more than the tolerance. A figure that is gone, or new, is. */
static bool is_worse(const char *path, const json_t *base, const json_t *fresh, double tolerance)
{
    if (!base || !fresh || !json_is_number(base) || !json_is_number(fresh))
        return (base || fresh) && !(base && fresh && json_equal(base, fresh));
    const double x = json_number_value(base), y = json_number_value(fresh);
    const double by = larger_is_better(path) ? x - y : y - x;
    return by > tolerance * fabs(x) + 1e-12 * fabs(x);
}

static bool is_intended(const json_t *base_row, const char *path)
{
    static const char head[] = "intended ";
    const char *label = json_string_value(json_object_get(base_row, "label"));
    if (!label || strncmp(label, head, sizeof head - 1) != 0)
        return false;
    label += sizeof head - 1;
    const size_t length = strlen(path);
    return strncmp(label, path, length) == 0 && (!label[length] || strchr(" :,", label[length]));
}

static void note(json_t *list, const char *path, json_t *base, json_t *fresh)
{
    json_array_append_new(list,
                          json_pack("{s:s,s:O*,s:O*}", "key", path, "base", base, "new", fresh));
}

static bool is_noted(const json_t *list, const char *path)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(list, i), "key")), path) == 0)
            return true;
    return false;
}

static void compare_key(ls_regress_case *one, const char *path, bool fails, double tolerance)
{
    json_t *base = value_of(one->row[LS_BASE], path), *fresh = value_of(one->row[LS_NEW], path);
    const bool worse = is_worse(path, base, fresh, tolerance);
    const bool differs = worse || (base && fresh && !json_equal(base, fresh));
    /* a field that an older program does not have yet is no loss */
    const bool fail =
        fails && worse && (base || json_is_string(fresh)) && !is_intended(one->row[LS_BASE], path);
    if (fail && !is_noted(one->worse, path))
        note(one->worse, path, base, fresh);
    else if (differs && !is_noted(one->worse, path) && !is_noted(one->differences, path))
        note(one->differences, path, base, fresh);
    json_decref(base);
    json_decref(fresh);
}

static void compare_figures(const ls_regress_task *task, ls_regress_case *one)
{
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++)
        compare_key(one, failing[i], true, 0);
    for (size_t i = 0; i < task->fail_count; i++)
        compare_key(one, task->fail_on[i].key.path, true, task->fail_on[i].tolerance);
    for (size_t i = 0; i < sizeof reported / sizeof *reported; i++)
        compare_key(one, reported[i], false, 0);
}

/* ---- Whether there is anything to compare --------------------------------------------------- */

static const char *status_of(const json_t *row)
{
    const char *text = json_string_value(json_object_get(json_object_get(row, "result"), "status"));
    return text ? text : "unknown";
}

static const char *reason_of(const json_t *row)
{
    const char *text = json_string_value(json_object_get(json_object_get(row, "result"), "reason"));
    return text ? text : "no reason is given";
}

static bool gate_fails(const json_t *row)
{
    return json_is_false(json_object_get(json_object_get(row, "equivalence"), "pass")) ||
           strcmp(status_of(row), "failed") == 0;
}

static void settle_case(const ls_regress_task *task, ls_regress_case *one)
{
    const json_t *base = one->row[LS_BASE], *fresh = one->row[LS_NEW];
    for (int side = 0; side < LS_SIDES; side++)
        if (!one->row[side])
            set_error(one, "is missing in %s", task->side[side]);
    if (one->error)
        return;
    if (gate_fails(fresh) && !gate_fails(base)) {
        json_array_append_new(one->worse, json_pack("{s:s,s:s,s:s,s:s}", "key", "result.status",
                                                    "base", status_of(base), "new",
                                                    status_of(fresh), "reason", reason_of(fresh)));
        one->told = true;
        return;
    }
    for (int side = 0; side < LS_SIDES; side++) {
        const json_t *row = one->row[side];
        if (strcmp(status_of(row), "ok") != 0)
            set_error(one, "is %s in %s: %s", status_of(row), task->side[side], reason_of(row));
        else if (one->logs[side].count == 0)
            set_error(one, "has no time in %s: nothing was measured", task->side[side]);
    }
    if (!one->error)
        compare_figures(task, one);
}

ls_status ls_regress_settle(const ls_regress_task *task, ls_regress *regress)
{
    ls_regress_join(regress, task);
    for (size_t i = 0; i < regress->count; i++) {
        settle_case(task, &regress->cases[i]);
        regress->cases[i].told |= regress->cases[i].error != NULL;
    }
    if (regress->count == 0)
        return ls_fail(LS_CODE_MISSING, "regress", task->side[LS_NEW],
                       "there is no case to compare: nothing was measured%s",
                       task->where ? ", or nothing of it fits --where" : "");
    return ls_regress_name(regress);
}
