/* SPDX-License-Identifier: MIT */
/* What the rows say in one sentence: which strategy is fastest, by how much, whether it is proven
 * equal, and where; and ratios of the same case under several values of a key. Intervals of ratios
 * are made of both rows' ci95, in logarithms. */
#include "bench/report/case_keys.h"
#include "bench/report/figures.h"
#include "bench/report/page.h"

#include <math.h>
#include <string.h>

const char *ls_gate_word(const json_t *row)
{
    const json_t *gate = json_object_get(row, "equivalence");
    const char *grade = json_string_value(json_object_get(gate, "grade"));
    if (!grade)
        return "not compared";
    if (json_is_false(json_object_get(gate, "pass")))
        return "FAILED";
    return strcmp(grade, "none") == 0 ? "not compared" : grade;
}

static double median_of(const json_t *row)
{
    return ls_report_number(row, "time.step_ms.median", 0);
}

/* b's time over a's, as [ratio, low, high]; low and high are 0 where a row has no interval. */
static void ratio_of(const json_t *a, const json_t *b, double out[3])
{
    const json_t *rows[] = {a, b};
    double squares[2] = {0, 0};
    bool known = true;
    for (size_t i = 0; i < 2; i++) {
        const json_t *step = json_object_get(json_object_get(rows[i], "time"), "step_ms");
        const json_t *ci95 = json_object_get(step, "ci95");
        const double bounds[] = {json_number_value(json_array_get(ci95, 0)),
                                 json_number_value(json_array_get(ci95, 1))};
        known = known && bounds[0] > 0 && bounds[1] > 0;
        for (size_t k = 0; known && k < 2; k++) /* a's upper bound makes the ratio's lower */
            squares[i ? k : 1 - k] += pow(log(bounds[k] / median_of(rows[i])), 2);
    }
    out[0] = median_of(b) / median_of(a);
    out[1] = known ? out[0] * exp(-sqrt(squares[0])) : 0;
    out[2] = known ? out[0] * exp(sqrt(squares[1])) : 0;
}

static bool has_time(const json_t *row)
{
    return ls_report_is_ok(row) && median_of(row) > 0 &&
           ls_report_number(row, "time.samples_per_s", 0) > 0;
}

static json_t *timed(const json_t *rows)
{
    json_t *out = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (has_time(json_array_get(rows, i)))
            json_array_append(out, json_array_get(rows, i));
    return out;
}

/* The newest row of each case, fastest first. */
static json_t *rank(const json_t *rows, const char *against)
{
    json_t *differences = ls_report_differences(rows, ls_report_plain), *newest = json_object();
    json_t *out = json_array(), *row;
    const char *label;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char text[300];
        row = json_array_get(rows, i);
        ls_report_label(row, differences, against, text, 256);
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, " on %.0f", ls_report_devices(row));
        json_object_set(newest, text, row);
    }
    json_object_foreach(newest, label, row)
    {
        size_t at = 0;
        const double rate = ls_report_number(row, "time.samples_per_s", 0);
        while (at < json_array_size(out) &&
               ls_report_number(json_object_get(json_array_get(out, at), "row"),
                                "time.samples_per_s", 0) >= rate)
            at++;
        json_array_insert_new(out, at, json_pack("{s:s,s:O}", "label", label, "row", row));
    }
    json_decref(newest);
    json_decref(differences);
    return out;
}

/* The group with the most strategies of ours, then the most rows. */
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
            if (!ls_report_is_peer(json_array_get(rows, i)))
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

static bool is_candidate(const json_t *row)
{
    return !ls_report_is_peer(row) && strcmp(ls_report_strategy(row), "independent") != 0;
}

static const char *unit_of(const json_t *row)
{
    return ls_report_devices(row) > 1 ? "devices" : "device";
}

static json_t *sentence(const json_t *cases, const json_t *fastest)
{
    const json_t *row = json_object_get(fastest, "row"), *next = NULL;
    const char *name = json_string_value(json_object_get(fastest, "label"));
    char rate[48];
    double ratio[3];
    for (size_t i = 0; i < json_array_size(cases) && !next; i++) {
        const json_t *other = json_array_get(cases, i);
        if (other != fastest && is_candidate(json_object_get(other, "row")))
            next = other;
    }
    ls_figure_value(ls_report_number(row, "time.samples_per_s", 0), "samples/s", rate);
    if (!next)
        return json_sprintf("%s %s is the only case here: %s", name, unit_of(row), rate);
    ratio_of(row, json_object_get(next, "row"), ratio);
    /* what counts is samples, and weak cases have more of them in a step */
    const double share = ls_report_number(row, "time.samples_per_s", 0) /
                         ls_report_number(json_object_get(next, "row"), "time.samples_per_s", 1);
    const double scale = share / ratio[0];
    const char *other = json_string_value(json_object_get(next, "label"));
    if (ratio[1] > 0 && ratio[1] * scale <= 1)
        return json_sprintf("%s and %s %s are the fastest, within the noise of each other: %s",
                            name, other, unit_of(json_object_get(next, "row")), rate);
    if (ratio[1] > 0)
        return json_sprintf("%s %s is the fastest: %s, %.2f (%.2f to %.2f) times %s", name,
                            unit_of(row), rate, share, ratio[1] * scale, ratio[2] * scale, other);
    return json_sprintf("%s %s is the fastest: %s, %.2f times %s", name, unit_of(row), rate, share,
                        other);
}

static json_t *proof(const json_t *row)
{
    const char *gate = ls_gate_word(row);
    char steps[48];
    ls_figure_value(ls_report_number(row, "equivalence.steps", 0), "", steps);
    if (strcmp(gate, "bounded") == 0 || strcmp(gate, "exact") == 0)
        return json_sprintf("Proven equal to single: yes, grade %s over %s compared steps.", gate,
                            steps);
    return json_sprintf("Proven equal to single: no (%s).", gate);
}

json_t *ls_finding(const json_t *rows, const char *against)
{
    static const char *const paths[] = {"case.model", "case.scaling", "case.batch_global", NULL};
    json_t *usable = timed(rows), *groups = ls_figure_groups(usable, paths, against), *out = NULL;
    const json_t *group = widest(groups);
    if (group) {
        json_t *cases = rank(group, against);
        const json_t *fastest = json_array_get(cases, 0);
        char machine[256], model[96], batch[48], scaling[32];
        for (size_t i = 0; i < json_array_size(cases); i++)
            if (is_candidate(json_object_get(json_array_get(cases, i), "row"))) {
                fastest = json_array_get(cases, i);
                break;
            }
        const json_t *row = json_object_get(fastest, "row");
        ls_report_machine(row, machine, sizeof machine);
        for (size_t i = 0; i < json_array_size(cases); i++) {
            json_t *one = json_array_get(cases, i);
            double ratio[3];
            ratio_of(row, json_object_get(one, "row"), ratio);
            json_object_set_new(one, "ratio", json_pack("[f,f,f]", ratio[0], ratio[1], ratio[2]));
        }
        out = json_pack("{s:o,s:o,s:o,s:o}", "headline", sentence(cases, fastest), "proof",
                        proof(row), "where",
                        json_sprintf("%s, global batch %s, %s scaling, on %s",
                                     ls_report_text(row, "case.model", model, sizeof model),
                                     ls_report_text(row, "case.batch_global", batch, sizeof batch),
                                     ls_report_text(row, "case.scaling", scaling, sizeof scaling),
                                     *machine ? machine : "a machine that the row does not name"),
                        "cases", cases);
    }
    json_decref(groups);
    json_decref(usable);
    return out;
}

json_t *ls_ratios(const json_t *rows, const char *key)
{
    json_t *usable = timed(rows), *cases = json_object(), *out = json_array(), *values, *row;
    const char *name, *value;
    for (size_t i = 0; i < json_array_size(usable); i++) {
        char label[LS_KEY_SIZE], text[128];
        row = json_array_get(usable, i);
        ls_report_case(row, " strategy seed steps warmup epochs blocks shuffle parameters hosts ",
                       label, sizeof label);
        if (!json_object_get(cases, label))
            json_object_set_new(cases, label, json_object());
        json_object_set(json_object_get(cases, label), ls_report_text(row, key, text, sizeof text),
                        row);
    }
    json_object_foreach(cases, name, values)
    {
        const json_t *first = NULL;
        json_t *list = json_array();
        json_object_foreach(values, value, row)
        {
            double ratio[3];
            first = first ? first : row;
            ratio_of(first, row, ratio);
            json_array_append_new(list, json_pack("{s:s,s:f,s:f,s:f,s:f}", "value", value, "ms",
                                                  median_of(row), "ratio", ratio[0], "low",
                                                  ratio[1], "high", ratio[2]));
        }
        if (json_array_size(list) > 1)
            json_array_append_new(out, json_pack("{s:s,s:O}", "case", name, "values", list));
        json_decref(list);
    }
    json_decref(cases);
    json_decref(usable);
    return out;
}
