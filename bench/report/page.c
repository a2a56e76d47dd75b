/* SPDX-License-Identifier: MIT */
/* What the templates of a report's files show: see page.h. */
#include "bench/report/page.h"

#include "bench/output/format_parts.h"
#include "bench/report/case_keys.h"
#include "bench/report/draw.h"
#include "bench/report/text.h"
#include "build_info.h"
#include "common/base/digest.h"
#include "template_citation.h"
#include "template_markdown.h"
#include "template_page.h"
#include "template_plan.h"
#include "template_queries.h"
#include "template_table.h"

#include <math.h>
#include <stdarg.h>
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

/* ---- Values ---------------------------------------------------------------------------------- */

void ls_page_text(json_t *to, const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_object_set_new(to, name, json_vsprintf(format, arguments));
    va_end(arguments);
}

void ls_page_number(json_t *to, const char *name, const char *format, double value)
{
    char text[64];
    snprintf(text, sizeof text, format, value);
    if (isfinite(value))
        json_object_set_new(to, name, json_string(text));
}

void ls_page_interval(json_t *to, const char *name, ls_interval figure)
{
    char value[48], low[48], high[48];
    if (!isfinite(figure.value))
        return;
    ls_figure_value(figure.value, "", value);
    if (figure.low > 0)
        ls_page_text(to, name, "%s (%s to %s)", value, ls_figure_value(figure.low, "", low),
                     ls_figure_value(figure.high, "", high));
    else
        ls_page_text(to, name, "%s", value);
}

double ls_page_median(const json_t *rows, ls_field_number field)
{
    double *values = calloc(json_array_size(rows) + 1, sizeof *values);
    size_t count = 0, i;
    const json_t *row;
    json_array_foreach(rows, i, row)
    {
        ls_interval pace = {ls_row_real(row, field), 0, 0};
        if (field == LS_F_time_step_ms_median)
            ls_row_pace(row, &pace);
        if (values && ls_row_has(row, field))
            values[count++] = pace.value;
    }
    const double out = count > 0 ? ls_statistics_repeats(values, count).value : NAN;
    free(values);
    return out;
}

bool ls_page_is_timed(const json_t *row, const void *unused)
{
    return ls_report_is_ok(row, unused) && ls_report_rate(row).value > 0;
}

json_t *ls_page_groups(const json_t *rows, const ls_field_number *fields, size_t count,
                       const char *against)
{
    const char *paths[8] = {NULL};
    for (size_t i = 0; i < count; i++)
        paths[i] = ls_fields[fields[i]].path;
    json_auto_t *timed = ls_report_those(rows, ls_page_is_timed, NULL);
    return ls_figure_groups(timed, paths, against);
}

void ls_page_merged(const char *table, const json_t *cases, json_t *left_out)
{
    char merged[LS_KEY_SIZE];
    const size_t count = ls_report_merged(cases, NULL, false, merged, sizeof merged);
    if (count > 0)
        json_array_append_new(left_out, json_sprintf("%s: rows of one case that differ in %s: %zu",
                                                     table, merged, count));
}

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
        ls_page_text(figure, "more", "%zu", count - POINTS_MOST);
}

/* ---- Queries --------------------------------------------------------------------------------- */

/* The rows chosen, in their order, for functions of SQL. */
typedef struct shown {
    const json_t *rows, *differences;
    const ls_report_options *options;
} shown;

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
    const shown *of = sqlite3_user_data(context);
    const json_t *row = json_array_get(of->rows, (size_t)sqlite3_value_int64(value[0]) - 1);
    const char *what = (const char *)sqlite3_value_text(value[1]);
    char text[LS_MACHINE_SIZE] = "", *bound = NULL;
    (void)count;
    if (strcmp(what, "label") == 0)
        ls_report_label(row, of->differences, false, NULL, text);
    else if (strcmp(what, "machine") == 0)
        ls_report_machine(row, text, sizeof text);
    else if (strcmp(what, "devices") == 0 && ls_row_group(row, LS_G_case))
        snprintf(text, sizeof text, "%g", ls_report_devices(row));
    else if (strcmp(what, "ours") == 0 && ls_row_group(row, LS_G_case) && !ls_report_is_peer(row) &&
             ls_report_is_ok(row, NULL))
        snprintf(text, sizeof text, "yes");
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
    else if (strcmp(what, "bound") == 0 && of->options->explain)
        bound = of->options->explain(row);
    sqlite3_result_text(context, bound ? bound : text, -1, SQLITE_TRANSIENT);
    free(bound);
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
static ls_status add_queries(ls_results *results, shown *of, json_t *out)
{
    sqlite3_stmt *statement;
    LS_TRY(ls_results_prepare(results, "SELECT 1", &statement));
    sqlite3 *db = sqlite3_db_handle(statement);
    sqlite3_finalize(statement);
    sqlite3_create_function(db, "row_text", 2, SQLITE_UTF8, of, row_text, NULL, NULL);
    sqlite3_create_function(db, "figure_text", 2, SQLITE_UTF8, NULL, figure_text, NULL, NULL);
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

ls_status ls_page_values(ls_results *results, const json_t *rows, json_t *figures, json_t *left_out,
                         const ls_report_options *options, json_t *out)
{
    json_t *finding = ls_finding(rows, options->against, left_out), *figure;
    const char *headline = "All rows here failed a check, could not run or were interrupted";
    char *dark = NULL;
    size_t size, i;
    json_auto_t *differences = ls_report_differences(rows, ls_fields[LS_F_case_model].path,
                                                     ls_fields[LS_F_case_batch_global].path);
    shown of = {rows, differences, options};
    for (i = 0; i < json_array_size(rows); i++)
        if (ls_report_is_ok(json_array_get(rows, i), NULL))
            headline = "No row here has a time";
    ls_page_text(out, "headline", "%s", headline);
    json_object_update(out, finding);
    json_object_set_new(out, "finding", finding);
    if (options->against)
        json_object_set_new(out, "against", ls_against(rows, options->against, left_out));
    json_array_foreach(figures, i, figure) add_data(figure);
    json_object_set(out, "figures", figures);
    if (json_array_size(figures) > 0)
        json_object_set_new(out, "pictures", json_true());
    ls_page_text(out, "count", "%zu", json_array_size(rows));
    json_object_set(out, "left_out", left_out);
    FILE *stream = open_memstream(&dark, &size);
    if (stream) {
        ls_draw_dark_style(stream);
        fclose(stream);
        ls_page_text(out, "dark", "%s", dark);
    }
    free(dark);
    ls_page_text(out, "url", "%s", options->url ? options->url : "");
    LS_TRY(add_queries(results, &of, out));
    ls_report_plan(rows, out);
    return LS_OK;
}
