/* SPDX-License-Identifier: MIT */
/*
 * What C alone can say of rows for the queries of reports/page.sql: which rows stand beside each
 * other, and the names of their cases there. The queries rank and compare them.
 */
#include "bench/output/format.h"
#include "bench/output/row_same.h"
#include "bench/output/table/ranking.h"
#include "bench/report/case_keys.h"
#include "bench/report/page.h"
#include "bench/report/text.h"
#include "bench/rows/row.h"

#include <stdlib.h>
#include <string.h>

const char *ls_gate_word(const json_t *row)
{
    const char *grade = ls_row_string(row, LS_F_equivalence_grade);
    if (!*grade)
        return "not compared";
    if (json_is_false(ls_row_get(row, LS_F_equivalence_pass)))
        return "FAILED";
    if (strcmp(grade, "none") != 0)
        return grade;
    return ls_row_is_candidate(row) ? "not compared" : "not equivalent";
}

static bool is_timed(const json_t *row, const void *unused)
{
    return ls_report_is_ok(row, unused) && ls_report_rate(row).value > 0;
}

/* A row of `told`: the case that a row is of, and its figure to compare by. */
static ls_status insert(const ls_page *page, sqlite3_stmt *to, const json_t *row, const char *pool,
                        const char *label, const char *name, const ls_interval *figure)
{
    bool unused;
    size_t place = 0;
    while (json_array_get(page->rows, place) != row)
        place++;
    sqlite3_reset(to);
    sqlite3_bind_int64(to, 1, (sqlite3_int64)place + 1);
    sqlite3_bind_text(to, 2, pool, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(to, 3, label, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(to, 4, name, -1, SQLITE_TRANSIENT);
    sqlite3_bind_double(to, 5, figure->value);
    sqlite3_bind_double(to, 6, figure->low);
    sqlite3_bind_double(to, 7, figure->high);
    return ls_results_step(page->results, to, &unused);
}

/* Reports in what the rows of one case, {label: [rows]}, of a table differ. */
static void tell_merged(const ls_page *page, const char *table, const json_t *cases)
{
    char merged[LS_KEY_SIZE];
    const size_t count = ls_report_merged(cases, NULL, false, merged, sizeof merged);
    if (count > 0)
        json_array_append_new(
            page->left_out,
            json_sprintf("%s: rows of one case that differ in %s: %zu", table, merged, count));
}

/* The rows of a pool: those that may be compared with each other. */
static ls_status tell_pool(const ls_page *page, const json_t *differences, sqlite3_stmt *to,
                           const json_t *pool, const char *number)
{
    static const char *const by_words[] = {[LS_RANK_MEDIAN] = "",
                                           [LS_RANK_MEAN] = "samples trained / time",
                                           [LS_RANK_SPEEDUP] =
                                               "speed-up over single in each group's own turns"};
    const int by = (int)json_integer_value(json_object_get(pool, "by"));
    const char *against = page->options->against;
    const json_t *row;
    char key[96];
    size_t i;
    snprintf(key, sizeof key, "%s|%s", number, by_words[by]);
    json_array_foreach(json_object_get(pool, "rows"), i, row)
    {
        char label[LS_LABEL_SIZE], name[LS_LABEL_SIZE], value[128];
        ls_interval figure;
        if (!ls_rank_rate(row, (ls_rank_by)by, &figure))
            figure.low = figure.high = 0;
        ls_report_label(row, differences, true, against, label);
        ls_report_label(row, differences, false, NULL, name);
        if (against)
            ls_text_add(name, sizeof name, " (%s)",
                        ls_report_text(row, against, value, sizeof value));
        LS_TRY(insert(page, to, row, key, label, name, &figure));
    }
    return LS_OK;
}

/* The group of rows of one model, data set, machine, and batch, or batch of a device, with the most
 * of our strategies, then the most rows: fills `told`. */
static ls_status tell_widest(const ls_page *page, const json_t *timed, sqlite3_stmt *to)
{
    const char *const paths[] = {ls_fields[LS_F_case_model].path, ls_fields[LS_F_case_data].path,
                                 ls_fields[LS_F_case_scaling].path, NULL};
    json_auto_t *alike = ls_figure_groups(timed, paths, page->options->against);
    json_auto_t *groups = json_object();
    const char *key;
    json_t *group, *row, *widest = NULL, *pool;
    double most = 0;
    size_t i;
    json_object_foreach(alike, key, group)
    {
        json_array_foreach(group, i, row)
        {
            const bool weak = strcmp(ls_row_string(row, LS_F_case_scaling), "weak") == 0;
            char batch[LS_KEY_SIZE] = "";
            ls_text_add(batch, sizeof batch, "%g|%s",
                        ls_row_real(row, LS_F_case_batch_global) /
                            (weak ? ls_report_devices(row) : 1),
                        key);
            ls_report_collect(groups, batch, row);
        }
    }
    json_object_foreach(groups, key, group)
    {
        json_auto_t *strategies = json_object();
        json_array_foreach(group, i, row)
        {
            if (ls_row_is_candidate(row))
                json_object_set_new(strategies, ls_report_strategy(row), json_true());
        }
        const double weight =
            1e6 * (double)json_object_size(strategies) + (double)json_array_size(group);
        if (weight > most)
            widest = group;
        most = weight > most ? weight : most;
    }
    json_auto_t *pools = widest ? ls_rank_pools(widest) : NULL;
    json_auto_t *differences = ls_report_differences(widest, NULL, page->options->against);
    json_auto_t *cases = ls_report_cases(widest, NULL, differences, true, page->options->against);
    tell_merged(page, "table of cases", cases);
    json_array_foreach(pools, i, pool)
    {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        LS_TRY(tell_pool(page, differences, to, pool, number));
    }
    return LS_OK;
}

/* All rows by case and value of the key: fills `told` for `--against`. */
static ls_status tell_pairs(const ls_page *page, const json_t *timed, sqlite3_stmt *to)
{
    const char *const paths[] = {ls_fields[LS_F_case_model].path,
                                 ls_fields[LS_F_case_batch_global].path, NULL};
    const char *against = page->options->against, *unused, *label, *value;
    json_auto_t *groups = ls_figure_groups(timed, paths, against);
    const bool several = ls_figure_machines(timed) > 1;
    json_t *group, *same, *rows, *row;
    size_t i;
    json_object_foreach(groups, unused, group)
    {
        json_auto_t *differences = ls_report_differences(group, NULL, against);
        json_auto_t *cases = ls_report_cases(group, NULL, differences, true, NULL);
        char machine[LS_MACHINE_SIZE] = "", title[LS_KEY_SIZE];
        if (several && ls_figure_machines(group) == 1)
            ls_report_machine(json_array_get(group, 0), machine, sizeof machine);
        (void)unused;
        json_object_foreach(cases, label, same)
        {
            json_auto_t *values = ls_report_cases(same, against, NULL, false, NULL);
            *title = 0;
            ls_text_add(title, sizeof title, "%s (%s, global batch %.0f%s%s)", label,
                        ls_row_string(json_array_get(same, 0), LS_F_case_model),
                        ls_row_real(json_array_get(same, 0), LS_F_case_batch_global),
                        *machine ? ", on " : "", machine);
            if (json_object_size(values) > 1)
                tell_merged(page, "side by side", values);
            json_object_foreach(values, value, rows)
            {
                json_array_foreach(rows, i, row)
                    LS_TRY(insert(page, to, row, "pair", title, value, &(ls_interval){0, 0, 0}));
            }
        }
    }
    return LS_OK;
}

ls_status ls_page_tell(const ls_page *page)
{
    json_auto_t *timed = ls_report_those(page->rows, is_timed, NULL);
    sqlite3_stmt *to;
    bool unused;
    LS_TRY(ls_results_prepare(
        page->results, "CREATE TEMP TABLE told (place, pool, title, name, v, low, high)", &to));
    ls_status status = ls_results_step(page->results, to, &unused);
    sqlite3_finalize(to);
    LS_TRY(status);
    LS_TRY(ls_results_prepare(page->results, "INSERT INTO told VALUES (?, ?, ?, ?, ?, ?, ?)", &to));
    status = tell_widest(page, timed, to);
    if (!status && page->options->against)
        status = tell_pairs(page, timed, to);
    sqlite3_finalize(to);
    return status;
}

char *ls_page_between(const ls_page *page, size_t place, size_t other)
{
    json_auto_t *both = json_pack("[O,O]", json_array_get(page->rows, place - 1),
                                  json_array_get(page->rows, other - 1));
    json_auto_t *paths = json_object();
    ls_rows_differ(both, LS_BUT_REPEATS, LS_OF_MACHINE, paths);
    json_object_del(paths, page->options->against);
    return ls_paths_text(paths);
}
