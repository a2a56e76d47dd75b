/* SPDX-License-Identifier: MIT */
/*
 * Which figures besides time became worse: a gate that passed and now fails, more bytes, messages
 * or memory by formula, and the keys of --fail-on. Other differences are only reported. Which way
 * is worse is said in bench/rows/fields.def; of a text, any change is worse. Of several rows of a
 * side the worst number counts, and each text: a new row is worse if it is so than all base rows.
 * If the label of a base row begins "intended KEY, KEY" (a baseline that was renewed with a
 * reason), a change of these keys is only reported.
 */
#include "bench/output/format.h"
#include "bench/regress/regress.h"
#include "bench/rows/row.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Values --------------------------------------------------------------------------------- */

/* No field of a row: the sum of what formulas say of the devices' memory. */
static const char memory_formula[] = "memory.formula";

/* Each device's value; NULL: none has one. */
static json_t *values_of_devices(const json_t *row, ls_field_number field)
{
    json_auto_t *values = json_array();
    json_t *device;
    size_t index;
    json_array_foreach(ls_row_group(row, LS_G_memory_devices), index, device)
    {
        json_array_append(values, ls_row_get(device, field)); /* nothing of NULL */
    }
    return json_array_size(values) > 0 ? json_incref(values) : NULL;
}

/* A new reference; NULL: the row lacks it. */
static json_t *value_of(const json_t *row, const char *path)
{
    const ls_field *field = ls_field_find(path);
    json_int_t sum = 0;
    json_t *device, *value;
    size_t index, count = 0;
    const char *name;
    if (field && ls_field_group_of(path, LS_GROUP_FULLEST))
        return values_of_devices(row, (ls_field_number)(field - ls_fields));
    if (strcmp(path, memory_formula) != 0)
        return ls_row_value(row, path);
    json_array_foreach(ls_row_group(row, LS_G_memory_devices), index, device)
    {
        json_object_foreach(ls_row_group(device, LS_G_memory_devices_formula), name, value)
        {
            const bool part = strcmp(name, "peak") != 0 && json_is_integer(value);
            sum += part ? json_integer_value(value) : 0;
            count += part;
        }
    }
    return count > 0 ? json_integer(sum) : NULL;
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
    const ls_field *field = ls_field_find(path);
    const int sign = field && field->worse == LS_WORSE_LESS ? -1 : 1;
    if (!(tolerance > 0))
        return sign * ls_number_order(fresh, base) > 0;
    const double x = json_number_value(base), y = json_number_value(fresh);
    return sign * (y - x) > tolerance * fabs(x) + 1e-12 * fabs(x);
}

/* The worse of two numbers, or of two lists, element by element: a new reference; NULL: another
 * kind of value. */
static json_t *worse_of(const char *path, json_t *a, json_t *b)
{
    if (json_is_number(a) && json_is_number(b))
        return json_incref(is_worse(path, a, b, 0) ? b : a);
    const size_t count = json_array_size(a);
    bool known = json_is_array(a) && json_is_array(b) && count == json_array_size(b);
    json_t *out = json_array();
    for (size_t i = 0; i < count && known; i++)
        known = json_array_append_new(
                    out, worse_of(path, json_array_get(a, i), json_array_get(b, i))) == 0;
    if (!known)
        json_decref(out);
    return known ? out : NULL;
}

/* The different values of rows that are ok, of numbers only the worst; null of a row without. */
static json_t *values_of(const json_t *rows, const char *path)
{
    json_t *values = json_array(), *row;
    size_t index;
    json_array_foreach(rows, index, row)
    {
        json_auto_t *value = ls_regress_is_ok(row) ? value_of(row, path) : NULL;
        bool known = !ls_regress_is_ok(row);
        value = value ? value : json_null();
        for (size_t i = 0; i < json_array_size(values) && !known; i++) {
            json_t *other = json_array_get(values, i), *worst = worse_of(path, other, value);
            known = worst || ls_value_equal(other, value);
            if (worst)
                json_array_set_new(values, i, worst);
        }
        if (!known)
            json_array_append(values, value);
    }
    return values;
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

/* ---- Comparing ------------------------------------------------------------------------------ */

/* Whether the label is "intended KEY, KEY: reason" and lists this key. */
static bool is_intended(const json_t *base_row, const char *path)
{
    static const char head[] = "intended";
    const char *next = ls_row_string(base_row, LS_F_label);
    if (strncmp(next, head, sizeof head - 1) != 0)
        return false;
    for (next += sizeof head - 1; *next == ' ' || *next == ',';) {
        next += strspn(next, " ,");
        const size_t length = strcspn(next, " ,:");
        const char *key = "";
        ls_status_free(ls_row_key_find("label", next, length, &key));
        if ((length == strlen(path) && strncmp(next, path, length) == 0) || strcmp(key, path) == 0)
            return true;
        next += length;
    }
    return false;
}

static bool is_noted(const json_t *list, const char *path)
{
    const char *key = "";
    bool found = false;
    for (size_t i = 0; i < json_array_size(list) && !found; i++)
        found = json_unpack(json_array_get(list, i), "{s:s}", "key", &key) == 0 &&
                strcmp(key, path) == 0;
    return found;
}

static void compare_key(ls_regress_case *one, const char *path, bool fails, double tolerance)
{
    json_auto_t *all = values_of(one->rows[LS_BASE], path);
    json_auto_t *news = values_of(one->rows[LS_NEW], path);
    json_t *base = first_known(all), *fresh = find_other(path, news, all, true, tolerance);
    const bool worse = fresh;
    if (!worse && !(fresh = find_other(path, news, all, false, 0))) {
        fresh = json_array_get(news, 0);
        base = find_other(path, all, news, false, 0);
    }
    base = json_is_null(base) ? NULL : base;
    fresh = json_is_null(fresh) ? NULL : fresh;
    /* an older program may not have the field yet: not worse */
    const bool fail = fails && worse && (base || json_is_string(fresh)) &&
                      !is_intended(ls_regress_row(one, LS_BASE), path);
    if (is_noted(one->worse, path) || (!fail && is_noted(one->differences, path)))
        return;
    if (fail || worse || (base && fresh))
        json_array_append_new(
            fail ? one->worse : one->differences,
            json_pack("{s:s,s:O*,s:O*}", "key", path, "base", base, "new", fresh));
}

static void compare_figures(const ls_regress_task *task, ls_regress_case *one)
{
    static const ls_field_number failing[] = {LS_F_traffic_bytes_sent, LS_F_traffic_messages_sent};
    static const ls_field_number reported[] = {
        LS_F_program_nodes,   LS_F_program_bytes,     LS_F_memory_devices_peak, LS_F_train_accuracy,
        LS_F_train_evaluated, LS_F_equivalence_grade, LS_F_train_loss_last};
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++)
        compare_key(one, ls_fields[failing[i]].path, true, 0);
    compare_key(one, memory_formula, true, 0);
    for (size_t i = 0; i < task->fail_count; i++)
        compare_key(one, task->fail_on[i].path, true, task->fail_on[i].tolerance);
    for (size_t i = 0; i < sizeof reported / sizeof *reported; i++)
        compare_key(one, ls_fields[reported[i]].path, false, 0);
}

/* ---- Whether there is anything to compare --------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void set_error(ls_regress_case *one, const char *why,
                                                            ...)
{
    va_list arguments;
    va_start(arguments, why);
    if (!one->error && vasprintf(&one->error, why, arguments) < 0)
        one->error = strdup("cannot be compared");
    va_end(arguments);
}

bool ls_regress_failed(const json_t *row)
{
    return json_is_false(ls_row_get(row, LS_F_equivalence_pass)) ||
           strcmp(ls_row_string(row, LS_F_result_status), "failed") == 0;
}

void ls_regress_judge_case(const ls_regress_task *task, ls_regress_case *one)
{
    const char *status[LS_SIDES], *reason[LS_SIDES];
    bool failed[LS_SIDES];
    for (int side = 0; side < LS_SIDES; side++) {
        const json_t *row = ls_regress_row(one, side);
        status[side] = ls_row_has(row, LS_F_result_status) ? ls_row_string(row, LS_F_result_status)
                                                           : "unknown";
        reason[side] = ls_row_has(row, LS_F_result_reason) ? ls_row_string(row, LS_F_result_reason)
                                                           : "no reason is given";
        failed[side] = ls_regress_failed(row);
        if (!row)
            set_error(one, "is missing in %s", task->side[side]);
    }
    if (one->error)
        return;
    if (failed[LS_NEW] && !failed[LS_BASE]) {
        json_array_append_new(one->worse,
                              json_pack("{s:s,s:s,s:s,s:s}", "key",
                                        ls_fields[LS_F_result_status].path, "base", status[LS_BASE],
                                        "new", status[LS_NEW], "reason", reason[LS_NEW]));
        one->decided = true;
        return;
    }
    for (int side = 0; side < LS_SIDES; side++) {
        if (strcmp(status[side], "ok") != 0)
            set_error(one, "is %s in %s: %s", status[side], task->side[side], reason[side]);
        else if (one->logs[side].count == 0)
            set_error(one, "has no time in %s: nothing was measured", task->side[side]);
    }
    if (!one->error)
        compare_figures(task, one);
}

ls_status ls_regress_check_keys(const ls_regress_task *task, const ls_regress *regress)
{
    for (size_t k = 0; k < task->fail_count; k++) {
        bool found = false, any_ok = false;
        for (size_t i = 0; i < LS_SIDES * regress->count && !found; i++) {
            json_auto_t *values =
                values_of(regress->cases[i / LS_SIDES].rows[i % LS_SIDES], task->fail_on[k].path);
            any_ok |= json_array_size(values) > 0;
            found = first_known(values);
        }
        if (!found && any_ok)
            return ls_fail(
                LS_CODE_USAGE, "--fail-on", task->fail_on[k].path,
                "is in no row of either side, so it compares nothing; name a key that a row has");
    }
    return LS_OK;
}

/* ---- Undecided ------------------------------------------------------------------------------ */

/* The count of the case in the report before; 0 where it is not there. */
static json_int_t count_before(const json_t *before, const char *name)
{
    const char *other;
    json_int_t count = 0;
    for (size_t i = 0; i < json_array_size(before); i++)
        if (json_unpack(json_array_get(before, i), "{s:s}", "name", &other) == 0 &&
            strcmp(other, name) == 0) {
            json_unpack(json_array_get(before, i), "{s:I}", "undecided", &count);
            break;
        }
    return count;
}

ls_status ls_regress_count_undecided(const char *path, int64_t most, ls_regress *regress)
{
    json_error_t error;
    json_auto_t *before = json_load_file(path, 0, &error);
    json_t *cases = NULL;
    if (access(path, F_OK) == 0 &&
        (json_unpack(before, "{s:o}", "cases", &cases) < 0 || !json_is_array(cases)))
        return ls_fail(LS_CODE_MISSING, "--fail-on undecided", path,
                       "is no report of a comparison: %s; delete it to count anew",
                       before ? "it has no cases" : error.text);
    for (size_t i = 0; i < regress->count; i++) {
        ls_regress_case *one = &regress->cases[i];
        if (one->result.verdict != LS_VERDICT_CANNOT_TELL || one->error)
            continue;
        const json_int_t were = count_before(cases, one->name);
        one->undecided = were + 1;
        if (one->undecided >= most)
            json_array_append_new(one->worse,
                                  json_pack("{s:s,s:I,s:I,s:s}", "key", "undecided", "base", were,
                                            "new", one->undecided, "reason",
                                            "comparisons in a row that could not tell, which "
                                            "--fail-on undecided limits"));
    }
    return LS_OK;
}
