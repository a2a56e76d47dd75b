/* SPDX-License-Identifier: MIT */
/* Findings in a series of times; see findings.h. */
#include "bench/row/findings.h"

#include <math.h>

enum { FEWEST_BLOCKS = 8, FEWEST_TIMES = 20 };

static double mean_of(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

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
    *change = mean_of(medians + n - n / 3, n / 3) / mean_of(medians, n / 3) - 1;
    return fabs(s) > deviations * deviation && fabs(*change) > least;
}

bool ls_find_modes(const double *sorted, size_t n, double means[2], double *slower)
{
    static const double left = 0.12, least = 0.1, apart = 1.1;
    if (n < FEWEST_TIMES)
        return false;
    const double *x = sorted + n / 100;
    const size_t count = n - 2 * (n / 100), few = (size_t)ceil(least * (double)count);
    const double mean = mean_of(x, count);
    double all = 0, low = 0, best = 0;
    for (size_t i = 0; i < count; i++)
        all += (x[i] - mean) * (x[i] - mean);
    for (size_t i = 1; i + few <= count; i++) {
        low += x[i - 1] - mean; /* minus the sum of the other part */
        const double a = (double)i, b = (double)(count - i), between = low * low * (1 / a + 1 / b);
        if (i < few || between <= best)
            continue;
        best = between;
        means[0] = mean + low / a;
        means[1] = mean - low / b;
        *slower = b / (double)count;
    }
    return best > 0 && all - best < left * all && means[1] > apart * means[0];
}

bool ls_find_autocorrelation(const double *medians, size_t n, double *by)
{
    static const double least = 0.5, deviations = 2.5;
    if (n < FEWEST_BLOCKS)
        return false;
    const double mean = mean_of(medians, n);
    double all = 0, neighbours = 0;
    for (size_t i = 0; i < n; i++) {
        all += (medians[i] - mean) * (medians[i] - mean);
        if (i)
            neighbours += (medians[i] - mean) * (medians[i - 1] - mean);
    }
    *by = all > 0 ? neighbours / all : 0;
    return *by > least && *by > deviations / sqrt((double)n);
}
