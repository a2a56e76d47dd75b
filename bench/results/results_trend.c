/* SPDX-License-Identifier: MIT */
/*
 * `results trend KEY`: the median of a figure by commit, in the order of the commits' first rows,
 * and where its level changes (bench/statistics/level_changes.h). A build of modified sources
 * counts as a separate commit. Rows without the figure, or without a commit, are skipped.
 */
#include "bench/results/results_verbs.h"
#include "bench/statistics/level_changes.h"
#include "bench/statistics/statistics.h"
#include "common/base/escape.h"
#include "common/base/grow.h"
#include "common/base/log.h"

#include <stdlib.h>
#include <string.h>

typedef struct trend {
    ls_row_key key;
    json_t *commits; /* {commit, dirty, timestamp, values: [..]}, in order of time */
    json_t *by_name; /* the same, by name */
    json_t *first;   /* case or micro group of the first row; NULL: none yet */
    bool mixed;      /* rows are of several cases */
} trend;

/* Whether two cases are the same work on the same configuration. */
static bool same_case(const json_t *a, const json_t *b)
{
    static const char *const fields[] = {
        "model", "data", "strategy", "devices",    "batch_global", "reduce", "ranks", "comm",
        "math",  "op",   "shape",    "size_bytes", "count",        "kernel", "link"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const json_t *mine = json_object_get(a, fields[i]), *other = json_object_get(b, fields[i]);
        if ((mine || other) && !json_equal(mine, other))
            return false;
    }
    return true;
}

static ls_status add_row(void *context, int64_t number, const json_t *row)
{
    trend *t = context;
    (void)number;
    const json_t *provenance = json_object_get(row, "provenance");
    const char *commit = json_string_value(json_object_get(provenance, "commit"));
    const bool dirty = json_is_true(json_object_get(provenance, "dirty"));
    json_t *value = ls_row_value(row, t->key.path), *one = NULL;
    if (value && !json_is_number(value)) {
        json_decref(value);
        return ls_fail(LS_CODE_USAGE, "trend", t->key.path,
                       "is no number; time.step_ms.median is one, or time.samples_per_s");
    }
    if (value && commit) {
        char name[128];
        snprintf(name, sizeof name, "%s%s", commit, dirty ? "+" : "");
        one = json_object_get(t->by_name, name);
        if (!one) {
            one = json_pack("{s:s,s:o*,s:O*,s:[]}", "commit", commit, "dirty",
                            dirty ? json_true() : NULL, "timestamp",
                            json_object_get(row, "timestamp"), "values");
            json_array_append(t->commits, one);
            json_object_set_new(t->by_name, name, one);
        }
        json_array_append(json_object_get(one, "values"), value);
        json_t *its_case = json_object_get(row, json_object_get(row, "case") ? "case" : "micro");
        if (!t->first)
            t->first = json_incref(its_case);
        t->mixed = t->mixed || !same_case(t->first, its_case);
    }
    json_decref(value);
    return LS_OK;
}

/* Replaces the values of a commit by their count and median. */
static ls_status summarise(json_t *one, double *median)
{
    const json_t *values = json_object_get(one, "values");
    const size_t n = json_array_size(values);
    double *samples;
    ls_statistics statistics;
    LS_TRY(ls_allocate("trend", &samples, n, sizeof *samples));
    for (size_t i = 0; i < n; i++)
        samples[i] = json_number_value(json_array_get(values, i));
    ls_statistics_compute(samples, n, &statistics);
    json_object_set_new(one, "low", json_real(samples[0]));
    json_object_set_new(one, "high", json_real(samples[n - 1]));
    free(samples);
    *median = statistics.median;
    json_object_del(one, "values");
    json_object_set_new(one, "n", json_integer((json_int_t)n));
    json_object_set_new(one, "median", json_real(statistics.median));
    return LS_OK;
}

/* Marks each commit at which a level begins, with the change. */
static ls_status mark_changes(json_t *commits, const double *medians)
{
    const size_t n = json_array_size(commits);
    bool *changes;
    LS_TRY(ls_allocate("trend", &changes, n, sizeof *changes));
    ls_status status = ls_level_changes(medians, n, changes);
    double before = 0;
    for (size_t begin = 0, end; begin < n && !status; begin = end) {
        double sum = 0;
        for (end = begin; end == begin || (end < n && !changes[end]); end++)
            sum += medians[end];
        const double level = sum / (double)(end - begin);
        json_t *one = json_array_get(commits, begin);
        char text[64];
        if (begin > 0) {
            snprintf(text, sizeof text, "%+.1f%%", 100.0 * (level / before - 1.0));
            json_object_set_new(one, "change", json_true());
            json_object_set_new(one, "by", json_string(before != 0 ? text : "from 0"));
        }
        before = level;
    }
    free(changes);
    return status;
}

static ls_status print(ls_results_task *task, const json_t *commits)
{
    static const ls_column column[] = {
        {"commit", "commit", 14, false, LS_CELL_TEXT, 0}, /* 12 of 40 digits identify it */
        {"dirty", "dirty", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0},
        {"first row", "timestamp", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0},
        {"n", "n", 0, true, LS_CELL_TEXT, 0},
        {"median", "median", 0, true, LS_CELL_FIGURE, 0},
        {"change", "change", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0},
        {"by", "by", 0, true, LS_CELL_TEXT, 0}};
    const ls_columns columns = {
        .column = column, .count = sizeof column / sizeof *column, .alone = true};
    return ls_rows_write(task->form, &columns, commits, stdout);
}

/* A line per level: the commit with which it begins, and its change. */
static ls_status draw(const ls_results_task *task, const trend *t, const char *path)
{
    char y[128];
    const bool micro = json_object_get(t->first, "op");
    char *name = ls_value_text(json_object_get(t->first, micro ? "op" : "model"));
    const char *strategy =
        json_string_value(json_object_get(t->first, micro ? "shape" : "strategy"));
    const size_t n = json_array_size(t->commits);
    json_t *all = json_array(), *points = NULL;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(t->commits, i);
        const char *by = json_string_value(json_object_get(one, "by"));
        char commit[8];
        ls_escape_copy(commit, sizeof commit, json_string_value(json_object_get(one, "commit")),
                       LS_ESCAPE_LINE);
        if (i == 0 || by) {
            points = json_array();
            json_array_append_new(
                all, json_pack("{s:o,s:i,s:i,s:o}", "name",
                               json_sprintf("%s%s%s", commit, by ? " " : "", by ? by : ""), "style",
                               (int)(json_array_size(all) % 9), "variant", 0, "points", points));
        }
        json_array_append_new(points,
                              json_pack("[i,O,O,O]", (int)i + 1, json_object_get(one, "median"),
                                        json_object_get(one, "low"), json_object_get(one, "high")));
    }
    const size_t changes = json_array_size(all) - (n > 0);
    snprintf(y, sizeof y, "%s, median of a commit", t->key.path);
    json_auto_t *figure = json_pack(
        "{s:s,s:o,s:o,s:s,s:s,s:s,s:o,s:o,s:o}", "kind", "lines", "title",
        json_sprintf("%s moves %zu time%s in %zu commits", t->key.path, changes,
                     changes == 1 ? "" : "s", n),
        "sub", json_sprintf("%s %s", name ? name : "", strategy ? strategy : ""), "x",
        "commits, by their first rows", "y", y, "unit", "", "caption",
        json_sprintf("%s by commit; a bar is the range of its rows, a colour a level", t->key.path),
        "alt", json_sprintf("%s by commit, %zu levels", t->key.path, changes + 1), "series", all);
    ls_status status = figure ? task->draw(figure, path) : ls_fail_memory("picture", 0);
    free(name);
    return status;
}

static ls_status analyse(ls_results_task *task, trend *t)
{
    const size_t n = json_array_size(t->commits);
    double *medians;
    LS_TRY(ls_allocate("trend", &medians, n, sizeof *medians));
    ls_status status = LS_OK;
    for (size_t i = 0; i < n && !status; i++)
        status = summarise(json_array_get(t->commits, i), &medians[i]);
    if (!status)
        status = mark_changes(t->commits, medians);
    free(medians);
    if (!status && n == 0)
        ls_log_say("results: %s: no rows that fit and have %s", task->file, t->key.path);
    if (!status && t->mixed)
        ls_log_say("results: trend: rows of several cases are mixed; --where, as in --where "
                   "case.model=NAME,case.strategy=NAME or micro.op=NAME, leaves those of one");
    const char *path = ls_option_set_text(task->set, "out", NULL);
    if (!status && path && n > 0)
        status = draw(task, t, path);
    return status ? status : print(task, t->commits);
}

ls_status ls_results_trend(ls_results_task *task)
{
    trend t = {.commits = json_array(), .by_name = json_object()};
    const char *name = task->set->operands[1];
    ls_status status = ls_row_key_find("trend", name, strlen(name), &t.key);
    if (!status)
        status =
            ls_selection_each(&task->selection, task->results, LS_ROWS_WHOLE, add_row, &t, NULL);
    if (!status)
        status = analyse(task, &t);
    json_decref(t.commits);
    json_decref(t.by_name);
    json_decref(t.first);
    return status;
}
