/* SPDX-License-Identifier: MIT */
/* The figure of what shares save and cost: by devices, memory of the fullest one and the step of
 * each stage of zero, over those of `mirrored` (row_shares.h). Points as in line figures. */
#include "bench/output/row_shares.h"
#include "bench/report/case_keys.h"
#include "bench/report/draw_look.h"
#include "bench/report/figures.h"
#include "bench/report/text.h"

#include <stdio.h>
#include <string.h>

/* Has shares, a row beside it among all, and a step to compare. */
static bool holds(const json_t *row, const void *all)
{
    const json_t *whole = ls_row_has_shares(row) ? ls_row_beside(row, all) : NULL;
    return whole && ls_row_saving(row, whole).step.value > 0;
}

/* "zero stage 3", "hybrid stage 3, 2 groups" */
static char *name_of(const json_t *row, char out[96])
{
    const double groups = ls_report_number(row, "case.hybrid_replicas", 0);
    snprintf(out, 96, "%.32s stage %.0f", ls_report_strategy(row),
             ls_report_number(row, "case.zero_stage", 0));
    if (groups > 0)
        ls_text_add(out, 96, ", %.0f groups", groups);
    return out;
}

static void add_series(ls_figures *figures, json_t *figure, const char *name, const json_t *same,
                       const json_t *all)
{
    char text[128];
    const json_t *row = json_array_get(same, 0);
    const int variant = (int)ls_report_number(row, "case.zero_stage", 1) - 1;
    (void)figures;
    snprintf(text, sizeof text, "%s: memory", name);
    json_t *memory = ls_figure_series(figure, text, ls_figure_style(row), variant);
    snprintf(text, sizeof text, "%s: step", name);
    json_t *step = ls_figure_series(figure, text, LS_STYLE_NEUTRAL, variant);
    for (size_t i = 0; i < json_array_size(same); i++) {
        row = json_array_get(same, i);
        const ls_saving saving = ls_row_saving(row, ls_row_beside(row, all));
        const double at = ls_report_devices(row), held = saving.held / saving.whole_held;
        const ls_interval time = saving.step;
        if (saving.whole_held > 0)
            ls_figure_point(memory, at, held, held, held);
        if (time.value > 0)
            ls_figure_point(step, at, time.value, time.low > 0 ? time.low : time.value,
                            time.low > 0 ? time.high : time.value);
    }
    ls_figure_merge(memory);
    ls_figure_merge(step);
}

/* The line at 1: `mirrored` itself. */
static void add_whole(json_t *figure)
{
    json_t *points = ls_figure_points(figure);
    json_t *whole = ls_figure_series(figure, "mirrored", LS_STYLE_IDEAL, 0);
    for (size_t p = 0; p < json_array_size(points); p++)
        ls_figure_point(whole, ls_figure_at(json_array_get(points, p), 0), 1, 1, 1);
    ls_figure_merge(whole);
    json_decref(points);
}

/* Of the row that saves most, on the most devices. */
static json_t *title_of(const json_t *rows, const json_t *all)
{
    const json_t *best = NULL;
    ls_saving most = {.held = 1, .whole_held = 0};
    double devices = 0;
    char name[96], step[48], held[48];
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const ls_saving its = ls_row_saving(row, ls_row_beside(row, all));
        const double its_devices = ls_report_devices(row);
        if (best &&
            (its_devices < devices ||
             (its_devices <= devices && its.held * most.whole_held >= most.held * its.whole_held)))
            continue;
        best = row;
        most = its;
        devices = its_devices;
    }
    const bool as_fast = most.step.low > 0 && most.step.low <= 1 && most.step.high >= 1;
    ls_figure_value(most.held / most.whole_held, "%", held);
    if (as_fast)
        return json_sprintf("%s on %.0f devices holds %s of what mirrored holds; which is faster "
                            "cannot be told",
                            name_of(best, name), devices, held);
    return json_sprintf("%s on %.0f devices holds %s of what mirrored holds, in %s its step",
                        name_of(best, name), devices, held,
                        ls_figure_value(most.step.value, "times", step));
}

static bool make(ls_figures *figures, const ls_figure_kind *kind, const json_t *rows)
{
    json_t *figure = ls_figure_add(figures, kind, rows), *same;
    json_auto_t *stages = json_object();
    char value[48];
    ls_figure_value(ls_report_number(json_array_get(rows, 0), "case.bucket_bytes", 0), "bytes",
                    value);
    json_object_set_new(figure, "sub",
                        json_sprintf("%s, buckets of %s", ls_text_of(figure, "sub"), value));
    const char *name;
    char text[96];
    for (size_t i = 0; i < json_array_size(rows); i++)
        ls_report_collect(stages, name_of(json_array_get(rows, i), text), json_array_get(rows, i));
    json_object_foreach(stages, name, same) add_series(figures, figure, name, same, kind->of);
    add_whole(figure);
    ls_figure_merged(figure, stages, NULL, true);
    ls_figure_tell_merged(figures, figure);
    ls_figure_title(figures, figure, rows, title_of(rows, kind->of),
                    "memory and step over mirrored's against devices, two lines for each stage");
    return true;
}

void ls_figures_of_shares(ls_figures *figures, const json_t *rows)
{
    static const char *const group[] = {"case.model", "case.scaling", "case.bucket_bytes", NULL};
    const ls_figure_kind kind = {
        .name = "shares",
        .kind = "lines",
        .x = "devices",
        .y = "memory, step: over mirrored's",
        .unit = "times",
        .caption = "A point is what the fullest device holds, or a step takes, over the same of "
                   "the newest row of mirrored with the same model, batch and devices. Bars: ci95.",
        .want = "--strategy mirrored,zero --zero-stage 1,2,3 --devices 2,4",
        .group = group,
        .of = rows,
        .holds = holds,
        .without = "shares, and a row of mirrored beside them",
        .make = make};
    json_auto_t *fit = ls_report_those(rows, holds, rows);
    if (json_array_size(fit) > 0)
        ls_figures_make(figures, &kind, rows);
}
