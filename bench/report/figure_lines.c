/* SPDX-License-Identifier: MIT */
/*
 * Figures of lines: a table of kinds, each of which says what it takes from a row. Points of one
 * series and place, of several rows, become one: their median, with the range as its bar.
 */
#include "bench/report/case_keys.h"
#include "bench/report/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct line_kind {
    const char *name, *x, *y, *unit;
    const char *title;   /* of series, y and x of the best one, and x's unit */
    const char *means;   /* what a point is, for the caption */
    const char *scaling; /* of the rows; NULL: any */
    const char *group[6];
    void (*points)(const json_t *row, json_t *out);
    const char *by;   /* a path that tells series apart, too; NULL: none */
    const char *want; /* what would make the picture */
    const char *ideal;
    int better;             /* 1: the larger is the better */
    bool log_x, log_y, one; /* one: a series of one place will do */
} line_kind;

static void put(json_t *out, double x, double y, double low, double high)
{
    if (isfinite(x) && isfinite(y))
        json_array_append_new(out, json_pack("[f,f,f,f]", x, y, low, high));
}

static void rate(const json_t *row, json_t *out)
{
    const double y = ls_report_number(row, "time.samples_per_s", 0);
    const json_t *step = json_object_get(json_object_get(row, "time"), "step_ms");
    const json_t *ci95 = json_object_get(step, "ci95");
    const double median = json_number_value(json_object_get(step, "median"));
    const double low = json_number_value(json_array_get(ci95, 0));
    const double high = json_number_value(json_array_get(ci95, 1));
    const bool known = low > 0 && high > 0 && median > 0;
    if (y > 0)
        put(out, ls_report_devices(row), y, known ? y * median / high : y,
            known ? y * median / low : y);
}

static void simple(const json_t *row, json_t *out, double x, const char *path)
{
    const double y = ls_report_number(row, path, -1);
    if (y >= 0 && x >= 0)
        put(out, x, y, y, y);
}

static void efficiency(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_devices(row), "time.efficiency");
}

static void speedup(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_devices(row), "time.speedup");
}

static void nodes(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_devices(row), "program.nodes");
}

static void build(const json_t *row, json_t *out)
{
    if (ls_report_number(row, "program.nodes", 0) > 0)
        simple(row, out, ls_report_devices(row), "time.build_ms");
}

static void peak(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_devices(row), "memory.devices.peak");
}

static void peak_of_batch(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_number(row, "case.batch_global", -1), "memory.devices.peak");
}

static void bus(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_number(row, "micro.size_bytes", -1), "micro.busbw_gbs");
}

static void bubble(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_number(row, "case.pipeline_microbatches", -1), "pipeline.bubble");
}

static void accuracy(const json_t *row, json_t *out)
{
    simple(row, out,
           ls_report_number(row, "case.steps", 0) + ls_report_number(row, "case.warmup", 0),
           "train.accuracy");
}

/* Milliseconds that a worker sleeps each step. */
static double delay_of(const json_t *row)
{
    char text[128];
    const char *colon = strchr(ls_report_text(row, "case.inject", text, sizeof text), ':');
    if (!*text)
        return 0;
    if (strncmp(text, "delay=", 6) != 0 || !colon)
        return -1;
    char *unit;
    const double value = strtod(colon + 1, &unit);
    return strcmp(unit, "us") == 0 ? value / 1e3 : strcmp(unit, "s") == 0 ? value * 1e3 : value;
}

static void to_target(const json_t *row, json_t *out)
{
    if (strcmp(ls_report_strategy(row), "ps") == 0)
        simple(row, out, delay_of(row), "train.seconds_to_target");
}

static void slow_step(const json_t *row, json_t *out)
{
    if (strcmp(ls_report_strategy(row), "ps") == 0)
        simple(row, out, delay_of(row), "time.step_ms.median");
}

static void histogram(const json_t *group, json_t *out)
{
    const json_t *counts = json_object_get(group, "histogram");
    double sum = 0;
    for (size_t i = 0; i < json_array_size(counts); i++)
        sum += json_number_value(json_array_get(counts, i));
    for (size_t i = 0; sum > 0 && i < json_array_size(counts); i++) {
        const double share = json_number_value(json_array_get(counts, i)) / sum;
        put(out, (double)i, share, share, share);
    }
}

static void staleness(const json_t *row, json_t *out)
{
    histogram(json_object_get(row, "staleness"), out);
}

static void lead(const json_t *row, json_t *out)
{
    histogram(json_object_get(row, "lead"), out);
}

/* At most some 100 of a row's losses. */
static void losses_at(const json_t *row, json_t *out, double each)
{
    const json_t *losses = json_object_get(json_object_get(row, "train"), "losses");
    const size_t count = json_array_size(losses), stride = count / 100 + 1;
    const double first = ls_report_number(row, "case.warmup", 0);
    for (size_t i = 0; i < count; i += stride) {
        const double loss = json_number_value(json_array_get(losses, i));
        if (json_is_number(json_array_get(losses, i)))
            put(out, each * (first + (double)i), loss, loss, loss);
    }
}

static void losses(const json_t *row, json_t *out)
{
    losses_at(row, out, 1);
}

static void losses_in_time(const json_t *row, json_t *out)
{
    losses_at(row, out, ls_report_number(row, "time.step_ms.mean", NAN) / 1e3);
}

#define MODEL_BATCH                                                                                \
    {                                                                                              \
        "case.model", "case.data", "case.batch_global", "case.reduce", NULL                        \
    }
#define BASELINE "several numbers of devices: --devices 1,2,4 --baseline yes"

static const line_kind kinds[] = {
    {"throughput-strong",
     "devices",
     "samples/s",
     "samples/s",
     "%s reaches %s on %s devices",
     "samples/s of the median step",
     "strong",
     {"case.model", "case.batch_global", NULL},
     rate,
     NULL,
     BASELINE,
     "linear",
     1,
     false,
     false,
     false},
    {"throughput-weak",
     "devices",
     "samples/s",
     "samples/s",
     "%s reaches %s on %s devices",
     "samples/s of the median step, the batch growing with the devices",
     "weak",
     {"case.model", NULL},
     rate,
     NULL,
     "--scaling weak on " BASELINE,
     "linear",
     1,
     false,
     false,
     false},
    {"speed-up",
     "devices",
     "speed-up over one device",
     "times",
     "%s is %s as fast on %s devices",
     "speed-up over single on one like device",
     NULL,
     {"case.model", "case.scaling", "case.batch_global", NULL},
     speedup,
     NULL,
     BASELINE,
     "linear",
     1,
     false,
     false,
     false},
    {"efficiency",
     "devices",
     "efficiency",
     "%",
     "%s keeps %s on %s devices",
     "speed-up over single on one like device, over the devices",
     NULL,
     {"case.model", "case.scaling", "case.batch_global", NULL},
     efficiency,
     NULL,
     BASELINE,
     "one",
     1,
     false,
     false,
     false},
    {"memory-devices", "devices", "peak of the fullest device", "bytes",
     "%s needs %s on %s devices", "the most that one device held", NULL, MODEL_BATCH, peak, NULL,
     "several numbers of devices: --devices 1,2,4", NULL, -1, false, true, false},
    {"memory-batch",
     "global batch",
     "peak of the fullest device",
     "bytes",
     "%s needs %s for a batch of %s",
     "the most that one device held",
     NULL,
     {"case.model", "case.devices", NULL},
     peak_of_batch,
     NULL,
     "several --batch",
     NULL,
     -1,
     true,
     true,
     false},
    {"program",
     "devices",
     "nodes of a step's program",
     "nodes",
     "%s needs %s on %s devices",
     "nodes of the program of one step",
     NULL,
     {"case.model", NULL},
     nodes,
     NULL,
     "several numbers of devices: --devices 1,2,4",
     NULL,
     -1,
     true,
     true,
     false},
    {"build",
     "devices",
     "time to build the program",
     "ms",
     "%s builds in %s on %s devices",
     "time to build the program of one step",
     NULL,
     {"case.model", NULL},
     build,
     NULL,
     "several numbers of devices: --devices 1,2,4",
     NULL,
     -1,
     true,
     true,
     false},
    {"bus-bandwidth",
     "bytes",
     "bus bandwidth",
     "GB/s",
     "%s reaches %s at %s bytes",
     "bus bandwidth by nccl-tests' formula",
     NULL,
     {"micro.op", "micro.ranks", "micro.comm", NULL},
     bus,
     "micro.kernel",
     "rows of lockstep micro allreduce --allreduce .. --sizes ..",
     NULL,
     1,
     true,
     false,
     false},
    {"pipeline-idle",
     "micro-batches",
     "idle share",
     "%",
     "%s is idle for %s with %s micro-batches",
     "share of the stages' time that they wait",
     NULL,
     {"case.model", "case.batch_global", "case.devices", NULL},
     bubble,
     NULL,
     "--strategy pipeline --pipeline-microbatches 1,2,4",
     NULL,
     -1,
     true,
     false,
     false},
    {"staleness", "updates by others", "share of gradients", "%", "%s: %s are %s updates late",
     "updates by others between a pull and its gradient", NULL, MODEL_BATCH, staleness, NULL,
     "--strategy ps --ps-mode ssp,async", NULL, 1, false, false, true},
    {"lead", "steps ahead of the slowest", "share of gradients", "%", "%s: %s are %s steps ahead",
     "steps that a worker was ahead of the slowest", NULL, MODEL_BATCH, lead, NULL,
     "--strategy ps --ps-mode ssp,async", NULL, 1, false, false, true},
    {"loss-steps", "step", "loss", "", "%s has loss %s after %s steps", "loss of the batch", NULL,
     MODEL_BATCH, losses, NULL, "rows of --verbose", NULL, -1, false, false, true},
    {"loss-time", "seconds", "loss", "", "%s has loss %s after %s s", "loss of the batch", NULL,
     MODEL_BATCH, losses_in_time, NULL, "rows of --verbose", NULL, -1, false, false, true},
    {"accuracy", "steps", "accuracy on the test set", "%", "%s reaches %s after %s steps",
     "accuracy on the test set after all steps", NULL, MODEL_BATCH, accuracy, NULL,
     "several --steps of one case", NULL, 1, true, false, false},
    {"stragglers", "delay of one worker, ms", "time to the target", "s",
     "%s is there in %s with %s ms delay", "time to the target of --target", NULL, MODEL_BATCH,
     to_target, NULL, "--strategy ps --target loss=.. with several --inject delay=RANK:TIME", NULL,
     -1, false, false, false},
    {"stragglers-step", "delay of one worker, ms", "median step", "ms",
     "%s takes %s a step with %s ms delay", "median step", NULL, MODEL_BATCH, slow_step, NULL,
     "--strategy ps with several --inject delay=RANK:TIME", NULL, -1, false, false, false},
};

/* The series of this name in the figure, made where there is none; NULL: there are too many. */
static json_t *series_of(json_t *figure, const char *label, const json_t *row)
{
    json_t *all = json_object_get(figure, "series"), *one;
    size_t i;
    int variant = 0;
    const int style = ls_report_is_peer(row) ? -1 : ls_figure_style(ls_report_strategy(row));
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
        put(out, at(middle, 0), (at(middle, 1) + at(above, 1)) / 2, at(sorted[i], alone ? 2 : 1),
            at(sorted[end - 1], alone ? 3 : 1));
    }
    free(sorted);
    return out;
}

/* Keeps the series that make a line; how many places of x there are in the longest. */
static size_t tidy(json_t *figure, const line_kind *kind)
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
    (void)kind;
    return longest;
}

/* "mirrored keeps 83% on 2 devices": of the farthest place that a proven strategy comes to. */
static void set_title(json_t *figure, const line_kind *kind)
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

/* (p - 1) / (m + p - 1), for a pipeline of this many stages. */
static void add_formula(json_t *figure, const json_t *rows)
{
    json_t *points = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const double m = ls_report_number(row, "case.pipeline_microbatches", 0);
        const double y = ls_report_number(row, "pipeline.bubble_equal", -1);
        if (m > 0 && y >= 0)
            put(points, m, y, y, y);
    }
    json_t *merged = merge(points);
    json_array_append_new(json_object_get(figure, "series"),
                          json_pack("{s:s,s:s,s:i,s:i,s:o}", "name", "formula", "strategy", "",
                                    "style", -1, "variant", 1, "points", merged));
    json_decref(points);
}

static void describe(json_t *figure, const line_kind *kind)
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

static json_t *fitting(const json_t *rows, const line_kind *kind)
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

static void about(const json_t *rows, const line_kind *kind, char *out, size_t size)
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

static void add(json_t *figures, const line_kind *kind, const json_t *rows, const char *against,
                json_t *left_out)
{
    char text[512];
    about(rows, kind, text, sizeof text);
    json_t *figure = ls_figure_add(figures, kind->name, "lines", rows, text);
    char ignore[1024];
    snprintf(ignore, sizeof ignore, "%s%s", ls_report_plain,
             kind->points == bubble                                   ? "pipeline_microbatches "
             : kind->points == to_target || kind->points == slow_step ? "inject "
                                                                      : "");
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
    if (kind->points == bubble)
        add_formula(figure, rows);
    const size_t longest = tidy(figure, kind);
    if (longest < 2 && !kind->one) {
        json_array_append_new(left_out,
                              json_sprintf("%s (%s): %zu rows have one place only; wanted: %s",
                                           kind->name, text, json_array_size(rows), kind->want));
        json_array_remove(figures, json_array_size(figures) - 1);
    } else {
        limit(figure, kind->name, left_out);
        set_title(figure, kind);
        describe(figure, kind);
    }
    json_decref(differences);
}

static void add_kind(json_t *figures, const line_kind *kind, const json_t *rows,
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
    for (size_t i = 0; i < 4; i++)
        add_kind(figures, &kinds[i], rows, against, left_out);
    ls_report_shares(figures, rows, against, left_out);
    for (size_t i = 4; i < sizeof kinds / sizeof *kinds; i++)
        add_kind(figures, &kinds[i], rows, against, left_out);
    return figures;
}
