/* SPDX-License-Identifier: MIT */
/* Figures with one bar per case: stacked parts of a row, and ranges of times with a second mark. Of
 * several rows of one case, the median one is used. */
#include "bench/output/format_parts.h"
#include "bench/report/case_keys.h"
#include "bench/report/figures.h"
#include "bench/report/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const ls_row_parts ls_parts_of_step = {
    "Waterfall of the mean step, ms",
    "waterfall",
    {"compute", "optimizer", "communication", "wait", "copy", "harness"},
    {"compute_ms", "optimizer_ms", "comm_exposed_ms", "wait_ms", "copy_ms", "harness_ms"},
    "",
};
const ls_row_parts ls_parts_of_memory = {
    "Memory of the fullest device",
    "memory.devices",
    {"parameters", "gradients", "optimizer", "activations", "communication", "workspace"},
    {"parameters", "gradients", "optimizer", "activations", "communication", "workspace"},
    "bytes",
};

static const ls_row_parts range_of_step = {
    "", "time.step_ms", {"median, p10 to p90", "p99"}, {"median", "p99", "p10", "p90"}, ""};
static const ls_row_parts range_of_layer = {"",
                                            "micro",
                                            {"time, p10 to p90", "roof"},
                                            {"time_us", "roof_us", "time_p10_us", "time_p90_us"},
                                            ""};

typedef struct case_kind {
    ls_figure_kind text;
    const char *title; /* for the case with the largest weight, and its figure */
    const char *alone; /* if no case stands out; NULL: title */
    const char *shown; /* unit of that figure */
    /* A row's weight for the title; sets that figure. */
    double (*weigh)(const json_t *row, double *figure);
    const ls_row_parts *parts; /* stacked; for a range: first mark, second mark, low, high */
    const char *name;          /* path of the case's name; NULL: named by its options */
    double scale;              /* values are divided by this */
} case_kind;

double ls_part_value(const json_t *row, const ls_row_parts *parts, size_t index, double fallback)
{
    char path[96];
    snprintf(path, sizeof path, "%s.%s", parts->root, parts->of[index]);
    return ls_report_number(row, path, fallback);
}

double ls_parts_sum(const json_t *row, const ls_row_parts *parts)
{
    double sum = 0;
    for (size_t p = 0; parts->shown[p]; p++)
        sum += ls_part_value(row, parts, p, 0);
    return sum;
}

/* Prefers a candidate on the most devices, then the one that computes most. */
static double weigh_step(const json_t *row, double *figure)
{
    const double sum = ls_parts_sum(row, &ls_parts_of_step);
    *figure = sum > 0 ? ls_part_value(row, &ls_parts_of_step, 0, 0) / sum : 0;
    return (ls_row_is_candidate(row) ? 2 * ls_report_devices(row) : 0) + *figure;
}

static double weigh_memory(const json_t *row, double *figure)
{
    return *figure = ls_parts_sum(row, &ls_parts_of_memory);
}

static double weigh_tail(const json_t *row, double *figure)
{
    return *figure = ls_report_number(row, "time.step_ms.p99", 0) /
                     ls_report_number(row, "time.step_ms.median", 1);
}

static double weigh_layer(const json_t *row, double *figure)
{
    const double us = ls_report_number(row, "micro.time_us", 1);
    *figure = us / ls_report_number(row, "micro.roof_us", 1);
    return us;
}

static const char *const by_batch[] = {"case.model", "case.data", "case.batch_global", NULL};
static const char *const by_operation[] = {"micro.op", "micro.ranks", "micro.type", "micro.link",
                                           NULL};

static const case_kind kinds[] = {
    {.text = {.name = "waterfall",
              .kind = "bars",
              .x = "ms of the mean step",
              .y = "",
              .unit = "ms",
              .caption =
                  "A bar is the mean step of the median row of a case; its parts sum to the step.",
              .want = "rows of lockstep run with --steps 1 or more",
              .group = by_batch},
     .title = "%s computes for %s of its step",
     .shown = "%",
     .weigh = weigh_step,
     .parts = &ls_parts_of_step,
     .scale = 1},
    {.text = {.name = "memory",
              .kind = "bars",
              .x = "held by the fullest device",
              .y = "",
              .unit = "bytes",
              .caption =
                  "A bar is what the fullest device of the median row of a case holds, by use.",
              .want = "rows with memory",
              .group = by_batch},
     .title = "%s holds the most: %s",
     .alone = "%s holds %s",
     .shown = "bytes",
     .weigh = weigh_memory,
     .parts = &ls_parts_of_memory,
     .scale = 1},
    {.text =
         {.name = "step-times",
          .kind = "ranges",
          .x = "ms of a step",
          .y = "",
          .unit = "ms",
          .caption =
              "A mark is the median step, its bar from the 10th to the 90th percentile, the second "
              "mark the 99th; of the median row of a case.",
          .want = "timed rows",
          .group = by_batch},
     .title = "%s: one step in 100 takes %s the median",
     .shown = "times",
     .weigh = weigh_tail,
     .parts = &range_of_step,
     .scale = 1},
    {.text = {.name = "roofs",
              .kind = "ranges",
              .x = "ms of a pass",
              .y = "",
              .unit = "ms",
              .caption =
                  "A mark is the median time of a layer's pass, its bar from the 10th to the 90th "
                  "percentile, the second mark its roof: its products timed alone, or a copy of as "
                  "many bytes.",
              .want = "rows of lockstep micro layers",
              .group = by_operation},
     .title = "%s takes the longest: %s its roof",
     .alone = "%s takes %s its roof",
     .shown = "times",
     .weigh = weigh_layer,
     .parts = &range_of_layer,
     .name = "micro.shape",
     .scale = 1000},
};

static bool is_range(const case_kind *kind)
{
    return strcmp(kind->text.kind, "ranges") == 0;
}

static bool fits(const json_t *row, const void *of)
{
    const case_kind *kind = of;
    bool all = kind->parts != &range_of_step || ls_report_number(row, "time.step_ms.n", 2) > 1;
    for (size_t p = 0; p < (is_range(kind) ? 4 : 1); p++)
        all = all && ls_part_value(row, kind->parts, p, -1) >= 0;
    return all;
}

/* Orders strategies as their registry does, then peers. */
static int by_strategy(const json_t *a, const json_t *b)
{
    const json_t *x = ls_case_row(a, NULL), *y = ls_case_row(b, NULL);
    const int peers = ls_report_is_peer(x) - ls_report_is_peer(y);
    const int order = ls_report_strategy_index(x) - ls_report_strategy_index(y);
    return peers   ? peers
           : order ? order
                   : strverscmp(ls_text_of(a, "label"), ls_text_of(b, "label")); /* 2 before 16 */
}

/* Cases, [{label, rows}], in order; cases with their own name in order of appearance. */
static json_t *cases_of(ls_figures *figures, const case_kind *kind, const json_t *rows)
{
    json_t *differences = ls_report_differences(rows, NULL, figures->against);
    json_t *found = ls_report_cases(rows, kind->name, differences,
                                    ls_report_shared_devices(rows) <= 0, figures->against);
    json_t *few = json_object(), *same;
    const char *name;
    char merged[LS_KEY_SIZE];
    size_t repeats = 0, dropped = 0;
    json_object_foreach(found, name, same)
    {
        const bool fits = json_object_size(few) < LS_CATEGORIES_MOST;
        repeats += fits ? json_array_size(same) - 1 : 0;
        dropped += fits ? 0 : json_array_size(same);
        if (fits)
            json_object_set(few, name, same);
    }
    json_t *out = ls_report_sorted(few, kind->name ? NULL : by_strategy);
    ls_figure_leave(figures, kind->text.name, repeats, "rows of cases whose median row is shown");
    ls_figure_leave(figures, kind->text.name,
                    ls_report_merged(few, figures->against, false, merged, sizeof merged),
                    "rows of one case that differ in %s", merged);
    ls_figure_leave(figures, kind->text.name, dropped,
                    "rows beyond the %d bars of a picture (--where chooses)", LS_CATEGORIES_MOST);
    json_decref(differences);
    json_decref(found);
    json_decref(few);
    return out;
}

/* Appends the row's bar. */
static void add_bar(json_t *figure, const case_kind *kind, const char *label, const json_t *row,
                    int variant)
{
    const json_t *series = json_object_get(figure, "series");
    json_t *names = json_object_get(figure, "categories");
    const double position = (double)json_array_size(names);
    double sum = 0, values[8];
    for (size_t p = 0; kind->parts->of[p]; p++)
        values[p] = ls_part_value(row, kind->parts, p, 0) / kind->scale;
    for (size_t p = 0; !is_range(kind) && kind->parts->shown[p]; p++) {
        ls_figure_point(json_array_get(series, p), position, values[p], sum, sum + values[p]);
        sum += values[p];
    }
    if (is_range(kind)) {
        ls_figure_point(json_array_get(series, 0), position, values[0], values[2], values[3]);
        ls_figure_point(json_array_get(series, 1), position, values[1], values[1], values[1]);
    }
    json_array_append_new(names, json_string(label));
    json_array_append_new(json_object_get(figure, "looks"),
                          json_pack("[i,i]", ls_figure_style(row), variant));
}

/* Removes parts that are zero in all bars. */
static void drop_zeros(json_t *series)
{
    for (size_t s = json_array_size(series); s-- > 0;) {
        const json_t *points = json_object_get(json_array_get(series, s), "points");
        double sum = 0;
        for (size_t p = 0; p < json_array_size(points); p++)
            sum += ls_figure_at(json_array_get(points, p), 1);
        if (!(sum > 0))
            json_array_remove(series, s);
    }
}

static bool make(ls_figures *figures, const ls_figure_kind *text, const json_t *rows)
{
    const case_kind *kind = text->of;
    json_t *cases = cases_of(figures, kind, rows);
    json_t *figure = ls_figure_add(figures, text, rows);
    const char *best = "";
    double most = -1, best_value = 0, low = INFINITY, high = 0;
    char about[96], value[48];
    json_object_set_new(figure, "categories", json_array());
    json_object_set_new(figure, "looks", json_array());
    for (size_t p = 0; kind->parts->shown[p]; p++)
        ls_figure_series(figure, kind->parts->shown[p], (int)p, 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *row = ls_case_row(json_array_get(cases, i), NULL);
        const char *label = ls_text_of(json_array_get(cases, i), "label");
        double now;
        const double weight = kind->weigh(row, &now);
        add_bar(figure, kind, label, row, kind->name ? 0 : ls_figure_variant(figures, row, label));
        low = fmin(low, now);
        high = fmax(high, now);
        best = weight > most ? label : best;
        best_value = weight > most ? now : best_value;
        most = fmax(most, weight);
    }
    if (!is_range(kind))
        drop_zeros(json_object_get(figure, "series"));
    const bool differs = high > 1.005 * low; /* a value that all cases share marks none */
    snprintf(about, sizeof about, "a bar a case, %s", text->x);
    ls_figure_title(figures, figure, rows,
                    json_sprintf(differs || !kind->alone ? kind->title : kind->alone,
                                 differs || json_array_size(cases) == 1 ? best : "every case",
                                 ls_figure_value(best_value, kind->shown, value)),
                    about);
    json_decref(cases);
    return true;
}

void ls_figures_of_cases(ls_figures *figures, const json_t *rows)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        ls_figure_kind text = kinds[k].text;
        text.of = &kinds[k];
        text.holds = fits;
        text.without = kinds[k].name                      ? kinds[k].name
                       : kinds[k].parts == &range_of_step ? "several timed steps"
                                                          : kinds[k].parts->root;
        text.make = make;
        ls_figures_make(figures, &text, rows);
    }
}
