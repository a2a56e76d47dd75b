/* SPDX-License-Identifier: MIT */
/* Validated rows; see validated.h. */
#include "bench/predict/validated.h"

#include "bench/output/format.h"
#include "bench/output/row_same.h"
#include "bench/rows/put.h"
#include "bench/rows/row.h"
#include "common/base/grow.h"
#include "template_regret.h"
#include "template_validated.h"
#include "validated_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Rows of other machines, which are a part of the program -------------------------------- */

json_t *ls_embedded_rows(const char *lines)
{
    json_t *rows = json_array();
    for (const char *at = lines; *at; at += strspn(at, "\n")) {
        json_t *row = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        if (row)
            json_array_append_new(rows, row);
        at += strcspn(at, "\n");
    }
    return rows;
}

json_t *ls_validated_table(void)
{
    return ls_embedded_rows(ls_validated_rows);
}

bool ls_validated_busy(const json_t *row)
{
    static const double most_computing = 1.0 / 3, most_messages = 1; /* a device and ms */
    const double devices = (double)ls_row_count(row, LS_F_case_devices);
    const double messages = ls_row_real(row, LS_F_traffic_messages_sent);
    return ls_row_real(row, LS_F_prediction_computing) > most_computing ||
           messages > most_messages * devices * ls_row_real(row, LS_F_time_step_ms_median);
}

double ls_validated_error(const json_t *table, bool shared, bool busy, const char *without,
                          size_t *count)
{
    double *errors = calloc(json_array_size(table) + 1, sizeof *errors), error = 0;
    *count = 0;
    for (size_t i = 0; errors && i < json_array_size(table); i++) {
        const char *machine = "";
        double predicted_ms, measured_ms;
        int is_shared = 0, is_busy = 0;
        if (json_unpack(json_array_get(table, i), "{s?b,s?b,s?s,s:F,s:F}", "shared", &is_shared,
                        "busy", &is_busy, "machine", &machine, "predicted_ms", &predicted_ms,
                        "measured_ms", &measured_ms) == 0 &&
            is_shared == shared && (!shared || is_busy == busy) &&
            !(without && strcmp(machine, without) == 0))
            errors[(*count)++] = fabs(log(measured_ms / predicted_ms));
    }
    if (errors && *count) {
        ls_statistics_sort(errors, *count);
        error = ls_statistics_quantile(errors, *count, 0.90);
    }
    free(errors);
    return error;
}

/* ---- Pairs ---------------------------------------------------------------------------------- */

static bool is_timed(const json_t *row)
{
    return strcmp(ls_row_string(row, LS_F_result_status), "ok") == 0 &&
           ls_row_real(row, LS_F_time_step_ms_median) > 0;
}

/* The row's pace (ls_row_pace); without an interval its ends are the step itself. */
static ls_interval pace_of(const json_t *row)
{
    ls_interval pace;
    if (!ls_row_pace(row, &pace))
        pace.low = pace.high = pace.value;
    return pace;
}

static ls_status add(ls_validations *v, json_t *row, ls_interval predicted_ms, bool *added)
{
    const json_t *measured = NULL; /* the latest row of the case, on this machine */
    for (size_t i = json_array_size(v->measured); i-- > 0 && !measured;) {
        const json_t *other = json_array_get(v->measured, i);
        if (ls_row_same_case(row, other, LS_BUT_REPEATS, false) &&
            !ls_row_other_machine(row, other, LS_OF_MACHINE))
            measured = other;
    }
    *added = measured;
    if (!measured)
        return LS_OK;
    LS_TRY(ls_grow("validations", &v->items, v->count, sizeof *v->items));
    v->items[v->count++] = (ls_validation){predicted_ms, pace_of(measured).value, json_incref(row)};
    return LS_OK;
}

ls_status ls_validations_open(const json_t *rows, ls_validations *out)
{
    size_t i;
    json_t *row;
    *out = (ls_validations){.table = ls_validated_table(), .measured = json_array()};
    json_array_foreach(rows, i, row)
    {
        if (!ls_row_is_predicted(row) && ls_row_group(row, LS_G_case) && is_timed(row))
            json_array_append(out->measured, row);
    }
    json_array_foreach(rows, i, row)
    {
        bool added;
        if (ls_row_is_predicted(row) && is_timed(row))
            LS_TRY(add(out, row, pace_of(row), &added));
    }
    return LS_OK;
}

void ls_validations_close(ls_validations *v)
{
    for (size_t i = 0; i < v->count; i++)
        json_decref(v->items[i].row);
    free(v->items);
    json_decref(v->measured);
    json_decref(v->table);
    *v = (ls_validations){0};
}

/* ---- Intervals ------------------------------------------------------------------------------ */

/* The 97.5% quantile of Student's distribution (from 11 degrees on within 1%). */
static double student(size_t degrees)
{
    static const double t[] = {12.706, 4.303, 3.182, 2.776, 2.571,
                               2.447,  2.365, 2.306, 2.262, 2.228};
    return degrees <= sizeof t / sizeof *t ? t[degrees - 1] : 1.96 + 2.6 / (double)degrees;
}

/* What is known of the model's error. */
typedef struct model_error {
    double squares;
    size_t count, most; /* rows; most devices of one */
} model_error;

/* Whether a later validation has the same case. */
static bool is_repeated(const ls_validations *v, size_t number)
{
    for (size_t i = number + 1; i < v->count; i++)
        if (ls_row_same_case(v->items[number].row, v->items[i].row, LS_BUT_REPEATS, false))
            return true;
    return false;
}

enum { ENOUGH = 3 }; /* rows */

/* Errors of rows of the row's strategy, if there are enough (*own is true), else of all; without
 * rows of this case. The last of repeated rows counts. */
static model_error known_errors(const ls_validations *v, const json_t *row, bool *own)
{
    model_error sums[2] = {{0}}; /* of all, of the strategy */
    for (size_t i = 0; i < v->count; i++) {
        const json_t *other = v->items[i].row;
        const double error = log(v->items[i].measured_ms / v->items[i].predicted_ms.value);
        const size_t devices = ls_row_count(other, LS_F_case_devices);
        if (ls_row_same_case(row, other, LS_BUT_REPEATS, false) || is_repeated(v, i))
            continue;
        for (int k = 0; k < 2; k++) {
            if (k == 1 && strcmp(ls_row_string(other, LS_F_case_strategy),
                                 ls_row_string(row, LS_F_case_strategy)) != 0)
                continue;
            sums[k].squares += error * error;
            sums[k].most = devices > sums[k].most ? devices : sums[k].most;
            sums[k].count++;
        }
    }
    *own = sums[1].count >= ENOUGH;
    return sums[*own];
}

/* Widens the interval of the draws of a predicted figure. */
static void widen_interval(double figure, double model, double *low, double *high)
{
    *low = figure * exp(-hypot(fmax(log(figure / *low), 0), model));
    *high = figure * exp(hypot(fmax(log(*high / figure), 0), model));
}

/* Widens the interval `ci95` of a field, or adds it. */
static void widen_field(json_t *row, ls_field_number field, ls_field_number ci95, double model)
{
    const double figure = ls_row_real(row, field);
    double low = ls_row_has(row, ci95) ? ls_row_real_at(row, ci95, 0) : figure;
    double high = ls_row_has(row, ci95) ? ls_row_real_at(row, ci95, 1) : figure;
    widen_interval(figure, model, &low, &high);
    ls_row_put_value(row, ci95, ls_interval_value(low, high));
}

/* Half the width of the model's interval of a row, in logarithms, and where it is from; 0 if
 * nothing is known. */
static double model_of(const ls_validations *v, const json_t *row, char *source, size_t size)
{
    bool own;
    const model_error known = known_errors(v, row, &own);
    if (known.count < ENOUGH && ls_row_has(row, LS_F_prediction_shared)) {
        size_t count;
        const bool shared = ls_row_true(row, LS_F_prediction_shared);
        const bool busy = ls_validated_busy(row);
        const double error = ls_validated_error(v->table, shared, busy, NULL, &count);
        snprintf(source, size, "draws, with calibration; errors of %zu rows of other machines%s",
                 count,
                 !shared ? ", a core for each device"
                 : busy  ? ", devices share cores, busy steps"
                         : ", devices share cores, quiet steps");
        return error;
    }
    snprintf(source, size, "draws, with calibration; errors of %zu validated rows of %s",
             known.count, own ? ls_row_string(row, LS_F_case_strategy) : "any strategy");
    return known.count ? student(known.count) * sqrt(known.squares / (double)known.count) : 0;
}

static void widen(const ls_validations *v, json_t *row)
{
    char source[160];
    bool own;
    const model_error known = known_errors(v, row, &own);
    ls_put_prediction_extrapolated(row, ls_row_count(row, LS_F_case_devices) > known.most);
    const double model = pace_of(row).low > 0 ? model_of(v, row, source, sizeof source) : 0;
    if (!(model > 0))
        return;
    widen_field(row, LS_F_time_step_ms_median, LS_F_time_step_ms_ci95, model);
    widen_field(row, LS_F_time_samples_per_s_mean, LS_F_time_samples_per_s_mean_ci95, model);
    const ls_interval pace = pace_of(row);
    ls_put_prediction_error_model(row, expm1(model));
    ls_put_prediction_error(row, (pace.high - pace.low) / (pace.high + pace.low));
    ls_put_prediction_error_source(row, source);
}

ls_status ls_validations_take(ls_validations *v, json_t *row, bool *added)
{
    *added = false;
    if (!is_timed(row))
        return LS_OK;
    const ls_interval drawn = pace_of(row);
    widen(v, row);
    return add(v, row, drawn, added);
}

/* ---- Regret --------------------------------------------------------------------------------- */

ls_regret ls_regret_of(const json_t *document)
{
    ls_regret regret = {0};
    json_auto_t *found = json_array();
    json_int_t sets;
    double mean, worst;
    ls_status_free(ls_document_query(ls_template_regret, document, NULL, found));
    if (json_unpack(json_array_get(found, 0), "{s:I,s:F,s:F}", "sets", &sets, "mean", &mean,
                    "worst", &worst) == 0)
        regret = (ls_regret){(size_t)sets, mean, worst};
    return regret;
}

ls_regret ls_validations_regret(const ls_validations *v)
{
    static const ls_field_number fields[] = {
        LS_F_case_model, LS_F_case_batch_global, LS_F_case_scaling, LS_F_case_reduce,
        LS_F_case_link,  LS_F_case_optimizer,    LS_F_case_inject,
    };
    json_t *answers = json_array();
    json_auto_t *document = json_pack("{s:o}", "validated", answers);
    for (size_t i = 0; i < v->count; i++) {
        const ls_validation *one = &v->items[i];
        if (is_repeated(v, i))
            continue;
        json_t *question = json_pack("[I]", (json_int_t)ls_row_count(one->row, LS_F_case_devices));
        for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
            json_t *value = (json_t *)(size_t)ls_row_get(one->row, fields[f]);
            json_array_append(question, value ? value : json_null());
        }
        json_array_append_new(answers,
                              json_pack("{s:o,s:f,s:f}", "question", question, "predicted",
                                        one->predicted_ms.value, "measured", one->measured_ms));
    }
    return ls_regret_of(document);
}

/* ---- Printing ------------------------------------------------------------------------------- */

/* {line, strategy, devices}: `line` is what JSON lines have. */
static json_t *print_of(const ls_validations *v, const ls_validation *one)
{
    char source[160];
    ls_interval ms = one->predicted_ms;
    if (ms.low > 0)
        widen_interval(ms.value, model_of(v, one->row, source, sizeof source), &ms.low, &ms.high);
    const bool held = ms.low <= one->measured_ms && one->measured_ms <= ms.high;
    json_t *line =
        json_pack("{s:O?,s:f,s:f,s:f,s:[f,f],s:b}", "case", ls_row_group(one->row, LS_G_case),
                  "predicted_ms", ms.value, "measured_ms", one->measured_ms, "error",
                  ms.value / one->measured_ms - 1, "ci95", ms.low, ms.high, "held", held);
    if (ls_row_has(one->row, LS_F_prediction_shared))
        json_object_update_new(line, json_pack("{s:b,s:b}", "shared",
                                               ls_row_true(one->row, LS_F_prediction_shared),
                                               "busy", ls_validated_busy(one->row)));
    return json_pack("{s:o,s:s,s:I}", "line", line, "strategy",
                     ls_row_string(one->row, LS_F_case_strategy), "devices",
                     (json_int_t)ls_row_count(one->row, LS_F_case_devices));
}

void ls_validations_print(const ls_validations *v, size_t first, bool json, FILE *stream)
{
    json_t *rows = json_array();
    json_auto_t *all = json_pack("{s:o}", "rows", rows);
    for (size_t i = first; i < v->count; i++)
        json_array_append_new(rows, print_of(v, &v->items[i]));
    ls_status_free(
        ls_document_write(ls_template_validated, all, json ? "jsonl" : "table", NULL, stream));
}
