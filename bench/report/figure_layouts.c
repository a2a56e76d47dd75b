/* SPDX-License-Identifier: MIT */
/* The figure that chooses a layout of N devices: a point for each, its step against what the
 * fullest device holds, and a line through those that no other beats in both. A layout is a
 * strategy, its replicas x stages x places of a stage, and the stage of zero; of its cases, the
 * fastest. */
#include "bench/output/format_parts.h"
#include "bench/report/case_keys.h"
#include "bench/report/draw_look.h"
#include "bench/report/figures.h"
#include "bench/report/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST = 3, FOUND_MOST = 64, SHOWN_MOST = 12, NAME = 96, TITLE_MOST = 96 };

typedef struct layout {
    char name[NAME];
    const json_t *row;
    ls_interval step; /* ms */
    double held;      /* bytes */
} layout;

static bool is_known(const json_t *row, const void *unused)
{
    ls_interval step;
    const char *mode = ls_row_text(row, "case", "ps_mode");
    (void)unused;
    ls_row_pace(row, &step);
    return ls_row_is_candidate(row) && (!*mode || strcmp(mode, "sync") == 0) &&
           ls_report_devices(row) > 1 && step.value > 0 &&
           ls_report_number(row, "memory.devices.peak", 0) > 0;
}

/* "mirrored", "zero stage 3"; of replicas that are divided "2 x 2 x 1 pipeline", of groups of
 * devices with shares "2 groups zero stage 1". */
static void name_layout(const json_t *row, const char *against, char out[NAME])
{
    const char *inner = ls_row_text(row, "case", "hybrid_inner");
    const ls_strategy *within = ls_registry_find(&ls_strategies, inner, strlen(inner));
    const double devices = ls_report_devices(row);
    const double copies = ls_report_number(row, "case.hybrid_replicas", 0);
    const double stage = ls_report_number(row, "case.zero_stage", 0);
    const bool staged = within && within->variables == LS_VARIABLES_PLACED;
    const double stages =
        staged ? devices / fmax(copies, 1) : ls_report_number(row, "case.hybrid_stages", 1);
    char value[64];
    snprintf(out, NAME, "%.32s", copies > 0 ? "" : ls_report_strategy(row));
    if (copies > 0 && within && within->shares)
        ls_text_add(out, NAME, "%.0f groups %s", copies, inner);
    else if (copies > 0)
        ls_text_add(out, NAME, "%.0f x %.0f x %.0f %.20s%s", copies, stages,
                    devices / copies / stages, inner, stage > 0 ? ", zero" : "");
    if (stage > 0)
        ls_text_add(out, NAME, " stage %.0f", stage);
    if (against)
        ls_text_add(out, NAME, ", %s", ls_report_text(row, against, value, sizeof value));
}

/* Takes a case's row into the list, unless its layout has a faster one. */
static size_t take(layout *all, size_t count, const json_t *row, const char *against)
{
    layout now = {.row = row, .held = ls_report_number(row, "memory.devices.peak", 0)};
    size_t at = 0;
    ls_row_pace(row, &now.step);
    name_layout(row, against, now.name);
    while (at < count && strcmp(all[at].name, now.name) != 0)
        at++;
    if (at < FOUND_MOST && (at == count || now.step.value < all[at].step.value))
        all[at] = now;
    return at == count && at < FOUND_MOST ? count + 1 : count;
}

static int by_step(const void *a, const void *b)
{
    const layout *x = a, *y = b;
    return (x->step.value > y->step.value) - (x->step.value < y->step.value);
}

/* Whether no faster one, and none as fast before it, holds as little. */
static bool is_best(const layout *all, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (all[i].held <= all[index].held)
            return false;
    return true;
}

/* Where all hold the same, step times alone decide. */
static bool hold_alike(const layout *all, size_t count)
{
    double least = all[0].held, most = all[0].held;
    for (size_t i = 1; i < count; i++) {
        least = fmin(least, all[i].held);
        most = fmax(most, all[i].held);
    }
    return most <= 1.005 * least;
}

/* Leaves out the slowest ones that others beat in both, then the slowest. */
static size_t shorten(layout *all, size_t count)
{
    while (count > SHOWN_MOST) {
        size_t at = count - 1;
        while (at > 0 && is_best(all, at))
            at--;
        at = at ? at : count - 1;
        memmove(&all[at], &all[at + 1], (--count - at) * sizeof *all);
    }
    return count;
}

static void draw(json_t *figure, const layout *all, size_t count)
{
    size_t best = 0;
    int others = 0;
    for (size_t i = 0; i < count; i++) {
        const ls_interval *step = &all[i].step;
        const int style = ls_figure_style(all[i].row);
        json_t *one =
            ls_figure_series(figure, all[i].name, style, ls_look_is_own(style) ? 0 : others++);
        ls_figure_point(one, all[i].held, step->value, step->low > 0 ? step->low : step->value,
                        step->low > 0 ? step->high : step->value);
        best += is_best(all, i);
    }
    if (best < 2)
        return;
    json_t *line = ls_figure_series(figure, "not beaten in both", LS_STYLE_IDEAL, 0);
    for (size_t i = count; i-- > 0;)
        if (is_best(all, i))
            ls_figure_point(line, all[i].held, all[i].step.value, all[i].step.value,
                            all[i].step.value);
}

/* "A is fastest: 5.2 ms; B holds least: 1 MiB, 9.1 ms"; the first half alone where both
 * are too long. */
static json_t *title_of(const layout *all, size_t count)
{
    const layout *least = all;
    char step[48], held[48], its[48], title[3 * NAME + 200] = "", more[NAME + 128] = "",
                                                       near[NAME + 64] = "";
    for (size_t i = 1; i < count; i++)
        least = all[i].held < least->held ? &all[i] : least;
    const bool close = all[1].step.low > 0 && all[1].step.low <= all[0].step.high;
    ls_figure_value(all[0].step.value, "ms", step);
    ls_figure_value(least->held, "bytes", held);
    if (close)
        ls_text_add(near, sizeof near, " (not told apart from %s)", all[1].name);
    if (least == all)
        return json_sprintf("%s is the fastest, %s%s, and holds least, %s", all[0].name, step, near,
                            held);
    ls_text_add(title, sizeof title, "%s is fastest: %s%s", all[0].name, step, near);
    ls_text_add(more, sizeof more, "; %s holds least: %s, %s", least->name, held,
                ls_figure_value(least->step.value, "ms", its));
    const bool fits = strlen(title) + strlen(more) <= TITLE_MOST;
    return json_sprintf("%s%s", title, fits ? more : "");
}

/* What the layouts have in common besides model, data, batch and devices. */
static void say_environment(json_t *figure, const json_t *row)
{
    static const char *const paths[][2] = {{"case.link", "link "},
                                           {"prediction.platform", "platform "}};
    char sub[512], value[128];
    snprintf(sub, sizeof sub, "%s", ls_text_of(figure, "sub"));
    for (size_t i = 0; i < 2; i++)
        if (*ls_report_text(row, paths[i][0], value, sizeof value))
            ls_text_add(sub, sizeof sub, ", %s%s", paths[i][1], value);
    json_object_set_new(figure, "sub", json_string(sub));
}

static bool make(ls_figures *figures, const ls_figure_kind *kind, const json_t *rows)
{
    layout all[FOUND_MOST];
    json_auto_t *differences = ls_report_differences(rows, NULL, figures->against);
    json_auto_t *cases = ls_report_cases(rows, NULL, differences, false, figures->against);
    const char *label;
    json_t *same;
    size_t count = 0;
    json_object_foreach(cases, label, same)
    {
        (void)label;
        count = take(all, count, ls_report_median(same, NULL), figures->against);
    }
    if (count < LEAST || hold_alike(all, count)) {
        ls_figure_miss(figures, kind);
        return false;
    }
    qsort(all, count, sizeof *all, by_step);
    const size_t shown = shorten(all, count);
    json_t *figure = ls_figure_add(figures, kind, rows);
    draw(figure, all, shown);
    say_environment(figure, all[0].row);
    json_object_set_new(figure, "log_x", json_true());
    ls_figure_leave(figures, ls_text_of(figure, "name"), json_object_size(cases) - count,
                    "cases of a layout whose fastest is shown");
    ls_figure_leave(figures, ls_text_of(figure, "name"), count - shown,
                    "layouts beyond the %d that a picture holds (--where chooses)", SHOWN_MOST);
    ls_figure_title(figures, figure, rows, title_of(all, shown),
                    "step against memory, a point for each layout");
    return true;
}

void ls_figures_of_layouts(ls_figures *figures, const json_t *rows)
{
    static const char *const group[] = {"case.model",          "case.data",  "case.batch_global",
                                        "case.devices",        "case.ranks", "case.link",
                                        "prediction.platform", NULL};
    const ls_figure_kind kind = {
        .name = "layouts",
        .kind = "lines",
        .x = "bytes of the fullest device",
        .y = "ms of a step",
        .unit = "ms",
        .caption =
            "A point is the fastest case of a layout: what its fullest device holds, and its "
            "step. Three numbers, of hybrid: replicas x stages x places of a stage. Those on the "
            "line "
            "are beaten by none in both. Bars: ci95.",
        .want = "--strategy mirrored,zero,pipeline,tensor-parallel,hybrid --devices 4",
        .group = group,
        .holds = is_known,
        .without = "several devices, a time and memory",
        .make = make};
    ls_figures_make(figures, &kind, rows);
}
