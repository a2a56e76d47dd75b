/* SPDX-License-Identifier: MIT */
/*
 * Which figures besides time became worse: a gate that passed and now fails, more bytes, messages
 * or memory by formula, and the keys of --fail-on. Other differences are only reported. Larger is
 * worse, except for accuracy, rates and the like; of a text, any change is worse. Of several rows
 * of a side the worst number counts, and each text: a new row is worse if it is so than all base
 * rows. If the label of a base row begins "intended KEY, KEY" (a baseline that was renewed with a
 * reason), a change of these keys is only reported.
 */
#include "bench/output/value_order.h"
#include "bench/regress/compared.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Figures that fail, and figures that are only reported; memory.formula is summed here. */
static const char *const failing[] = {"traffic.bytes_sent", "traffic.messages_sent",
                                      "memory.formula"};
static const char *const reported[] = {"program.nodes",  "program.bytes",   "memory.devices.peak",
                                       "train.accuracy", "train.evaluated", "equivalence.grade",
                                       "train.loss_last"};

__attribute__((format(printf, 2, 3))) static void set_error(ls_regress_case *one, const char *why,
                                                            ...)
{
    va_list arguments;
    va_start(arguments, why);
    if (!one->error && vasprintf(&one->error, why, arguments) < 0)
        one->error = strdup("cannot be compared");
    va_end(arguments);
}

/* The sum of the devices' memory formulas. */
static json_t *sum_formulas(const json_t *row)
{
    const json_t *devices = json_object_get(json_object_get(row, "memory"), "devices");
    json_int_t sum = 0;
    bool any = false;
    for (size_t i = 0; i < json_array_size(devices); i++) {
        json_t *formula = json_object_get(json_array_get(devices, i), "formula"), *value;
        const char *name;
        json_object_foreach(formula, name, value)
        {
            if (strcmp(name, "peak") != 0 && json_is_integer(value)) {
                sum += json_integer_value(value);
                any = true;
            }
        }
    }
    return any ? json_integer(sum) : NULL;
}

/* For memory.devices, each device's value, not only the fullest one's. */
static json_t *value_of(const json_t *row, const char *path)
{
    return strcmp(path, "memory.formula") == 0 ? sum_formulas(row) : ls_row_find(row, path);
}

static bool larger_is_better(const char *path)
{
    const ls_field *field = ls_field_find(path);
    return field && field->worse == LS_WORSE_LESS;
}

/* Whether the new value, or the value of any device, is worse by more than the tolerance. A
 * missing or new figure is. */
static bool is_worse(const char *path, const json_t *base, const json_t *fresh, double tolerance)
{
    if (json_is_array(base) && json_array_size(base) == json_array_size(fresh)) {
        bool any = false;
        for (size_t i = 0; i < json_array_size(base); i++)
            any |= is_worse(path, json_array_get(base, i), json_array_get(fresh, i), tolerance);
        return any;
    }
    if (!json_is_number(base) || !json_is_number(fresh))
        return !ls_value_equal(base, fresh);
    const bool better = larger_is_better(path);
    if (!(tolerance > 0))
        return ls_number_order(fresh, base) * (better ? -1 : 1) > 0;
    const double x = json_number_value(base), y = json_number_value(fresh);
    return (better ? x - y : y - x) > tolerance * fabs(x) + 1e-12 * fabs(x);
}

/* Whether the label is "intended KEY, KEY: reason" and lists this key. */
static bool is_intended(const json_t *base_row, const char *path)
{
    static const char head[] = "intended";
    const char *next = json_string_value(json_object_get(base_row, "label"));
    if (!next || strncmp(next, head, sizeof head - 1) != 0)
        return false;
    for (next += sizeof head - 1; *next == ' ' || *next == ',';) {
        next += strspn(next, " ,");
        const size_t length = strcspn(next, " ,:");
        ls_row_key key = {""};
        ls_status_free(ls_row_key_find("label", next, length, &key));
        if ((length == strlen(path) && strncmp(next, path, length) == 0) ||
            strcmp(key.path, path) == 0)
            return true;
        next += length;
    }
    return false;
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

/* The worse of two numbers, or of two lists, element by element: a new reference; NULL: another
 * kind of value. */
static json_t *worse_of(const char *path, json_t *a, json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_incref(is_worse(path, a, b, 0) ? b : a);
    const size_t count = json_array_size(a);
    if (!json_is_array(a) || !json_is_array(b) || count != json_array_size(b))
        return NULL;
    json_t *out = json_array();
    for (size_t i = 0; i < count && out; i++) {
        json_t *one = worse_of(path, json_array_get(a, i), json_array_get(b, i));
        if (one)
            json_array_append_new(out, one);
        else
            json_decref(out);
        out = one ? out : NULL;
    }
    return out;
}

/* Adds a value to a side's; null: a row lacks it. */
static void note_value(const char *path, json_t *values, json_t *value)
{
    for (size_t i = 0; i < json_array_size(values); i++) {
        json_t *known = json_array_get(values, i), *worst = worse_of(path, known, value);
        if (worst)
            json_array_set_new(values, i, worst);
        if (worst || ls_value_equal(known, value))
            return;
    }
    json_array_append(values, value);
}

static void note_figure(json_t *figures, const json_t *row, const char *path)
{
    json_t *value = value_of(row, path), *values = json_object_get(figures, path);
    if (!values)
        json_object_set_new(figures, path, values = json_array());
    value = value ? value : json_null();
    note_value(path, values, value);
    json_decref(value);
}

void ls_regress_note(const ls_regress_task *task, ls_regress_case *one, int side, const json_t *row)
{
    json_t *figures = one->figures[side];
    if (strcmp(ls_regress_status(row), "ok") != 0)
        return;
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++)
        note_figure(figures, row, failing[i]);
    for (size_t i = 0; i < task->fail_count; i++)
        note_figure(figures, row, task->fail_on[i].key.path);
    for (size_t i = 0; i < sizeof reported / sizeof *reported; i++)
        note_figure(figures, row, reported[i]);
}

/* The first value that no value of the other list equals or, if `worse`, is as bad as; NULL: none.
 */
static json_t *find_other(const char *path, const json_t *values, const json_t *others, bool worse,
                          double tolerance)
{
    for (size_t i = 0; i < json_array_size(values); i++) {
        json_t *value = json_array_get(values, i);
        bool known = false;
        for (size_t k = 0; k < json_array_size(others) && !known; k++) {
            const json_t *other = json_array_get(others, k);
            known = worse ? !is_worse(path, other, value, tolerance) : ls_value_equal(other, value);
        }
        if (!known)
            return value;
    }
    return NULL;
}

/* NULL: no row has the figure. */
static json_t *first_known(const json_t *values)
{
    size_t i = 0;
    while (json_is_null(json_array_get(values, i)))
        i++;
    return json_array_get(values, i);
}

static void compare_key(ls_regress_case *one, const char *path, bool fails, double tolerance)
{
    const json_t *all = json_object_get(one->figures[LS_BASE], path);
    const json_t *news = json_object_get(one->figures[LS_NEW], path);
    json_t *base = first_known(all), *fresh = find_other(path, news, all, true, tolerance);
    const bool worse = fresh;
    if (!worse && !(fresh = find_other(path, news, all, false, 0))) {
        fresh = json_array_get(news, 0);
        base = find_other(path, all, news, false, 0);
    }
    base = json_is_null(base) ? NULL : base;
    fresh = json_is_null(fresh) ? NULL : fresh;
    /* an older program may not have the field yet: not worse */
    const bool fail =
        fails && worse && (base || json_is_string(fresh)) && !is_intended(one->row[LS_BASE], path);
    if (fail && !is_noted(one->worse, path))
        note(one->worse, path, base, fresh);
    else if ((worse || (base && fresh)) && !is_noted(one->worse, path) &&
             !is_noted(one->differences, path))
        note(one->differences, path, base, fresh);
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

static const char *reason_of(const json_t *row)
{
    const char *text = json_string_value(json_object_get(json_object_get(row, "result"), "reason"));
    return text ? text : "no reason is given";
}

bool ls_regress_failed(const json_t *row)
{
    return json_is_false(json_object_get(json_object_get(row, "equivalence"), "pass")) ||
           strcmp(ls_regress_status(row), "failed") == 0;
}

void ls_regress_judge_case(const ls_regress_task *task, ls_regress_case *one)
{
    const json_t *base = one->row[LS_BASE], *fresh = one->row[LS_NEW];
    for (int side = 0; side < LS_SIDES; side++)
        if (!one->row[side])
            set_error(one, "is missing in %s", task->side[side]);
    if (!base || !fresh)
        return;
    if (ls_regress_failed(fresh) && !ls_regress_failed(base)) {
        json_array_append_new(one->worse,
                              json_pack("{s:s,s:s,s:s,s:s}", "key", "result.status", "base",
                                        ls_regress_status(base), "new", ls_regress_status(fresh),
                                        "reason", reason_of(fresh)));
        one->decided = true;
        return;
    }
    for (int side = 0; side < LS_SIDES; side++) {
        const json_t *row = one->row[side];
        if (strcmp(ls_regress_status(row), "ok") != 0)
            set_error(one, "is %s in %s: %s", ls_regress_status(row), task->side[side],
                      reason_of(row));
        else if (one->logs[side].count == 0)
            set_error(one, "has no time in %s: nothing was measured", task->side[side]);
    }
    if (!one->error)
        compare_figures(task, one);
}

/* A key of --fail-on that occurs in no row would always pass. */
static ls_status check_keys(const ls_regress_task *task, const ls_regress *regress)
{
    for (size_t k = 0; k < task->fail_count; k++) {
        bool found = regress->count == 0, any_ok = false;
        for (size_t i = 0; i < LS_SIDES * regress->count && !found; i++) {
            const json_t *figures = regress->cases[i / LS_SIDES].figures[i % LS_SIDES];
            any_ok |= json_object_size(figures) > 0;
            found = first_known(json_object_get(figures, task->fail_on[k].key.path));
        }
        if (!found && any_ok)
            return ls_fail(
                LS_CODE_USAGE, "--fail-on", task->fail_on[k].key.path,
                "is in no row of either side, so it compares nothing; name a key that a row has");
    }
    return LS_OK;
}

ls_status ls_regress_judge(const ls_regress_task *task, ls_regress *regress)
{
    LS_TRY(check_keys(task, regress));
    ls_regress_join(regress, task);
    for (size_t i = 0; i < regress->count; i++) {
        ls_regress_judge_case(task, &regress->cases[i]);
        regress->cases[i].decided |= regress->cases[i].error != NULL;
    }
    if (regress->count == 0)
        return ls_fail(LS_CODE_MISSING, "regress", task->side[LS_NEW],
                       "there is no case to compare: no row has a time%s",
                       task->where ? ", or none of these fits --where" : "");
    return ls_regress_name(regress);
}
