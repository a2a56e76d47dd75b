/* SPDX-License-Identifier: MIT */
/*
 * Case labels; see case_keys.h: which options tell the cases of some rows apart, and their text. An
 * option says how the work is divided (strategies have such options of their own), or what the work
 * is; rows that stand beside each other should share the latter.
 */
#include "bench/report/case_keys.h"

#include "bench/output/format.h"
#include "bench/output/row_same.h"
#include "bench/output/table/table_parts.h"
#include "bench/report/text.h"

#include <stdlib.h>
#include <string.h>

/* Options of how the work is divided, besides strategies' own. */
static const char divided[] =
    " model strategy devices ranks hosts scaling batch_global reduce "
    "micro_shards micro_splits allreduce bucket_bytes model_parallel_place "
    "variable_device comm memory ";

/* Without it, a case of several devices has none. */
static const char optional[] = " link inject ";

static const char cores_of[] = "cores_per_device"; /* of `provenance` */

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

/* Whether rows that agree in the other members agree in this one: it says nothing more. */
static bool says_nothing(const json_t *rows, const json_t *members, const char *member)
{
    json_auto_t *known = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        json_auto_t *others = json_object(), *value = member_of(row, member);
        const char *name;
        json_t *unused;
        json_object_foreach((json_t *)(size_t)members, name, unused)
        {
            (void)unused;
            if (strcmp(name, member) != 0)
                json_object_set_new(others, name, member_of(row, name));
        }
        char *key = json_dumps(others, JSON_COMPACT), *text = ls_value_text(value);
        const char *before = key ? json_string_value(json_object_get(known, key)) : NULL;
        const bool differs = before && text && strcmp(before, text) != 0;
        if (key)
            json_object_set_new(known, key, json_string(text));
        free(text);
        free(key);
        if (differs)
            return false;
    }
    return true;
}

/* Notes options in which one strategy's rows differ; of those that by default follow from others,
 * what tells more rows apart. If `reduce` differs, the rest follows. */
static void note_differences(const json_t *rows, const char *against, json_t *out)
{
    json_t *options = ls_options_of(rows), *fields = ls_options_names(options);
    json_auto_t *found = json_object();
    const bool mixed = ls_options_differ(options, "reduce");
    json_array_append_new(fields, json_string("hosts"));
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const char *name = json_string_value(json_array_get(fields, i));
        if (mixed ? strcmp(name, "reduce") == 0
                  : !is_repeat(name, against) && (ls_options_differ(options, name) ||
                                                  (is_in(optional, name) && differs(rows, name))))
            json_object_set_new(found, name, json_null());
    }
    if (differs(rows, cores_of))
        json_object_set_new(found, cores_of, json_null());
    for (size_t i = json_array_size(fields); i-- > 0;) {
        const char *name = json_string_value(json_array_get(fields, i));
        if (ls_option_follows(name) && json_object_get(found, name) &&
            says_nothing(rows, found, name))
            json_object_del(found, name);
    }
    json_object_update(out, found);
    json_decref(fields);
    json_decref(options);
}

/* Notes options of the work in which any rows do, for all strategies in `out`. */
static void note_work(const json_t *rows, const char *against, json_t *out)
{
    json_t *options = ls_options_of(rows), *fields = ls_options_names(options), *members;
    const char *strategy;
    json_array_append_new(fields, json_string(cores_of));
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const char *name = json_string_value(json_array_get(fields, i));
        if (is_repeat(name, against) || is_in(divided, name) ||
            !(is_in(optional, name) || strcmp(name, cores_of) == 0
                  ? differs(rows, name)
                  : ls_options_differ(options, name)))
            continue;
        json_object_foreach(out, strategy, members)
        {
            (void)strategy;
            json_object_set_new(members, name, json_true());
        }
    }
    json_decref(fields);
    json_decref(options);
}

json_t *ls_report_differences(const json_t *rows, const char *at, const char *against)
{
    json_t *out = json_object(), *members, *list, *work;
    json_auto_t *lists = json_object(), *found_at = json_object();
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
        ls_text_add(key, sizeof key, "|%s", ls_row_string(row, LS_F_case_reduce));
        ls_report_collect(lists, key, row);
        ls_report_collect(found_at, place, row);
    }
    json_object_foreach(lists, name, list)
    {
        const char *strategy = ls_report_strategy(json_array_get(list, 0));
        if (!json_object_get(out, strategy))
            json_object_set_new(out, strategy, json_object());
        note_differences(list, against, json_object_get(out, strategy));
    }
    json_object_foreach(found_at, name, list)
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
                        char *out)
{
    const char *name;
    json_t *common;
    json_object_foreach((json_t *)(size_t)names, name, common)
    {
        json_auto_t *value = member_of(row, name);
        char *text = ls_option_text(value);
        const size_t own = own_length(strategy, name);
        const bool says = (own && !json_is_boolean(value)) || strcmp(name, "reduce") == 0;
        const bool word = text && says && strspn(text, "0123456789.-") < strlen(text);
        const bool alone = word || strcmp(name, "inject") == 0 ||
                           strcmp(name, "link") == 0; /* delay=1:5ms contains its name */
        if (text && *text && word == words && (own || !ls_value_equal(value, common)) &&
            !(own && strcmp(text, "0") == 0))
            ls_text_add(out, LS_LABEL_SIZE, " %s%s%s", alone ? "" : name + own, alone ? "" : "=",
                        text);
        free(text);
    }
}

char *ls_report_label(const json_t *row, const json_t *differences, bool devices,
                      const char *against, char *out)
{
    const char *strategy = ls_report_strategy(row);
    const json_t *names = json_object_get(differences, strategy);
    char value[128];
    *out = 0;
    ls_text_add(out, LS_LABEL_SIZE, "%s%s", strategy,
                ls_row_is_predicted(row) ? " (predicted)" : "");
    add_options(row, names, strategy, true, out);
    add_options(row, names, strategy, false, out);
    if (devices)
        ls_text_add(out, LS_LABEL_SIZE, " on %g", ls_report_devices(row));
    if (against)
        ls_text_add(out, LS_LABEL_SIZE, ", %s", ls_report_text(row, against, value, sizeof value));
    return out;
}

size_t ls_report_merged(const json_t *lists, const char *at, bool line, char *out, size_t size)
{
    static const char *const found_at[] = {
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
        for (size_t i = 0; i < sizeof found_at / sizeof *found_at && line; i++)
            json_object_del(paths, found_at[i]);
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
