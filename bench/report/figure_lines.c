/* SPDX-License-Identifier: MIT */
/*
 * Figures of lines: a table of kinds, each of which says what it takes from a row. Points of one
 * series and place, of several rows, become one: their median, with the range as its bar.
 */
#include "bench/report/case_keys.h"
#include "bench/report/figure_kinds.h"
#include "bench/report/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The series of this name in the figure, made where there is none; NULL: there are too many. */
static json_t *series_of(json_t *figure, const char *label, const json_t *row)
{
    json_t *all = json_object_get(figure, "series"), *one;
    size_t i;
    int variant = 0;
    const bool peer = ls_report_is_peer(row), micro = json_object_get(row, "micro");
    const int style = peer    ? -1
                      : micro ? (int)(json_array_size(all) % 9) /* by no strategy */
                              : ls_figure_style(ls_report_strategy(row));
    json_array_foreach(all, i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "name")), label) == 0)
            return one;
        variant += json_integer_value(json_object_get(one, "style")) == style;
    }
    one = json_pack("{s:s,s:s,s:i,s:i,s:[]}", "name", label, "strategy", ls_report_strategy(row),
                    "style", style, "variant", variant, "points");
    json_array_append_new(all, one);
    return one;
}

static double at(const json_t *point, size_t index)
{
    return json_number_value(json_array_get(point, index));
}

static int by_x_then_y(const void *a, const void *b)
{
    const json_t *const *p = a, *const *q = b;
    for (size_t i = 0; i < 2; i++)
        if (at(*p, i) < at(*q, i) || at(*p, i) > at(*q, i))
            return at(*p, i) < at(*q, i) ? -1 : 1;
    return 0;
}

/* In order of x, one point a place. */
static json_t *merge(const json_t *points)
{
    const size_t count = json_array_size(points);
    json_t *out = json_array(), **sorted = malloc((count + 1) * sizeof *sorted);
    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = json_array_get(points, i);
    if (sorted && count > 0)
        qsort(sorted, count, sizeof *sorted, by_x_then_y);
    for (size_t i = 0, end; sorted && i < count; i = end) {
        for (end = i + 1; end < count && at(sorted[end], 0) <= at(sorted[i], 0);)
            end++;
        const json_t *middle = sorted[(i + end - 1) / 2], *above = sorted[(i + end) / 2];
        const bool alone = end - i == 1;
        ls_figure_point(out, at(middle, 0), (at(middle, 1) + at(above, 1)) / 2,
                        at(sorted[i], alone ? 2 : 1), at(sorted[end - 1], alone ? 3 : 1));
    }
    free(sorted);
    return out;
}

/* Keeps the series that make a line; how many places of x there are in the longest. */
static size_t tidy(json_t *figure)
{
    json_t *all = json_object_get(figure, "series");
    size_t longest = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *one = json_array_get(all, i);
        json_t *points = merge(json_object_get(one, "points"));
        json_object_set_new(one, "points", points);
        if (json_array_size(points) > longest)
            longest = json_array_size(points);
    }
    return longest;
}

/* "mirrored keeps 83% on 2 devices": of the farthest place that a proven strategy comes to. */
static void set_title(json_t *figure, const ls_line_kind *kind)
{
    const json_t *best = NULL, *all = json_object_get(figure, "series");
    double x = -INFINITY, y = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i), *points = json_object_get(one, "points");
        const char *strategy = json_string_value(json_object_get(one, "strategy"));
        const json_t *last = json_array_get(points, json_array_size(points) - 1);
        if (json_integer_value(json_object_get(one, "style")) < 0 || !last ||
            (strcmp(strategy, "independent") == 0 && best))
            continue;
        for (size_t k = 0; kind->one && kind->better > 0 && k < json_array_size(points); k++)
            if (at(json_array_get(points, k), 1) > at(last, 1)) /* of a histogram the peak */
                last = json_array_get(points, k);
        if (best && !kind->one && at(last, 0) < x)
            continue;
        if (best && at(last, 0) <= x && (at(last, 1) - y) * kind->better <= 0)
            continue;
        best = one;
        x = at(last, 0);
        y = at(last, 1);
    }
    if (!best) {
        json_object_set_new(figure, "title", json_sprintf("%s by %s", kind->y, kind->x));
        return;
    }
    char shown[48], place[48];
    const char *name = json_string_value(json_object_get(best, "name"));
    ls_figure_value(y, kind->unit, shown);
    ls_figure_value(x, "", place);
    char title[512];
    const char *parts[] = {name, shown, place};
    size_t used = 0, part = 0;
    for (const char *c = kind->title; *c && used + 1 < sizeof title; c++) {
        if (c[0] == '%' && c[1] == 's') {
            used += (size_t)snprintf(title + used, sizeof title - used, "%s", parts[part++ % 3]);
            used = used < sizeof title ? used : sizeof title - 1;
            c++;
        } else {
            title[used++] = *c;
        }
    }
    title[used] = 0;
    json_object_set_new(figure, "title", json_string(title));
}

/* A line of what the points are to be. */
static void add_formula(json_t *figure, const ls_line_kind *kind, const json_t *rows)
{
    json_t *points = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const double y = ls_report_number(row, kind->formula, -1);
        json_t *own = json_array();
        kind->points(row, own);
        if (y >= 0 && json_array_size(own) > 0)
            ls_figure_point(points, at(json_array_get(own, 0), 0), y, y, y);
        json_decref(own);
    }
    json_array_append_new(json_object_get(figure, "series"),
                          json_pack("{s:s,s:s,s:i,s:i,s:o}", "name", "formula", "strategy", "",
                                    "style", -1, "variant", 1, "points", points));
}

static void describe(json_t *figure, const ls_line_kind *kind)
{
    const char *title = json_string_value(json_object_get(figure, "title"));
    const char *sub = json_string_value(json_object_get(figure, "sub"));
    json_object_set_new(figure, "alt",
                        json_sprintf("%s against %s, a line for each of %zu series: %s (%s)",
                                     kind->y, kind->x,
                                     json_array_size(json_object_get(figure, "series")),
                                     title ? title : "", sub ? sub : ""));
    json_object_set_new(
        figure, "caption",
        json_sprintf("A point is the %s. Bars: ci95 of the row, or, where several rows are one "
                     "point (their median), the lowest and the highest.%s",
                     kind->means, kind->ideal ? " Dashed: the ideal." : ""));
    json_object_set_new(figure, "x", json_string(kind->x));
    json_object_set_new(figure, "y", json_string(kind->y));
    json_object_set_new(figure, "unit", json_string(kind->unit));
    json_object_set_new(figure, "log_x", json_boolean(kind->log_x));
    json_object_set_new(figure, "log_y", json_boolean(kind->log_y));
    if (kind->ideal)
        json_object_set_new(figure, "ideal", json_string(kind->ideal));
}

static json_t *fitting(const json_t *rows, const ls_line_kind *kind)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i), *points = json_array();
        char scaling[32];
        ls_report_text(row, "case.scaling", scaling, sizeof scaling);
        if (!kind->scaling || strcmp(kind->scaling, scaling) == 0)
            kind->points(row, points);
        if (json_array_size(points) > 0)
            json_array_append(out, row);
        json_decref(points);
    }
    return out;
}

static void about(const json_t *rows, const ls_line_kind *kind, char *out, size_t size)
{
    char text[96];
    *out = 0;
    for (size_t i = 0; kind->group[i]; i++) {
        const char *path = kind->group[i], *last = strrchr(path, '.') + 1;
        if (strcmp(path, "case.model") == 0 ||
            !*ls_report_text(json_array_get(rows, 0), path, text, sizeof text))
            continue;
        const size_t used = strlen(out);
        const bool batch = strcmp(last, "batch_global") == 0;
        const bool bare = strcmp(last, "data") == 0 || strcmp(last, "reduce") == 0 ||
                          strcmp(last, "scaling") == 0 || strcmp(last, "op") == 0;
        snprintf(out + used, size - used, "%s%s%s%s", *out ? ", " : "",
                 batch  ? "global batch"
                 : bare ? ""
                        : last,
                 bare ? "" : " ", text);
    }
    if (kind->scaling) {
        const size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%s scaling", *out ? ", " : "", kind->scaling);
    }
}

/* Series beyond those that a picture can hold are told, the shortest first. */
static void limit(json_t *figure, const char *name, json_t *left_out)
{
    json_t *all = json_object_get(figure, "series");
    const size_t count = json_array_size(all);
    while (json_array_size(all) > LS_SERIES_MOST) {
        size_t shortest = json_array_size(all) - 1;
        for (size_t i = json_array_size(all); i-- > 0;)
            if (json_array_size(json_object_get(json_array_get(all, i), "points")) <
                json_array_size(json_object_get(json_array_get(all, shortest), "points")))
                shortest = i;
        json_array_remove(all, shortest);
    }
    if (count > LS_SERIES_MOST)
        json_array_append_new(left_out,
                              json_sprintf("%s: %zu of %zu series, of which a picture "
                                           "holds %d; --where chooses",
                                           name, count - LS_SERIES_MOST, count, LS_SERIES_MOST));
}

static void add(json_t *figures, const ls_line_kind *kind, const json_t *rows, const char *against,
                json_t *left_out)
{
    char text[512];
    about(rows, kind, text, sizeof text);
    json_t *figure = ls_figure_add(figures, kind->name, "lines", rows, text);
    char ignore[1024];
    snprintf(ignore, sizeof ignore, "%s%s%s", ls_report_plain, kind->apart ? kind->apart : "",
             kind->apart ? " " : "");
    json_t *differences = ls_report_differences(rows, ignore);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        char label[256], by[96];
        ls_report_label(row, differences, against, label, sizeof label);
        if (kind->by)
            snprintf(label, sizeof label, "%s", ls_report_text(row, kind->by, by, sizeof by));
        json_t *one = series_of(figure, *label ? label : "all", row);
        kind->points(row, json_object_get(one, "points"));
    }
    if (kind->formula)
        add_formula(figure, kind, rows);
    const size_t longest = tidy(figure);
    if (longest < 2 && !kind->one) {
        json_array_append_new(
            left_out, json_sprintf("%s (%s): rows with one place only: %zu; wanted: %s", kind->name,
                                   *text ? text : "all", json_array_size(rows), kind->want));
        json_array_remove(figures, json_array_size(figures) - 1);
    } else {
        limit(figure, kind->name, left_out);
        set_title(figure, kind);
        describe(figure, kind);
    }
    json_decref(differences);
}

static void add_kind(json_t *figures, const ls_line_kind *kind, const json_t *rows,
                     const char *against, json_t *left_out)
{
    json_t *fit = fitting(rows, kind);
    json_t *groups = ls_figure_groups(fit, kind->group, against);
    json_t *largest = ls_figure_largest(groups, kind->name, left_out);
    if (json_array_size(fit) == 0)
        json_array_append_new(left_out,
                              json_sprintf("%s: no row fits; wanted: %s", kind->name, kind->want));
    for (size_t i = 0; i < json_array_size(largest); i++)
        add(figures, kind, json_array_get(largest, i), against, left_out);
    json_decref(largest);
    json_decref(groups);
    json_decref(fit);
}

json_t *ls_report_figures(const json_t *rows, const char *against, json_t *left_out)
{
    json_t *figures = json_array();
    for (size_t i = 0; i < LS_LINE_KINDS_FIRST; i++)
        add_kind(figures, &ls_line_kinds[i], rows, against, left_out);
    ls_report_shares(figures, rows, against, left_out);
    for (size_t i = LS_LINE_KINDS_FIRST; i < ls_line_kind_count; i++)
        add_kind(figures, &ls_line_kinds[i], rows, against, left_out);
    return figures;
}
