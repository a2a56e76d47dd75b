/* SPDX-License-Identifier: MIT */
/* Case keys; see case_keys.h. */
#include "bench/report/case_keys.h"

#include "bench/output/row_same.h"
#include "bench/output/table_parts.h"
#include "bench/output/value_order.h"
#include "bench/report/text.h"
#include "impl/strategy.h"
#include "common/base/escape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Options of how the work is divided: strategies have their own, and devices change some. Others
 * are of the work itself, which all rows beside each other should share. */
static const char divided[] = " model strategy devices ranks hosts scaling batch_global reduce "
                              "micro_shards allreduce bucket_bytes model_parallel_place "
                              "variable_device comm memory ";

/* Without it, a case of several devices has none. */
static const char optional[] = " link inject ";

static const char cores_of[] = "cores_per_device"; /* of `provenance` */

double ls_report_number(const json_t *row, const char *path, double fallback)
{
    json_t *value = ls_row_value(row, path);
    const double number = json_is_number(value) ? json_number_value(value) : fallback;
    json_decref(value);
    return number;
}

char *ls_report_text(const json_t *row, const char *path, char *out, size_t size)
{
    if (strcmp(path, "provenance.commit") == 0 && size >= 64)
        return ls_report_commit(row, 7, out);
    json_t *value = ls_row_value(row, path);
    char *text = value ? ls_value_text(value) : NULL;
    *out = 0;
    ls_text_add(out, size, "%s", text ? text : "");
    free(text);
    json_decref(value);
    return out;
}

char *ls_report_machine(const json_t *row, char *out, size_t size)
{
    const char *isa = ls_row_text(row, "provenance", "isa"), *name;
    const char *library = ls_row_text(row, "provenance", "library_isa");
    const char *gpu = ls_row_text(row, "provenance", "gpu");
    const char *host = ls_row_text(row, "provenance", "host");
    json_t *value;
    *out = 0;
    ls_text_add(out, size, "%s%s%s%s%s%s", ls_row_text(row, "provenance", "cpu"), *isa ? " (" : "",
                isa, *isa && *library ? ", library " : "", *isa ? library : "", *isa ? ")" : "");
    ls_text_add(out, size, "%s%s%s%s", *gpu ? ", " : "", gpu, *host ? ", host " : "", host);
    json_object_foreach(json_object_get(json_object_get(row, "provenance"), "environment"), name,
                        value)
    {
        const char *text = json_string_value(value);
        ls_text_add(out, size, ", %s=%s", name, text ? text : "");
    }
    return out;
}

char *ls_report_commit(const json_t *row, int width, char out[64])
{
    const char *commit = ls_row_text(row, "provenance", "commit");
    const bool dirty = json_is_true(json_object_get(json_object_get(row, "provenance"), "dirty"));
    const size_t most = 64 - sizeof "+changes", size = (size_t)width + 1;
    ls_escape_copy(out, size < most ? size : most, *commit ? commit : "unknown", LS_ESCAPE_LINE);
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
    if (ls_report_is_peer(row)) { /* one device with two threads uses two cores */
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
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (holds(json_array_get(rows, i), context))
            json_array_append(out, json_array_get(rows, i));
    return out;
}

ls_interval ls_report_rate(const json_t *row)
{
    ls_interval rate;
    const bool known = ls_row_rate(row, ls_row_is_uneven(row), &rate);
    return known ? rate : (ls_interval){rate.value, 0, 0};
}

ls_interval ls_report_ratio(ls_interval a, ls_interval b)
{
    if (a.low > 0 && b.low > 0)
        return ls_statistics_ratio(a, b);
    return (ls_interval){a.value / b.value, 0, 0};
}

double ls_report_rate_alone(const json_t *rows)
{
    double alone = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const double rate = ls_report_rate(row).value;
        const double speedup = ls_report_number(row, "time.speedup", 0);
        if (speedup > 0 && !ls_report_is_peer(row))
            return rate / speedup;
        if (ls_report_devices(row) <= 1 && ls_report_is_candidate(row))
            alone = fmax(alone, rate);
    }
    return alone;
}

static int by_pace(const void *a, const void *b)
{
    const ls_interval *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

const json_t *ls_report_median(const json_t *rows, ls_interval *rate)
{
    const size_t count = json_array_size(rows);
    const json_t *row = json_array_get(rows, 0);
    ls_interval *all = count > 1 ? malloc(count * sizeof *all) : NULL; /* low: index of the row */
    ls_interval out = ls_report_rate(row);
    for (size_t i = 0; all && i < count; i++) {
        const json_t *one = json_array_get(rows, i);
        const double us = ls_report_number(one, "micro.time_us", 0);
        all[i] = (ls_interval){us > 0 ? 1 / us : ls_report_rate(one).value, (double)i, 0};
    }
    if (all) {
        qsort(all, count, sizeof *all, by_pace);
        row = json_array_get(rows, (size_t)all[(count - 1) / 2].low);
        out = (ls_interval){ls_report_rate(row).value, all[0].value, all[count - 1].value};
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
    return ls_report_is_peer(row) ? ls_row_text(row, "peer", "what")
                                  : ls_row_text(row, "case", "strategy");
}

int ls_report_place(const json_t *row)
{
    const char *name = ls_row_text(row, "case", "strategy");
    const size_t count = ls_registry_count(&ls_strategies);
    size_t place = 0;
    while (place < count && strcmp(ls_registry_name(&ls_strategies, place), name) != 0)
        place++;
    return (int)place;
}

bool ls_report_is_candidate(const json_t *row)
{
    const ls_strategy *strategy = ls_row_strategy(row);
    return !ls_report_is_peer(row) && (!strategy || strategy->equivalent);
}

bool ls_report_is_ok(const json_t *row, const void *unused)
{
    (void)unused;
    const bool micro = json_object_get(row, "micro");
    const char *status = ls_row_text(row, "result", "status");
    return ls_report_number(row, "micro.wrong", 0) <= 0 &&
           (strcmp(status, "ok") == 0 || (micro && !*status));
}

static bool is_in(const char *words, const char *name)
{
    char wanted[96];
    snprintf(wanted, sizeof wanted, " %s ", name);
    return strstr(words, wanted);
}

/* The value of this member of `case`, or of the cores of each device if these are alike, a new
 * reference; NULL: none. */
static json_t *member_of(const json_t *row, const char *member)
{
    if (strcmp(member, cores_of) != 0)
        return json_incref(json_object_get(json_object_get(row, "case"), member));
    json_t *all = json_object_get(json_object_get(row, "provenance"), cores_of);
    if (ls_report_is_peer(row)) /* its devices are its cores */
        return NULL;
    for (size_t i = 1; i < json_array_size(all); i++)
        if (!ls_value_equal(json_array_get(all, 0), json_array_get(all, i)))
            return json_incref(all);
    return json_incref(json_array_get(all, 0));
}

/* The value of this member in more than half of the strategy's rows (NULL: of all), which can be
 * left unsaid; null if there is none, or if leaving it unsaid would mean that there is none. */
static json_t *common_value(const json_t *rows, const char *strategy, const char *member)
{
    json_t *counts = json_object(), *out = json_null();
    json_int_t all = 0, most = 0;
    bool lacks = false;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (strategy && strcmp(ls_report_strategy(row), strategy) != 0)
            continue;
        json_auto_t *value = member_of(row, member);
        char *text = ls_value_text(value);
        const json_int_t now = 1 + json_integer_value(json_object_get(counts, text ? text : ""));
        json_object_set_new(counts, text ? text : "", json_integer(now));
        if (now > most && value) {
            json_decref(out);
            out = json_incref(value);
        }
        most = now > most ? now : most;
        lacks |= !value && !ls_report_is_peer(row) && (!strategy || is_in(optional, member));
        all++;
        free(text);
    }
    json_decref(counts);
    if (2 * most > all && !lacks)
        return out;
    json_decref(out);
    return json_null();
}

static bool is_repeat(const char *name, const char *against)
{
    return ls_case_leaves_out(name, LS_BUT_REPEATS) || strcmp(name, "strategy") == 0 ||
           strcmp(name, "devices") == 0 || (against && strcmp(against, name) == 0);
}

/* Whether rows differ in what is no option of `case`, or in one that others lack for good. */
static bool differs(const json_t *rows, const char *member)
{
    json_auto_t *first = NULL;
    size_t having = 0, lacking = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        json_auto_t *value = member_of(row, member);
        if (value && first && !ls_value_equal(first, value))
            return true;
        first = first ? first : json_incref(value);
        having += value != NULL;
        lacking += !value && !ls_report_is_peer(row) && ls_report_devices(row) > 1;
    }
    return is_in(optional, member) && having && lacking;
}

/* Notes options in which one strategy's rows differ. If `reduce` does, the rest follows. */
static void note_differences(const json_t *rows, const char *against, json_t *out)
{
    json_t *groups = ls_case_groups(rows), *fields = ls_case_fields(groups);
    const bool mixed = ls_case_differs(groups, "reduce");
    json_array_append_new(fields, json_string("hosts"));
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const char *name = json_string_value(json_array_get(fields, i));
        if (mixed ? strcmp(name, "reduce") == 0
                  : !is_repeat(name, against) && (ls_case_differs(groups, name) ||
                                                  (is_in(optional, name) && differs(rows, name))))
            json_object_set_new(out, name, json_null());
    }
    if (differs(rows, cores_of))
        json_object_set_new(out, cores_of, json_null());
    json_decref(fields);
    json_decref(groups);
}

/* Notes options of the work in which any rows do, for all strategies in `out`. */
static void note_work(const json_t *rows, const char *against, json_t *out)
{
    json_t *groups = ls_case_groups(rows), *fields = ls_case_fields(groups), *members;
    const char *strategy;
    json_array_append_new(fields, json_string(cores_of));
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const char *name = json_string_value(json_array_get(fields, i));
        if (is_repeat(name, against) || is_in(divided, name) ||
            !(ls_case_differs(groups, name) ||
              ((strcmp(name, cores_of) == 0 || is_in(optional, name)) && differs(rows, name))))
            continue;
        json_object_foreach(out, strategy, members)
        {
            (void)strategy;
            json_object_set_new(members, name, json_true());
        }
    }
    json_decref(fields);
    json_decref(groups);
}

json_t *ls_report_differences(const json_t *rows, const char *at, const char *against)
{
    json_t *out = json_object(), *members, *list, *work;
    json_auto_t *lists = json_object(), *places = json_object();
    const char *name, *member;
    void *next;
    if (against && strncmp(against, "case.", 5) == 0)
        against += 5;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        char key[LS_KEY_SIZE] = "", place[256] = "";
        ls_text_add(key, sizeof key, "%s|%g|%s", ls_report_strategy(row), ls_report_devices(row),
                    at ? ls_report_text(row, at, place, sizeof place) : "");
        ls_report_collect(lists, key, row);
        ls_text_add(key, sizeof key, "|%s", ls_row_text(row, "case", "reduce"));
        ls_report_collect(lists, key, row);
        ls_report_collect(places, place, row);
    }
    json_object_foreach(lists, name, list)
    {
        const char *strategy = ls_report_strategy(json_array_get(list, 0));
        if (!json_object_get(out, strategy))
            json_object_set_new(out, strategy, json_object());
        note_differences(list, against, json_object_get(out, strategy));
    }
    json_object_foreach(places, name, list)
    {
        note_work(list, against, out);
    }
    json_object_foreach(out, name, members)
    {
        json_object_foreach_safe(members, next, member, work)
        {
            json_object_set_new(members, member,
                                common_value(rows, json_is_true(work) ? NULL : name, member));
        }
    }
    return out;
}

/* Length of the strategy's name and separator at the start of "local_sgd_every"; 0: it is not the
 * strategy's option. */
static size_t own_length(const char *strategy, const char *name)
{
    size_t i = 0;
    while (strategy[i] && name[i] == (strategy[i] == '-' ? '_' : strategy[i]))
        i++;
    return !strategy[i] && name[i] == '_' ? i + 1 : 0;
}

/* Adds the options that differ: first values that explain themselves ("async" of ps_mode), then
 * those that need their name. */
static void add_options(const json_t *row, const json_t *names, const char *strategy, bool words,
                        bool own_only, char *out)
{
    const char *name;
    json_t *common;
    json_object_foreach((json_t *)(size_t)names, name, common)
    {
        json_auto_t *value = member_of(row, name);
        char *text = ls_value_text(value);
        const size_t own = own_length(strategy, name);
        const bool says = own || strcmp(name, "reduce") == 0;
        const bool word = text && says && strspn(text, "0123456789.-") < strlen(text);
        const bool alone = word || (text && strchr(text, '=')); /* delay=1:5ms contains its name */
        if (text && *text && word == words &&
            (own || !(own_only || ls_value_equal(value, common))) &&
            !(own && strcmp(text, "0") == 0))
            ls_text_add(out, LS_LABEL_SIZE, " %s%s%s", alone ? "" : name + own, alone ? "" : "=",
                        text);
        free(text);
    }
}

char *ls_report_variant(const json_t *row, const json_t *differences, bool own_only, char *out)
{
    const char *strategy = ls_report_strategy(row);
    const json_t *names = json_object_get(differences, strategy);
    *out = 0;
    ls_text_add(out, LS_LABEL_SIZE, "%s", strategy);
    add_options(row, names, strategy, true, own_only, out);
    add_options(row, names, strategy, false, own_only, out);
    return out;
}

char *ls_report_label(const json_t *row, const json_t *differences, bool devices,
                      const char *against, char *out)
{
    char value[128];
    ls_report_variant(row, differences, false, out);
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
    json_t *out = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        char label[LS_LABEL_SIZE];
        if (by)
            ls_report_text(row, by, label, sizeof label);
        else
            ls_report_label(row, differences, devices, against, label);
        ls_report_collect(out, label, row);
    }
    return out;
}

size_t ls_report_merged(const json_t *lists, const char *at, bool line, char *out, size_t size)
{
    static const char *const places[] = {
        "case.devices",      "case.batch_per_device",       "case.ranks",           "case.hosts",
        "case.batch_global", "provenance.cores_per_device", "provenance.ranks.host"};
    json_auto_t *all = json_object();
    json_t *rows, *unused;
    const char *label, *path;
    size_t count = 0;
    json_object_foreach((json_t *)(size_t)lists, label, rows)
    {
        json_auto_t *paths = json_object();
        (void)label;
        ls_rows_differ(rows, LS_BUT_BLOCKS, LS_OF_SHARE, paths);
        for (size_t i = 0; i < sizeof places / sizeof *places && line; i++)
            json_object_del(paths, places[i]);
        if (at)
            json_object_del(paths, at);
        count += json_object_size(paths) > 0 ? json_array_size(rows) : 0;
        json_object_update(all, paths);
    }
    *out = 0;
    json_object_foreach(all, path, unused)
    {
        (void)unused;
        ls_text_add(out, size, "%s%s", *out ? ", " : "", path);
    }
    return count;
}

json_t *ls_report_sorted(const json_t *lists, int (*order)(const json_t *a, const json_t *b))
{
    json_t *out = json_array(), *rows;
    const char *label;
    json_object_foreach((json_t *)(size_t)lists, label, rows)
    {
        json_t *one = json_pack("{s:s,s:O}", "label", label, "rows", rows);
        size_t at = json_array_size(out);
        while (order && at > 0 && order(json_array_get(out, at - 1), one) > 0)
            at--;
        json_array_insert_new(out, at, one);
    }
    return out;
}

const json_t *ls_case_row(const json_t *one, ls_interval *rate)
{
    return ls_report_median(json_object_get(one, "rows"), rate);
}

bool ls_case_rates(const json_t *one, const json_t *other, ls_interval *a, ls_interval *b)
{
    const json_t *first = ls_case_row(one, a), *second = ls_case_row(other, b);
    const bool uneven = ls_row_is_uneven(first), other_is = ls_row_is_uneven(second);
    bool known = true;
    if (uneven != other_is) {
        known = ls_row_rate(first, true, a);
        known &= ls_row_rate(second, true, b);
    }
    if (!known)
        a->low = b->low = 0;
    return uneven || other_is;
}
