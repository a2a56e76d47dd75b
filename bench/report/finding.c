/* SPDX-License-Identifier: MIT */
/*
 * What the rows show: of the model and batch with most strategies, for each number of devices, the
 * fastest case, by how much, and whether it is proven equal; and all of these cases as a table.
 */
#include "bench/output/format_parts.h"
#include "bench/output/table/ranking.h"
#include "bench/report/case_keys.h"
#include "bench/report/page.h"
#include "bench/report/text.h"
#include "bench/rows/row.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MOST = 40, HEADLINE_SIZE = 2048 };

const char *ls_gate_word(const json_t *row)
{
    const char *grade = ls_row_string(row, LS_F_equivalence_grade);
    if (!*grade)
        return "not compared";
    if (json_is_false(ls_row_get(row, LS_F_equivalence_pass)))
        return "FAILED";
    if (strcmp(grade, "none") != 0)
        return grade;
    return ls_row_is_candidate(row) ? "not compared" : "not equivalent";
}

/* How much rows tell: by our strategies in them, then by their number; `devices`: first by these.
 */
static double weight_of(const json_t *rows, bool devices)
{
    json_auto_t *strategies = json_object();
    const json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        if (ls_row_is_candidate(row))
            json_object_set_new(strategies, ls_report_strategy(row), json_true());
    }
    return (devices ? 1e12 * ls_report_devices(json_array_get(rows, 0)) : 0) +
           1e6 * (double)json_object_size(strategies) + (double)json_array_size(rows);
}

/* ---- A pool: rows that may be compared, on as many devices ----------------------------------- */

typedef struct pool {
    const json_t *differences; /* what names cases */
    const char *against;
    ls_rank_by by;
    ls_ranked *ranked; /* [count], the fastest of those that are ranked first */
    size_t count, known;
} pool;

/* The figure that a case is compared by: of repeats their median, with the range of all. */
static bool rate_of(const json_t *one, ls_rank_by by, ls_interval *out)
{
    const json_t *rows = json_object_get(one, "rows");
    const size_t count = json_array_size(rows);
    const bool known = ls_rank_rate(ls_case_row(one, NULL), by, out);
    double *values = count > 1 ? calloc(count, sizeof *values) : NULL;
    for (size_t i = 0; values && i < count; i++) {
        ls_interval each;
        ls_rank_rate(json_array_get(rows, i), by, &each);
        values[i] = each.value;
    }
    if (values)
        *out = ls_statistics_repeats(values, count);
    free(values);
    return known || count > 1;
}

/* Ranks the cases [{label, rows}], as the table of `results list` does. */
static bool rank(pool *of, const json_t *cases)
{
    size_t others, i;
    const json_t *one;
    of->count = json_array_size(cases);
    of->ranked = calloc(of->count + 1, sizeof *of->ranked);
    if (!of->ranked)
        return false;
    json_array_foreach(cases, i, one)
    {
        ls_ranked *ranked = &of->ranked[i];
        const json_t *row, *rows = json_object_get(one, "rows");
        size_t k;
        ranked->row = ls_case_row(one, NULL);
        ranked->of = one;
        ranked->known = rate_of(one, of->by, &ranked->rate);
        json_array_foreach(rows, k, row) ranked->noisy |= ls_row_is_noisy(row);
    }
    of->known = ls_rank_sort(of->ranked, of->count, &others);
    return true;
}

/* "mirrored (VALUE) (noisy)" */
static char *name_of(const pool *of, const ls_ranked *one, char *out)
{
    ls_report_label(one->row, of->differences, false, NULL, out);
    if (of->against) {
        char value[128];
        ls_text_add(out, LS_LABEL_SIZE, " (%s)",
                    ls_report_text(one->row, of->against, value, sizeof value));
    }
    return ls_text_add(out, LS_LABEL_SIZE, one->noisy ? " (noisy)" : "");
}

/* What the pool shows, for a line below the headline, and in a word for the headline. */
static const char *describe(const pool *of, json_t *line, char word[LS_LABEL_SIZE])
{
    static const char *const by_words[] = {[LS_RANK_MEAN] = "samples trained / time",
                                           [LS_RANK_SPEEDUP] =
                                               "speed-up over single in each group's own turns"};
    const ls_ranked *best = &of->ranked[0], *next = &of->ranked[1];
    const size_t repeats = json_array_size(json_object_get(best->of, "rows"));
    char name[LS_LABEL_SIZE], other[LS_LABEL_SIZE], value[48];
    size_t compared = of->known;
    ls_interval rate;
    for (; !of->known && compared < of->count; compared++)
        if (best->equal && !of->ranked[compared].equal)
            break;
    const size_t near = of->known ? ls_rank_near(of->ranked, of->known) : compared;
    ls_case_row(best->of, &rate);
    ls_page_text(line, "name", "%s", name_of(of, best, name));
    ls_page_text(line, "rate", "%s", ls_figure_value(rate.value, "samples/s", value));
    if (repeats > 1)
        ls_page_text(line, "repeats", "%zu", repeats);
    if (compared < 2) {
        json_object_set_new(line, "alone", json_true());
        return ls_text_add(word, LS_LABEL_SIZE, "%s (the only case)", name);
    }
    if (best->noisy && ls_row_real(best->row, LS_F_time_speedup) > ls_report_devices(best->row)) {
        json_object_set_new(line, "busy", json_true());
        return "the machine was too busy to tell";
    }
    if (of->by != LS_RANK_MEDIAN)
        ls_page_text(line, "by", "%s", by_words[of->by]);
    ls_page_text(line, "next", "%s", name_of(of, next, other));
    if (near < 2) {
        const ls_interval ratio = ls_report_ratio(best->rate, next->rate);
        ls_page_text(line, "ratio", "%.2f (%.2f to %.2f)", ratio.value, ratio.low, ratio.high);
        return ls_text_add(word, LS_LABEL_SIZE, "%s", name);
    }
    if (near > 2)
        ls_page_text(line, "more", "%zu", near - 2);
    ls_page_text(line, "open", "%s",
                 of->known ? "their intervals overlap" : "no interval is known");
    return "too close to tell";
}

/* A line of the table; "over": the time over the fastest's. */
static json_t *case_of(const pool *of, const ls_ranked *one)
{
    const bool best = one == of->ranked;
    const json_t *rows = json_object_get(one->of, "rows");
    json_t *out = json_object();
    char value[48];
    ls_interval rate;
    ls_case_row(one->of, &rate);
    if (best)
        json_object_set_new(out, "best", json_true());
    ls_page_text(out, "label", "%s", ls_text_of(one->of, "label"));
    ls_page_text(out, "count", "%zu", json_array_size(rows));
    ls_page_interval(out, "rate", rate);
    ls_page_text(out, "speed", "%s", ls_figure_value(rate.value, "", value));
    ls_page_number(out, "step", "%.4g", ls_page_median(rows, LS_F_time_step_ms_median));
    ls_page_interval(out, "over",
                     best ? (ls_interval){1, 0, 0} : ls_report_ratio(of->ranked->rate, one->rate));
    ls_page_number(out, "speedup", "%.2f", ls_page_median(rows, LS_F_time_speedup));
    ls_page_number(out, "efficiency", "%.0f%%", 100 * ls_page_median(rows, LS_F_time_efficiency));
    ls_page_text(out, "equal", "%s", ls_report_is_peer(one->row) ? "peer" : ls_gate_word(one->row));
    return out;
}

/* ---- The group: all numbers of devices ------------------------------------------------------- */

/* Adds a line for the pool, its cases, and its part of the headline: "; on 2: mirrored". */
static void add_pool(json_t *out, pool *of, const json_t *rows, char headline[HEADLINE_SIZE])
{
    const double devices = ls_report_devices(json_array_get(rows, 0));
    json_auto_t *named = ls_report_cases(rows, NULL, of->differences, true, of->against);
    json_auto_t *all = ls_report_sorted(named, NULL);
    json_t *line = json_object();
    json_array_append_new(json_object_get(out, "lines"), line);
    if (!rank(of, all))
        return;
    const json_t *best = of->ranked->row;
    const char *gate = ls_gate_word(best);
    char word[LS_LABEL_SIZE] = "";
    ls_page_text(line, "devices", "%g device%s", devices, devices > 1 ? "s" : "");
    ls_page_text(line, strcmp(gate, "bounded") && strcmp(gate, "exact") ? "unproven" : "grade",
                 "%s", gate);
    ls_page_text(line, "steps", "%" PRId64, ls_row_integer(best, LS_F_equivalence_steps));
    if (*headline)
        ls_text_add(headline, HEADLINE_SIZE, "; on %g: ", devices);
    else
        ls_text_add(headline, HEADLINE_SIZE, "Fastest on %s: ", ls_text_of(line, "devices"));
    ls_text_add(headline, HEADLINE_SIZE, "%s", describe(of, line, word));
    for (size_t i = 0; i < of->count; i++)
        json_array_append_new(json_object_get(out, "cases"), case_of(of, &of->ranked[i]));
    free(of->ranked);
}

/* {key: [rows]} of one model, data set, machine, and batch, or batch of a device. */
static json_t *groups_of(const json_t *rows, const char *against)
{
    static const ls_field_number shared[] = {LS_F_case_model, LS_F_case_data, LS_F_case_scaling};
    json_auto_t *groups = ls_page_groups(rows, shared, 3, against);
    json_t *out = json_object(), *group, *row;
    const char *key;
    size_t i;
    json_object_foreach(groups, key, group)
    {
        json_array_foreach(group, i, row)
        {
            const bool weak = strcmp(ls_row_string(row, LS_F_case_scaling), "weak") == 0;
            char batch[LS_KEY_SIZE] = "";
            ls_text_add(batch, sizeof batch, "%g|%s",
                        ls_row_real(row, LS_F_case_batch_global) /
                            (weak ? ls_report_devices(row) : 1),
                        key);
            ls_report_collect(out, batch, row);
        }
    }
    return out;
}

/* "poly, global batch 100, strong scaling, on Abacus": where the rows were measured. */
static json_t *where_of(const json_t *rows)
{
    const json_t *row = json_array_get(rows, 0);
    char machine[LS_MACHINE_SIZE];
    ls_report_machine(row, machine, sizeof machine);
    if (ls_figure_machines(rows) > 1)
        snprintf(machine, sizeof machine, "several machines");
    return json_sprintf(
        "%s, global batch %" PRId64 ", %s scaling, on %s", ls_row_string(row, LS_F_case_model),
        ls_row_integer(row, LS_F_case_batch_global), ls_row_string(row, LS_F_case_scaling),
        *machine ? machine : "a machine that the row does not name");
}

/* The pools by devices, the most first; of those on as many, the one that tells most. */
static json_t *sorted_pools(const json_t *group)
{
    json_auto_t *pools = ls_rank_pools(group);
    json_t *out = json_array(), *one;
    size_t i;
    json_array_foreach(pools, i, one)
    {
        const double weight = weight_of(json_object_get(one, "rows"), true);
        size_t at = json_array_size(out);
        while (at > 0 &&
               weight_of(json_object_get(json_array_get(out, at - 1), "rows"), true) < weight)
            at--;
        json_array_insert(out, at, one);
    }
    return out;
}

json_t *ls_finding(const json_t *rows, const char *against, json_t *left_out)
{
    json_auto_t *groups = groups_of(rows, against);
    const json_t *group = NULL;
    const char *key;
    char headline[HEADLINE_SIZE] = "";
    json_t *some, *one;
    size_t i;
    json_object_foreach(groups, key, some)
    {
        if (!group || weight_of(some, false) > weight_of(group, false))
            group = some;
    }
    if (!group)
        return NULL;
    json_auto_t *pools = sorted_pools(group);
    json_auto_t *differences = ls_report_differences(group, NULL, against);
    json_auto_t *whole = ls_report_cases(group, NULL, differences, true, against);
    json_t *out = json_pack("{s:o,s:[],s:[]}", "where", where_of(group), "lines", "cases");
    json_t *cases = json_object_get(out, "cases");
    json_array_foreach(pools, i, one)
    {
        pool of = {.differences = differences,
                   .against = against,
                   .by = (ls_rank_by)json_integer_value(json_object_get(one, "by"))};
        add_pool(out, &of, json_object_get(one, "rows"), headline);
    }
    ls_page_text(out, "headline", "%s", headline);
    if (json_array_size(cases) > CASES_MOST)
        ls_page_text(out, "slower", "%zu", json_array_size(cases) - CASES_MOST);
    while (json_array_size(cases) > CASES_MOST)
        json_array_remove(cases, json_array_size(cases) - 1);
    ls_page_merged("table of cases", whole, left_out);
    return out;
}
