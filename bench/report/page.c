/* SPDX-License-Identifier: MIT */
/* What the templates of a report's files show: see page.h. */
#include "bench/report/page.h"

#include "bench/output/format.h"
#include "bench/report/case_keys.h"
#include "bench/report/text.h"
#include "build_info.h"
#include "bench/statistics/verdict.h"
#include "common/base/digest.h"
#include "common/base/grow.h"
#include "template_citation.h"
#include "template_markdown.h"
#include "template_page.h"
#include "template_plan.h"
#include "template_queries.h"
#include "template_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS_MOST = 120 };

const ls_page_template ls_page_templates[LS_PAGE_TEMPLATES] = {
    {"index.html", ls_template_page, LS_ESCAPE_MARKUP},
    {"report.md", ls_template_markdown, LS_ESCAPE_MARKDOWN},
    {"report.bib", ls_template_citation, LS_ESCAPE_BIBTEX},
    {"report.yaml", ls_template_plan, LS_ESCAPE_JSON},
    {"table.tex", ls_template_table, LS_ESCAPE_BIBTEX},
};

/* ---- Data of figures ------------------------------------------------------------------------- */

/* A figure's data as a table, {heads: texts, points: [{cells: texts}]}. */
static json_t *data_of(const json_t *figure, const char *format)
{
    const json_t *names = json_object_get(figure, "categories"), *series, *point;
    const bool bytes = strcmp(ls_text_of(figure, "unit"), "bytes") == 0;
    json_t *points = json_array();
    size_t s, p;
    json_array_foreach(json_object_get(figure, "series"), s, series)
    {
        json_array_foreach(json_object_get(series, "points"), p, point)
        {
            json_t *cells = json_pack("[s]", ls_text_of(series, "name"));
            if (names)
                json_array_append(cells, json_array_get(names, p));
            for (size_t k = names ? 1 : 0; k < 4; k++) {
                const double value = ls_figure_at(point, k);
                json_array_append_new(cells,
                                      isfinite(value) ? json_sprintf(format, value) : json_null());
            }
            json_array_append_new(points, json_pack("{s:o}", "cells", cells));
        }
    }
    return json_pack(
        "{s:[s,s,o,s,s],s:o}", "heads", "series", names ? "case" : ls_text_of(figure, "x"),
        json_sprintf("%s%s", ls_text_of(figure, names ? "x" : "y"), bytes ? ", bytes" : ""), "low",
        "high", "points", points);
}

static void put_csv_text(FILE *stream, const char *text, const char *after)
{
    fputs("\"", stream);
    ls_escape_put(stream, text, SIZE_MAX, LS_ESCAPE_CSV);
    fprintf(stream, "\"%s", after);
}

ls_status ls_page_csv(FILE *stream, void *figure)
{
    json_auto_t *data = data_of(figure, "%.17g");
    const size_t texts = json_object_get(figure, "categories") ? 2 : 1;
    const json_t *cell, *point;
    size_t i, k;
    json_array_foreach(json_object_get(data, "heads"), i, cell)
    {
        put_csv_text(stream, json_string_value(cell), ",");
    }
    fputs("\"caption\"\n", stream);
    json_array_foreach(json_object_get(data, "points"), i, point)
    {
        json_array_foreach(json_object_get(point, "cells"), k, cell)
        {
            if (k < texts)
                put_csv_text(stream, json_string_value(cell), ",");
            else
                fprintf(stream, "%s,", json_is_string(cell) ? json_string_value(cell) : "");
        }
        put_csv_text(stream, i == 0 ? ls_text_of(figure, "caption") : "", "\n");
    }
    return LS_OK;
}

/* Adds its data to a figure, as far as the page has room for it. */
static void add_data(json_t *figure)
{
    json_auto_t *data = data_of(figure, "%.6g");
    json_t *points = json_object_get(data, "points");
    const size_t count = json_array_size(points);
    for (size_t i = count; i > POINTS_MOST; i--)
        json_array_remove(points, i - 1);
    json_object_update(figure, data);
    if (count > POINTS_MOST)
        json_object_set_new(figure, "more", json_sprintf("%zu", count - POINTS_MOST));
}

/* ---- Queries --------------------------------------------------------------------------------- */

static uint64_t hash_of(const json_t *rows)
{
    uint64_t hash = 0;
    const json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const char *id = ls_row_string(row, LS_F_id);
        hash = 31 * hash + ls_hash64(id, strlen(id));
    }
    return hash & 0xffffff;
}

/* row_text(place, what): what C alone can say of a row. */
static void row_text(sqlite3_context *context, int count, sqlite3_value **value)
{
    const ls_page *of = sqlite3_user_data(context);
    const json_t *row = json_array_get(of->rows, (size_t)sqlite3_value_int64(value[0]) - 1);
    const char *what = (const char *)sqlite3_value_text(value[1]);
    char text[LS_MACHINE_SIZE] = "";
    (void)count;
    if (strcmp(what, "label") == 0)
        ls_report_label(row, of->differences, false, NULL, text);
    else if (strcmp(what, "machine") == 0)
        ls_report_machine(row, text, sizeof text);
    else if (strcmp(what, "devices") == 0 && ls_row_group(row, LS_G_case))
        snprintf(text, sizeof text, "%g", ls_report_devices(row));
    else if (strcmp(what, "ok") == 0)
        snprintf(text, sizeof text, "%s", ls_report_is_ok(row, NULL) ? "ok" : "");
    else if (strcmp(what, "peer") == 0)
        snprintf(text, sizeof text, "%s", ls_report_is_peer(row) ? "peer" : "");
    else if (strcmp(what, "gate") == 0)
        snprintf(text, sizeof text, "%s", ls_gate_word(row));
    else if (strcmp(what, "commit") == 0)
        ls_report_commit(row, 12, text);
    else if (strcmp(what, "whole commit") == 0)
        ls_report_commit(row, 40, text);
    else if (strcmp(what, "hash") == 0)
        snprintf(text, sizeof text, "%06x", (unsigned)hash_of(of->rows));
    else if (strcmp(what, "version") == 0)
        snprintf(text, sizeof text, "%s", LS_VERSION);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

/* bound_text(place, number): what limits its step, in lines. */
static void bound_text(sqlite3_context *context, int count, sqlite3_value **value)
{
    const ls_page *of = sqlite3_user_data(context);
    const json_t *row = json_array_get(of->rows, (size_t)sqlite3_value_int64(value[0]) - 1);
    (void)count;
    if (of->options->explain && ls_row_group(row, LS_G_waterfall))
        sqlite3_result_text(context,
                            of->options->explain(of->results, sqlite3_value_int64(value[1]), row),
                            -1, free);
}

/* figure_text(value, unit): as figures have it; "plain": four digits that the page can sort by;
 * nothing for what is no number, and for 0 of these. */
static void figure_text(sqlite3_context *context, int count, sqlite3_value **value)
{
    const char *unit = (const char *)sqlite3_value_text(value[1]);
    const double number = sqlite3_value_double(value[0]);
    const bool plain = strcmp(unit, "plain") == 0;
    char text[48];
    (void)count;
    if (sqlite3_value_numeric_type(value[0]) > SQLITE_FLOAT || (plain && !(number > 0)))
        return;
    if (plain)
        snprintf(text, sizeof text, number >= 1000 && number < 1e10 ? "%.0f" : "%.4g", number);
    else
        ls_figure_value(number, unit, text);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

/* "25,600 (25,347 to 25,859)"; without an interval, whose low is 0 then, "25,600". */
static void give_interval(sqlite3_context *context, ls_interval of)
{
    char value[48], low[48], high[48], text[160];
    if (!isfinite(of.value))
        return;
    ls_figure_value(of.value, "", value);
    if (of.low > 0)
        snprintf(text, sizeof text, "%s (%s to %s)", value, ls_figure_value(of.low, "", low),
                 ls_figure_value(of.high, "", high));
    sqlite3_result_text(context, of.low > 0 ? text : value, -1, SQLITE_TRANSIENT);
}

static ls_interval read_interval(sqlite3_value **value)
{
    return (ls_interval){sqlite3_value_double(value[0]), sqlite3_value_double(value[1]),
                         sqlite3_value_double(value[2])};
}

static void interval_text(sqlite3_context *context, int count, sqlite3_value **value)
{
    (void)count;
    give_interval(context, read_interval(value));
}

/* ratio_text(a, low, high, b, low, high, what): a / b, "two digits", or as the "verdict". */
static void ratio_text(sqlite3_context *context, int count, sqlite3_value **value)
{
    const ls_interval ratio = ls_report_ratio(read_interval(value), read_interval(value + 3));
    const char *what = (const char *)sqlite3_value_text(value[6]);
    char text[96];
    (void)count;
    if (strcmp(what, "verdict") == 0) {
        sqlite3_result_text(context, ls_verdict_name(ls_verdict_of_pair(ratio)), -1, SQLITE_STATIC);
    } else if (strcmp(what, "two digits") == 0) {
        snprintf(text, sizeof text, "%.2f (%.2f to %.2f)", ratio.value, ratio.low, ratio.high);
        sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
    } else {
        give_interval(context, ratio);
    }
}

static void row_between(sqlite3_context *context, int count, sqlite3_value **value)
{
    (void)count;
    sqlite3_result_text(context,
                        ls_page_between(sqlite3_user_data(context),
                                        (size_t)sqlite3_value_int64(value[0]),
                                        (size_t)sqlite3_value_int64(value[1])),
                        -1, free);
}

/* The values of a group whose median is asked for. */
typedef struct numbers {
    double *items;
    size_t count;
} numbers;

static void add_number(sqlite3_context *context, int count, sqlite3_value **value)
{
    numbers *all = sqlite3_aggregate_context(context, sizeof *all);
    (void)count;
    if (!all || sqlite3_value_numeric_type(*value) > SQLITE_FLOAT)
        return;
    ls_status status = ls_grow("rows", &all->items, all->count, sizeof *all->items);
    if (!status)
        all->items[all->count++] = sqlite3_value_double(*value);
    ls_status_free(status);
}

static void give_median(sqlite3_context *context)
{
    numbers *all = sqlite3_aggregate_context(context, 0);
    if (all && all->count > 0)
        sqlite3_result_double(context, ls_statistics_repeats(all->items, all->count).value);
    if (all)
        free(all->items);
}

/* Adds the rows of a statement as objects of texts; a column NAME[] is JSON. */
static ls_status add_result(ls_results *results, sqlite3_stmt *statement, json_t *list)
{
    bool more;
    LS_TRY(ls_results_step(results, statement, &more));
    while (more) {
        json_t *line = json_object();
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            char name[32];
            const char *text = ls_results_text(statement, i);
            const int length = snprintf(name, sizeof name, "%s", sqlite3_column_name(statement, i));
            const bool is_json = name[length - 1] == ']';
            name[is_json ? length - 2 : length] = 0;
            if (*text)
                json_object_set_new(line, name,
                                    is_json ? json_loads(text, 0, NULL) : json_string(text));
        }
        json_array_append_new(list, line);
        LS_TRY(ls_results_step(results, statement, &more));
    }
    return LS_OK;
}

/* Adds the result of each query of page.sql, by its name. */
static ls_status add_queries(const ls_page *page, json_t *out)
{
    static const struct {
        const char *name;
        int arguments;
        void (*call)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {{"row_text", 2, row_text},           {"bound_text", 2, bound_text},
                     {"row_between", 2, row_between},     {"figure_text", 2, figure_text},
                     {"interval_text", 3, interval_text}, {"ratio_text", 7, ratio_text}};
    ls_results *results = page->results;
    sqlite3_stmt *statement;
    LS_TRY(ls_results_prepare(results, "SELECT 1", &statement));
    sqlite3 *db = sqlite3_db_handle(statement);
    sqlite3_finalize(statement);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        sqlite3_create_function(db, functions[i].name, functions[i].arguments, SQLITE_UTF8,
                                (void *)(size_t)page, functions[i].call, NULL, NULL);
    sqlite3_create_function(db, "median", 1, SQLITE_UTF8, NULL, NULL, add_number, give_median);
    for (const char *at = ls_template_queries; (at = strstr(at, "\n\n-- "));) {
        char name[32];
        at += 5;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ":\n"), at);
        json_t *list = json_array();
        json_object_set_new(out, name, list);
        LS_TRY(ls_results_prepare(results, strchr(at, '\n'), &statement));
        ls_status status = add_result(results, statement, list);
        sqlite3_finalize(statement);
        LS_TRY(status);
    }
    return LS_OK;
}

ls_status ls_page_values(ls_page *page, json_t *figures, json_t *out)
{
    json_auto_t *differences = ls_report_differences(page->rows, ls_fields[LS_F_case_model].path,
                                                     ls_fields[LS_F_case_batch_global].path);
    json_t *figure;
    size_t i;
    page->differences = differences;
    LS_TRY(ls_page_tell(page));
    LS_TRY(add_queries(page, out));
    json_array_foreach(figures, i, figure) add_data(figure);
    json_object_set(out, "figures", figures);
    if (json_array_size(figures) > 0)
        json_object_set_new(out, "pictures", json_true());
    json_object_set_new(out, "count", json_sprintf("%zu", json_array_size(page->rows)));
    json_object_set(out, "left_out", page->left_out);
    if (page->options->url)
        json_object_set_new(out, "url", json_string(page->options->url));
    if (page->options->against)
        json_object_set_new(out, "against", json_pack("{s:s}", "key", page->options->against));
    return LS_OK;
}
