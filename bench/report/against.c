/* SPDX-License-Identifier: MIT */
/*
 * Side by side (`--against KEY`): cases that have rows with several values of the key, each with
 * the ratio of its time to the first value's, and a verdict; and cases that have one value alone,
 * with what sets them apart from the nearest case of another.
 */
#include "bench/output/format_parts.h"
#include "bench/output/row_same.h"
#include "bench/report/case_keys.h"
#include "bench/report/page.h"
#include "bench/report/text.h"
#include "bench/rows/row.h"
#include "bench/statistics/verdict.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALONE_MOST = 20 };

static const char explained[] =
    "slower, faster: 1 is outside of the ratio's interval; same: the interval is within 5% of 1; "
    "anything else: cannot tell (lockstep results diff says the same). An interval covers the time "
    "of "
    "its run, not how the machine drifts between two runs, often by 1%; lockstep regress counts "
    "that.";

/* Adds a line for each value of a case, {value: [rows]}. */
static void add_pairs(const char *name, const json_t *values, json_t *out)
{
    json_auto_t *list = ls_report_sorted(values, NULL);
    const json_t *one;
    size_t k;
    json_array_foreach(list, k, one)
    {
        const json_t *rows = json_object_get(one, "rows");
        json_t *line = json_object();
        ls_interval a, b;
        ls_case_rates(json_array_get(list, 0), one, &a, &b);
        const ls_interval ratio = k ? ls_report_ratio(a, b) : (ls_interval){1, 0, 0};
        ls_page_text(line, "case", "%s", k ? "" : name);
        ls_page_text(line, "value", "%s", ls_text_of(one, "label"));
        ls_page_text(line, "count", "%zu", json_array_size(rows));
        ls_page_number(line, "step", "%.4g", ls_page_median(rows, LS_F_time_step_ms_median));
        ls_page_interval(line, "over", ratio);
        ls_page_text(line, "verdict", "%s", k ? ls_verdict_name(ls_verdict_of_pair(ratio)) : "");
        json_array_append_new(out, line);
    }
}

/* The fields in which two rows are of different cases or machines, besides the key. */
static json_t *fields_between(const json_t *row, const json_t *other, const char *key)
{
    json_auto_t *both = json_pack("[O,O]", row, other);
    json_t *paths = json_object();
    ls_rows_differ(both, LS_BUT_REPEATS, LS_OF_MACHINE, paths);
    json_object_del(paths, key);
    return paths;
}

/* "mirrored on 4 (mlp), a: the nearest, on b, differs in case.bucket_bytes" */
static json_t *lonely(const char *name, const json_t *row, const json_t *rows, const char *key)
{
    char value[128], other_value[128], nearest[128] = "";
    json_auto_t *between = NULL;
    const json_t *other;
    size_t i;
    ls_report_text(row, key, value, sizeof value);
    json_array_foreach(rows, i, other)
    {
        ls_report_text(other, key, other_value, sizeof other_value);
        if (strcmp(value, other_value) == 0)
            continue;
        json_t *paths = fields_between(row, other, key);
        if (between && json_object_size(paths) >= json_object_size(between)) {
            json_decref(paths);
            continue;
        }
        json_decref(between);
        between = paths;
        snprintf(nearest, sizeof nearest, "%s", other_value);
    }
    char *text = between ? ls_paths_text(between) : NULL;
    json_t *out = between
                      ? json_sprintf("%s, %s: the nearest case of another %s (%s) differs in %s",
                                     name, value, key, nearest, text && *text ? text : "nothing")
                      : json_sprintf("%s, %s: no row has another %s", name, value, key);
    free(text);
    return out;
}

/* What is being found. */
typedef struct search {
    const json_t *rows; /* with a time */
    const char *key;
    json_t *pairs, *alone; /* lines; texts */
    size_t count;          /* cases with one value */
    json_t *left_out;
} search;

/* The cases of a group of one model, batch and machine (NULL: all rows are of one). */
static void add_group(search *of, const json_t *group, const char *machine)
{
    const char *name;
    json_t *same;
    json_auto_t *differences = ls_report_differences(group, NULL, of->key);
    json_auto_t *cases = ls_report_cases(group, NULL, differences, true, NULL);
    json_object_foreach(cases, name, same)
    {
        json_auto_t *values = ls_report_cases(same, of->key, NULL, false, NULL);
        const json_t *row = json_array_get(same, 0);
        char title[LS_KEY_SIZE] = "";
        ls_text_add(title, sizeof title, "%s (%s, global batch %" PRId64 "%s%s)", name,
                    ls_row_string(row, LS_F_case_model),
                    ls_row_integer(row, LS_F_case_batch_global), *machine ? ", on " : "", machine);
        if (json_object_size(values) > 1) {
            ls_page_merged("side by side", values, of->left_out);
            add_pairs(title, values, of->pairs);
        } else if (of->count++ < ALONE_MOST) {
            json_array_append_new(of->alone, lonely(title, row, of->rows, of->key));
        }
    }
}

json_t *ls_against(const json_t *rows, const char *key, json_t *left_out)
{
    static const ls_field_number shared[] = {LS_F_case_model, LS_F_case_batch_global};
    json_auto_t *timed = ls_report_those(rows, ls_page_is_timed, NULL);
    json_auto_t *groups = ls_page_groups(rows, shared, 2, key);
    search of = {timed, key, json_array(), json_array(), 0, left_out};
    const bool several = ls_figure_machines(timed) > 1;
    const char *name;
    json_t *group;
    json_object_foreach(groups, name, group)
    {
        char machine[LS_MACHINE_SIZE] = "";
        if (several && ls_figure_machines(group) == 1)
            ls_report_machine(json_array_get(group, 0), machine, sizeof machine);
        add_group(&of, group, machine);
    }
    if (of.count > ALONE_MOST)
        json_array_append_new(of.alone, json_sprintf("and %zu more", of.count - ALONE_MOST));
    json_t *out = json_pack("{s:s,s:s,s:o}", "key", key, "explained", explained, "pairs", of.pairs);
    if (json_array_size(of.pairs) > 0)
        json_object_set_new(out, "any", json_true());
    if (of.count > 0)
        json_object_set_new(out, "lonely",
                            json_pack("{s:o}", "count", json_sprintf("%zu", of.count)));
    json_object_set_new(out, "alone", of.alone);
    return out;
}
