/* SPDX-License-Identifier: MIT */
/*
 * `results trend KEY`: the median of a figure by commit, in the order of the commits' first rows,
 * and where its level changes (bench/statistics/level_changes.h). Rows of one case and one machine
 * (bench/output/row_same.h) are a *series*; others are other series, with changes of their own. A
 * build of modified sources counts as a separate commit. Rows without the figure, or without a
 * commit, are skipped.
 */
#include "bench/output/row_same.h"
#include "bench/results/results_verbs.h"
#include "bench/rows/row.h"
#include "bench/statistics/level_changes.h"
#include "common/base/escape.h"
#include "common/base/grow.h"
#include "common/base/log.h"
#include "template_trend.h"

#include <stdlib.h>
#include <string.h>

enum { SURROUNDINGS = LS_OF_BUILD | LS_OF_SYSTEM }; /* may change with a commit */

typedef struct trend {
    const char *path; /* of the figure */
    ls_results *results;
    sqlite3_stmt *insert; /* into the table `trend`: number, series, value */
    json_t *cases;        /* {case: {machines, series: [number]}} */
    json_t *series;       /* [{first, differ, name, commits}]; first: a row, with what others know
                           * of their machine; differ: {path: true}: surroundings in which its rows
                           * differ; commits: [{commit, dirty, timestamp, n, median, low, high}] */
} trend;

/* The number of the row's series, which may be new; -1: out of memory. */
static int64_t series_of(trend *t, const json_t *row)
{
    char *name = ls_row_identity(row, LS_BUT_BLOCKS, 0);
    json_t *one = name ? json_object_get(t->cases, name) : NULL;
    if (name && !one) {
        one = json_pack("{s:[],s:[]}", "machines", "series");
        json_object_set_new(t->cases, name, one);
    }
    free(name);
    if (!one)
        return -1;
    json_t *numbers = json_object_get(one, "series");
    const size_t machine = ls_row_machine(json_object_get(one, "machines"), row, LS_OF_MACHINE);
    if (machine == json_array_size(numbers)) {
        json_array_append_new(numbers, json_integer((json_int_t)json_array_size(t->series)));
        json_array_append_new(t->series, json_pack("{s:o,s:{},s:[]}", "first", json_deep_copy(row),
                                                   "differ", "commits"));
    }
    return json_integer_value(json_array_get(numbers, machine));
}

static ls_status add_row(void *context, int64_t number, const json_t *row)
{
    trend *t = context;
    bool more;
    json_auto_t *value = ls_row_value(row, t->path);
    if (value && !json_is_number(value))
        return ls_fail(LS_CODE_USAGE, "trend", t->path,
                       "is not a number, so it has no trend; use a number such as "
                       "time.step_ms.median or time.samples_per_s");
    if (!value || !json_is_string(ls_row_get(row, LS_F_provenance_commit)))
        return LS_OK;
    const int64_t series = series_of(t, row);
    if (series < 0)
        return ls_fail_memory("trend", 0);
    const json_t *one = json_array_get(t->series, (size_t)series);
    json_t *first = json_object_get(one, "first");
    json_object_update_missing(ls_row_group(first, LS_G_provenance),
                               ls_row_group(row, LS_G_provenance));
    json_auto_t *pair = json_pack("[O,O]", first, row), *differ = json_object();
    ls_rows_differ(pair, LS_BUT_BLOCKS, SURROUNDINGS, differ);
    json_object_update(json_object_get(one, "differ"), differ);
    sqlite3_bind_int64(t->insert, 1, number);
    sqlite3_bind_int64(t->insert, 2, series);
    sqlite3_bind_double(t->insert, 3, json_number_value(value));
    ls_status status = ls_results_step(t->results, t->insert, &more);
    sqlite3_reset(t->insert);
    return status;
}

/* Reads the rows, and gives the series their commits. */
static ls_status collect(trend *t, const ls_selection *selection)
{
    static const char table[] =
        "CREATE TEMP TABLE trend (number INTEGER PRIMARY KEY, series, value)";
    sqlite3_stmt *commits = NULL;
    bool more = true;
    LS_TRY(ls_results_execute(t->results, table));
    LS_TRY(ls_results_prepare(t->results, "INSERT INTO trend VALUES (?1, ?2, ?3)", &t->insert));
    ls_status status = ls_selection_each(selection, t->results, add_row, t, NULL);
    sqlite3_finalize(t->insert);
    if (!status)
        status = ls_results_prepare(t->results, ls_template_trend, &commits);
    while (!status && !(status = ls_results_step(t->results, commits, &more)) && more) {
        const json_t *one = json_array_get(t->series, (size_t)sqlite3_column_int64(commits, 0));
        const double below = sqlite3_column_double(commits, 7);
        json_array_append_new(
            json_object_get(one, "commits"),
            json_pack("{s:s,s:o*,s:s*,s:I,s:f,s:f,s:f}", "commit", ls_results_text(commits, 1),
                      "dirty", sqlite3_column_int(commits, 2) ? json_true() : NULL, "timestamp",
                      (const char *)sqlite3_column_text(commits, 3), "n",
                      (json_int_t)sqlite3_column_int64(commits, 4), "low",
                      sqlite3_column_double(commits, 5), "high", sqlite3_column_double(commits, 6),
                      "median", below + 0.5 * (sqlite3_column_double(commits, 8) - below)));
    }
    sqlite3_finalize(commits);
    return status;
}

/* Marks each commit at which a level begins, with the change. */
static ls_status mark_changes(json_t *commits)
{
    const size_t n = json_array_size(commits);
    double *medians, before = 0;
    bool *changes = calloc(n + 1, sizeof *changes);
    json_t *one;
    size_t index;
    ls_status status =
        changes ? ls_allocate("trend", &medians, n, sizeof *medians) : ls_fail_memory("trend", n);
    if (status) {
        free(changes);
        return status;
    }
    json_array_foreach(commits, index, one) medians[index] =
        json_real_value(json_object_get(one, "median"));
    status = ls_level_changes(medians, n, changes);
    for (size_t begin = 0, end; begin < n && !status; begin = end) {
        double sum = 0;
        for (end = begin; end == begin || (end < n && !changes[end]); end++)
            sum += medians[end];
        const double level = sum / (double)(end - begin);
        one = json_array_get(commits, begin);
        char text[64];
        if (begin > 0) {
            snprintf(text, sizeof text, "%+.1f%%", 100.0 * (level / before - 1.0));
            json_object_set_new(one, "change", json_true());
            json_object_set_new(one, "by", json_string(before != 0 ? text : "from 0"));
        }
        before = level;
    }
    free(medians);
    free(changes);
    return status;
}

/* Names each series by what tells it from the others. */
static ls_status name_series(const trend *t)
{
    json_auto_t *firsts = json_array(), *paths = json_object();
    json_t *series, *unused;
    const char *path;
    size_t index;
    json_array_foreach(t->series, index, series)
    {
        json_array_append(firsts, json_object_get(series, "first"));
    }
    ls_rows_differ(firsts, LS_BUT_BLOCKS, LS_OF_MACHINE, paths);
    json_array_foreach(t->series, index, series)
    {
        char *name = NULL;
        size_t size;
        FILE *stream = open_memstream(&name, &size);
        if (!stream)
            return ls_fail_memory("trend", 0);
        json_object_foreach(paths, path, unused)
        {
            json_auto_t *value = ls_row_value(json_object_get(series, "first"), path);
            (void)unused;
            fprintf(stream, "%s%s ", ftell(stream) ? ", " : "",
                    strcmp(path, "peer.what") == 0 ? "peer" : strrchr(path, '.') + 1);
            ls_value_print(stream, value);
            fputs(value ? "" : "none", stream);
        }
        if (fclose(stream) == 0)
            json_object_set_new(series, "name", json_string(name));
        free(name);
    }
    return LS_OK;
}

/* Says what changed in a series besides the commit. */
static void tell_surroundings(const trend *t)
{
    json_t *series;
    size_t index;
    json_array_foreach(t->series, index, series)
    {
        json_t *paths = json_object_get(series, "differ");
        const char *name = json_string_value(json_object_get(series, "name"));
        if (json_object_size(paths) == 0)
            continue;
        char *differ = ls_paths_text(paths);
        ls_log_stderr(
            "results: trend%s%s: rows differ in %s, too, so a change may come from there; "
            "--where chooses rows",
            *name ? ": " : "", name, differ ? differ : "several fields");
        free(differ);
    }
}

static ls_status print(ls_results_task *task, const trend *t)
{
    static const ls_column column[] = {
        LS_PATH_COLUMN("series", "series", 40, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("commit", "commit", 14, false, LS_CELL_TEXT,
                       0), /* 12 of 40 digits identify it */
        LS_PATH_COLUMN("dirty", "dirty", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("first row", "timestamp", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("n", "n", 0, true, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("median", "median", 0, true, LS_CELL_FIGURE, 0),
        LS_PATH_COLUMN("change", "change", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("by", "by", 0, true, LS_CELL_TEXT, 0)};
    const size_t count = sizeof column / sizeof *column;
    const bool several = json_array_size(t->series) > 1;
    const ls_columns columns = {
        .column = column + !several, .count = count - !several, .alone = true};
    json_auto_t *commits = json_array();
    json_t *series, *one;
    size_t index, i;
    json_array_foreach(t->series, index, series)
    {
        json_array_foreach(json_object_get(series, "commits"), i, one)
        {
            if (several)
                json_object_set(one, "series", json_object_get(series, "name"));
            json_array_append(commits, one);
        }
    }
    return ls_rows_write(task->form, &columns, commits, ls_output());
}

/* A line per level: the commit with which it begins, and its change. */
static ls_status draw(const ls_results_task *task, const trend *t, const char *path)
{
    char y[128];
    const json_t *series = json_array_get(t->series, 0);
    const json_t *row = json_object_get(series, "first"), *commits;
    commits = json_object_get(series, "commits");
    const bool micro = ls_row_group(row, LS_G_micro);
    const size_t n = json_array_size(commits);
    json_t *all = json_array(), *points = NULL;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(commits, i);
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
    snprintf(y, sizeof y, "%s, median of a commit", t->path);
    json_auto_t *figure = json_pack(
        "{s:s,s:o,s:o,s:s,s:s,s:s,s:o,s:o,s:o}", "kind", "lines", "title",
        json_sprintf("%s moves %zu time%s in %zu commits", t->path, changes,
                     changes == 1 ? "" : "s", n),
        "sub",
        json_sprintf("%s %s", ls_row_string(row, micro ? LS_F_micro_op : LS_F_case_model),
                     ls_row_string(row, micro ? LS_F_micro_shape : LS_F_case_strategy)),
        "x", "commits, by their first rows", "y", y, "unit", "", "caption",
        json_sprintf("%s by commit; a bar is the range of its rows, a colour a level", t->path),
        "alt", json_sprintf("%s by commit, %zu levels", t->path, changes + 1), "series", all);
    return figure ? task->draw(figure, path) : ls_fail_memory("picture", 0);
}

static ls_status analyse(ls_results_task *task, const trend *t)
{
    const size_t count = json_array_size(t->series);
    const char *path = ls_option_set_text(task->set, "out", NULL);
    LS_TRY(name_series(t));
    for (size_t i = 0; i < count; i++)
        LS_TRY(mark_changes(json_object_get(json_array_get(t->series, i), "commits")));
    if (count == 0)
        ls_log_stderr("results: %s: no rows that fit and have %s", task->file, t->path);
    if (path && count > 1)
        return ls_fail(LS_CODE_USAGE, "--out", path,
                       "a picture shows one series, and the rows make %zu; leave --out out to list "
                       "the series, and choose one by --where",
                       count);
    tell_surroundings(t);
    ls_status drawn = path && count > 0 ? draw(task, t, path) : LS_OK;
    return ls_status_first(drawn, print(task, t)); /* the list is there without a picture, too */
}

ls_status ls_results_trend(ls_results_task *task)
{
    trend t = {.results = task->results, .cases = json_object(), .series = json_array()};
    const char *name = task->set->operands[1];
    ls_status status = ls_row_key_find("trend", name, strlen(name), &t.path);
    if (!status)
        status = collect(&t, &task->selection);
    if (!status)
        status = analyse(task, &t);
    json_decref(t.cases);
    json_decref(t.series);
    return status;
}
