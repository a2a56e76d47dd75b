/* SPDX-License-Identifier: MIT */
/*
 * Statistics; see statistics.h. The interval of the median is the percentile bootstrap with
 * infinitely many resamples: nothing is drawn, the distribution of the resampled median is known
 * (Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7, 1979;
 * Maritz and Jarrett, JASA 73, 1978) and is inverted at 0.025 and 0.975.
 *   A resample takes n of the x with replacement, so the number of its values <= x(k), the k-th
 *   smallest, is binomial (n, k/n), and its r-th smallest is <= x(k) with probability
 *   I_{k/n}(r, n - r + 1), the regularised incomplete beta function.
 *   Odd n: the median is one order statistic. Even n = 2m: it is the mean of the m-th and the
 *   next, and exactly m values <= x(k), largest x(i), the others' smallest x(j), has probability
 *   C(2m, m) ((i/n)^m - ((i-1)/n)^m) (((n-j+1)/n)^m - ((n-j)/n)^m).
 * It leaves out that the times of neighbouring steps may be correlated.
 */
#include "bench/train/statistics.h"

#include <math.h>
#include <stdlib.h>

enum { FRACTION_TERMS = 20000 };

static const double term_floor = 1e-18; /* probability that no longer counts */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), from the
 * front with Lentz's method; converges quickly for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
    const double tiny = 1e-300;
    double d = 1.0 - (a + b) * x / (a + 1.0);
    d = 1.0 / (fabs(d) < tiny ? tiny : d);
    double c = 1.0, value = d;
    for (int term = 1; term <= FRACTION_TERMS; term++) {
        double i = term;
        const double numerators[2] = {i * (b - i) * x / ((a + 2.0 * i - 1.0) * (a + 2.0 * i)),
                                      -(a + i) * (a + b + i) * x /
                                          ((a + 2.0 * i) * (a + 2.0 * i + 1.0))};
        double change = 1.0;
        for (int half = 0; half < 2; half++) {
            d = 1.0 + numerators[half] * d;
            d = 1.0 / (fabs(d) < tiny ? tiny : d);
            c = 1.0 + numerators[half] / c;
            c = fabs(c) < tiny ? tiny : c;
            change = c * d;
            value *= change;
        }
        if (fabs(change - 1.0) < 1e-15)
            break;
    }
    return value;
}

/* I_x(a, b), the regularised incomplete beta function. */
static double incomplete_beta(double x, double a, double b)
{
    if (x <= 0.0 || x >= 1.0)
        return x <= 0.0 ? 0.0 : 1.0;
    double front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1.0) / (a + b + 2.0))
        return front * beta_fraction(x, a, b) / a;
    return 1.0 - front * beta_fraction(1.0 - x, b, a) / b;
}

/* How many of x [n] are <= t. */
static size_t rank_of(const double *x, size_t n, double t)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x[middle] <= t)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Even n = 2m, x(k) <= t < x(k+1): the probability that exactly m values of a resample are <= t
 * and the median is, too. Both factors fall off geometrically, so a few dozen terms are all. */
static double straddling_mass(const double *x, size_t n, size_t k, double t)
{
    double m = (double)(n / 2), size = (double)n, above = (double)(n - k);
    double log_ways = log_gamma(2.0 * m + 1.0) - 2.0 * log_gamma(m + 1.0);
    double mass = 0.0;
    size_t j = k;        /* x(k+1) to x(j) are low enough to go with x(i) */
    double beyond = 1.0; /* probability, given the others are above t, that all are beyond x(j) */
    for (size_t i = k; i >= 1; i--) {
        while (j < n && beyond > term_floor && 0.5 * (x[i - 1] + x[j]) <= t) {
            j++;
            beyond = pow((double)(n - j) / above, m);
        }
        double place = (double)i;
        double all_below = exp(log_ways + m * log(place / size) + m * log(above / size));
        double touches = i == 1 ? 1.0 : -expm1(m * log1p(-1.0 / place));
        mass += all_below * touches * (1.0 - beyond);
        if (all_below < term_floor)
            break;
    }
    return mass;
}

/* Probability that the median of a resample of x [n], sorted, is <= t. */
static double median_distribution(const double *x, size_t n, double t)
{
    size_t k = rank_of(x, n, t);
    if (k == 0 || k == n)
        return k == 0 ? 0.0 : 1.0;
    double share = (double)k / (double)n, m = (double)(n / 2);
    if (n % 2)
        return incomplete_beta(share, m + 1.0, m + 1.0);
    return incomplete_beta(share, m + 1.0, m) + straddling_mass(x, n, k, t);
}

/* The smallest t whose distribution reaches p: bisected down to neighbouring numbers. */
static double median_quantile(const double *x, size_t n, double p)
{
    double low = x[0], high = x[n - 1];
    if (median_distribution(x, n, low) >= p)
        return low;
    for (;;) {
        double middle = low + 0.5 * (high - low);
        if (middle <= low || middle >= high)
            return high;
        if (median_distribution(x, n, middle) >= p)
            high = middle;
        else
            low = middle;
    }
}

double ls_statistics_quantile(const double *sorted, size_t n, double p)
{
    double place = (double)(n - 1) * p;
    size_t below = (size_t)place;
    if (below + 1 >= n)
        return sorted[n - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

void ls_statistics_compute(double *samples, size_t n, ls_statistics *out)
{
    if (n == 0) {
        *out = (ls_statistics){NAN, NAN, NAN, NAN, NAN, {NAN, NAN}, 0};
        return;
    }
    qsort(samples, n, sizeof *samples, compare_doubles);
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += samples[i];
    *out = (ls_statistics){
        .mean = sum / (double)n,
        .median = ls_statistics_quantile(samples, n, 0.5),
        .p10 = ls_statistics_quantile(samples, n, 0.1),
        .p90 = ls_statistics_quantile(samples, n, 0.9),
        .p99 = ls_statistics_quantile(samples, n, 0.99),
        .ci95 = {median_quantile(samples, n, 0.025), median_quantile(samples, n, 0.975)},
        .n = n,
    };
}

size_t ls_statistics_group_size(double tick, double mean)
{
    static const double share = 0.005;
    return tick > share * mean && mean > 0 ? (size_t)ceil(tick / (share * mean)) : 1;
}

size_t ls_statistics_group(const double *times, size_t n, size_t together, double *samples)
{
    size_t count = 0;
    for (size_t first = 0; first < n; count++) {
        const size_t size = n - first < 2 * together ? n - first : together;
        double sum = 0;
        for (size_t i = 0; i < size; i++)
            sum += times[first + i];
        samples[count] = sum / (double)size;
        first += size;
    }
    return count;
}

const char *ls_statistics_meaning(void)
{
    return "95% percentile bootstrap interval of the median over the timed steps, exact "
           "(infinitely many resamples); on GPUs, whose clock may advance in microseconds, over "
           "means of so many steps as take 0.2 ms, which n counts, too";
}
