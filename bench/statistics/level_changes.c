/* SPDX-License-Identifier: MIT */
/* Level changes; see level_changes.h. The first value is subtracted from all, so that the sums of
 * squares do not cancel. */
#include "bench/statistics/level_changes.h"

#include "bench/statistics/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- Steady ---------------------------------------------------------------------------------- */

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
