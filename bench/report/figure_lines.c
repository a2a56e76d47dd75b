/* SPDX-License-Identifier: MIT */
/*
 * Line figures: line_kinds.h says what each uses of a row. Points with the same series and x, from
 * several rows, become one: their median, with the range as error bar.
 */
#include "bench/output/format_parts.h"
#include "bench/report/case_keys.h"
#include "bench/report/draw_look.h"
#include "bench/report/figures.h"
#include "bench/report/line_kinds.h"
#include "bench/report/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TITLE_MOST = 100 };

static bool has_points(const json_t *row, const void *of)
{
    json_t *series = json_pack("{s:[]}", "points");
    ls_line_add(row, of, series);
    const bool any = json_array_size(json_object_get(series, "points")) > 0;
    json_decref(series);
    return any;
}

static bool is_scaled(const json_t *row, const void *scaling)
{
    return strcmp(scaling, ls_row_text(row, "case", "scaling")) == 0;
}

static size_t length_of(const json_t *series)
{
    return json_array_size(json_object_get(series, "points"));
}

static const json_t *point_at(const json_t *series, size_t index)
{
    return json_array_get(json_object_get(series, "points"), index);
}

static double value_at(const json_t *series, size_t index)
{
    return ls_figure_at(point_at(series, index), 1);
}

/* ---- Series --------------------------------------------------------------------------------- */

static void add_series(ls_figures *figures, json_t *figure, const ls_line_kind *kind,
                       const json_t *rows)
{
    json_t *differences = ls_report_differences(rows, kind->at, figures->against);
    const bool on = strcmp(kind->x, "devices") != 0 && ls_report_shared_devices(rows) <= 0;
    json_t *cases = ls_report_cases(rows, kind->by, differences, on, figures->against), *same;
    const char *label;
    const json_t *row;
    size_t i, repeats = 0;
    json_object_foreach(cases, label, same)
    {
        row = json_array_get(same, 0);
        json_t *series = ls_figure_series(figure, *label ? label : "all", ls_figure_style(row),
                                          ls_figure_variant(figures, row, label));
        json_object_set_new(series, "candidate", json_boolean(ls_row_is_candidate(row)));
        if (!kind->pace) {
            json_array_foreach(same, i, row) ls_line_add(row, kind, series);
            continue;
        }
        repeats += json_array_size(same) - 1; /* points of two rows never coincide */
        ls_line_add(ls_report_median(same, NULL), kind, series);
    }
    ls_figure_leave(figures, kind->name, repeats, "rows of cases whose median row is shown");
    ls_figure_merged(figure, cases, kind->at, true);
    json_decref(cases);
    json_decref(differences);
}

/* Removes series that form no line, and the shortest of those beyond what a picture can hold. If
 * others extend farther than a series of one point, its name says that. */
static void tidy(ls_figures *figures, json_t *figure, const ls_line_kind *kind, double farthest)
{
    json_t *all = json_object_get(figure, "series");
    const char *name = ls_text_of(figure, "name");
    size_t alone = 0, many = 0;
    for (size_t i = json_array_size(all); kind->at && i-- > 0;)
        if (length_of(json_array_get(all, i)) < 2 && ++alone)
            json_array_remove(all, i);
    for (; json_array_size(all) > LS_SERIES_MOST; many++) {
        size_t shortest = json_array_size(all) - 1;
        for (size_t i = shortest; i-- > 0;)
            if (length_of(json_array_get(all, i)) < length_of(json_array_get(all, shortest)))
                shortest = i;
        json_array_remove(all, shortest);
    }
    for (size_t i = 0; i < json_array_size(all); i++) {
        json_t *one = json_array_get(all, i);
        const double at = ls_figure_at(point_at(one, 0), 0);
        if (length_of(one) == 1 && at < farthest)
            json_object_set_new(one, "shown",
                                json_sprintf("%s (at %g)", ls_text_of(one, "name"), at));
    }
    ls_figure_leave(figures, name, alone, "series of one place (wanted: %s)", kind->want);
    ls_figure_leave(figures, name, many,
                    "series beyond the %d that a picture holds (--where chooses)", LS_SERIES_MOST);
}

/* ---- What was found ------------------------------------------------------------------------- */

/* What a title may report of a series, and a measure of it: candidate, distance, value; for y, the
 * worst and the best that its error bar allows. */
typedef struct reported {
    const char *name;
    const json_t *point; /* NULL: not a strategy of ours */
    double key[3], worst, best;
} reported;

/* The lowest y that all series reach. */
static double level_of(const json_t *all)
{
    double level = -INFINITY;
    for (size_t i = 0; i < json_array_size(all); i++) {
        double least = INFINITY;
        for (size_t p = 0; p < length_of(json_array_get(all, i)); p++)
            least = fmin(least, value_at(json_array_get(all, i), p));
        level = fmax(level, least);
    }
    return level;
}

/* Reports the last point; for shares the largest; for what falls with time, the first at a level
 * that all reach. */
static reported report_of(const json_t *one, const ls_line_kind *kind, double level)
{
    const size_t count = length_of(one);
    reported out = {.name = ls_text_of(one, "name"), .key = {-1, 0, 0}};
    size_t at = count - 1;
    if (json_integer_value(json_object_get(one, "style")) < 0 || count == 0)
        return out;
    for (size_t p = 0; kind->flags & LS_LINE_SHARES && p < count; p++)
        at = value_at(one, p) > value_at(one, at) ? p : at;
    for (size_t p = count; kind->pace && p-- > 0;)
        at = value_at(one, p) <= level ? p : at;
    out.point = point_at(one, at);
    const double x = ls_figure_at(out.point, 0), y = ls_figure_at(out.point, 1);
    const double low = fmin(y, ls_figure_at(out.point, 2)), high = ls_figure_at(out.point, 3);
    const double slack = 5e-4 * fabs(y), sign = kind->flags & LS_LINE_FALLS ? -1 : 1;
    out.key[0] = json_is_true(json_object_get(one, "candidate"));
    out.key[1] = kind->pace ? -x : kind->flags & LS_LINE_SHARES ? 0 : x;
    out.key[2] = kind->pace ? 0 : sign * y;
    out.worst = kind->pace ? 0 : fmin(sign * low, sign * high) - slack;
    out.best = kind->pace ? 0 : fmax(sign * low, sign * high) + slack;
    return out;
}

/* "83% on 2 devices", by the kind's title; without a title "72%", plus its x if that differs from
 * `beside`. */
static json_t *phrase(const ls_line_kind *kind, const char *name, const reported *one,
                      const reported *beside)
{
    const char *unit = strcmp(kind->x, "bytes") == 0 ? "bytes" : "";
    const double at = ls_figure_at(one->point, 0);
    char y[48], x[48];
    ls_figure_value(ls_figure_at(one->point, 1), kind->unit, y);
    ls_figure_value(at, unit, x);
    if (!beside)
        return json_sprintf(kind->title, name, y, x);
    return fabs(at - ls_figure_at(beside->point, 0)) > 0 ? json_sprintf(", %s %s at %s", name, y, x)
                                                         : json_sprintf(", %s %s", name, y);
}

/* "mirrored keeps 83% on 2 devices (not told apart from zero), towers 72%": the best candidate at
 * the largest x, those that the error bars or equal figures do not tell from it, and the best of
 * the others there. */
static json_t *find_title(const json_t *figure, const ls_line_kind *kind)
{
    const json_t *all = json_object_get(figure, "series");
    const double level = kind->pace ? level_of(all) : 0;
    const size_t count = json_array_size(all);
    reported series[LS_SERIES_MOST + 2];
    const reported *best = series, *next = NULL, *like = NULL;
    size_t others = 0, same = 0, equal = 0;
    char near[LS_LABEL_SIZE + 64] = "";
    for (size_t i = 0, k; i < count; i++) {
        series[i] = report_of(json_array_get(all, i), kind, level);
        for (k = 0; k < 2 && fabs(series[i].key[k] - best->key[k]) <= 0;)
            k++;
        best = series[i].key[k] > best->key[k] ? &series[i] : best;
    }
    if (count == 0 || !best->point)
        return json_sprintf("%s by %s", kind->y, kind->x);
    for (const reported *one = series; one < series + count; one++) {
        const bool there = fabs(one->key[1] - best->key[1]) <= 0;
        char text[48], text_of_best[48];
        others += one != best && one->point;
        if (one == best || !one->point || one->key[0] < best->key[0])
            continue;
        ls_figure_value(ls_figure_at(one->point, 1), kind->unit, text);
        ls_figure_value(ls_figure_at(best->point, 1), kind->unit, text_of_best);
        if (there && (one->best >= best->worst || strcmp(text, text_of_best) == 0)) {
            same++;
            equal += fabs(one->key[2] - best->key[2]) <= 1e-3 * fabs(best->key[2]);
            like = one;
        } else if ((there || kind->pace) && (!next || one->key[2] > next->key[2])) {
            next = one;
        }
    }
    const bool all_are = equal && equal == others;
    if (same == 1 && !all_are)
        ls_text_add(near, sizeof near, " (not told apart from %s)", like->name);
    else if (same > 0 && !all_are)
        ls_text_add(near, sizeof near, " (not told apart from %zu others)", same);
    json_auto_t *said = phrase(kind, all_are ? "every case" : best->name, best, NULL);
    json_auto_t *more = next ? phrase(kind, next->name, next, best) : json_string("");
    const bool fits =
        json_string_length(said) + strlen(near) + json_string_length(more) <= TITLE_MOST;
    return json_sprintf("%s%s%s", json_string_value(said), near,
                        fits ? json_string_value(more) : "");
}

/* Adds the line of ideal values: by formula, or without losses, as far as the other series come
 * near it. */
static void add_ideal(json_t *figure, const ls_line_kind *kind, const json_t *rows, double highest)
{
    const bool times = strcmp(kind->unit, "times") == 0, flat = kind->flags & LS_LINE_FLAT;
    const double rate = times ? 1 : ls_report_rate_alone(rows);
    json_t *all = json_object_get(figure, "series"), *points = ls_figure_points(figure);
    json_t *ideal =
        ls_figure_series(figure, kind->formula ? "formula" : "ideal", LS_STYLE_IDEAL, 0);
    for (size_t i = 0; kind->formula && i < json_array_size(rows); i++) {
        const double y = ls_report_number(json_array_get(rows, i), kind->formula, NAN);
        ls_figure_point(ideal, ls_line_x(json_array_get(rows, i), kind->at), y, y, y);
    }
    for (size_t p = 0; !kind->formula && p < json_array_size(points); p++) {
        const double x = ls_figure_at(json_array_get(points, p), 0), y = flat ? 1 : rate * x;
        if (y > 0 && (flat || y <= 1.5 * highest))
            ls_figure_point(ideal, x, y, y, y);
    }
    if (ls_figure_merge(ideal) < 2)
        json_array_remove(all, json_array_size(all) - 1);
    json_decref(points);
}

static void append_text(json_t *figure, const char *name, const char *text)
{
    json_object_set_new(figure, name, json_sprintf("%s%s", ls_text_of(figure, name), text));
}

static void finish(ls_figures *figures, json_t *figure, const ls_line_kind *kind,
                   const json_t *rows, bool bars, double farthest)
{
    const bool wide = !kind->at && strcmp(kind->x, "devices") == 0 && farthest > 32;
    char about[256];
    snprintf(about, sizeof about, "%s against %s, a line for each of %zu series", kind->y, kind->x,
             json_array_size(json_object_get(figure, "series")));
    ls_figure_title(figures, figure, rows, find_title(figure, kind), about);
    json_object_set_new(figure, "log_x", json_boolean(wide || kind->flags & LS_LINE_LOG_X));
    json_object_set_new(
        figure, "log_y",
        json_boolean((wide && !(kind->flags & LS_LINE_FLAT)) || kind->flags & LS_LINE_LOG_Y));
    if (!bars)
        return;
    append_text(figure, "caption",
                " Bars: ci95 of the row, or, where several rows are one point (their median), the "
                "lowest and the highest.");
    append_text(figure, "foot", ", bars: ci95 of a row or range of several");
}

static bool make(ls_figures *figures, const ls_figure_kind *text, const json_t *rows)
{
    const ls_line_kind *kind = text->of;
    size_t longest = 0, bars = 0, count = json_array_size(rows);
    double highest = 0, farthest = 0;
    bool late = false;
    json_t *figure = ls_figure_add(figures, text, rows);
    add_series(figures, figure, kind, rows);
    json_t *all = json_object_get(figure, "series");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const size_t points = ls_figure_merge(json_array_get(all, i));
        longest = points > longest ? points : longest;
    }
    json_t *points = ls_figure_points(figure);
    for (size_t p = 0; p < json_array_size(points); p++) {
        const json_t *point = json_array_get(points, p);
        farthest = fmax(farthest, ls_figure_at(point, 0));
        late |= ls_figure_at(point, 0) > 0 && ls_figure_at(point, 1) > 0;
        highest = fmax(highest, ls_figure_at(point, 1));
        bars += ls_figure_at(point, 2) < ls_figure_at(point, 3);
    }
    json_decref(points);
    const bool one_x = longest < 2 && !(kind->flags & LS_LINE_ONE);
    const bool empty = !(highest > 0) || (kind->flags & LS_LINE_SHARES && !late);
    const char *sub = ls_text_of(figure, "sub");
    if (one_x && kind->at) /* most rows do not vary it */
        ls_figure_miss(figures, text);
    else if (one_x)
        ls_figure_leave(figures, text->name, count, "rows of %s, with one place only (wanted: %s)",
                        sub, kind->want);
    else if (empty)
        ls_figure_leave(figures, text->name, count, "rows of %s, which have 0", sub);
    if (one_x || empty) {
        json_array_remove(figures->list, json_array_size(figures->list) - 1);
        return false;
    }
    tidy(figures, figure, kind, farthest);
    ls_figure_tell_merged(figures, figure);
    if (figures->against && strcmp(kind->unit, "samples/s") == 0)
        ls_figure_leave(figures, text->name, 1, "ideal lines, as each value of %s has its own",
                        figures->against);
    else if (kind->formula || kind->flags & (LS_LINE_FLAT | LS_LINE_LINEAR))
        add_ideal(figure, kind, rows, highest);
    finish(figures, figure, kind, rows, bars > 0, farthest);
    return true;
}

/* Makes the figures of rows with this scaling, or of all rows if that is ""; their sub-titles end
 * with `more`, too. */
static void make_kind(ls_figures *figures, const ls_line_kind *kind, const char *scaling,
                      const char *of, const json_t *rows)
{
    static const char *const model[] = {"case.model", NULL};
    const bool weak = strcmp(scaling, "weak") == 0; /* the batch then grows with the devices */
    json_t *scaled =
        *scaling ? ls_report_those(rows, is_scaled, scaling) : json_incref((json_t *)(size_t)rows);
    char name[64], more[32], caption[400], want[200], without[96];
    snprintf(name, sizeof name, "%s%s%s", kind->name, *scaling ? "-" : "", scaling);
    snprintf(more, sizeof more, "%s%s%s", scaling, *scaling ? " scaling" : "", of);
    snprintf(want, sizeof want, "%s%s", weak ? "--scaling weak on " : "", kind->want);
    snprintf(caption, sizeof caption, "A point is the %s%s.", kind->means,
             weak ? ", the batch growing with the devices" : "");
    snprintf(without, sizeof without, "%s%s%s", kind->of, kind->at ? " or " : "",
             kind->at ? kind->at : "");
    ls_figures_make(figures,
                    &(ls_figure_kind){name, "lines", kind->x, kind->y, kind->unit, caption, want,
                                      weak ? model : kind->group, more, kind, has_points, without,
                                      make},
                    scaled);
    json_decref(scaled);
}

/* A figure for each latency. */
static void make_linked(ls_figures *figures, const ls_line_kind *kind, const json_t *rows)
{
    json_auto_t *latencies = json_object();
    const char *name;
    json_t *same;
    uint64_t ns;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        char text[48];
        if (ls_line_bandwidth(row, &ns) <= 0)
            continue;
        snprintf(text, sizeof text, "latency %.6g us", (double)ns * 1e-3);
        ls_report_collect(latencies, text, row);
    }
    if (json_object_size(latencies) == 0)
        make_kind(figures, kind, "", "", latencies);
    json_object_foreach(latencies, name, same) make_kind(figures, kind, "", name, same);
}

void ls_figures_of_lines(ls_figures *figures, const json_t *rows, bool first)
{
    for (size_t i = 0; i < ls_line_kind_count; i++) {
        const bool scales = ls_line_kinds[i].flags & LS_LINE_SCALES;
        if (first == !(ls_line_kinds[i].flags & LS_LINE_FIRST))
            continue;
        if (ls_line_kinds[i].at == ls_line_link) {
            make_linked(figures, &ls_line_kinds[i], rows);
            continue;
        }
        make_kind(figures, &ls_line_kinds[i], scales ? "strong" : "", "", rows);
        if (scales)
            make_kind(figures, &ls_line_kinds[i], "weak", "", rows);
    }
}
