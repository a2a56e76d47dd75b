/* SPDX-License-Identifier: MIT */
/*
 * `results diff A B`: the keys in which two rows differ, and the ratio of their median step times,
 * B over A, with its interval as for independent measurements. If the steps of one are not alike,
 * the ratio is that of the times per sample. People get the keys that matter, rounded, unless --all
 * asks for the rest. If they are not of one case, or not of one machine
 * (bench/output/row_same.h), a line below says in what.
 */
#include "bench/results/results_verbs.h"
#include "bench/output/row_same.h"
#include "bench/output/value_order.h"
#include "bench/statistics/verdict.h"
#include "common/base/escape.h"

#include <stdlib.h>
#include <stdint.h>
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

/* Whether a difference in this key tells something by itself: what is asked for, where it ran, and
 * what came out; not how it came about, nor what follows from another key. A key that this program
 * does not know is a declared option, or of a newer program: it is shown. */
static bool matters(const char *key)
{
    const ls_field *field = ls_field_of_key(key);
    return !field || field->shown & LS_SHOWN_DIFF;
}

/* Keeps the keys that matter, with their figures rounded; returns how many others there were. */
static size_t shorten(json_t *rows)
{
    static const char *const sides[] = {"a", "b"};
    size_t left = 0;
    for (size_t i = json_array_size(rows); i-- > 0;) {
        json_t *row = json_array_get(rows, i);
        const char *key = json_string_value(json_object_get(row, "key"));
        if (!matters(key)) {
            json_array_remove(rows, i);
            left++;
            continue;
        }
        for (size_t s = 0; s < 2; s++) {
            const json_t *value = json_object_get(row, sides[s]);
            if (json_is_real(value) && strncmp(key, "case.", 5) != 0)
                json_object_set_new(row, sides[s], json_sprintf("%.4g", json_real_value(value)));
        }
    }
    return left;
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
        if (!ls_value_equal(value, theirs))
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

/* The time of the median step or, with `mean`, of a sample; in ms. */
static bool read_time(const json_t *row, bool mean, ls_interval *out)
{
    ls_interval rate;
    if (!mean)
        return ls_row_step(row, out);
    const bool known = ls_row_rate(row, true, &rate);
    *out = (ls_interval){0};
    if (rate.value > 0)
        out->value = 1e3 / rate.value;
    if (known) {
        out->low = 1e3 / rate.high;
        out->high = 1e3 / rate.low;
    }
    return known;
}

/* {key: "ratio", of, a, b, ratio, ci95}; NULL if a row has no time. */
static json_t *compute_ratio(const json_t *a, const json_t *b)
{
    ls_interval x, y;
    const bool mean = ls_row_is_uneven(a) || ls_row_is_uneven(b);
    const bool of_a = read_time(a, mean, &x), of_b = read_time(b, mean, &y);
    if (!(x.value > 0 && y.value > 0))
        return NULL;
    json_t *out = json_pack("{s:s,s:f,s:f,s:f}", "key", "ratio", "a", x.value, "b", y.value,
                            "ratio", y.value / x.value);
    if (mean)
        json_object_set_new(out, "of", json_string("sample"));
    const ls_interval ratio = ls_statistics_ratio(y, x);
    if (of_a && of_b)
        json_object_set_new(out, "ci95", json_pack("[f,f]", ratio.low, ratio.high));
    return out;
}

static void tell_ratio(const json_t *ratio)
{
    if (!ratio) {
        fputs("no ratio of times: not both rows have timed steps\n", ls_output());
        return;
    }
    const json_t *ci95 = json_object_get(ratio, "ci95");
    const double low = json_number_value(json_array_get(ci95, 0));
    const double high = json_number_value(json_array_get(ci95, 1));
    fprintf(ls_output(), "B / A, %s: %.4g / %.4g ms = %.4g",
            json_object_get(ratio, "of") ? "time of a sample, for steps are not alike"
                                         : "median step",
            json_number_value(json_object_get(ratio, "b")),
            json_number_value(json_object_get(ratio, "a")),
            json_number_value(json_object_get(ratio, "ratio")));
    if (ci95)
        fprintf(ls_output(), ", 95%% interval %.4g to %.4g: %s\n", low, high,
                ls_verdict_name(ls_verdict_of_pair((ls_interval){1, low, high})));
    else
        fputs(" (no interval: not both rows have one): cannot tell\n", ls_output());
}

/* "not one case: strategy, devices; not one machine: host" */
static void tell_others(const json_t *a, const json_t *b)
{
    json_auto_t *rows = json_pack("[O,O]", a, b), *paths = json_object();
    const char *path;
    json_t *unused;
    char *text = NULL;
    size_t size, facts = 0, cases = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return;
    ls_rows_differ(rows, LS_BUT_BLOCKS, LS_OF_MACHINE, paths);
    json_object_foreach(paths, path, unused)
    {
        (void)unused;
        const bool fact = ls_row_is_of(path, ~0U);
        fprintf(stream, "%s%s",
                !(facts + cases) ? "not one "
                : fact && !facts ? "; not one "
                                 : ", ",
                fact ? (facts ? "" : "machine: ") : (cases ? "" : "case: "));
        ls_escape_put(stream, path, SIZE_MAX, LS_ESCAPE_LINE);
        facts += fact;
        cases += !fact;
    }
    if (fclose(stream) == 0 && *text)
        ls_text_wrap(ls_output(), text, 0, 0, 80);
    free(text);
}

/* ---- Output --------------------------------------------------------------------------------- */

/* Writes the keys, and in a document for people what follows from them. *for_people: it is one. */
static ls_status write_rows(ls_results_task *task, json_t *rows, json_t *ratio, bool *for_people)
{
    static const ls_column column[] = {{"key", "key", 43, false, LS_CELL_TEXT, 0},
                                       {"A", "a", 24, false, LS_CELL_TEXT, 0},
                                       {"B", "b", 24, false, LS_CELL_TEXT, 0},
                                       {"ratio", "ratio", 0, true, LS_CELL_FIGURE, 0},
                                       {"ci95", "ci95", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0}};
    const char *name = task->form ? task->form->name : "table";
    *for_people = strcmp(name, "table") == 0 || strcmp(name, "md") == 0;
    const ls_columns columns = {.column = column, .count = *for_people ? 3 : 5, .alone = true};
    if (!*for_people && ratio)
        json_array_append(rows, ratio);
    const size_t left = *for_people && !ls_option_set_yes(task->set, "all") ? shorten(rows) : 0;
    LS_TRY(ls_rows_write(task->form, &columns, rows, ls_output()));
    if (left > 0)
        fprintf(ls_output(), "%zu more keys differ; --all shows them\n", left);
    if (*for_people) {
        fputc('\n', ls_output());
        tell_ratio(ratio);
    }
    return LS_OK;
}

ls_status ls_results_diff(ls_results_task *task)
{
    json_t *a = NULL, *b = NULL;
    ls_status status = ls_results_find(task->results, task->set->operands[1], &a);
    if (!status)
        status = ls_results_find(task->results, task->set->operands[2], &b);
    if (!status) {
        json_t *rows = json_array(), *ratio = compute_ratio(a, b);
        compare(a, b, rows);
        bool for_people;
        status = write_rows(task, rows, ratio, &for_people);
        if (!status && for_people)
            tell_others(a, b);
        json_decref(rows);
        json_decref(ratio);
        json_decref(b);
    }
    json_decref(a);
    return status;
}
