/* SPDX-License-Identifier: MIT */
/*
 * Statistics; see statistics.h. The interval of the median is a percentile bootstrap over blocks
 * (Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7, 1979; whole
 * blocks: Kuensch, Annals of Statistics 17, 1989). Each resample draws as many blocks as there are,
 * with replacement, and takes the median of all their steps. So the interval accounts for
 * correlation within a block. The seed is fixed. Correlation between blocks is left out, and the
 * interval is too narrow for few blocks. The interval of a rate has the same draws.
 */
#include "bench/statistics/statistics.h"

#include "common/base/grow.h"
#include "common/base/random/philox.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 2000 };

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void ls_statistics_sort(double *values, size_t n)
{
    if (n)
        qsort(values, n, sizeof *values, compare_doubles);
}

ls_interval ls_statistics_ratio(ls_interval a, ls_interval b)
{
    const double ratio = a.value / b.value;
    const double down = hypot(log(a.value / a.low), log(b.high / b.value));
    const double up = hypot(log(a.high / a.value), log(b.value / b.low));
    return (ls_interval){ratio, ratio * exp(-down), ratio * exp(up)};
}

double ls_statistics_quantile(const double *sorted, size_t n, double p)
{
    double position = (double)(n - 1) * p;
    size_t below = (size_t)position;
    if (below + 1 >= n)
        return sorted[n - 1];
    return sorted[below] + (position - (double)below) * (sorted[below + 1] - sorted[below]);
}

double ls_statistics_mean(const double *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return sum / (double)n;
}

double ls_statistics_median(double *values, size_t n)
{
    ls_statistics_sort(values, n);
    return n ? ls_statistics_quantile(values, n, 0.5) : NAN;
}

void ls_statistics_compute(double *samples, size_t n, ls_statistics *out)
{
    if (n == 0) {
        *out = (ls_statistics){NAN, NAN, NAN, NAN, NAN, 0};
        return;
    }
    ls_statistics_sort(samples, n);
    *out = (ls_statistics){
        .mean = ls_statistics_mean(samples, n),
        .median = ls_statistics_quantile(samples, n, 0.5),
        .p10 = ls_statistics_quantile(samples, n, 0.1),
        .p90 = ls_statistics_quantile(samples, n, 0.9),
        .p99 = ls_statistics_quantile(samples, n, 0.99),
        .n = n,
    };
}

/* A step's time and the index of its block. */
typedef struct member {
    double time;
    size_t block;
} member;

/* Median of the steps [n], sorted by time, weighted by how often a step's block was drawn; the
 * weights sum to `all`. */
static double weighted_median(const member *step, const size_t *times, size_t all)
{
    size_t below = 0;
    while (2 * (below + times[step->block]) < all)
        below += times[step++->block];
    const double time = step->time;
    if (2 * (below + times[step->block]) > all)
        return time;
    while (!times[(++step)->block])
        continue;
    return 0.5 * (time + step->time);
}

/* The block that is drawn as number `b` of a resample. */
static size_t draw(ls_random random, size_t resample, size_t b, size_t blocks)
{
    return (uint64_t)ls_random_bits(random, resample * blocks + b) * blocks >> 32;
}

static void resample(const member *steps, const size_t *ends, size_t blocks, size_t *times,
                     double *medians)
{
    const ls_random random = ls_random_stream(1, "bootstrap");
    for (size_t r = 0; r < RESAMPLES; r++) {
        size_t all = 0;
        for (size_t b = 0; b < blocks; b++)
            times[b] = 0;
        for (size_t b = 0; b < blocks; b++) {
            const size_t drawn = draw(random, r, b, blocks);
            times[drawn]++;
            all += ends[drawn] - (drawn ? ends[drawn - 1] : 0);
        }
        medians[r] = weighted_median(steps, times, all);
    }
    ls_statistics_sort(medians, RESAMPLES);
}

ls_status ls_statistics_interval(const double *samples, const size_t *ends, size_t blocks,
                                 double ci95[2])
{
    const size_t n = blocks ? ends[blocks - 1] : 0;
    ci95[0] = ci95[1] = NAN;
    if (n < 2)
        return LS_OK;
    ls_auto member *x = NULL;
    ls_auto size_t *times = NULL;
    ls_auto double *medians = NULL;
    LS_TRY(ls_allocate("statistics", &x, n + 1, sizeof *x));
    LS_TRY(ls_allocate("statistics", &times, blocks, sizeof *times));
    LS_TRY(ls_allocate("statistics", &medians, RESAMPLES + n, sizeof *medians));
    for (size_t i = 0, b = 0; i < n; i++) {
        while (i >= ends[b])
            b++;
        x[i] = (member){samples[i], b};
        medians[i] = samples[i]; /* all samples are one block */
    }
    if (blocks > 1) {
        qsort(x, n, sizeof *x, compare_doubles); /* sorts by time, the first field */
        resample(x, ends, blocks, times, medians);
    } else {
        ls_statistics_sort(medians, n);
    }
    for (int end = 0; end < 2; end++)
        ci95[end] =
            ls_statistics_quantile(medians, blocks > 1 ? RESAMPLES : n, end ? 0.975 : 0.025);
    return LS_OK;
}

ls_status ls_statistics_rate_interval(const ls_worked *work, size_t blocks, double ci95[2])
{
    const ls_random random = ls_random_stream(1, "bootstrap");
    ls_auto double *rates = NULL;
    ci95[0] = ci95[1] = NAN;
    if (blocks < 2)
        return LS_OK;
    LS_TRY(ls_allocate("statistics", &rates, RESAMPLES, sizeof *rates));
    for (size_t r = 0; r < RESAMPLES; r++) {
        ls_worked all = {0};
        for (size_t b = 0; b < blocks; b++) {
            const size_t drawn = draw(random, r, b, blocks);
            const ls_worked before = drawn ? work[drawn - 1] : (ls_worked){0};
            all.done += work[drawn].done - before.done;
            all.ms += work[drawn].ms - before.ms;
        }
        rates[r] = all.done / (all.ms * 1e-3);
    }
    ls_statistics_sort(rates, RESAMPLES);
    ci95[0] = ls_statistics_quantile(rates, RESAMPLES, 0.025);
    ci95[1] = ls_statistics_quantile(rates, RESAMPLES, 0.975);
    return LS_OK;
}

size_t ls_statistics_group_size(double tick, double mean)
{
    static const double share = 0.005;
    return tick > share * mean && mean > 0 ? (size_t)ceil(tick / (share * mean)) : 1;
}

size_t ls_statistics_group(const double *times, size_t n, size_t per_group, double *samples)
{
    size_t count = 0;
    for (size_t first = 0; first < n; count++) {
        const size_t size = n - first < 2 * per_group ? n - first : per_group;
        double sum = 0;
        for (size_t i = 0; i < size; i++)
            sum += times[first + i];
        samples[count] = sum / (double)size;
        first += size;
    }
    return count;
}

/* ---- Level changes --------------------------------------------------------------------------- */

enum { FEWEST = 4 };

/* Overwrites `scratch` [n]. */
static double noise(const double *values, size_t n, double *scratch)
{
    for (size_t i = 0; i + 1 < n; i++)
        scratch[i] = fabs(values[i + 1] - values[i]);
    const double deviation = ls_statistics_median(scratch, n - 1) / (0.6745 * sqrt(2.0));
    for (size_t i = 0; i < n; i++)
        scratch[i] = fabs(values[i]);
    return fmax(deviation * (1.0 + 4.0 / (double)(n - 1)),
                0.002 * ls_statistics_median(scratch, n));
}

/* For the first j values, j from 0 to n: */
typedef struct prefix {
    double sum, squares; /* of the values; of their squares */
    double cost;         /* of the best segmentation */
    size_t last;         /* start of its last segment */
} prefix;

/* The first value is subtracted from all, so that the sums of squares do not cancel. */
static double deviation(const prefix *at, size_t from, size_t to)
{
    const double sum = at[to].sum - at[from].sum;
    return at[to].squares - at[from].squares - sum * sum / (double)(to - from);
}

ls_status ls_level_changes(const double *values, size_t n, bool *changes)
{
    for (size_t i = 0; i < n; i++)
        changes[i] = false;
    if (n < FEWEST)
        return LS_OK;
    prefix *at = calloc(n + 1, sizeof *at);
    double *scratch = calloc(n, sizeof *scratch);
    if (at && scratch) {
        const double s = noise(values, n, scratch);
        const double piece = 4.0 * s * s * log((double)n);
        for (size_t j = 1; j <= n; j++) {
            const double value = values[j - 1] - values[0];
            at[j] = (prefix){at[j - 1].sum + value, at[j - 1].squares + value * value, INFINITY, 0};
            for (size_t i = 0; i < j; i++) {
                const double cost = at[i].cost + deviation(at, i, j) + piece;
                if (cost < at[j].cost) {
                    at[j].cost = cost;
                    at[j].last = i;
                }
            }
        }
        for (size_t j = at[n].last; j > 0; j = at[j].last)
            changes[j] = true;
    }
    const bool ok = at && scratch;
    free(at);
    free(scratch);
    return ok ? LS_OK : ls_fail_memory("level changes", n * sizeof *at);
}

enum { STEADY_FEWEST = 8, STEADY_MOST = 128 }; /* the search is quadratic in this number */

static const double near = 0.05;

ls_status ls_steady_from(const double *times, size_t n, size_t *out)
{
    bool changes[STEADY_MOST + 1] = {false};
    size_t first = 0;
    const size_t looked = n < STEADY_MOST ? n : STEADY_MOST, least = n / 4;
    *out = 0;
    if (n < STEADY_FEWEST)
        return LS_OK;
    double *sorted = calloc(n - least, sizeof *sorted);
    if (!sorted)
        return ls_fail_memory("statistics", (n - least) * sizeof *sorted);
    memcpy(sorted, times + least, (n - least) * sizeof *sorted);
    const double rest = ls_statistics_median(sorted, n - least);
    free(sorted);
    LS_TRY(ls_level_changes(times, looked, changes));
    for (size_t end = 1; end < looked && end <= least; end++) {
        if (!changes[end])
            continue;
        if (fabs(ls_statistics_mean(times + first, end - first) - rest) <= near * rest)
            break;
        first = end;
    }
    *out = first;
    return LS_OK;
}

const char *ls_statistics_meaning(void)
{
    return "95% percentile bootstrap interval of the median step over blocks of steps (2,000 draws "
           "of a fixed seed); of one block the middle 95% of its steps; of one step there is none. "
           "It "
           "speaks of the time that the run covered. On GPUs, whose clock may advance in "
           "microseconds, a step is the mean "
           "of so many as take 0.2 ms, which n counts, too";
}
