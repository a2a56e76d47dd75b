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

/* The text's lines. */
static json_t *lines_of(const char *text)
{
    json_t *out = json_array();
    while (*text) {
        const size_t length = strcspn(text, "\n");
        json_array_append_new(out, json_stringn(text, length));
        text += length + (text[length] == '\n');
    }
    return out;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* The values of a text, each once, with commas between. */
static void add_values(const json_t *rows, ls_field_number field, char *out, size_t size)
{
    json_auto_t *known = json_object();
    const char *value;
    json_t *unused;
    const json_t *row;
    size_t i, count = 0;
    json_array_foreach(rows, i, row)
    {
        if (*ls_row_string(row, field))
            json_object_set_new(known, ls_row_string(row, field), json_null());
    }
    json_object_foreach(known, value, unused)
    {
        (void)unused;
        ls_text_add(out, size, "%s%s", count++ ? ", " : "", value);
    }
}

/* What of the rows was predicted, and how far it is to be trusted; NULL: nothing was. */
static json_t *predicted_of(const json_t *rows)
{
    size_t predicted = 0, extrapolated = 0, i;
    double least = INFINITY, most = 0;
    const json_t *row;
    char out[2048] = "";
    json_array_foreach(rows, i, row)
    {
        const double error = ls_row_real(row, LS_F_prediction_error);
        predicted += ls_row_is_predicted(row);
        extrapolated += ls_row_true(row, LS_F_prediction_extrapolated);
        least = error > 0 ? fmin(least, error) : least;
        most = fmax(most, error);
    }
    if (!predicted)
        return NULL;
    ls_text_add(out, sizeof out,
                "%zu of %zu rows were not measured: their steps were played in virtual time, by ",
                predicted, json_array_size(rows));
    add_values(rows, LS_F_prediction_engine, out, sizeof out);
    ls_text_add(out, sizeof out, ", on ");
    add_values(rows, LS_F_prediction_platform, out, sizeof out);
    ls_text_add(out, sizeof out, ". Lines of them are dashed, their marks hollow.");
    if (most > 0)
        ls_text_add(out, sizeof out, " The half width of their intervals is %.1f%% to %.1f%%.",
                    100 * least, 100 * most);
    if (extrapolated)
        ls_text_add(out, sizeof out,
                    " %zu are extrapolated: no validated row has so many devices, and the "
                    "intervals know the spread of durations only.",
                    extrapolated);
    return json_string(out);
}

/* The text of each model that is from a file (--model graph:FILE), once, to open. */
static json_t *models_of(const json_t *rows)
{
    json_auto_t *known = json_object();
    json_t *out = json_array();
    const json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const char *text = ls_row_string(row, LS_F_case_model_text),
                   *digest = ls_row_string(row, LS_F_case_model_digest);
        if (!*text || json_object_get(known, digest))
            continue;
        json_object_set_new(known, digest, json_true());
        json_array_append_new(out, json_pack("{s:s,s:s,s:o}", "name",
                                             ls_row_string(row, LS_F_case_model), "digest", digest,
                                             "lines", lines_of(text)));
    }
    return out;
}

/* {name: provenance of the newest row}, in order of appearance. */
static json_t *find_machines(const json_t *rows)
{
    json_t *out = json_object();
    const json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        char machine[LS_MACHINE_SIZE];
        json_t *provenance = ls_row_group(row, LS_G_provenance);
        if (provenance)
            json_object_set(out, ls_report_machine(row, machine, sizeof machine), provenance);
    }
    return out;
}

static json_t *shown_machines(const json_t *machines)
{
    json_t *out = json_array(), *provenance, *value;
    const char *machine, *name;
    json_object_foreach((json_t *)(size_t)machines, machine, provenance)
    {
        json_t *facts = json_array();
        json_object_foreach(provenance, name, value)
        {
            char *text = ls_value_text(value);
            json_array_append_new(facts, json_pack("{s:s,s:s*}", "name", name, "value", text));
            free(text);
        }
        json_array_append_new(out, json_pack("{s:o,s:s,s:o}", "number",
                                             json_sprintf("%zu", json_array_size(out) + 1), "name",
                                             *machine ? machine : "not named", "facts", facts));
    }
    return out;
}

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

static json_t *legend(void)
{
    json_t *out = json_array();
    for (size_t p = 0; ls_parts_of_step.shown[p]; p++)
        json_array_append_new(out, json_pack("{s:o,s:s}", "class", json_sprintf("%zu", p), "name",
                                             ls_parts_of_step.shown[p]));
    return out;
}

/* Adds what a citation has: the day of the newest row, perhaps nothing for a foreign row, and a
 * number of these rows' own. */
static void add_citation(json_t *out, const json_t *rows)
{
    const size_t count = json_array_size(rows);
    const json_t *row = json_array_get(rows, count - 1);
    char day[11], commit[64], machine[LS_MACHINE_SIZE];
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++) {
        const char *id = ls_row_string(json_array_get(rows, i), LS_F_id);
        hash = 31 * hash + ls_hash64(id, strlen(id));
    }
    snprintf(day, sizeof day, "%.10s", ls_row_string(row, LS_F_timestamp));
    day[strspn(day, "0123456789-")] = 0;
    ls_page_text(out, "key", "%s-%06x", day, (unsigned)(hash & 0xffffff));
    ls_page_text(out, "day", "%s", day);
    ls_page_text(out, "year", "%.4s", day);
    ls_page_text(out, "model", "%s", ls_row_string(row, LS_F_case_model));
    ls_page_text(out, "version", "%s", LS_VERSION);
    ls_page_text(out, "commit", "%s", ls_report_commit(row, 40, commit));
    ls_page_text(out, "machine", "%s", ls_report_machine(row, machine, sizeof machine));
}

json_t *ls_page_values(const json_t *rows, json_t *figures, json_t *left_out,
                       const ls_report_options *options)
{
    json_t *out = json_object(), *finding = ls_finding(rows, options->against, left_out), *figure;
    json_auto_t *machines = find_machines(rows);
    const char *headline = "All rows here failed a check, could not run or were interrupted";
    char *commands = ls_report_commands(rows), *dark = NULL;
    size_t size, i;
    for (i = 0; i < json_array_size(rows) && !finding; i++)
        if (ls_report_is_ok(json_array_get(rows, i), NULL))
            headline = "No row here has a time";
    ls_page_text(out, "headline", "%s", finding ? ls_text_of(finding, "headline") : headline);
    if (finding) /* table.tex has its members alone */
        json_object_update(out, finding);
    json_object_set_new(out, "finding", finding);
    if (options->against)
        json_object_set_new(out, "against", ls_against(rows, options->against, left_out));
    json_object_set_new(out, "predicted", predicted_of(rows));
    json_array_foreach(figures, i, figure) add_data(figure);
    json_object_set(out, "figures", figures);
    if (json_array_size(figures) > 0)
        json_object_set_new(out, "pictures", json_true());
    ls_page_text(out, "count", "%zu", json_array_size(rows));
    json_object_set_new(out, "legend", legend());
    json_object_set_new(out, "rows", ls_page_lines(rows, machines, options));
    json_object_set_new(out, "machines", shown_machines(machines));
    json_object_set_new(out, "models", models_of(rows));
    json_object_set(out, "left_out", left_out);
    if (commands)
        json_object_set_new(out, "again", json_pack("{s:o}", "commands", lines_of(commands)));
    free(commands);
    FILE *stream = open_memstream(&dark, &size);
    if (stream) {
        ls_draw_dark_style(stream);
        fclose(stream);
        ls_page_text(out, "dark", "%s", dark);
    }
    free(dark);
    add_citation(out, rows);
    if (options->url)
        ls_page_text(out, "url", "%s", options->url);
    return out;
}
