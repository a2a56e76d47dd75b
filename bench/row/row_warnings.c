/* SPDX-License-Identifier: MIT */
/*
 * Warnings of a row: words in result.warnings, and sentences in result.notes, each of which begins
 * with its word. Notes describe this process, except that on noise, which is added, like the
 * warnings, when the rows of all ranks are joined.
 */
#include "bench/output/format_parts.h"
#include "bench/row/findings.h"
#include "bench/row/row.h"
#include "bench/row/row_noise.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Notes ---------------------------------------------------------------------------------- */

static void note(json_t *notes, const char *why, ...) __attribute__((format(printf, 2, 3)));

static void note(json_t *notes, const char *why, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(text, sizeof text, why, arguments);
    va_end(arguments);
    json_array_append_new(notes, json_string(text));
}

/* Overwrites `sorted` [samples] and `medians` [blocks]. */
static void note_findings(const ls_timed *timed, double *sorted, double *medians, json_t *notes)
{
    double change, means[2], slower, by;
    memcpy(sorted, timed->step_ms, timed->samples * sizeof *sorted);
    for (size_t b = 0, first = 0; b < timed->blocks; first = timed->ends[b++]) {
        const size_t count = timed->ends[b] - first;
        medians[b] = ls_statistics_median(sorted + first, count);
    }
    ls_statistics_sort(sorted, timed->samples);
    if (ls_find_drift(medians, timed->blocks, &change))
        note(notes, "drift: the last third of the blocks is %.0f%% %s than the first",
             100 * (change > 0 ? change : -change), change > 0 ? "slower" : "faster");
    else if (ls_find_autocorrelation(medians, timed->blocks, &by))
        note(notes, "autocorrelated: neighbouring blocks go together (%.2f); ci95 is too narrow",
             by);
    if (ls_find_modes(sorted, timed->samples, means, &slower))
        note(notes, "two modes: %.0f%% of the steps take %.4g ms, the others %.4g ms",
             100 * (1 - slower), means[0], means[1]);
}

void ls_row_note(const ls_row_facts *f, json_t *row)
{
    const ls_timed *timed = &f->trial->timed;
    json_auto_t *notes = json_array();
    double *memory = calloc(timed->samples + timed->blocks + 1, sizeof *memory);
    if (ls_session_moved(&f->trial->session))
        note(notes, "moved: something took devices off their cores (taskset, a control group)");
    /* Steps of several kinds have several modes, and blocks with more of one or the other. */
    if (memory && (f->pace.even ||
                   ls_ps_by_arrival(&f->plan->job.ps))) /* a warning is not worth losing the row */
        note_findings(timed, memory, memory + timed->samples, notes);
    if (!ls_timed_is_whole(timed))
        note(notes,
             "partial: the %llu steps that count are not whole periods of %d, so that they "
             "have too few or too many averages; use a multiple for --steps",
             (unsigned long long)ls_timed_counted(timed), f->plan->job.period);
    if (timed->imprecise)
        note(notes, "imprecise: --max-time or the budget was over before ci95 was as narrow as "
                    "asked, over 20 blocks");
    if (json_array_size(notes))
        json_object_set(json_object_get(row, "result"), "notes", notes);
    free(memory);
}

/* ---- Warnings ------------------------------------------------------------------------------- */

/* Whether the interval is at least 10% wide: comparing such a figure with another says little. */
static bool is_noisy(const json_t *row)
{
    static const double most = 0.1;
    ls_interval step;
    return ls_row_pace(row, &step) && step.high - step.low > most * step.value;
}

/* Whether median and mean rate differ so much that one figure does not describe the speed. */
static bool is_skewed(const json_t *time)
{
    static const double most = 1.1;
    const double median = json_number_value(json_object_get(time, "samples_per_s"));
    const double mean = json_number_value(json_object_get(time, "samples_per_s_mean"));
    return time && (median > most * mean || mean > most * median);
}

/* Whether there are too few blocks for an interval, or the run was too short to show the noise. */
static bool is_short(const json_t *time)
{
    static const double least_s = 1;
    return time && (json_integer_value(json_object_get(time, "blocks")) < LS_STATISTICS_BLOCKS ||
                    json_number_value(json_object_get(time, "timed_s")) < least_s);
}

static bool is_noted(const json_t *notes, const char *word)
{
    const size_t length = strlen(word);
    for (size_t i = 0; i < json_array_size(notes); i++)
        if (strncmp(json_string_value(json_array_get(notes, i)), word, length) == 0)
            return true;
    return false;
}

/* Noise is the first of the notes; it is known when ranks are joined. */
static void note_noise(json_t *row)
{
    char words[224], text[256];
    if (!ls_row_noise_words(row, words, sizeof words))
        return;
    snprintf(text, sizeof text, "noisy: %s", words);
    json_t *result = json_object_get(row, "result");
    if (!json_object_get(result, "notes"))
        json_object_set_new(result, "notes", json_array());
    json_array_insert_new(json_object_get(result, "notes"), 0, json_string(text));
}

void ls_row_warn(json_t *row)
{
    note_noise(row);
    const json_t *time = json_object_get(row, "time");
    json_t *result = json_object_get(row, "result"), *notes = json_object_get(result, "notes");
    const bool crowded =
        json_is_true(json_object_get(json_object_get(row, "provenance"), "oversubscribed"));
    json_auto_t *warnings = json_array();
    if (crowded)
        json_array_append_new(warnings, json_string("oversubscribed"));
    if (is_noisy(row) && !is_noted(notes, "noisy"))
        json_array_append_new(warnings, json_string("noisy"));
    if (is_short(time))
        json_array_append_new(warnings, json_string("short"));
    if (is_skewed(time))
        json_array_append_new(warnings, json_string("skewed"));
    for (size_t i = 0; i < json_array_size(notes); i++) {
        const char *note = json_string_value(json_array_get(notes, i));
        json_array_append_new(warnings, json_stringn(note, strcspn(note, ":")));
    }
    if (json_array_size(warnings))
        json_object_set(result, "warnings", warnings);
}
