/* SPDX-License-Identifier: MIT */
/* Summarizes the rows in one sentence: which strategy is fastest on the most devices, by how much,
 * whether it is proven equal, and where; a line for each other environment; and ratios between
 * values of a key for the same case. */
#include "bench/output/format_parts.h"
#include "bench/output/table/ranking.h"
#include "bench/output/table/table_parts.h"
#include "bench/report/case_keys.h"
#include "bench/report/figures.h"
#include "bench/report/page.h"
#include "bench/report/text.h"

#include <stdio.h>
#include <stdlib.h>
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
    return ls_row_is_candidate(row) ? "not compared" : "not equivalent";
}

static bool is_timed(const json_t *row, const void *unused)
{
    return ls_report_is_ok(row, unused) && ls_report_rate(row).value > 0;
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
            if (ls_row_is_candidate(json_array_get(rows, i)))
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

/* The figure that a case is compared by: of repeats their median, with the range of all. */
static bool rate_of(const json_t *one, ls_rank_by by, ls_interval *out)
{
    const json_t *rows = json_object_get(one, "rows");
    const size_t count = json_array_size(rows);
    ls_interval each;
    const bool known = ls_rank_rate(ls_case_row(one, NULL), by, out);
    double *values = count > 1 ? calloc(count, sizeof *values) : NULL;
    for (size_t i = 0; values && i < count; i++) {
        ls_rank_rate(json_array_get(rows, i), by, &each);
        values[i] = each.value;
    }
    if (values)
        *out = ls_statistics_repeats(values, count);
    free(values);
    return known || count > 1;
}

/* Lists the cases in `out`, the fastest of those that are ranked first, as the table ranks them;
 * returns how many are. */
static size_t rank(const json_t *cases, ls_rank_by by, ls_ranked *out)
{
    size_t others, i;
    const json_t *one;
    json_array_foreach(cases, i, one)
    {
        out[i].row = ls_case_row(one, NULL);
        out[i].of = one;
        out[i].known = rate_of(one, by, &out[i].rate);
    }
    return ls_rank_sort(out, json_array_size(cases), &others);
}

/* Of the pools of rows that may be compared the one with the most of our strategies, then the most
 * devices. */
static const json_t *widest_pool(const json_t *pools)
{
    const json_t *best = NULL;
    double most = -1;
    for (size_t i = 0; i < json_array_size(pools); i++) {
        const json_t *pool = json_array_get(pools, i), *rows = json_object_get(pool, "rows");
        json_auto_t *strategies = json_object();
        for (size_t r = 0; r < json_array_size(rows); r++)
            if (ls_row_is_candidate(json_array_get(rows, r)))
                json_object_set_new(strategies, ls_report_strategy(json_array_get(rows, r)),
                                    json_true());
        const double weight =
            1e6 * (double)json_object_size(strategies) + ls_report_devices(json_array_get(rows, 0));
        if (weight > most) {
            most = weight;
            best = pool;
        }
    }
    return best;
}

/* "mirrored on 4 devices (VALUE) (noisy)"; "" for NULL. */
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
    const json_t *rows = json_object_get(one, "rows");
    size_t i = 0;
    while (i < json_array_size(rows) && !ls_row_is_noisy(json_array_get(rows, i)))
        i++;
    ls_text_add(out, LS_LABEL_SIZE, i < json_array_size(rows) ? " (noisy)" : "");
    return out;
}

static const char *const by_words[] = {
    [LS_RANK_MEDIAN] = "",
    [LS_RANK_MEAN] = ", by samples trained / time",
    [LS_RANK_SPEEDUP] = ", by speed-up over single in each group's own turns",
};

/* Of the ranked cases [count], the fastest first; `only`: no other case is in the report. */
static json_t *sentence(const ls_ranked *cases, size_t count, ls_rank_by by, bool only,
                        const char *name, const char *other)
{
    const ls_ranked *best = &cases[0], *next = &cases[1];
    const size_t repeats = json_array_size(json_object_get(best->of, "rows"));
    char rate[96], value[48];
    ls_interval shown;
    ls_case_row(best->of, &shown);
    snprintf(rate, sizeof rate, "%s", ls_figure_value(shown.value, "samples/s", value));
    if (repeats > 1)
        ls_text_add(rate, sizeof rate, ", median of %zu rows", repeats);
    if (count < 2)
        return json_sprintf("%s is the %s: %s", name, only ? "only case here" : "fastest", rate);
    const bool known = best->known && next->known;
    if (!known || ls_rank_near(cases, count) > 1)
        return json_sprintf("%s (%s) and %s cannot be told apart%s: %s", name, rate, other,
                            by_words[by],
                            known ? "their intervals overlap" : "no interval is known");
    const ls_interval ratio = ls_report_ratio(best->rate, next->rate);
    return json_sprintf("%s is the fastest: %s, %.2f (%.2f to %.2f) times %s%s", name, rate,
                        ratio.value, ratio.low, ratio.high, other, by_words[by]);
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

/* The row of a table of cases; `best` NULL: not compared with the fastest. */
static json_t *listed(const ls_ranked *one, const ls_ranked *best)
{
    json_t *out = json_copy((json_t *)(size_t)one->of);
    if (best) {
        const ls_interval over =
            one == best ? (ls_interval){1, 0, 0} : ls_report_ratio(best->rate, one->rate);
        json_object_set_new(out, "over", json_pack("[f,f,f]", over.value, over.low, over.high));
    }
    return out;
}

/* Adds the rows that are not in the pool, as cases: the fastest first, compared with none. */
static void add_others(json_t *cases, const json_t *group, const json_t *pool,
                       const json_t *differences, const char *against)
{
    json_auto_t *others = json_array(), *inside = json_object();
    const json_t *rows = json_object_get(pool, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++)
        json_object_set_new(inside, ls_text_of(json_array_get(rows, i), "id"), json_true());
    for (size_t i = 0; i < json_array_size(group); i++)
        if (!json_object_get(inside, ls_text_of(json_array_get(group, i), "id")))
            json_array_append(others, json_array_get(group, i));
    json_auto_t *named = ls_report_cases(others, NULL, differences, true, against);
    json_auto_t *all = ls_report_sorted(named, NULL);
    const size_t count = json_array_size(all);
    ls_ranked *ranked = calloc(count + 1, sizeof *ranked);
    if (ranked)
        rank(all, ls_rows_are_uneven(group) ? LS_RANK_MEAN : LS_RANK_MEDIAN, ranked);
    for (size_t i = 0; ranked && i < count; i++)
        json_array_append_new(cases, listed(&ranked[i], NULL));
    free(ranked);
}

/* What is found in the rows of one model, data set, batch and machine. */
static json_t *find(const json_t *group, const char *against, json_t *left_out)
{
    json_auto_t *pools = ls_rank_pools(group);
    json_auto_t *differences = ls_report_differences(group, NULL, against);
    const json_t *pool = widest_pool(pools);
    const ls_rank_by by = (ls_rank_by)json_integer_value(json_object_get(pool, "by"));
    json_auto_t *named =
        ls_report_cases(json_object_get(pool, "rows"), NULL, differences, true, against);
    json_auto_t *all = ls_report_sorted(named, NULL), *cases = json_array();
    const size_t count = json_array_size(all);
    ls_ranked *ranked = calloc(count + 1, sizeof *ranked);
    char name[LS_LABEL_SIZE], other[LS_LABEL_SIZE];
    json_t *out = NULL;
    if (ranked) {
        const size_t known = rank(all, by, ranked), compared = known ? known : count;
        for (size_t i = 0; i < count; i++)
            json_array_append_new(cases, listed(&ranked[i], &ranked[0]));
        add_others(cases, group, pool, differences, against);
        name_of(ranked[0].of, differences, against, name);
        name_of(compared > 1 ? ranked[1].of : NULL, differences, against, other);
        out = json_pack("{s:o,s:o,s:o,s:O,s:o}", "headline",
                        sentence(ranked, compared, by, json_array_size(cases) == 1, name, other),
                        "proof", proof(ranked[0].row), "where", ranking(ranked[0].row, group),
                        "cases", cases, "lines",
                        json_array_size(pools) > 1 ? ls_rank_lines(group) : json_array());
    }
    free(ranked);
    json_auto_t *whole = ls_report_cases(group, NULL, differences, true, against);
    tell_merged("table of cases", whole, left_out);
    return out;
}

json_t *ls_finding(const json_t *rows, const char *against, json_t *left_out)
{
    static const char *const paths[] = {"case.model", "case.data", "case.scaling",
                                        "case.batch_global", NULL};
    json_auto_t *usable = ls_report_those(rows, is_timed, NULL);
    json_auto_t *groups = ls_figure_groups(usable, paths, against);
    const json_t *group = widest(groups);
    return group ? find(group, against, left_out) : NULL;
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
