/* SPDX-License-Identifier: MIT */
/*
 * `results diff A B`: the keys in which two rows differ, and the ratio of their median step times,
 * B over A, with its interval as for independent measurements.
 */
#include "bench/results/results_verbs.h"

#include <stdlib.h>
#include <string.h>

/* ---- Keys ----------------------------------------------------------------------------------- */

/* Adds {path: value} of all parts of the value, which is at the path. */
static void flatten(json_t *value, const char *path, json_t *out)
{
    const char *name;
    json_t *member;
    char *longer;
    if (json_is_object(value)) {
        json_object_foreach(value, name, member)
        {
            if (asprintf(&longer, "%s%s%s", path, *path ? "." : "", name) < 0)
                continue;
            flatten(member, longer, out);
            free(longer);
        }
    } else if (json_is_object(json_array_get(value, 0))) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            if (asprintf(&longer, "%s.%zu", path, i) < 0)
                continue;
            flatten(json_array_get(value, i), longer, out);
            free(longer);
        }
    } else {
        json_object_set(out, path, value);
    }
}

/* Appends {key, a, b} for each key in which they differ: in the order of A, then keys that only B
 * has. */
static void compare(json_t *a, json_t *b, json_t *out)
{
    json_t *mine = json_object(), *other = json_object(), *value;
    const char *key;
    flatten(a, "", mine);
    flatten(b, "", other);
    json_object_foreach(mine, key, value)
    {
        json_t *theirs = json_object_get(other, key);
        if (!theirs || !json_equal(value, theirs))
            json_array_append_new(out,
                                  json_pack("{s:s,s:O,s:O*}", "key", key, "a", value, "b", theirs));
    }
    json_object_foreach(other, key, value)
    {
        if (!json_object_get(mine, key))
            json_array_append_new(out, json_pack("{s:s,s:O}", "key", key, "b", value));
    }
    json_decref(mine);
    json_decref(other);
}

/* ---- Ratio ---------------------------------------------------------------------------------- */

/* {key: "ratio", a, b, ratio, ci95}; NULL if a row has no time. */
static json_t *compute_ratio(const json_t *a, const json_t *b)
{
    ls_interval x, y;
    const bool of_a = ls_row_step(a, &x), of_b = ls_row_step(b, &y);
    if (!(x.value > 0 && y.value > 0))
        return NULL;
    json_t *out = json_pack("{s:s,s:f,s:f,s:f}", "key", "ratio", "a", x.value, "b", y.value,
                            "ratio", y.value / x.value);
    const ls_interval ratio = ls_statistics_ratio(y, x);
    if (of_a && of_b)
        json_object_set_new(out, "ci95", json_pack("[f,f]", ratio.low, ratio.high));
    return out;
}

static void tell_ratio(const json_t *ratio)
{
    if (!ratio) {
        puts("no ratio of times: not both rows have timed steps");
        return;
    }
    const json_t *ci95 = json_object_get(ratio, "ci95");
    const double low = json_number_value(json_array_get(ci95, 0));
    const double high = json_number_value(json_array_get(ci95, 1));
    printf("B / A, median step: %.4g / %.4g ms = %.4g",
           json_number_value(json_object_get(ratio, "b")),
           json_number_value(json_object_get(ratio, "a")),
           json_number_value(json_object_get(ratio, "ratio")));
    if (!ci95) {
        puts(" (no interval: not both rows have one)");
        return;
    }
    const char *verdict = low > 1.0    ? "B is slower"
                          : high < 1.0 ? "B is faster"
                                       : "within the noise";
    printf(", 95%% interval %.4g to %.4g: %s\n", low, high, verdict);
}

/* ---- Output --------------------------------------------------------------------------------- */

static ls_status write_rows(ls_results_task *task, json_t *rows, json_t *ratio)
{
    static const ls_column column[] = {{"key", "key", 30, false, LS_CELL_TEXT, 0},
                                       {"A", "a", 24, false, LS_CELL_TEXT, 0},
                                       {"B", "b", 24, false, LS_CELL_TEXT, 0},
                                       {"ratio", "ratio", 0, true, LS_CELL_FIGURE, 0},
                                       {"ci95", "ci95", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0}};
    const char *name = task->form ? task->form->name : "table";
    const bool told = strcmp(name, "table") == 0 || strcmp(name, "md") == 0;
    const ls_columns columns = {.column = column, .count = told ? 3 : 5, .alone = true};
    if (!told && ratio)
        json_array_append(rows, ratio);
    LS_TRY(ls_rows_write(task->form, &columns, rows, stdout));
    if (told) {
        putchar('\n');
        tell_ratio(ratio);
    }
    return LS_OK;
}

ls_status ls_results_diff(ls_results_task *task)
{
    json_t *a = NULL, *b = NULL;
    ls_status status = ls_selection_one(task->results, task->set->operands[1], &a);
    if (!status)
        status = ls_selection_one(task->results, task->set->operands[2], &b);
    if (!status) {
        json_t *rows = json_array(), *ratio = compute_ratio(a, b);
        compare(a, b, rows);
        status = write_rows(task, rows, ratio);
        json_decref(rows);
        json_decref(ratio);
        json_decref(b);
    }
    json_decref(a);
    return status;
}
