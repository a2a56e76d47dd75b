/* SPDX-License-Identifier: MIT */
/* Summarizes the rows in one sentence: which strategy is fastest, by how much, whether it is proven
 * equal, and where; and ratios between values of a key for the same case. */
#include "bench/output/format_parts.h"
#include "bench/report/case_keys.h"
#include "bench/report/figures.h"
#include "bench/report/page.h"
#include "bench/report/text.h"

#include <stdio.h>
#include <string.h>

const char *ls_gate_word(const json_t *row)
{
    const json_t *gate = json_object_get(row, "equivalence");
    const char *grade = json_string_value(json_object_get(gate, "grade"));
    if (!grade)
        return "not compared";
    if (json_is_false(json_object_get(gate, "pass")))
        return "FAILED";
    if (strcmp(grade, "none") != 0)
        return grade;
    return ls_report_is_candidate(row) ? "not compared" : "not equivalent";
}

static bool is_timed(const json_t *row, const void *unused)
{
    return ls_report_is_ok(row, unused) && ls_report_rate(row).value > 0;
}

/* Sorts the fastest first. */
static int by_rate(const json_t *a, const json_t *b)
{
    const double x = ls_report_rate(ls_case_row(a, NULL)).value;
    const double y = ls_report_rate(ls_case_row(b, NULL)).value;
    return (x < y) - (x > y);
}

/* The group with the most of our strategies, then the most rows. */
static const json_t *widest(const json_t *groups)
{
    const json_t *best = NULL;
    size_t most = 0;
    const char *key;
    json_t *rows;
    json_object_foreach((json_t *)(size_t)groups, key, rows)
    {
        json_t *strategies = json_object();
        (void)key;
        for (size_t i = 0; i < json_array_size(rows); i++)
            if (ls_report_is_candidate(json_array_get(rows, i)))
                json_object_set_new(strategies, ls_report_strategy(json_array_get(rows, i)),
                                    json_true());
        const size_t weight = 1 + json_object_size(strategies) * 1000000 + json_array_size(rows);
        if (weight > most) {
            most = weight;
            best = rows;
        }
        json_decref(strategies);
    }
    return best;
}

/* The fastest candidate or, given one, the next; of another strategy if there is one. */
static const json_t *candidate_of(const json_t *cases, const json_t *fastest)
{
    const json_t *one, *same = NULL;
    const char *name = fastest ? ls_report_strategy(ls_case_row(fastest, NULL)) : "";
    size_t i;
    json_array_foreach(cases, i, one)
    {
        const json_t *row = ls_case_row(one, NULL);
        if (one == fastest || !ls_report_is_candidate(row))
            continue;
        if (strcmp(ls_report_strategy(row), name) != 0)
            return one;
        same = same ? same : one;
    }
    return same;
}

/* "mirrored on 4 devices (VALUE)"; "" for NULL. */
static char *name_of(const json_t *one, const json_t *differences, const char *against, char *out)
{
    const json_t *row = ls_case_row(one, NULL);
    char value[128];
    if (!one)
        return strcpy(out, "");
    ls_report_label(row, differences, true, NULL, out);
    ls_text_add(out, LS_LABEL_SIZE, " device%s", ls_report_devices(row) > 1 ? "s" : "");
    if (against)
        ls_text_add(out, LS_LABEL_SIZE, " (%s)", ls_report_text(row, against, value, sizeof value));
    return out;
}

static json_t *sentence(const json_t *fastest, const json_t *next, const char *name,
                        const char *other, bool alone)
{
    const size_t repeats = json_array_size(json_object_get(fastest, "rows"));
    char rate[96], value[48];
    ls_interval ours, theirs;
    ls_case_row(fastest, &ours);
    snprintf(rate, sizeof rate, "%s", ls_figure_value(ours.value, "samples/s", value));
    if (repeats > 1)
        ls_text_add(rate, sizeof rate, ", median of %zu rows", repeats);
    if (!next)
        return json_sprintf("%s is the %s: %s", name, alone ? "only case here" : "fastest", rate);
    const char *by =
        ls_case_rates(fastest, next, &ours, &theirs) ? ", by samples trained / time" : "";
    const ls_interval ratio = ls_report_ratio(ours, theirs);
    if (!(ratio.low > 0) || ours.low <= theirs.high)
        return json_sprintf("%s (%s) and %s cannot be told apart%s: %s", name, rate, other, by,
                            ratio.low > 0 ? "their intervals overlap" : "no interval is known");
    return json_sprintf("%s is the fastest: %s, %.2f (%.2f to %.2f) times %s%s", name, rate,
                        ratio.value, ratio.low, ratio.high, other, by);
}

static json_t *proof(const json_t *row)
{
    const char *gate = ls_gate_word(row);
    if (strcmp(gate, "bounded") == 0 || strcmp(gate, "exact") == 0)
        return json_sprintf("Proven equal to single: yes, grade %s over %.0f compared steps.", gate,
                            ls_report_number(row, "equivalence.steps", 0));
    return json_sprintf("Proven equal to single: no (%s).", gate);
}

/* "poly, global batch 100, strong scaling, on Abacus": where the row of the group was measured. */
static json_t *ranking(const json_t *row, const json_t *group)
{
    char machine[LS_MACHINE_SIZE];
    ls_report_machine(row, machine, sizeof machine);
    if (ls_figure_machines(group) > 1)
        snprintf(machine, sizeof machine, "several machines");
    return json_sprintf(
        "%s, global batch %.0f, %s scaling, on %s", ls_row_text(row, "case", "model"),
        ls_report_number(row, "case.batch_global", 0), ls_row_text(row, "case", "scaling"),
        *machine ? machine : "a machine that the row does not name");
}

/* Reports in what the rows of one case of a table differ. */
static void tell_merged(const char *table, const json_t *cases, json_t *left_out)
{
    char merged[LS_KEY_SIZE];
    const size_t count = ls_report_merged(cases, NULL, false, merged, sizeof merged);
    if (count > 0)
        json_array_append_new(left_out, json_sprintf("%s: rows of one case that differ in %s: %zu",
                                                     table, merged, count));
}

json_t *ls_finding(const json_t *rows, const char *against, json_t *left_out)
{
    static const char *const paths[] = {"case.model", "case.data", "case.scaling",
                                        "case.batch_global", NULL};
    json_t *usable = ls_report_those(rows, is_timed, NULL),
           *groups = ls_figure_groups(usable, paths, against), *out = NULL;
    const json_t *group = widest(groups);
    if (group) {
        json_t *differences = ls_report_differences(group, NULL, against);
        json_t *named = ls_report_cases(group, NULL, differences, true, against);
        json_t *cases = ls_report_sorted(named, by_rate), *first = json_array_get(cases, 0);
        const json_t *best = candidate_of(cases, NULL), *next;
        char name[LS_LABEL_SIZE], other[LS_LABEL_SIZE];
        best = best ? best : first;
        next = candidate_of(cases, best);
        name_of(best, differences, against, name);
        name_of(next, differences, against, other);
        out = json_pack("{s:o,s:o,s:o,s:O,s:o}", "headline",
                        sentence(best, next, name, other, json_array_size(cases) == 1), "proof",
                        proof(ls_case_row(best, NULL)), "where",
                        ranking(ls_case_row(best, NULL), group), "fastest", best, "cases", cases);
        tell_merged("table of cases", named, left_out);
        json_decref(named);
        json_decref(differences);
    }
    json_decref(groups);
    json_decref(usable);
    return out;
}

/* [{case, values: [{label, rows}]}]: cases of the group that occur with several values; `on`: the
 * machine, or "". */
static void add_ratios(const json_t *group, const char *key, const char *on, json_t *out,
                       json_t *left_out)
{
    json_t *differences = ls_report_differences(group, NULL, key), *same, *rows;
    json_t *cases = ls_report_cases(group, NULL, differences, true, NULL);
    const char *name, *value;
    json_object_foreach(cases, name, same)
    {
        json_t *values = ls_report_cases(same, key, NULL, false, NULL), *list = json_array();
        const json_t *row = json_array_get(same, 0);
        if (json_object_size(values) > 1)
            tell_merged("side by side", values, left_out);
        json_object_foreach(values, value, rows)
        {
            json_array_append_new(list, json_pack("{s:s,s:O}", "label", value, "rows", rows));
        }
        json_t *title =
            json_sprintf("%s (%s, global batch %.0f%s%s)", name, ls_row_text(row, "case", "model"),
                         ls_report_number(row, "case.batch_global", 0), *on ? ", on " : "", on);
        if (json_array_size(list) > 1)
            json_array_append_new(out, json_pack("{s:O,s:O}", "case", title, "values", list));
        json_decref(title);
        json_decref(list);
        json_decref(values);
    }
    json_decref(cases);
    json_decref(differences);
}

json_t *ls_ratios(const json_t *rows, const char *key, json_t *left_out)
{
    static const char *const paths[] = {"case.model", "case.batch_global", NULL};
    json_t *usable = ls_report_those(rows, is_timed, NULL),
           *groups = ls_figure_groups(usable, paths, key), *group;
    json_t *out = json_array();
    const bool several = ls_figure_machines(usable) > 1;
    const char *name;
    json_object_foreach(groups, name, group)
    {
        char machine[LS_MACHINE_SIZE] = "";
        (void)name;
        if (several && ls_figure_machines(group) == 1)
            ls_report_machine(json_array_get(group, 0), machine, sizeof machine);
        add_ratios(group, key, machine, out, left_out);
    }
    json_decref(groups);
    json_decref(usable);
    return out;
}
