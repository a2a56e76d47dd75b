/* SPDX-License-Identifier: MIT */
/*
 * Figures of lines: a table of kinds, each of which says what it takes from a row. Points of one
 * series and place, of several rows, become one: their median, with the range as its bar. In
 * figures over a worker's delay, a row with a fault stands at its delay in ms, one without at 0.
 */
#include "bench/output/format_parts.h"
#include "bench/report/case_keys.h"
#include "bench/report/draw_look.h"
#include "bench/report/figures.h"
#include "bench/report/text.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a kind is, besides. */
enum {
    FALLS = 1,    /* the smaller is the better */
    LOG_X = 2,    /* where the numbers allow it */
    LOG_Y = 4,    /* the same */
    ONE = 8,      /* a series of one place will do */
    SCALES = 16,  /* a figure of strong and one of weak rows: NAME-strong, NAME-weak */
    FIRST = 32,   /* comes before the bars */
    SHARES = 64,  /* a list's elements are shares of its sum; the title is of the largest */
    LINEAR = 128, /* what loses nothing grows as x */
    FLAT = 256,   /* or is 1 */
    PACED = 512,  /* goes as the row's rate, or, where it falls, as its step: has their interval */
    POINTS_OF_A_LIST = 50
};

typedef struct line_kind {
    const char *name, *x, *y, *unit;
    const char *of;           /* path of y: a number, or a list, whose elements are a line */
    const char *at;           /* path of x; NULL: devices, or the place in the list */
    const char *title;        /* of series, y and x of the best one */
    const char *means;        /* what a point is, for the caption */
    const char *want;         /* what would make the picture */
    const char *const *group; /* paths: a figure each */
    unsigned flags;           /* see above */
    const char *by;           /* path of what tells series apart, in place of the case */
    const char *formula;      /* path of what the points are to be */
    const char *from, *pace;  /* of a list, paths: place of its first, and ms from one to the
                                 next; NULL: 0, and x counts places */
} line_kind;

static const char *const model[] = {"case.model", NULL};
static const char *const batch[] = {"case.model", "case.batch_global", NULL};
static const char *const operation[] = {"micro.op", "micro.ranks", "micro.shape", "micro.comm",
                                        NULL};

#define DEVICES    "several numbers of devices: --devices 1,2,4"
#define BASELINE   DEVICES " --baseline yes"
#define DELAYED    "several --inject delay=RANK:TIME"
#define BY_ARRIVAL "--strategy ps --ps-mode ssp,async"

/* name, x, y, unit, of, at, title, means, want, group, flags */
static const line_kind kinds[] = {
    {"throughput", "devices", "samples/s", "samples/s", "time.samples_per_s", NULL,
     "%s reaches %s on %s devices", "samples/s of the median step", BASELINE, batch,
     .flags = FIRST | SCALES | LINEAR | PACED},
    {"speed-up", "devices", "speed-up over one device", "times", "time.speedup", NULL,
     "%s is %s as fast on %s devices", "speed-up over single on one like device", BASELINE, batch,
     .flags = FIRST | SCALES | LINEAR | PACED},
    {"efficiency", "devices", "efficiency", "%", "time.efficiency", NULL,
     "%s keeps %s on %s devices", "speed-up over single on one like device, over the devices",
     BASELINE, batch, .flags = FIRST | SCALES | FLAT | PACED},
    {"memory-devices", "devices", "peak of the fullest device", "bytes", "memory.devices.peak",
     NULL, "%s needs %s on %s devices", "most that one device held", DEVICES, batch,
     .flags = FALLS | LOG_Y | SCALES},
    {"memory-batch", "global batch", "peak of the fullest device", "bytes", "memory.devices.peak",
     "case.batch_global", "%s needs %s for a batch of %s", "most that one device held",
     "several --batch", model, .flags = FALLS | LOG_X | LOG_Y},
    {"memory-growth", "devices", "growth in a step", "bytes", "memory.growth_per_step", NULL,
     "%s grows by %s a step on %s devices", "growth of the devices' memory from step to step",
     DEVICES, batch, .flags = FALLS | SCALES},
    {"program", "devices", "nodes of a step's program", "nodes", "program.nodes", NULL,
     "%s needs %s on %s devices", "number of nodes in the program of one step", DEVICES, batch,
     .flags = FALLS | LOG_X | LOG_Y | SCALES},
    {"build", "devices", "time to build the program, ms", "ms", "time.build_ms", NULL,
     "%s builds in %s on %s devices", "time to build the program of one step", DEVICES, batch,
     .flags = FALLS | LOG_X | LOG_Y | SCALES},
    {"bus-bandwidth", "bytes", "bus bandwidth, GB/s", "GB/s", "micro.busbw_gbs", "micro.size_bytes",
     "%s reaches %s at %s", "bus bandwidth by nccl-tests' formula",
     "rows of lockstep micro allreduce --allreduce .. --sizes ..", operation, .flags = LOG_X,
     .by = "micro.kernel"},
    {"pipeline-idle", "micro-batches", "idle share", "%", "pipeline.bubble",
     "case.pipeline_microbatches", "%s is idle for %s with %s micro-batches",
     "share of the stages' time that they wait",
     "--strategy pipeline --pipeline-microbatches 1,2,4", batch, .flags = FALLS | LOG_X,
     .formula = "pipeline.bubble_equal"},
    {"staleness", "updates by others", "share of gradients", "%", "staleness.histogram", NULL,
     "%s has %s of its gradients %s updates late",
     "share of the gradients with so many updates by others since their pull", BY_ARRIVAL, batch,
     .flags = ONE | SHARES},
    {"lead", "steps ahead of the slowest", "share of gradients", "%", "lead.histogram", NULL,
     "%s has %s of its gradients %s steps ahead",
     "share of the gradients whose worker was so many steps ahead of the slowest", BY_ARRIVAL,
     batch, .flags = ONE | SHARES},
    {"loss-steps", "step", "loss", "", "train.losses", NULL, "%s has loss %s after %s steps",
     "loss of a batch", "rows of --verbose", batch, .flags = FALLS | ONE, .from = "case.warmup"},
    {"loss-time", "seconds", "loss", "", "train.losses", NULL, "%s has loss %s after %s s",
     "loss of a batch, at the mean step's pace", "rows of --verbose", batch, .flags = FALLS | ONE,
     .from = "case.warmup", .pace = "time.step_ms.mean"},
    {"accuracy", "timed steps", "accuracy on the test set", "%", "train.accuracy", "case.steps",
     "%s reaches %s after %s steps", "accuracy on the test set after all steps",
     "several --steps of one case", batch, .flags = LOG_X},
    {"stragglers", "delay of one worker, ms", "time to the target, s", "s",
     "train.seconds_to_target", "case.inject", "%s reaches the target in %s with %s ms delay",
     "time to the target of --target", "--target loss=.. with " DELAYED, batch, .flags = FALLS},
    {"stragglers-step", "delay of one worker, ms", "median step, ms", "ms", "time.step_ms.median",
     "case.inject", "%s takes %s a step with %s ms delay", "median step", DELAYED, batch,
     .flags = FALLS | PACED},
};

/* ---- Points --------------------------------------------------------------------------------- */

/* x of a row; below 0: it has none. */
static double place_of(const json_t *row, const char *at)
{
    char text[128];
    uint64_t ns;
    if (!at)
        return ls_report_devices(row);
    if (strcmp(at, "case.inject") != 0)
        return ls_report_number(row, at, -1);
    const char *colon = strchr(ls_report_text(row, at, text, sizeof text), ':');
    if (!*text)
        return 0;
    return strncmp(text, "delay=", 6) == 0 && colon && ls_parse_duration(colon + 1, &ns)
               ? (double)ns * 1e-6
               : -1;
}

/* Some of the list's elements, the first and the last among them. */
static void list_points(const json_t *row, const line_kind *kind, const json_t *list,
                        json_t *series)
{
    const size_t count = json_array_size(list), stride = count / POINTS_OF_A_LIST + 1;
    const double first = kind->from ? ls_report_number(row, kind->from, 0) : 0;
    const double pace = kind->pace ? ls_report_number(row, kind->pace, NAN) / 1e3 : 1;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += json_number_value(json_array_get(list, i));
    for (size_t i = 0; i < count; i++) {
        const json_t *element = json_array_get(list, i);
        const double y = json_number_value(element) / (kind->flags & SHARES ? sum : 1);
        if ((i % stride == 0 || i + 1 == count) && json_is_number(element)) /* null: not finite */
            ls_figure_point(series, pace * (first + (double)i), y, y, y);
    }
}

static void add_points(const json_t *row, const line_kind *kind, json_t *series)
{
    const double x = place_of(row, kind->at), y = ls_report_number(row, kind->of, -1);
    json_t *value = ls_row_value(row, kind->of);
    const ls_rate rate = ls_report_rate(row);
    double low = 1, high = 1; /* of y */
    if (kind->flags & PACED && rate.low > 0) {
        low = kind->flags & FALLS ? rate.rate / rate.high : rate.low / rate.rate;
        high = kind->flags & FALLS ? rate.rate / rate.low : rate.high / rate.rate;
    }
    if (json_is_array(value))
        list_points(row, kind, value, series);
    else if (x >= 0 && y >= 0)
        ls_figure_point(series, x, y, y * low, y * high);
    json_decref(value);
}

static bool has_points(const json_t *row, const void *kind)
{
    json_t *series = json_pack("{s:[]}", "points");
    add_points(row, kind, series);
    const bool any = json_array_size(json_object_get(series, "points")) > 0;
    json_decref(series);
    return any;
}

/* Whether it has this scaling, or that is "". */
static bool is_scaled(const json_t *row, const void *scaling)
{
    char own[32];
    return !*(const char *)scaling ||
           strcmp(scaling, ls_report_text(row, "case.scaling", own, sizeof own)) == 0;
}

static size_t length_of(const json_t *series)
{
    return json_array_size(json_object_get(series, "points"));
}

static double value_at(const json_t *series, size_t index)
{
    return ls_figure_at(json_array_get(json_object_get(series, "points"), index), 1);
}

/* ---- Series --------------------------------------------------------------------------------- */

static void add_series(ls_figures *figures, json_t *figure, const line_kind *kind,
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
        json_object_set_new(series, "candidate", json_boolean(ls_report_is_candidate(row)));
        if (!kind->pace) {
            json_array_foreach(same, i, row) add_points(row, kind, series);
            continue;
        }
        repeats += json_array_size(same) - 1; /* places of two rows do not meet */
        add_points(ls_report_median(same, NULL), kind, series);
    }
    ls_figure_repeats(figures, kind->name, repeats);
    json_decref(cases);
    json_decref(differences);
}

/* A line of what the points are to be. */
static void add_formula(json_t *figure, const line_kind *kind, const json_t *rows)
{
    json_t *series = ls_figure_series(figure, "formula", LS_STYLE_IDEAL, 0);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const double y = ls_report_number(json_array_get(rows, i), kind->formula, NAN);
        ls_figure_point(series, place_of(json_array_get(rows, i), kind->at), y, y, y);
    }
}

/* Takes out series that make no line, and those beyond what a picture can hold, the shortest first.
 * Where others go farther than a series of one place, its name says that. */
static void tidy(ls_figures *figures, json_t *figure, const line_kind *kind, double farthest)
{
    json_t *all = json_object_get(figure, "series");
    const char *name = json_string_value(json_object_get(figure, "name"));
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
        const double at = ls_figure_at(json_array_get(json_object_get(one, "points"), 0), 0);
        if (length_of(one) == 1 && at < farthest)
            json_object_set_new(
                one, "shown",
                json_sprintf("%s (at %g)", json_string_value(json_object_get(one, "name")), at));
    }
    if (alone > 0)
        ls_figure_leave(figures, name, "%zu series of one place; wanted: %s", alone, kind->want);
    if (many > 0)
        ls_figure_leave(figures, name,
                        "%zu series beyond the %d that a picture holds; --where chooses", many,
                        LS_SERIES_MOST);
}

/* ---- What was found ------------------------------------------------------------------------- */

/* The highest y that all series come down to. */
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

/* The point of a series that a title names: the last; of shares the largest; of values that fall
 * with time the first at a level that all series reach. */
static const json_t *point_of(const json_t *one, const line_kind *kind, double level)
{
    const json_t *points = json_object_get(one, "points");
    size_t at = json_array_size(points) - 1;
    for (size_t p = 0; kind->flags & SHARES && p < json_array_size(points); p++)
        at = value_at(one, p) > value_at(one, at) ? p : at;
    for (size_t p = json_array_size(points); kind->pace && p-- > 0;)
        at = value_at(one, p) <= level ? p : at;
    return json_array_get(points, at);
}

/* The series' point for a title, and how well that does: as a candidate, far, well. */
static const json_t *rate_series(const json_t *one, const line_kind *kind, double level,
                                 double key[3])
{
    const bool ours = json_integer_value(json_object_get(one, "style")) >= 0 && length_of(one) > 0;
    const json_t *point = ours ? point_of(one, kind, level) : NULL;
    const double x = ls_figure_at(point, 0), y = ls_figure_at(point, 1);
    key[0] = ours ? json_is_true(json_object_get(one, "candidate")) : -1;
    key[1] = kind->pace ? -x : kind->flags & SHARES ? 0 : x;
    key[2] = kind->pace ? 0 : kind->flags & FALLS ? -y : y;
    return point;
}

/* Whether a title can say this one's value behind that of the best. */
static bool stands_beside(const double key[3], const double best[3], const line_kind *kind)
{
    return kind->pace || kind->flags & SHARES || fabs(key[1] - best[1]) <= 0;
}

/* With the next one's value, where there is one: at the same place, or, if not, that too. */
static json_t *say_title(const line_kind *kind, const char *name, const json_t *point,
                         const char *other, const json_t *next)
{
    const char *unit = strcmp(kind->x, "bytes") == 0 ? "bytes" : "";
    char y[48], x[48], at[64] = "";
    json_t *said =
        json_sprintf(kind->title, name, ls_figure_value(ls_figure_at(point, 1), kind->unit, y),
                     ls_figure_value(ls_figure_at(point, 0), unit, x));
    if (!next || !said)
        return said;
    if (fabs(ls_figure_at(next, 0) - ls_figure_at(point, 0)) > 0)
        snprintf(at, sizeof at, " at %s", ls_figure_value(ls_figure_at(next, 0), unit, x));
    json_t *both = json_sprintf("%s, %s %s%s", json_string_value(said), other,
                                ls_figure_value(ls_figure_at(next, 1), kind->unit, y), at);
    json_decref(said);
    return both;
}

/* "mirrored keeps 83% on 2 devices, towers 72%": of the best candidate at the farthest place, and
 * the next there. */
static json_t *find_title(const json_t *figure, const line_kind *kind)
{
    const json_t *all = json_object_get(figure, "series"), *points[LS_SERIES_MOST + 1];
    const double level = kind->pace ? level_of(all) : 0;
    const size_t count = json_array_size(all);
    double keys[LS_SERIES_MOST + 1][3];
    size_t best = 0, others = 0, same = 0, next = count;
    char name[LS_LABEL_SIZE + 32] = "";
    for (size_t i = 0, k; i < count; i++) {
        points[i] = rate_series(json_array_get(all, i), kind, level, keys[i]);
        for (k = 0; k < 2 && fabs(keys[i][k] - keys[best][k]) <= 0;)
            k++;
        best = keys[i][k] > keys[best][k] ? i : best;
    }
    if (count == 0 || keys[best][0] < 0)
        return json_sprintf("%s by %s", kind->y, kind->x);
    for (size_t i = 0; i < count; i++) {
        const bool as_good = i != best && keys[i][0] >= keys[best][0] &&
                             keys[i][1] >= keys[best][1] &&
                             keys[i][2] >= keys[best][2] - 1e-3 * fabs(keys[best][2]);
        others += i != best && keys[i][0] >= 0;
        same += as_good;
        if (i != best && !as_good && keys[i][0] >= keys[best][0] &&
            (next == count || keys[i][2] > keys[next][2]) &&
            stands_beside(keys[i], keys[best], kind))
            next = i;
    }
    if (same > 0 && same == others)
        snprintf(name, sizeof name, "every case");
    else
        ls_text_add(name, sizeof name, "%s", ls_text_of(json_array_get(all, best), "name"));
    if (same > 0 && same < others)
        ls_text_add(name, sizeof name, ", like %zu other%s,", same, same > 1 ? "s" : "");
    return say_title(kind, name, points[best], ls_text_of(json_array_get(all, next), "name"),
                     next < count ? points[next] : NULL);
}

/* A line of what loses nothing: as far as the others come near. */
static void add_ideal(json_t *figure, const line_kind *kind, const json_t *rows, double highest)
{
    const double rate = strcmp(kind->unit, "times") == 0 ? 1 : ls_report_rate_alone(rows);
    json_t *points = ls_figure_points(figure),
           *ideal = ls_figure_series(figure, "ideal", LS_STYLE_IDEAL, 0);
    for (size_t p = 0; p < json_array_size(points); p++) {
        const double x = ls_figure_at(json_array_get(points, p), 0);
        const double y = kind->flags & FLAT ? 1 : rate * x;
        if (y > 0 && (kind->flags & FLAT || y <= 1.5 * highest))
            ls_figure_point(ideal, x, y, y, y);
    }
    if (ls_figure_merge(ideal) < 2)
        json_array_remove(json_object_get(figure, "series"),
                          json_array_size(json_object_get(figure, "series")) - 1);
    json_decref(points);
}

/* Says behind a text of the figure what bars mean. */
static void tell_bars(json_t *figure, const char *name, const char *text)
{
    json_object_set_new(
        figure, name, json_sprintf("%s%s", json_string_value(json_object_get(figure, name)), text));
}

static void finish(ls_figures *figures, json_t *figure, const line_kind *kind, const json_t *rows,
                   bool bars)
{
    char about[256];
    snprintf(about, sizeof about, "%s against %s, a line for each of %zu series", kind->y, kind->x,
             json_array_size(json_object_get(figure, "series")));
    ls_figure_title(figures, figure, rows, find_title(figure, kind), about);
    json_object_set_new(figure, "log_x", json_boolean(kind->flags & LOG_X));
    json_object_set_new(figure, "log_y", json_boolean(kind->flags & LOG_Y));
    if (!bars)
        return;
    tell_bars(figure, "caption",
              " Bars: ci95 of the row, or, where several rows are one point (their median), the "
              "lowest and the highest.");
    tell_bars(figure, "foot", ", bars: ci95 of a row or range of several");
}

static void add_figure(ls_figures *figures, const line_kind *kind, const ls_figure_text *text,
                       const char *more, const json_t *rows)
{
    size_t longest = 0, bars = 0;
    double highest = 0, farthest = 0;
    json_t *figure = ls_figure_add(figures, text, rows, more), *all, *points;
    add_series(figures, figure, kind, rows);
    if (kind->formula)
        add_formula(figure, kind, rows);
    all = json_object_get(figure, "series");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const size_t count = ls_figure_merge(json_array_get(all, i));
        longest = count > longest ? count : longest;
    }
    points = ls_figure_points(figure);
    for (size_t p = 0; p < json_array_size(points); p++) {
        const json_t *point = json_array_get(points, p);
        farthest = fmax(farthest, ls_figure_at(point, 0));
        highest = fmax(highest, ls_figure_at(point, 1));
        bars += ls_figure_at(point, 2) < ls_figure_at(point, 3);
    }
    json_decref(points);
    const bool one_place = longest < 2 && !(kind->flags & ONE);
    const char *sub = json_string_value(json_object_get(figure, "sub"));
    if (one_place && kind->at) /* most rows do not vary it */
        ls_figure_miss(figures, text);
    else if (one_place)
        ls_figure_leave(figures, text->name, "%s: rows with one place only: %zu; wanted: %s", sub,
                        json_array_size(rows), kind->want);
    else if (!(highest > 0))
        ls_figure_leave(figures, text->name, "%s: 0 in all %zu rows", sub, json_array_size(rows));
    if (one_place || !(highest > 0)) {
        json_array_remove(figures->list, json_array_size(figures->list) - 1);
        return;
    }
    tidy(figures, figure, kind, farthest);
    if (figures->against && strcmp(kind->unit, "samples/s") == 0)
        ls_figure_leave(figures, text->name, "the ideal line, as each value of %s has its own",
                        figures->against);
    else if (kind->flags & (FLAT | LINEAR))
        add_ideal(figure, kind, rows, highest);
    finish(figures, figure, kind, rows, bars > 0);
}

static void add_kind(ls_figures *figures, const line_kind *kind, const char *scaling,
                     const json_t *rows)
{
    const bool weak = strcmp(scaling, "weak") == 0; /* the batch is then as large as the devices */
    json_t *scaled = ls_report_those(rows, is_scaled, scaling);
    char name[64], more[32], caption[400], want[200], what[96];
    snprintf(name, sizeof name, "%s%s%s", kind->name, *scaling ? "-" : "", scaling);
    snprintf(more, sizeof more, "%s%s", scaling, *scaling ? " scaling" : "");
    snprintf(want, sizeof want, "%s%s", weak ? "--scaling weak on " : "", kind->want);
    snprintf(caption, sizeof caption, "A point is the %s%s.", kind->means,
             weak ? ", the batch growing with the devices" : "");
    snprintf(what, sizeof what, "%s%s%s", kind->of, kind->at ? " or " : "",
             kind->at ? kind->at : "");
    const ls_figure_text text = {name, "lines", kind->x, kind->y, kind->unit, caption, want};
    json_t *fit = ls_figure_fit(figures, name, scaled, has_points, kind, what);
    json_t *largest = ls_figure_largest(figures, &text, fit, weak ? model : kind->group);
    for (size_t i = 0; i < json_array_size(largest); i++)
        add_figure(figures, kind, &text, more, json_array_get(largest, i));
    json_decref(largest);
    json_decref(fit);
    json_decref(scaled);
}

void ls_figures_of_lines(ls_figures *figures, const json_t *rows, bool first)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const line_kind *kind = &kinds[i];
        if (first == !(kind->flags & FIRST))
            continue;
        if (kind->flags & SCALES) {
            add_kind(figures, kind, "strong", rows);
            add_kind(figures, kind, "weak", rows);
        } else {
            add_kind(figures, kind, "", rows);
        }
    }
}
