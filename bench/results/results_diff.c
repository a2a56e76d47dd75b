/* SPDX-License-Identifier: MIT */
/*
 * `results diff A B`: the keys in which two rows differ, and the ratio of their median step times,
 * B over A, with its interval as for independent measurements. If the steps of one are not alike,
 * times per sample are compared. People get the keys that matter, rounded, unless --all asks for
 * the rest. If they are not of one case, or not of one machine (bench/output/row_same.h), a line
 * below says in what.
 */
#include "bench/results/results_verbs.h"
#include "bench/statistics/verdict.h"
#include "template_diff.h"

#include <stdlib.h>
#include <stdint.h>
#include <string.h>

/* ---- Keys ----------------------------------------------------------------------------------- */

ls_status ls_results_fields(ls_results *results, const json_t *a, const json_t *b, json_t *out)
{
    json_auto_t *values = json_pack("{s:O,s:O*}", "a", a, "b", b);
    return ls_results_query(results, ls_template_diff, values, out);
}

/* In a table figures are rounded; options keep their given form. */
static void round_value(json_t *one, const char *key, const char *side)
{
    const json_t *value = json_object_get(one, side);
    if (json_is_real(value) && strncmp(key, "case.", 5) != 0)
        json_object_set_new(one, side, json_sprintf("%.4g", json_real_value(value)));
}

/* Appends {key, a, b} for each key in which they differ, with `brief` only those that tell
 * something by themselves; *left is how many others there are. */
static ls_status compare(ls_results *results, const json_t *a, const json_t *b, bool brief,
                         json_t *out, size_t *left)
{
    json_auto_t *all = json_array();
    json_t *one;
    size_t index;
    *left = 0;
    LS_TRY(ls_results_fields(results, a, b, all));
    json_array_foreach(all, index, one)
    {
        const char *key = "";
        int differs = 0, tells = 0;
        json_unpack(one, "{s:s,s:i,s:i}", "key", &key, "differs", &differs, "brief", &tells);
        json_object_del(one, "differs");
        json_object_del(one, "brief");
        *left += differs && brief && !tells;
        if (!differs || (brief && !tells))
            continue;
        if (brief) {
            round_value(one, key, "a");
            round_value(one, key, "b");
        }
        json_array_append(out, one);
    }
    return LS_OK;
}

/* ---- Ratio ---------------------------------------------------------------------------------- */

/* The time of the median step or, with `mean`, of a sample; in ms. */
static bool read_time(const json_t *row, bool mean, ls_interval *out)
{
    ls_interval rate;
    if (!mean)
        return ls_row_step(row, out);
    const bool known = ls_row_rate(row, true, &rate);
    *out = (ls_interval){0};
    if (rate.value > 0)
        out->value = 1e3 / rate.value;
    if (known) {
        out->low = 1e3 / rate.high;
        out->high = 1e3 / rate.low;
    }
    return known;
}

/* The times of A and B, or times per sample. */
typedef struct pair {
    ls_interval a, b, ratio;
    bool by_sample, known; /* known: both have an interval */
} pair;

static void tell_ratio(const pair *p)
{
    if (!(p->ratio.value > 0 && p->a.value > 0)) {
        fputs("no ratio of times: not both rows have timed steps\n", ls_output());
        return;
    }
    fprintf(ls_output(), "B / A, %s: %.4g / %.4g ms = %.4g",
            p->by_sample ? "time of a sample, for steps are not alike" : "median step", p->b.value,
            p->a.value, p->ratio.value);
    if (!p->known) {
        fputs(" (no interval: not both rows have one)\n", ls_output());
        return;
    }
    const ls_verdict verdict = ls_verdict_of_pair(p->ratio);
    const bool differ = verdict == LS_VERDICT_FASTER || verdict == LS_VERDICT_SLOWER;
    fprintf(ls_output(), ", 95%% interval %.4g to %.4g: %s%s\n", p->ratio.low, p->ratio.high,
            differ ? "B is " : "", ls_verdict_name(verdict));
}

/* "not one case: case.strategy; not one machine: provenance.host" */
static ls_status tell_others(ls_results *results, const json_t *a, const json_t *b)
{
    static const char sql[] =
        "DELETE FROM keyed; INSERT INTO keyed SELECT column1, case_key(column2, 1, column1)"
        " FROM (VALUES (0, :a), (0, :b), (112, :a), (112, :b));"
        "SELECT group_concat(text, '; ') AS text FROM ("
        " SELECT 'not one case: ' || group_concat(path, ', ') AS text FROM differences WHERE g = 0"
        " UNION ALL SELECT 'not one machine: ' || group_concat(path, ', ') FROM differences"
        " WHERE g = 112 AND path NOT IN (SELECT path FROM differences WHERE g = 0))";
    json_auto_t *values = json_pack("{s:O,s:O}", "a", a, "b", b), *found = json_array();
    LS_TRY(ls_results_query(results, sql, values, found));
    const char *text = json_string_value(json_object_get(json_array_get(found, 0), "text"));
    if (text)
        ls_text_wrap(ls_output(), text, 0, 0, 80);
    return LS_OK;
}

/* ---- Output --------------------------------------------------------------------------------- */

ls_status ls_results_diff(ls_results_task *task)
{
    static const ls_column column[] = {
        LS_PATH_COLUMN("key", "key", 43, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("A", "a", 24, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("B", "b", 24, false, LS_CELL_TEXT, 0),
        LS_PATH_COLUMN("ratio", "ratio", 0, true, LS_CELL_FIGURE, 0),
        LS_PATH_COLUMN("ci95", "ci95", LS_WIDTH_ANY, false, LS_CELL_TEXT, 0)};
    const char *name = task->form ? task->form->name : "table";
    const bool for_people = strcmp(name, "table") == 0 || strcmp(name, "md") == 0;
    const ls_columns columns = {.column = column, .count = for_people ? 3 : 5, .alone = true};
    json_auto_t *a = NULL, *b = NULL, *rows = json_array();
    size_t left;
    LS_TRY(ls_results_find(task->results, task->set->operands[1], &a));
    LS_TRY(ls_results_find(task->results, task->set->operands[2], &b));
    LS_TRY(compare(task->results, a, b, for_people && !ls_option_set_yes(task->set, "all"), rows,
                   &left));
    pair times = {.by_sample = ls_row_is_uneven(a) || ls_row_is_uneven(b)};
    const bool of_a = read_time(a, times.by_sample, &times.a);
    times.known = read_time(b, times.by_sample, &times.b) && of_a;
    times.ratio = ls_statistics_ratio(times.b, times.a);
    if (!for_people && times.a.value > 0 && times.b.value > 0)
        json_array_append_new(
            rows,
            json_pack("{s:s,s:f,s:f,s:f,s:s*,s:o*}", "key", "ratio", "a", times.a.value, "b",
                      times.b.value, "ratio", times.ratio.value, "of",
                      times.by_sample ? "sample" : NULL, "ci95",
                      times.known ? json_pack("[f,f]", times.ratio.low, times.ratio.high) : NULL));
    LS_TRY(ls_rows_write(task->form, &columns, rows, ls_output()));
    if (left > 0)
        fprintf(ls_output(), "%zu more keys differ; --all shows them\n", left);
    if (for_people) {
        fputc('\n', ls_output());
        tell_ratio(&times);
        LS_TRY(tell_others(task->results, a, b));
    }
    return LS_OK;
}
