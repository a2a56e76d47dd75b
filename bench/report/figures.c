/* SPDX-License-Identifier: MIT */
/* Figures; see figures.h. The parts that all kinds of figures share. */
#include "bench/report/figures.h"

#include "bench/output/format_parts.h"
#include "bench/output/row_same.h"
#include "bench/report/case_keys.h"
#include "bench/report/draw_look.h"
#include "bench/report/text.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Axes of larger numbers, which only foreign rows have, would not be finite. */
static const double drawn_most = 1e100;

/* The number of figures of this kind. */
static size_t count_of(const ls_figures *figures, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(figures->list); i++)
        count += strcmp(ls_text_of(json_array_get(figures->list, i), "kind_of"), name) == 0;
    return count;
}

/* The member of an object, created if it is missing. */
static json_t *member_of(json_t *object, const char *name)
{
    if (!json_object_get(object, name))
        json_object_set_new(object, name, json_object());
    return json_object_get(object, name);
}

void ls_figure_leave(ls_figures *figures, const char *name, size_t count, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_t *more = json_vsprintf(format, arguments);
    va_end(arguments);
    json_t *why = json_sprintf("%s: %zu", json_string_value(more), count);
    if (why && count > 0)
        json_object_set_new(member_of(figures->reasons, json_string_value(why)), name, json_true());
    json_decref(more);
    json_decref(why);
}

void ls_figure_miss(ls_figures *figures, const ls_figure_kind *kind)
{
    json_object_set_new(member_of(figures->missing, kind->want), kind->name, json_true());
}

void ls_figure_merged(json_t *figure, const json_t *cases, const char *at, bool line)
{
    char merged[LS_KEY_SIZE];
    const size_t count = ls_report_merged(cases, at, line, merged, sizeof merged);
    json_object_set_new(
        figure, "merged",
        json_sprintf("rows of one %s that differ in %s", line ? "line" : "case", merged));
    json_object_set_new(figure, "merged_rows", json_integer((json_int_t)count));
}

void ls_figure_tell_merged(ls_figures *figures, const json_t *figure)
{
    const json_int_t count = json_integer_value(json_object_get(figure, "merged_rows"));
    ls_figure_leave(figures, ls_text_of(figure, "name"), (size_t)count, "%s",
                    ls_text_of(figure, "merged"));
}

int ls_figure_style(const json_t *row)
{
    return ls_report_is_peer(row)          ? LS_STYLE_PEER
           : json_object_get(row, "micro") ? LS_STYLE_NEUTRAL
                                           : ls_report_strategy_index(row);
}

int ls_figure_variant(ls_figures *figures, const json_t *row, const char *label)
{
    static const char predicted[] = " (predicted)"; /* the same variant, drawn differently */
    char style[16], own[LS_LABEL_SIZE];
    if (!json_object_get(row, "micro"))
        label = ls_report_variant(row, figures->differences, true, own);
    char *at = label == own ? strstr(own, predicted) : NULL;
    if (at)
        memmove(at, at + strlen(predicted), strlen(at + strlen(predicted)) + 1);
    const int its = ls_figure_style(row); /* strategies of one colour share the numbers */
    snprintf(style, sizeof style, "%d", its < 0 || ls_look_is_own(its) ? its : LS_STYLE_NEUTRAL);
    json_t *known = member_of(figures->variants, style);
    if (!json_object_get(known, label))
        json_object_set_new(known, label, json_integer((json_int_t)json_object_size(known)));
    const int number = (int)json_integer_value(json_object_get(known, label));
    return figures->predicted ? LS_VARIANT_PAIRS + 2 * number + ls_row_is_predicted(row) : number;
}

enum { MACHINE = LS_OF_CLASS | LS_OF_HOST };

/* Whether the key stands for machines (it is a fact of them, or a label), one for each value. Only
 * then are machines compared. */
static bool has_one_machine_each(const json_t *rows, const char *against)
{
    json_auto_t *machines = json_object(), *known = json_array();
    bool one = ls_row_is_of(against, MACHINE | LS_OF_LABEL);
    for (size_t i = 0; i < json_array_size(rows) && one; i++) {
        char value[LS_KEY_SIZE];
        const json_t *row = json_array_get(rows, i);
        json_auto_t *machine = json_integer((json_int_t)ls_row_machine(known, row, MACHINE));
        ls_report_text(row, against, value, sizeof value);
        one = !json_object_get(machines, value) ||
              json_equal(json_object_get(machines, value), machine);
        json_object_set(machines, value, machine);
    }
    return one;
}

size_t ls_figure_machines(const json_t *rows)
{
    json_auto_t *known = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++)
        ls_row_machine(known, json_array_get(rows, i), MACHINE);
    return json_array_size(known);
}

json_t *ls_figure_groups(const json_t *rows, const char *const *paths, const char *against)
{
    json_t *groups = json_object();
    json_auto_t *known = json_array();
    const bool one_machine_each = against && has_one_machine_each(rows, against);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        char key[LS_KEY_SIZE] = "", part[256];
        if (!one_machine_each)
            snprintf(key, sizeof key, "%zu", ls_row_machine(known, row, MACHINE));
        for (size_t p = 0; paths[p]; p++)
            ls_text_add(key, sizeof key, "|%s", ls_report_text(row, paths[p], part, sizeof part));
        ls_report_text(row, "case.model_digest", part, sizeof part); /* a file's other text */
        ls_text_add(key, sizeof key, "|%s", part);
        ls_report_collect(groups, key, row);
    }
    return groups;
}

/* Sorts the largest first. */
static int by_size(const json_t *a, const json_t *b)
{
    const size_t x = json_array_size(json_object_get(a, "rows"));
    const size_t y = json_array_size(json_object_get(b, "rows"));
    return (x < y) - (x > y);
}

void ls_figures_make(ls_figures *figures, const ls_figure_kind *kind, const json_t *rows)
{
    json_t *fit = ls_report_those(rows, kind->holds, kind->of);
    json_t *groups = ls_figure_groups(fit, kind->group, figures->against);
    json_t *all = ls_report_sorted(groups, by_size);
    const size_t without = json_array_size(rows) - json_array_size(fit);
    size_t others = 0;
    const size_t count = json_array_size(all);
    size_t made = 0, more = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *group = json_object_get(json_array_get(all, i), "rows");
        if (made < LS_FIGURES_OF_A_KIND) {
            made += kind->make(figures, kind, group);
        } else {
            others += json_array_size(group);
            more++;
        }
    }
    if (count == 0)
        ls_figure_miss(figures, kind);
    else
        ls_figure_leave(figures, kind->name, without, "rows without %s", kind->without);
    ls_figure_leave(figures, kind->name, others,
                    "rows of %zu smaller groups (model, batch, machine; --where chooses)", more);
    json_decref(groups);
    json_decref(all);
    json_decref(fit);
}

/* The text at the path if it is the same in all rows, otherwise "". */
static char *shared_text(const json_t *rows, const char *path, char *out, size_t size)
{
    char other[96];
    ls_report_text(json_array_get(rows, 0), path, out, size);
    for (size_t i = 1; i < json_array_size(rows) && *out; i++)
        if (strcmp(ls_report_text(json_array_get(rows, i), path, other, sizeof other), out) != 0)
            *out = 0;
    return out;
}

/* "poly, synthetic, global batch 100": words alone, numbers with a name. */
static void describe_rows(const json_t *rows, const char *more, char *out, size_t size)
{
    static const char *const paths[][2] = {
        {"case.model", ""}, {"case.data", ""},   {"case.batch_global", "global batch "},
        {"micro.op", ""},   {"micro.shape", ""}, {"micro.ranks", "ranks "},
        {"micro.comm", ""}};
    char text[96];
    *out = 0;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (*shared_text(rows, paths[i][0], text, sizeof text))
            ls_text_add(out, size, "%s%s%s", *out ? ", " : "", paths[i][1], text);
    const double devices = ls_report_shared_devices(rows);
    if (devices > 0)
        ls_text_add(out, size, "%s%g device%s", *out ? ", " : "", devices, devices > 1 ? "s" : "");
    ls_text_add(out, size, "%s%s", *out && *more ? ", " : "", more);
}

json_t *ls_figure_add(ls_figures *figures, const ls_figure_kind *kind, const json_t *rows)
{
    char own[64], sub[512], foot[512] = "", commit[64], known[64], stamp[11],
                            machine[LS_MACHINE_SIZE];
    const json_t *row = json_array_get(rows, json_array_size(rows) - 1);
    const size_t same = 1 + count_of(figures, kind->name);
    snprintf(own, sizeof own, same > 1 ? "%s-%zu" : "%s", kind->name, same);
    describe_rows(rows, kind->more ? kind->more : "", sub, sizeof sub);
    ls_report_commit(row, 7, commit);
    ls_report_text(row, "timestamp", stamp, sizeof stamp);
    if (ls_figure_machines(rows) > 1)
        snprintf(machine, sizeof machine, "several machines");
    else
        ls_report_machine(row, machine, sizeof machine);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        if (strcmp(ls_report_commit(json_array_get(rows, i), 7, known), commit) != 0)
            snprintf(commit, sizeof commit, "several");
    }
    /* non-breaking spaces */
    ls_text_add(foot, sizeof foot, "%s%scommit\xc2\xa0%s, %s, rows:\xc2\xa0%zu", machine,
                *machine ? ", " : "", commit, stamp, json_array_size(rows));
    json_t *figure =
        json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:[]}", "name", own, "kind_of", kind->name,
                  "kind", kind->kind, "sub", sub, "foot", foot, "x", kind->x, "y", kind->y, "unit",
                  kind->unit, "caption", kind->caption, "series");
    json_array_append_new(figures->list, figure);
    return figure;
}

void ls_figure_title(ls_figures *figures, json_t *figure, const json_t *rows, json_t *title,
                     const char *about)
{
    json_object_set_new(
        figure, "alt",
        json_sprintf("%s: %s (%s)", about, json_string_value(title), ls_text_of(figure, "sub")));
    json_object_set_new(figure, "title", title);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *id = ls_text_of(json_array_get(rows, i), "id");
        json_object_set_new(figures->used, id, json_true());
    }
}

/* Whether a series has this look; `dashed`: a mark of the same colour may have other dashes. */
static bool is_taken(const json_t *all, int style, int variant, bool dashed)
{
    json_auto_t *pair = json_pack("[i,i]", style, variant);
    const ls_look look = ls_look_of(pair);
    for (size_t s = 0; s < json_array_size(all); s++) {
        const ls_look other = ls_look_of(json_array_get(all, s));
        if (look.marker == other.marker && strcmp(look.colour, other.colour) == 0 &&
            !(dashed && strcmp(look.dash, other.dash) != 0))
            return true;
    }
    return false;
}

json_t *ls_figure_series(json_t *figure, const char *name, int style, int variant)
{
    enum { TRIES = 20 }; /* all looks of a colour are among so many variants in a row */
    json_t *all = json_object_get(figure, "series");
    const int step = variant < LS_VARIANT_PAIRS ? 1 : 2;
    int tries = 0;
    while (tries < 2 * TRIES &&
           is_taken(all, style, variant + step * (tries % TRIES), tries >= TRIES))
        tries++;
    variant += tries < 2 * TRIES ? step * (tries % TRIES) : 0;
    json_array_append_new(all, json_pack("{s:s,s:i,s:i,s:[]}", "name", name, "style", style,
                                         "variant", variant, "points"));
    return json_array_get(all, json_array_size(all) - 1);
}

void ls_figure_point(json_t *series, double x, double y, double low, double high)
{
    if (fabs(x) <= drawn_most && fabs(y) <= drawn_most)
        json_array_append_new(json_object_get(series, "points"),
                              json_pack("[f,f,f,f]", x, y, fabs(low) <= drawn_most ? low : y,
                                        fabs(high) <= drawn_most ? high : y));
}

json_t *ls_figure_points(const json_t *figure)
{
    json_t *out = json_array(), *all = json_object_get(figure, "series");
    for (size_t s = 0; s < json_array_size(all); s++)
        json_array_extend(out, json_object_get(json_array_get(all, s), "points"));
    return out;
}

double ls_figure_at(const json_t *point, size_t index)
{
    return json_number_value(json_array_get(point, index));
}

static int by_x_then_y(const void *a, const void *b)
{
    const json_t *const *p = a, *const *q = b;
    for (size_t i = 0; i < 2; i++)
        if (ls_figure_at(*p, i) < ls_figure_at(*q, i) || ls_figure_at(*p, i) > ls_figure_at(*q, i))
            return ls_figure_at(*p, i) < ls_figure_at(*q, i) ? -1 : 1;
    return 0;
}

size_t ls_figure_merge(json_t *series)
{
    json_t *points = json_incref(json_object_get(series, "points"));
    const size_t count = json_array_size(points);
    json_t **sorted = malloc((count + 1) * sizeof *sorted);
    json_object_set_new(series, "points", json_array());
    for (size_t i = 0; sorted && i < count; i++)
        sorted[i] = json_array_get(points, i);
    if (sorted && count > 0)
        qsort(sorted, count, sizeof *sorted, by_x_then_y);
    for (size_t i = 0, end; sorted && i < count; i = end) {
        for (end = i + 1;
             end < count && ls_figure_at(sorted[end], 0) <= ls_figure_at(sorted[i], 0);)
            end++;
        const json_t *middle = sorted[(i + end - 1) / 2], *other = sorted[(i + end) / 2];
        const double y = (ls_figure_at(middle, 1) + ls_figure_at(other, 1)) / 2;
        const size_t low = end - i == 1 ? 2 : 1, high = end - i == 1 ? 3 : 1;
        ls_figure_point(series, ls_figure_at(middle, 0), y, ls_figure_at(sorted[i], low),
                        ls_figure_at(sorted[end - 1], high));
    }
    free(sorted);
    json_decref(points);
    return json_array_size(json_object_get(series, "points"));
}

static char *with_commas(double value, char out[48])
{
    char digits[40];
    snprintf(digits, sizeof digits, "%.0f", value);
    const size_t length = strlen(digits);
    size_t used = 0;
    for (size_t i = 0; i < length && used < 46; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-')
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

char *ls_figure_value(double value, const char *unit, char out[48])
{
    const bool share = strcmp(unit, "%") == 0, bytes = strcmp(unit, "bytes") == 0;
    if (share)
        snprintf(out, 48, "%.0f%%", 100 * value);
    else if (bytes)
        ls_format_bytes(value, out);
    else if (fabs(value) >= 1000)
        with_commas(value, out);
    else /* omits "1 times" */
        snprintf(out, 48, strcmp(unit, "times") == 0 && value < 10 ? "%.2f" : "%.3g", value);
    if (*unit && !share && !bytes)
        ls_text_add(out, 48, " %s", unit);
    return out;
}

/* "waterfall, memory: 4 older rows": each reason once; `without`: only kinds without any figure. */
static void tell(const ls_figures *figures, const json_t *reasons, bool without, json_t *left_out)
{
    const char *why, *name, *between = without ? "no rows for it; wanted: " : "";
    json_t *names, *value;
    json_object_foreach((json_t *)(size_t)reasons, why, names)
    {
        char text[LS_KEY_SIZE] = "";
        json_object_foreach(names, name, value)
        {
            (void)value;
            if (!without || count_of(figures, name) == 0)
                ls_text_add(text, sizeof text, "%s%s", *text ? ", " : "", name);
        }
        if (*text)
            json_array_append_new(left_out, json_sprintf("%s: %s%s", text, between, why));
    }
}

json_t *ls_report_figures(const json_t *all, const char *against, json_t *left_out)
{
    json_t *rows = ls_report_those(all, ls_report_is_ok, NULL);
    const size_t bad = json_array_size(all) - json_array_size(rows);
    ls_figures figures = {.list = json_array(),
                          .used = json_object(),
                          .reasons = json_object(),
                          .missing = json_object(),
                          .variants = json_object(),
                          .differences = ls_report_differences(rows, NULL, NULL),
                          .against = against};
    size_t unused = 0;
    for (size_t i = 0; i < json_array_size(rows); i++)
        figures.predicted |= ls_row_is_predicted(json_array_get(rows, i));
    ls_figures_of_lines(&figures, rows, true);
    ls_figures_of_shares(&figures, rows);
    ls_figures_of_layouts(&figures, rows);
    ls_figures_of_cases(&figures, rows);
    ls_figures_of_lines(&figures, rows, false);
    for (size_t i = 0; i < json_array_size(rows); i++)
        unused += !json_object_get(figures.used, ls_text_of(json_array_get(rows, i), "id"));
    if (bad > 0)
        json_array_append_new(left_out, json_sprintf("rows that failed a check, could not run or "
                                                     "were interrupted: %zu; they are in the table",
                                                     bad));
    tell(&figures, figures.reasons, false, left_out);
    tell(&figures, figures.missing, true, left_out);
    if (unused > 0)
        json_array_append_new(
            left_out, json_sprintf("rows that fit no picture: %zu; they are in the table", unused));
    json_decref(figures.reasons);
    json_decref(figures.missing);
    json_decref(figures.used);
    json_decref(figures.variants);
    json_decref(figures.differences);
    json_decref(rows);
    return figures.list;
}
