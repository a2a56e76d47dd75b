/* SPDX-License-Identifier: MIT */
/* Figures with a bar a case: the waterfall and the memory of one row each, stacked, and the range
 * of its step times. Of several rows of one case the newest counts. */
#include "bench/report/case_keys.h"
#include "bench/report/figures.h"

#include <stdlib.h>
#include <string.h>

typedef struct share_kind {
    const char *name, *x, *unit, *root, *parts[7], *shown[7], *want, *means;
} share_kind;

static const share_kind kinds[] = {
    {"waterfall",
     "ms of the mean step",
     "ms",
     "waterfall.",
     {"compute_ms", "optimizer_ms", "comm_exposed_ms", "wait_ms", "copy_ms", "harness_ms", NULL},
     {"compute", "optimizer", "communication", "wait", "copy", "harness", NULL},
     "rows of lockstep run with --steps 1 or more",
     "A bar is the mean step of the newest row of a case; its parts sum to the step."},
    {"memory",
     "MiB on the fullest device",
     "bytes",
     "memory.devices.",
     {"parameters", "gradients", "optimizer", "activations", "communication", "workspace", NULL},
     {"parameters", "gradients", "optimizer", "activations", "communication", "workspace", NULL},
     "rows with memory",
     "A bar is what the fullest device of the newest row of a case holds, by use."},
};

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strverscmp(*x, *y); /* 2 before 16 */
}

/* The same members, by name; takes the object. */
static json_t *sorted(json_t *cases)
{
    json_t *out = json_object(), *unused;
    const char *names[LS_CATEGORIES_MOST + 1], *name;
    size_t count = 0;
    json_object_foreach(cases, name, unused)
    {
        (void)unused;
        if (count < LS_CATEGORIES_MOST)
            names[count++] = name;
    }
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 0; i < count; i++)
        json_object_set(out, names[i], json_object_get(cases, names[i]));
    json_decref(cases);
    return out;
}

/* The newest row of each case of the group, as {label: row}. */
static json_t *cases_of(const json_t *rows, const char *against, const char *name, json_t *left_out)
{
    json_t *out = json_object(), *differences = ls_report_differences(rows, ls_report_plain);
    size_t older = 0, dropped = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        char label[300], count[48];
        ls_report_label(row, differences, against, label, 256);
        const size_t used = strlen(label);
        snprintf(label + used, sizeof label - used, " on %s",
                 ls_figure_value(ls_report_devices(row), "", count));
        const bool there = json_object_get(out, label) != NULL;
        older += there;
        if (there || json_object_size(out) < LS_CATEGORIES_MOST)
            json_object_set(out, label, row);
        else
            dropped++;
    }
    if (older > 0)
        json_array_append_new(left_out,
                              json_sprintf("%s: %zu older rows of cases that have a newer "
                                           "one",
                                           name, older));
    if (dropped > 0)
        json_array_append_new(left_out,
                              json_sprintf("%s: %zu rows beyond the %d bars of a picture; "
                                           "--where chooses",
                                           name, dropped, LS_CATEGORIES_MOST));
    json_decref(differences);
    return sorted(out);
}

static void finish(json_t *figure, const char *x, const char *unit, const char *means,
                   const char *title)
{
    const char *sub = json_string_value(json_object_get(figure, "sub"));
    json_object_set_new(figure, "title", json_string(title));
    json_object_set_new(figure, "x", json_string(x));
    json_object_set_new(figure, "y", json_string(""));
    json_object_set_new(figure, "unit", json_string(unit));
    json_object_set_new(figure, "caption", json_string(means));
    json_object_set_new(figure, "alt",
                        json_sprintf("a bar a case, %s: %s (%s)", x, title, sub ? sub : ""));
}

static void append(json_t *series, size_t place, double y, double low, double high)
{
    json_array_append_new(json_object_get(series, "points"),
                          json_pack("[f,f,f,f]", (double)place, y, low, high));
}

static json_t *new_series(json_t *figure, const char *name, int style)
{
    json_t *one = json_pack("{s:s,s:s,s:i,s:i,s:[]}", "name", name, "strategy", "", "style", style,
                            "variant", 0, "points");
    json_array_append_new(json_object_get(figure, "series"), one);
    return one;
}

static void add_bars(json_t *figure, const share_kind *kind, const json_t *cases)
{
    json_t *names = json_array();
    const double scale = strcmp(kind->unit, "bytes") == 0 ? 1048576 : 1;
    const char *label;
    json_t *row;
    char best[256] = "", title[400], shown[48];
    double best_sum = 0, best_share = 0, most = -2;
    for (size_t p = 0; kind->parts[p]; p++)
        new_series(figure, kind->shown[p], (int)p);
    json_object_foreach((json_t *)(size_t)cases, label, row)
    {
        double sum = 0, first = 0;
        for (size_t p = 0; kind->parts[p]; p++) {
            char path[96];
            snprintf(path, sizeof path, "%s%s", kind->root, kind->parts[p]);
            const double value = ls_report_number(row, path, 0);
            append(json_array_get(json_object_get(figure, "series"), p), json_array_size(names),
                   value / scale, sum / scale, (sum + value) / scale);
            sum += value;
            first = p == 0 ? value : first;
        }
        json_array_append_new(names, json_string(label));
        const bool apart = strcmp(ls_report_strategy(row), "independent") == 0;
        const double devices = apart ? -1 : ls_report_devices(row); /* of the most devices */
        const bool larger = scale > 1 ? sum > best_sum
                                      : sum > 0 && (devices > most ||
                                                    (devices >= most && first / sum > best_share));
        if (larger) {
            snprintf(best, sizeof best, "%s", label);
            best_sum = sum;
            most = devices;
            best_share = sum > 0 ? first / sum : 0;
        }
    }
    json_object_set_new(figure, "categories", names);
    snprintf(title, sizeof title,
             scale > 1 ? "%s holds the most: %s" : "%s computes for %s of its step", best,
             ls_figure_value(scale > 1 ? best_sum : best_share, scale > 1 ? "bytes" : "%", shown));
    finish(figure, kind->x, kind->unit, kind->means, title);
}

static void add_ranges(json_t *figure, const json_t *cases)
{
    json_t *names = json_array(), *middle = new_series(figure, "median, p10 to p90", 2);
    json_t *tail = new_series(figure, "p99", 1);
    const char *label;
    json_t *row;
    char best[256] = "", title[400];
    double widest = 0;
    json_object_foreach((json_t *)(size_t)cases, label, row)
    {
        const double median = ls_report_number(row, "time.step_ms.median", 0);
        const double p99 = ls_report_number(row, "time.step_ms.p99", median);
        append(middle, json_array_size(names), median,
               ls_report_number(row, "time.step_ms.p10", median),
               ls_report_number(row, "time.step_ms.p90", median));
        append(tail, json_array_size(names), p99, p99, p99);
        json_array_append_new(names, json_string(label));
        if (median > 0 && p99 / median > widest) {
            widest = p99 / median;
            snprintf(best, sizeof best, "%s", label);
        }
    }
    json_object_set_new(figure, "categories", names);
    snprintf(title, sizeof title, "%s: one step in 100 takes %.3g times the median", best, widest);
    finish(figure, "ms of a step", "ms",
           "A mark is the median step, its bar from the 10th to the 90th percentile, the second "
           "mark the 99th; of the newest row of a case.",
           title);
}

/* Rows that have a number at the path. */
static json_t *with(const json_t *rows, const char *path)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (ls_report_number(json_array_get(rows, i), path, -1) >= 0)
            json_array_append(out, json_array_get(rows, i));
    return out;
}

static void add_kind(json_t *figures, const share_kind *kind, const json_t *rows,
                     const char *against, json_t *left_out)
{
    static const char *const paths[] = {"case.model", "case.data", "case.batch_global", NULL};
    const char *name = kind ? kind->name : "step-times";
    json_t *fit = with(rows, !kind                         ? "time.step_ms.p99"
                             : strcmp(name, "memory") == 0 ? "memory.devices.parameters"
                                                           : "waterfall.compute_ms");
    json_t *groups = ls_figure_groups(fit, paths, against);
    json_t *largest = ls_figure_largest(groups, name, left_out);
    if (json_array_size(fit) == 0)
        json_array_append_new(left_out, json_sprintf("%s: no row fits; wanted: %s", name,
                                                     kind ? kind->want : "timed rows"));
    for (size_t i = 0; i < json_array_size(largest); i++) {
        const json_t *group = json_array_get(largest, i);
        char about[128] = "", batch[48];
        if (*ls_report_text(json_array_get(group, 0), "case.batch_global", batch, sizeof batch))
            snprintf(about, sizeof about, "global batch %s", batch);
        json_t *cases = cases_of(group, against, name, left_out);
        json_t *figure = ls_figure_add(figures, name, kind ? "bars" : "ranges", group, about);
        if (kind)
            add_bars(figure, kind, cases);
        else
            add_ranges(figure, cases);
        json_decref(cases);
    }
    json_decref(largest);
    json_decref(groups);
    json_decref(fit);
}

void ls_report_shares(json_t *figures, const json_t *rows, const char *against, json_t *left_out)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        add_kind(figures, &kinds[i], rows, against, left_out);
    add_kind(figures, NULL, rows, against, left_out);
}
