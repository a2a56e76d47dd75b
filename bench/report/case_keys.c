/* SPDX-License-Identifier: MIT */
/*
 * Case keys; see case_keys.h. The interval of a ratio combines both intervals in logarithms: the
 * distances of the bounds add up as squares, as for independent measurements.
 */
#include "bench/report/case_keys.h"

#include "bench/output/format_parts.h"
#include "bench/report/text.h"
#include "impl/strategy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Members of `case` that repeats of a case differ in, or that follow from others. */
static const char plain[] = " strategy devices devices_asked hosts batch_per_device seed steps "
                            "warmup epochs blocks shuffle parameters gate_steps ";

double ls_report_number(const json_t *row, const char *path, double fallback)
{
    json_t *value = ls_row_value(row, path);
    const double number = json_is_number(value) ? json_number_value(value) : fallback;
    json_decref(value);
    return number;
}

char *ls_report_text(const json_t *row, const char *path, char *out, size_t size)
{
    json_t *value = ls_row_value(row, path);
    char *text = value ? ls_value_text(value) : NULL;
    *out = 0;
    ls_text_add(out, size, "%s", text ? text : "");
    free(text);
    json_decref(value);
    return out;
}

static const char *word(const json_t *row, const char *group, const char *name)
{
    return ls_text_of(json_object_get(row, group), name);
}

char *ls_report_machine(const json_t *row, char *out, size_t size)
{
    const char *isa = word(row, "provenance", "isa"), *gpu = word(row, "provenance", "gpu");
    const char *host = word(row, "provenance", "host");
    *out = 0;
    return ls_text_add(out, size, "%s%s%s%s%s%s%s%s", word(row, "provenance", "cpu"),
                       *isa ? " (" : "", isa, *isa ? ")" : "", *gpu ? ", " : "", gpu,
                       *host ? ", host " : "", host);
}

char *ls_report_commit(const json_t *row, int width, char out[64])
{
    const char *commit = word(row, "provenance", "commit");
    const bool dirty = json_is_true(json_object_get(json_object_get(row, "provenance"), "dirty"));
    *out = 0;
    ls_text_add(out, 64 - sizeof "+changes", "%.*s", width, *commit ? commit : "unknown");
    return ls_text_add(out, 64, "%s", dirty ? "+changes" : "");
}

double ls_report_devices(const json_t *row)
{
    const json_t *group = json_object_get(row, "case");
    const json_t *batches = json_object_get(group, "batch_per_device");
    double count = 0;
    for (size_t i = 0; i < json_array_size(batches); i++)
        count += json_number_value(json_array_get(batches, i)) > 0;
    if (count == 0)
        count = (double)json_array_size(json_object_get(group, "devices"));
    if (ls_report_is_peer(row)) { /* one device of two threads is two cores */
        const json_t *cores =
            json_object_get(json_object_get(row, "provenance"), "cores_per_device");
        double sum = 0;
        for (size_t i = 0; i < json_array_size(cores); i++)
            sum += json_number_value(json_array_get(cores, i));
        count = sum > count ? sum : count;
    }
    return count;
}

double ls_report_shared_devices(const json_t *rows)
{
    const double count = ls_report_devices(json_array_get(rows, 0));
    for (size_t i = 1; i < json_array_size(rows); i++)
        if (fabs(ls_report_devices(json_array_get(rows, i)) - count) > 0)
            return 0;
    return count;
}

json_t *ls_report_those(const json_t *rows, bool (*holds)(const json_t *row, const void *context),
                        const void *context)
{
    json_t *out = json_array(), *row;
    size_t i;
    json_array_foreach((json_t *)(size_t)rows, i, row)
    {
        if (holds(row, context))
            json_array_append(out, row);
    }
    return out;
}

ls_rate ls_report_rate(const json_t *row)
{
    const json_t *step = json_object_get(json_object_get(row, "time"), "step_ms");
    const json_t *ci95 = json_object_get(step, "ci95");
    const double median = json_number_value(json_object_get(step, "median"));
    const double low = json_number_value(json_array_get(ci95, 0));
    const double high = json_number_value(json_array_get(ci95, 1));
    const double rate = ls_report_number(row, "time.samples_per_s", 0);
    if (!(rate > 0 && median > 0 && low > 0 && high >= low))
        return (ls_rate){rate, 0, 0};
    return (ls_rate){rate, rate * median / high, rate * median / low};
}

ls_rate ls_report_ratio(ls_rate a, ls_rate b)
{
    const double ratio = a.rate / b.rate;
    if (!(a.low > 0 && b.low > 0))
        return (ls_rate){ratio, 0, 0};
    return (ls_rate){ratio, ratio * exp(-hypot(log(a.rate / a.low), log(b.high / b.rate))),
                     ratio * exp(hypot(log(a.high / a.rate), log(b.rate / b.low)))};
}

double ls_report_rate_alone(const json_t *rows)
{
    double alone = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const double rate = ls_report_rate(row).rate;
        const double speedup = ls_report_number(row, "time.speedup", 0);
        if (speedup > 0 && !ls_report_is_peer(row))
            return rate / speedup;
        if (ls_report_devices(row) <= 1 && ls_report_is_candidate(row))
            alone = fmax(alone, rate);
    }
    return alone;
}

typedef struct paced_row {
    double pace;
    const json_t *row;
} paced_row;

static int by_pace(const void *a, const void *b)
{
    const paced_row *x = a, *y = b;
    return (x->pace > y->pace) - (x->pace < y->pace);
}

const json_t *ls_report_median(const json_t *rows, ls_rate *rate)
{
    const size_t count = json_array_size(rows);
    const json_t *row = json_array_get(rows, 0);
    paced_row *all = count > 1 ? malloc(count * sizeof *all) : NULL;
    ls_rate out = ls_report_rate(row);
    for (size_t i = 0; all && i < count; i++) {
        const json_t *one = json_array_get(rows, i);
        const double us = ls_report_number(one, "micro.time_us", 0);
        all[i] = (paced_row){us > 0 ? 1 / us : ls_report_rate(one).rate, one};
    }
    if (all) {
        qsort(all, count, sizeof *all, by_pace);
        row = all[(count - 1) / 2].row;
        out = (ls_rate){ls_report_rate(row).rate, all[0].pace, all[count - 1].pace};
    }
    free(all);
    if (rate)
        *rate = out;
    return row;
}

bool ls_report_is_peer(const json_t *row)
{
    return json_object_get(row, "peer") != NULL;
}

const char *ls_report_strategy(const json_t *row)
{
    return ls_report_is_peer(row) ? word(row, "peer", "what") : word(row, "case", "strategy");
}

int ls_report_place(const json_t *row)
{
    const char *name = word(row, "case", "strategy");
    const size_t count = ls_registry_count(&ls_strategies);
    size_t place = 0;
    while (place < count && strcmp(ls_registry_name(&ls_strategies, place), name) != 0)
        place++;
    return (int)place;
}

bool ls_report_is_candidate(const json_t *row)
{
    const char *name = word(row, "case", "strategy");
    const ls_strategy *strategy = ls_registry_find(&ls_strategies, name, strlen(name));
    return !ls_report_is_peer(row) && (!strategy || strategy->equivalent);
}

bool ls_report_is_ok(const json_t *row)
{
    const bool micro = json_object_get(row, "micro");
    const char *status = word(row, "result", "status");
    return ls_report_number(row, "micro.wrong", 0) <= 0 &&
           (strcmp(status, "ok") == 0 || (micro && !*status));
}

static bool is_named(const char *name, const char *against)
{
    char wanted[96];
    snprintf(wanted, sizeof wanted, " %s ", name);
    return strstr(plain, wanted) ||
           (against && strncmp(against, "case.", 5) == 0 && strcmp(against + 5, name) == 0);
}

/* Notes the members in which two cases differ. */
static void compare(const json_t *a, const json_t *b, const char *against, json_t *out)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(size_t)a, name, value)
    {
        if (!is_named(name, against) && !json_equal(value, json_object_get(b, name)))
            json_object_set_new(out, name, json_true());
    }
}

/* What more than half of the strategy's rows have as this member of `case`; null where there is no
 * such value. */
static json_t *common_value(const json_t *rows, const char *strategy, const char *member)
{
    json_t *counts = json_object(), *out = NULL;
    json_int_t all = 0, most = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        json_t *value = json_object_get(json_object_get(row, "case"), member);
        if (strcmp(ls_report_strategy(row), strategy) != 0)
            continue;
        char *text = ls_value_text(value);
        const json_int_t now = 1 + json_integer_value(json_object_get(counts, text ? text : ""));
        json_object_set_new(counts, text ? text : "", json_integer(now));
        out = now > most ? value : out;
        most = now > most ? now : most;
        all++;
        free(text);
    }
    json_decref(counts);
    return out && 2 * most > all ? json_incref(out) : json_null();
}

json_t *ls_report_differences(const json_t *rows, const char *at, const char *against)
{
    json_t *out = json_object(), *first = json_object(), *members, *unused;
    const char *name, *member;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *strategy = ls_report_strategy(row);
        char key[LS_KEY_SIZE] = "", place[256] = "";
        json_t *group = json_object_get(row, "case"), *known;
        ls_text_add(key, sizeof key, "%s|%g|%s", strategy, ls_report_devices(row),
                    at ? ls_report_text(row, at, place, sizeof place) : "");
        if (!json_object_get(out, strategy))
            json_object_set_new(out, strategy, json_object());
        if (!(known = json_object_get(first, key))) {
            json_object_set(first, key, group);
            continue;
        }
        compare(known, group, against, json_object_get(out, strategy));
        compare(group, known, against, json_object_get(out, strategy));
    }
    json_object_foreach(out, name, members)
    {
        json_object_foreach(members, member, unused)
        {
            (void)unused;
            json_object_set_new(members, member, common_value(rows, name, member));
        }
    }
    json_decref(first);
    return out;
}

/* How much of "local_sgd_every" is the strategy's name, and what parts them; 0: it is not its own.
 */
static size_t own_length(const char *strategy, const char *name)
{
    size_t i = 0;
    while (strategy[i] && name[i] == (strategy[i] == '-' ? '_' : strategy[i]))
        i++;
    return !strategy[i] && name[i] == '_' ? i + 1 : 0;
}

/* Adds the options that differ: first values that are words ("async" of ps_mode), then those that
 * need their name. */
static void add_options(const json_t *row, const json_t *names, const char *strategy, bool words,
                        bool own_only, char *out)
{
    const char *name;
    json_t *common;
    json_object_foreach((json_t *)(size_t)names, name, common)
    {
        const json_t *value = json_object_get(json_object_get(row, "case"), name);
        char *text = ls_value_text(value);
        const size_t own = own_length(strategy, name);
        const bool word = text && own && strspn(text, "0123456789.-") < strlen(text);
        const bool alone = word || (text && strchr(text, '=')); /* delay=1:5ms: it says its name */
        if (text && *text && word == words && (own || !(own_only || json_equal(value, common))) &&
            !(own && strcmp(text, "0") == 0))
            ls_text_add(out, LS_LABEL_SIZE, " %s%s%s", alone ? "" : name + own, alone ? "" : "=",
                        text);
        free(text);
    }
}

static char *add_name(const json_t *row, const json_t *differences, bool own_only, char *out)
{
    const char *strategy = ls_report_strategy(row);
    const json_t *names = json_object_get(differences, strategy);
    *out = 0;
    ls_text_add(out, LS_LABEL_SIZE, "%s", strategy);
    add_options(row, names, strategy, true, own_only, out);
    add_options(row, names, strategy, false, own_only, out);
    return out;
}

char *ls_report_variant(const json_t *row, const json_t *differences, char *out)
{
    return add_name(row, differences, true, out);
}

char *ls_report_label(const json_t *row, const json_t *differences, bool devices,
                      const char *against, char *out)
{
    char value[128];
    add_name(row, differences, false, out);
    if (devices)
        ls_text_add(out, LS_LABEL_SIZE, " on %g", ls_report_devices(row));
    if (against)
        ls_text_add(out, LS_LABEL_SIZE, ", %s", ls_report_text(row, against, value, sizeof value));
    return out;
}

void ls_report_collect(json_t *lists, const char *name, json_t *row)
{
    if (!json_object_get(lists, name))
        json_object_set_new(lists, name, json_array());
    json_array_append(json_object_get(lists, name), row);
}

json_t *ls_report_cases(const json_t *rows, const char *by, const json_t *differences, bool devices,
                        const char *against)
{
    json_t *out = json_object(), *row;
    size_t i;
    json_array_foreach((json_t *)(size_t)rows, i, row)
    {
        char label[LS_LABEL_SIZE];
        if (by)
            ls_report_text(row, by, label, sizeof label);
        else
            ls_report_label(row, differences, devices, against, label);
        ls_report_collect(out, label, row);
    }
    return out;
}
