/* SPDX-License-Identifier: MIT */
/*
 * Ratio test; see ratio_test.h. The null distribution of the signed-rank sum is exact up to EXACT
 * pairs, and normal beyond. Error probabilities over all cases: 0.5% to report slower wrongly, the
 * same for faster, and 2.5% per side to report same wrongly.
 */
#include "bench/statistics/ratio_test.h"

#include "bench/statistics/statistics.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const char *ls_verdict_name(ls_verdict verdict)
{
    static const char *const names[] = {"cannot tell", "same", "faster", "slower"};
    return names[verdict];
}

/* Bounds of the logarithm of the ratio. */
typedef struct range {
    double low, high;
} range;

/* Slower or faster if `differs` is beyond `margin`; equal if `alike` is closer than `near`. */
static ls_verdict verdict_of(range differs, double margin, range alike, double near)
{
    if (differs.low > margin)
        return LS_VERDICT_SLOWER;
    if (differs.high < -margin)
        return LS_VERDICT_FASTER;
    return alike.low > -near && alike.high < near ? LS_VERDICT_SAME : LS_VERDICT_CANNOT_TELL;
}

ls_verdict ls_verdict_of_pair(ls_interval ratio)
{
    if (!(ratio.low > 0))
        return LS_VERDICT_CANNOT_TELL;
    const range of = {log(ratio.low), log(ratio.high)};
    return verdict_of(of, 0, of, log(1.05));
}

/* ---- Paired --------------------------------------------------------------------------------- */

enum { EXACT = 100 };

static const double error_differs = 0.005, error_same = 0.025;

/* z with P(Z > z) = p for a normal Z, by bisection: a look needs only a few of them. */
static double normal_quantile(double p)
{
    double low = 0, high = 40;
    for (int i = 0; i < 100; i++) {
        const double middle = 0.5 * (low + high);
        *(0.5 * erfc(middle * M_SQRT1_2) > p ? &low : &high) = middle;
    }
    return low;
}

/* The number of pairs that all have the same sign with probability p. */
static size_t fewest_for(double p)
{
    return p > 0 ? (size_t)ceil(-log2(p)) : SIZE_MAX;
}

/* The number of smallest pairwise means that lie below a bound with one-sided error `p`; the bound
 * is the next mean. -1 means n pairs give no bound. `share` [n (n + 1) / 2 + 1] is scratch. */
static long count_left_out(size_t n, double p, double *share)
{
    const size_t most = n * (n + 1) / 2;
    if (n < fewest_for(p))
        return -1;
    if (n > EXACT) {
        const double mean = 0.5 * (double)most;
        const double deviation = sqrt((double)most * (2.0 * (double)n + 1.0) / 12.0);
        return (long)floor(mean - normal_quantile(p) * deviation - 0.5);
    }
    memset(share, 0, (most + 1) * sizeof *share);
    share[0] = 1;
    for (size_t rank = 1, top = 0; rank <= n; rank++) { /* each rank is either in the sum or not */
        top += rank;
        for (size_t sum = top + 1; sum-- > 0;)
            share[sum] = 0.5 * (share[sum] + (sum >= rank ? share[sum - rank] : 0));
    }
    double below = 0;
    long sum = -1;
    while (below + share[sum + 1] <= p)
        below += share[++sum];
    return sum;
}

double ls_ratio_due(const ls_ratio_test *test, size_t n, double share)
{
    double due = 1.0 / 64;
    if (share >= 1)
        return 1;
    while (2 * due <= share)
        due *= 2;
    const double error = error_differs * (due - test->spent) / (double)test->cases;
    return due <= share && n >= fewest_for(error) ? due : 0;
}

/* Bounds of the centre, each with one-sided error p. */
static range bound(const double *means, size_t n, double p, double *space)
{
    const long out = count_left_out(n, p, space);
    const size_t most = n * (n + 1) / 2;
    if (out < 0)
        return (range){-INFINITY, INFINITY};
    return (range){means[out], means[most - 1 - (size_t)out]};
}

/* Standard deviation of x [n], estimated from the median absolute deviation as for a normal;
 * overwrites x. */
static double deviation_of(double *x, size_t n, double centre)
{
    for (size_t i = 0; i < n; i++)
        x[i] = fabs(x[i] - centre);
    return 1.4826 * ls_statistics_median(x, n);
}

/* Student's 95% interval of the mean of x [n < 6]: too few values for an order statistic. */
static range few_bound(const double *x, size_t n, double mean)
{
    static const double student[] = {NAN, 12.706, 4.303, 3.182, 2.776};
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    const double wide = n > 1 ? student[n - 1] * sqrt(squares / (double)(n * (n - 1))) : NAN;
    return (range){mean - wide, mean + wide};
}

/* How many more of n pairs would move the bounds at error `p` off the nearest limit. */
static size_t blocks_more(double away, double p, double deviation, size_t n)
{
    const double wide = normal_quantile(p) * deviation / away, fewest = (double)fewest_for(p);
    const double all = fmax(wide * wide, fewest);
    if (!(away > 0) || !(all < 1e6))
        return 0;
    return all > (double)n + 1 ? (size_t)ceil(all - (double)n) : 1;
}

/* At the last look, what is surely not slower passes: as faster, or else as the centre says. */
static ls_verdict judge(range differs, range same, double centre, double limit, bool last)
{
    const ls_verdict verdict = verdict_of(differs, limit, same, limit);
    if (verdict != LS_VERDICT_CANNOT_TELL)
        return verdict;
    if (last && same.high < limit && (differs.high < 0 || centre > -limit))
        return differs.high < 0 ? LS_VERDICT_FASTER : LS_VERDICT_SAME;
    return LS_VERDICT_CANNOT_TELL;
}

ls_status ls_ratio_look(const ls_ratio_test *test, const double *logs, size_t n, double share,
                        ls_ratio_result *out)
{
    const size_t most = n * (n + 1) / 2;
    const double cases = (double)test->cases, part = fmax(share - test->spent, 0) / cases;
    const double limit = log1p(test->threshold);
    *out = (ls_ratio_result){.ratio = NAN, .ci95 = {NAN, NAN}, .blocks = n};
    if (n == 0)
        return LS_OK;
    ls_auto double *means = NULL;
    LS_TRY(ls_allocate("ratios", &means, 2 * most + 1, sizeof *means));
    double *space = means + most;
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++)
            means[count++] = 0.5 * (logs[i] + logs[j]);
    ls_statistics all;
    ls_statistics_compute(means, most, &all);
    const double centre = all.median;
    const range interval = n > 5 ? bound(means, n, 0.025, space) : few_bound(logs, n, all.mean);
    out->verdict = judge(bound(means, n, error_differs * part, space),
                         bound(means, n, error_same * part, space), centre, limit, share >= 1);
    out->ratio = exp(centre);
    out->ci95[0] = exp(interval.low);
    out->ci95[1] = exp(interval.high);
    if (out->verdict == LS_VERDICT_CANNOT_TELL) { /* half of the error is for the last look */
        const double p = 0.5 * (fabs(centre) > limit ? error_differs : error_same) / cases;
        memcpy(means, logs, n * sizeof *means);
        out->more = blocks_more(fabs(fabs(centre) - limit), p, deviation_of(means, n, centre), n);
    }
    return LS_OK;
}

/* ---- Unpaired ------------------------------------------------------------------------------- */

/* Standard deviation between runs of one program, used if neither side has several runs; see
 * README.md. */
static const double alone = 0.04;

/* An interval that leaves more than this factor open says nothing, and is not given. */
static const double widest = 1.5;

enum { RUNS_MOST = 1000 };

/* How much wider than its estimate the deviation of few runs is taken to be, by Student's t. */
static double widened(size_t n)
{
    return 1.0 + 4.0 / fmax((double)n - 2.0, 1.0);
}

/* How many more runs of each side would make the error at most `wanted`, if runs keep their
 * deviations (not widened); 0 means more than are worth a try. */
static size_t runs_more(double run_a, double run_b, double drift, double wanted, size_t n)
{
    for (size_t all = n + 1; all <= RUNS_MOST; all++) {
        const double each = 1.2533 * widened(all) * hypot(run_a, run_b) / sqrt((double)all);
        if (hypot(each, drift) <= wanted)
            return all - n;
    }
    return 0;
}

/* Median of logs [n <= LS_RATIO_BLOCKS_MOST]. *run is one log's standard deviation, from the median
 * absolute deviation, widened for few logs by Student's t; 0 for a single one. */
static double centre_of(const ls_ratio_side *side, double *run)
{
    double sorted[LS_RATIO_BLOCKS_MOST];
    const size_t n = side->count < LS_RATIO_BLOCKS_MOST ? side->count : LS_RATIO_BLOCKS_MOST;
    memcpy(sorted, side->logs + (side->count - n), n * sizeof *sorted);
    const double centre = ls_statistics_median(sorted, n);
    *run = deviation_of(sorted, n, centre) * widened(n);
    return centre;
}

/* Squared error of a side's median: a median has 1.2533 times a mean's error. A run's error is not
 * taken to be smaller than its own interval. */
static double square_of(const ls_ratio_side *side, double run)
{
    const double error = (side->count > 1 ? 1.2533 : 1) * run, own = side->half / 1.96;
    return fmax(error * error, own * own) / (double)side->count;
}

void ls_ratio_unpaired(const ls_ratio_test *test, const ls_ratio_side *base,
                       const ls_ratio_side *fresh, double drift, ls_ratio_result *out)
{
    double run_a, run_b;
    const size_t fewer = base->count < fresh->count ? base->count : fresh->count;
    *out = (ls_ratio_result){.ratio = NAN, .ci95 = {NAN, NAN}, .blocks = fewer};
    if (fewer == 0)
        return;
    const double before = centre_of(base, &run_a), centre = centre_of(fresh, &run_b) - before;
    out->ratio = exp(centre);
    if ((base->count == 1 && base->half <= 0) || (fresh->count == 1 && fresh->half <= 0))
        return;
    if (base->count == 1)
        run_a = fresh->count > 1 ? run_b : alone;
    if (fresh->count == 1)
        run_b = base->count > 1 ? run_a : alone;
    const double a = square_of(base, run_a), b = square_of(fresh, run_b);
    const double error = sqrt(a + b + drift * drift), limit = log1p(test->threshold);
    const double differs = error * normal_quantile(error_differs / (double)test->cases);
    const double same = error * normal_quantile(error_same / (double)test->cases);
    const double half_width = error * normal_quantile(0.025);
    out->verdict = judge((range){centre - differs, centre + differs},
                         (range){centre - same, centre + same}, centre, limit, true);
    if (half_width < log(widest)) {
        out->ci95[0] = exp(centre - half_width);
        out->ci95[1] = exp(centre + half_width);
    }
    if (out->verdict == LS_VERDICT_CANNOT_TELL) { /* more runs do not reduce the drift */
        const double wide = (fabs(centre) > limit ? differs : same) / error;
        out->more = runs_more(run_a / (base->count > 1 ? widened(base->count) : 1),
                              run_b / (fresh->count > 1 ? widened(fresh->count) : 1), drift,
                              fabs(fabs(centre) - limit) / wide, fewer);
    }
}
