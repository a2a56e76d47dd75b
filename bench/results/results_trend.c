/* SPDX-License-Identifier: MIT */
/*
 * `results trend KEY`: the median of a figure by commit, in the order of the commits' first rows,
 * and where its level changes (bench/statistics/level_changes.h). Rows of one case and one machine
 * (bench/output/row_same.h) are a *series*; others are other series, with changes of their own. A
 * build of modified sources counts as a separate commit. Rows without the figure, or without a
 * commit, are skipped.
 *   Which rows are of one machine is asked of the first row with each set of facts: what is unknown
 * matches anything, so facts are compared one after the other, in the order of time.
 */
#include "bench/output/row_same.h"
#include "bench/results/results_verbs.h"
#include "bench/rows/row.h"
#include "bench/statistics/level_changes.h"
#include "common/base/grow.h"
#include "common/base/log.h"
#include "template_trend.h"
#include "template_trend_figure.h"

#include <stdlib.h>
#include <string.h>

enum { SURROUNDINGS = LS_OF_BUILD | LS_OF_SYSTEM }; /* may change with a commit */

typedef struct trend {
    const char *path; /* of the figure */
    json_t *cases;    /* {case: [machine]}: its facts, and the number of its series */
    json_t *series;   /* [{first, differ, name}]; first: a row, with what others know of their
                       * machine; differ: {path: true}: surroundings in which its rows differ */
    json_t *numbers;  /* {row: series}, of the first row of each set of facts */
    json_t *commits;  /* [{series, commit, dirty, timestamp, n, median, low, high}] */
} trend;

/* The series of the rows with these facts, of which this is the first; NULL: out of memory. */
static json_t *series_of(trend *t, const json_t *row)
{
    char *name = ls_row_identity(row, LS_BUT_BLOCKS, 0);
    if (!name)
        return NULL;
    json_t *machines = json_object_get(t->cases, name);
    if (!machines)
        json_object_set_new(t->cases, name, machines = json_array());
    free(name);
    json_t *machine = json_array_get(machines, ls_row_machine(machines, row, LS_OF_MACHINE));
    if (!json_object_get(machine, "series")) {
        json_object_set_new(machine, "series",
                            json_integer((json_int_t)json_array_size(t->series)));
        json_array_append_new(t->series,
                              json_pack("{s:o,s:{}}", "first", json_deep_copy(row), "differ"));
    }
    return json_object_get(machine, "series");
}

static ls_status add_facts(void *context, int64_t number, const json_t *row)
{
    trend *t = context;
    char key[24];
    json_t *series = series_of(t, row);
    if (!series)
        return ls_fail_memory("trend", 0);
    const json_t *one = json_array_get(t->series, (size_t)json_integer_value(series));
    json_t *first = json_object_get(one, "first");
    json_object_update_missing(ls_row_group(first, LS_G_provenance),
                               ls_row_group(row, LS_G_provenance));
    json_auto_t *pair = json_pack("[O,O]", first, row);
    ls_rows_differ(pair, LS_BUT_BLOCKS, SURROUNDINGS, json_object_get(one, "differ"));
    snprintf(key, sizeof key, "%lld", (long long)number);
    json_object_set(t->numbers, key, series);
    return LS_OK;
}

/* Makes the table `figures` of the rows that have the figure, and a commit. */
static ls_status read_figures(ls_results *results, const char *path)
{
    int64_t texts;
    char *sql = sqlite3_mprintf("SELECT count(*) FROM s WHERE typeof(\"%w\") = 'text'", path);
    ls_status status = sql ? ls_results_ask(results, sql, &texts) : ls_fail_memory("trend", 0);
    sqlite3_free(sql);
    LS_TRY(status);
    if (texts > 0)
        return ls_fail(LS_CODE_USAGE, "trend", path,
                       "is not a number, so it has no trend; use a number such as "
                       "time.step_ms.median or time.samples_per_s");
    sql = sqlite3_mprintf(
        "CREATE TEMP TABLE figures AS SELECT number, place, timestamp, \"provenance.commit\" AS "
        "name,"
        " \"provenance.dirty\" IS 'true' AS dirty, \"%w\" + 0.0 AS value, first_value(number)"
        " OVER (PARTITION BY case_key(row, %d, %d) ORDER BY place) AS first FROM s"
        " WHERE value IS NOT NULL AND json_type(row, '$.provenance.commit') = 'text';"
        "DELETE FROM chosen; INSERT INTO chosen (number) SELECT number FROM figures"
        " WHERE number = first ORDER BY place",
        path, LS_BUT_BLOCKS, LS_OF_MACHINE | SURROUNDINGS);
    status = sql ? ls_results_execute(results, sql) : ls_fail_memory("trend", 0);
    sqlite3_free(sql);
    return status;
}

static ls_status collect(trend *t, const ls_selection *selection, ls_results *results)
{
    sqlite3_stmt *commits;
    size_t count;
    LS_TRY(ls_selection_choose(selection, results, &count));
    LS_TRY(read_figures(results, t->path));
    LS_TRY(ls_results_chosen(results, "row", add_facts, t));
    LS_TRY(ls_results_prepare(results, ls_template_trend, &commits));
    char *numbers = json_dumps(t->numbers, JSON_COMPACT);
    sqlite3_bind_text(commits, 1, numbers, -1, free);
    return ls_results_objects(results, commits, t->commits);
}

/* Marks each commit at which a level begins, with the change; these are commits `begin` to `end`,
 * of one series. */
static ls_status mark_changes(const trend *t, size_t begin, size_t end)
{
    double *medians, before = 0;
    bool *changes = calloc(end - begin + 1, sizeof *changes);
    ls_status status = ls_allocate("trend", &medians, end - begin, sizeof *medians);
    if (!status && !changes)
        status = ls_fail_memory("trend", end - begin);
    for (size_t i = begin; i < end && !status; i++)
        medians[i - begin] =
            json_real_value(json_object_get(json_array_get(t->commits, i), "median"));
    if (!status)
        status = ls_level_changes(medians, end - begin, changes);
    for (size_t i = 0, next; i < end - begin && !status; i = next) {
        double sum = 0;
        for (next = i; next == i || (next < end - begin && !changes[next]); next++)
            sum += medians[next];
        const double level = sum / (double)(next - i);
        if (i > 0) {
            json_t *one = json_array_get(t->commits, begin + i);
            json_object_set_new(one, "change", json_true());
            json_object_set_new(one, "by",
                                before != 0
                                    ? json_sprintf("%+.1f%%", 100.0 * (level / before - 1.0))
                                    : json_string("from 0"));
        }
        before = level;
    }
    free(medians);
    free(changes);
    return status;
}

/* The series of a commit; NULL after the last one. */
static const json_t *series_at(const trend *t, const json_t *commit)
{
    const json_t *number = json_object_get(commit, "series");
    return number ? json_array_get(t->series, (size_t)json_integer_value(number)) : NULL;
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
        LS_PATH_COLUMN("commit", "commit", 14, false, LS_CELL_TEXT, 0), /* 12 digits identify it */
        LS_PATH_COLUMN("dirty", "dirty", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("first row", "timestamp", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("n", "n", 0, true, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("median", "median", 0, true, LS_CELL_FIGURE, 0),
        LS_PATH_COLUMN("change", "change", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("by", "by", 0, true, LS_CELL_TEXT, 0)};
    const bool several = json_array_size(t->series) > 1;
    const ls_columns columns = {.column = column + !several,
                                .count = sizeof column / sizeof *column - !several,
                                .alone = true};
    json_t *one;
    size_t index;
    json_array_foreach(t->commits, index, one)
    {
        json_object_set(one, "series", json_object_get(series_at(t, one), "name"));
    }
    return ls_rows_write(task->form, &columns, t->commits, ls_output());
}

static ls_status draw(const ls_results_task *task, const trend *t, const char *path)
{
    const json_t *row = json_object_get(json_array_get(t->series, 0), "first");
    const bool micro = ls_row_group(row, LS_G_micro);
    char *commits = json_dumps(t->commits, JSON_COMPACT | JSON_REAL_PRECISION(17)), what[200];
    json_auto_t *figures = json_array();
    sqlite3_stmt *statement;
    snprintf(what, sizeof what, "%s %s",
             ls_row_string(row, micro ? LS_F_micro_op : LS_F_case_model),
             ls_row_string(row, micro ? LS_F_micro_shape : LS_F_case_strategy));
    ls_status status = ls_results_prepare(task->results, ls_template_trend_figure, &statement);
    if (!status) {
        sqlite3_bind_text(statement, 1, commits, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 2, t->path, -1, SQLITE_STATIC);
        sqlite3_bind_text(statement, 3, what, -1, SQLITE_STATIC);
        status = ls_results_objects(task->results, statement, figures);
    }
    free(commits);
    return status ? status
                  : task->draw(json_object_get(json_array_get(figures, 0), "figure"), path);
}

static ls_status analyse(ls_results_task *task, const trend *t)
{
    const size_t count = json_array_size(t->series);
    const char *path = ls_option_set_text(task->set, "out", NULL);
    LS_TRY(name_series(t));
    for (size_t begin = 0, end; begin < json_array_size(t->commits); begin = end) {
        const json_t *series = series_at(t, json_array_get(t->commits, begin));
        for (end = begin + 1; series_at(t, json_array_get(t->commits, end)) == series; end++)
            continue;
        LS_TRY(mark_changes(t, begin, end));
    }
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
    trend t = {NULL, json_object(), json_array(), json_object(), json_array()};
    const char *name = task->set->operands[1];
    ls_status status = ls_row_key_find("trend", name, strlen(name), &t.path);
    if (!status)
        status = collect(&t, &task->selection, task->results);
    if (!status)
        status = analyse(task, &t);
    json_decref(t.cases);
    json_decref(t.series);
    json_decref(t.numbers);
    json_decref(t.commits);
    return status;
}
