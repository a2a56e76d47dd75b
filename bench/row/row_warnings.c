/* SPDX-License-Identifier: MIT */
/*
 * Notes of a row: sentences in result.notes that begin with the word of their warning. They
 * describe this process; warnings that follow from figures are added when the rows of all ranks are
 * joined (warnings.sql).
 */
#include "bench/row/row.h"
#include "bench/rows/row.h"
#include "bench/statistics/statistics.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Findings ------------------------------------------------------------------------------- */

enum { FEWEST_BLOCKS = 8, FEWEST_TIMES = 20 };

bool ls_find_drift(const double *medians, size_t n, double *change)
{
    static const double least = 0.03, deviations = 3;
    if (n < FEWEST_BLOCKS)
        return false;
    double s = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            s += (medians[j] > medians[i]) - (medians[j] < medians[i]);
    const double k = (double)n, deviation = sqrt(k * (k - 1) * (2 * k + 5) / 18);
    *change =
        ls_statistics_mean(medians + n - n / 3, n / 3) / ls_statistics_mean(medians, n / 3) - 1;
    return fabs(s) > deviations * deviation && fabs(*change) > least;
}

bool ls_find_modes(const double *sorted, size_t n, double means[2], double *slower)
{
    static const double left = 0.12, least = 0.1, least_ratio = 1.1;
    if (n < FEWEST_TIMES)
        return false;
    const double *x = sorted + n / 100;
    const size_t count = n - 2 * (n / 100), few = (size_t)ceil(least * (double)count);
    const double mean = ls_statistics_mean(x, count);
    double all = 0, low = 0, best = 0;
    for (size_t i = 0; i < count; i++)
        all += (x[i] - mean) * (x[i] - mean);
    for (size_t i = 1; i + few <= count; i++) {
        low += x[i - 1] - mean; /* minus the sum of the other part */
        const double a = (double)i, b = (double)(count - i), spread = low * low * (1 / a + 1 / b);
        if (i < few || spread <= best)
            continue;
        best = spread;
        means[0] = mean + low / a;
        means[1] = mean - low / b;
        *slower = b / (double)count;
    }
    return best > 0 && all - best < left * all && means[1] > least_ratio * means[0];
}

bool ls_find_autocorrelation(const double *medians, size_t n, double *by)
{
    static const double least = 0.5, deviations = 2.5;
    if (n < FEWEST_BLOCKS)
        return false;
    const double mean = ls_statistics_mean(medians, n);
    double all = 0, neighbours = 0;
    for (size_t i = 0; i < n; i++) {
        all += (medians[i] - mean) * (medians[i] - mean);
        if (i)
            neighbours += (medians[i] - mean) * (medians[i - 1] - mean);
    }
    *by = all > 0 ? neighbours / all : 0;
    return *by > least && *by > deviations / sqrt((double)n);
}

/* ---- Notes ---------------------------------------------------------------------------------- */

static void note(json_t *row, const char *why, ...) __attribute__((format(printf, 2, 3)));

static void note(json_t *row, const char *why, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(text, sizeof text, why, arguments);
    va_end(arguments);
    ls_row_append(row, LS_F_result_notes, json_string(text));
}

/* Overwrites `sorted` [samples] and `medians` [blocks]. */
static void note_findings(const ls_timed *timed, double *sorted, double *medians, json_t *row)
{
    double change, means[2], slower, by;
    memcpy(sorted, timed->step_ms, timed->samples * sizeof *sorted);
    for (size_t b = 0, first = 0; b < timed->blocks; first = timed->ends[b++]) {
        const size_t count = timed->ends[b] - first;
        medians[b] = ls_statistics_median(sorted + first, count);
    }
    ls_statistics_sort(sorted, timed->samples);
    if (ls_find_drift(medians, timed->blocks, &change))
        note(row,
             "drift: the last third of the measured steps is %.0f%% %s than the first third; "
             "measure again when the machine is idle",
             100 * (change > 0 ? change : -change), change > 0 ? "slower" : "faster");
    else if (ls_find_autocorrelation(medians, timed->blocks, &by))
        note(row,
             "autocorrelated: the times of steps depend on the times of the steps before "
             "(correlation %.2f), so ci95 is too narrow; measure again when the machine is idle",
             by);
    if (ls_find_modes(sorted, timed->samples, means, &slower))
        note(row,
             "two modes: %.0f%% of the steps take %.4g ms, the other steps %.4g ms; see lockstep "
             "trace for the cause",
             100 * (1 - slower), means[0], means[1]);
}

void ls_row_note(const ls_row_facts *f, json_t *row)
{
    const ls_timed *timed = &f->trial->timed;
    double *memory = calloc(timed->samples + timed->blocks + 1, sizeof *memory);
    if (ls_session_moved(&f->trial->session))
        note(row, "moved: another program changed the cores on which devices run (taskset, a "
                  "control group); measure again with fixed cores");
    /* Steps of several kinds have several modes, and blocks with more of one or the other. */
    if (memory && (f->pace.even ||
                   ls_ps_by_arrival(&f->plan->job.ps))) /* a warning is not worth losing the row */
        note_findings(timed, memory, memory + timed->samples, row);
    if (!ls_timed_is_whole(timed))
        note(row,
             "partial: %llu steps were measured, but the replicas are averaged every %d steps; "
             "give --steps a multiple of that number",
             (unsigned long long)ls_timed_counted(timed), f->plan->job.update.period);
    if (timed->imprecise)
        note(row,
             "imprecise: time ran out before ci95 (the 95%% confidence interval) was as narrow as "
             "asked; raise --max-time, or `budget:` in the plan");
    free(memory);
}
