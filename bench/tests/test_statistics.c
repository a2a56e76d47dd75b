/* SPDX-License-Identifier: MIT */
/*
 * Statistics against hand-computed values, and the interval of the median against a bootstrap by
 * brute force. The bounds of the brute force are those of its own quantiles: the share of its
 * medians at or below the interval's ends must be 0.025 and 0.975 within a sampling error.
 */
#include "bench/train/statistics.h"

#include "common/base/clock.h"
#include "common/base/philox.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* Four standard deviations of a share of 0.025 over 40,000 resamples: 4 sqrt(.025 .975 / 4e4). */
static const double share_error = 0.0032;
static const double figure_error = 1e-12; /* relative */

enum { RESAMPLES = 40000, LARGEST = 401 };

static void assert_close(double got, double expected)
{
    if (!(fabs(got - expected) <= figure_error * fabs(expected)))
        fail_msg("%.17g instead of %.17g", got, expected);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Skewed, as times are; `ties` of them rounded so that values come more than once. */
static void fill(double *x, size_t n, uint64_t seed, bool ties)
{
    ls_random random = ls_random_stream(seed, "test/statistics");
    for (size_t i = 0; i < n; i++) {
        x[i] = 1.0 - 0.3 * log(1.0 - (double)ls_random_uniform(random, i));
        if (ties)
            x[i] = round(x[i] * 10.0) / 10.0;
    }
}

static void known_figures(void **state)
{
    (void)state;
    double x[] = {5.0, 1.0, 4.0, 2.0};
    ls_statistics s;
    ls_statistics_compute(x, 4, &s);
    assert_int_equal(s.n, 4);
    assert_close(s.mean, 3.0);
    assert_close(s.median, 3.0);
    assert_close(s.p10, 1.3);
    assert_close(s.p90, 4.7);
    assert_close(s.p99, 4.97);
    assert_true(x[0] == 1.0 && x[3] == 5.0);

    double one[] = {7.0};
    ls_statistics_compute(one, 1, &s);
    assert_true(s.mean == 7.0 && s.median == 7.0 && s.p99 == 7.0);
    assert_true(s.ci95[0] == 7.0 && s.ci95[1] == 7.0);

    ls_statistics_compute(NULL, 0, &s);
    assert_int_equal(s.n, 0);
    assert_true(isnan(s.median) && isnan(s.ci95[0]));
}

/* n = 2, x = 0 and 1: the median is 0, 1/2, 1 with probability 1/4, 1/2, 1/4.
 * n = 3, x = 0, 1, 2: it is 0 with 7/27 and 2 with 7/27. Both ends are the extremes. */
static void smallest_samples(void **state)
{
    (void)state;
    double two[] = {0.0, 1.0}, three[] = {2.0, 0.0, 1.0};
    ls_statistics s;
    ls_statistics_compute(two, 2, &s);
    assert_true(s.ci95[0] == 0.0 && s.ci95[1] == 1.0);
    ls_statistics_compute(three, 3, &s);
    assert_true(s.ci95[0] == 0.0 && s.ci95[1] == 2.0);
}

/* n = 9: the probability that a binomial (9, k/9) is at least 5 is 0.0014 for k = 1 and 0.0304
 * for k = 2, 0.9696 for 7 and 0.9986 for 8: the ends are the second smallest and largest. */
static void nine_samples(void **state)
{
    (void)state;
    double x[] = {9, 8, 7, 6, 5, 4, 3, 2, 1};
    ls_statistics s;
    ls_statistics_compute(x, 9, &s);
    assert_true(s.ci95[0] == 2.0 && s.ci95[1] == 8.0);
}

static void compare_with_brute_force(size_t n, bool ties)
{
    static double x[LARGEST], draw[LARGEST], medians[RESAMPLES];
    fill(x, n, n, ties);
    ls_statistics s;
    ls_statistics_compute(x, n, &s);
    ls_random random = ls_random_stream(2, "test/bootstrap");
    for (size_t r = 0; r < RESAMPLES; r++) {
        for (size_t i = 0; i < n; i++)
            draw[i] = x[(uint64_t)ls_random_bits(random, r * n + i) * n >> 32];
        qsort(draw, n, sizeof *draw, compare_doubles);
        medians[r] = 0.5 * (draw[(n - 1) / 2] + draw[n / 2]);
    }
    for (int end = 0; end < 2; end++) {
        double p = end ? 0.975 : 0.025;
        size_t below = 0, at_most = 0;
        for (size_t r = 0; r < RESAMPLES; r++) {
            below += medians[r] < s.ci95[end];
            at_most += medians[r] <= s.ci95[end];
        }
        /* The end is the smallest value whose distribution reaches p. */
        if ((double)at_most / RESAMPLES < p - share_error ||
            (double)below / RESAMPLES > p + share_error)
            fail_msg("n = %zu, p = %g: share %g at or below, %g below %.17g", n, p,
                     (double)at_most / RESAMPLES, (double)below / RESAMPLES, s.ci95[end]);
    }
}

static void interval_is_the_bootstrap(void **state)
{
    (void)state;
    const size_t sizes[] = {2, 3, 4, 5, 6, 7, 8, 10, 11, 20, 33, 50, 100, 101};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        compare_with_brute_force(sizes[i], false);
        compare_with_brute_force(sizes[i], true);
    }
}

/* A large sample: the ranks of the ends are n/2 -+ 1.96 sqrt(n)/2, the normal limit. */
static void large_samples(void **state)
{
    (void)state;
    for (size_t n = 99999; n <= 100000; n++) {
        double *x = malloc(n * sizeof *x);
        assert_non_null(x);
        for (size_t i = 0; i < n; i++)
            x[i] = (double)((i * 7919) % n);
        ls_statistics s;
        uint64_t start = ls_clock_ns();
        ls_statistics_compute(x, n, &s);
        double ms = (double)(ls_clock_ns() - start) * 1e-6;
        double half = 1.959964 * sqrt((double)n) / 2.0;
        assert_true(fabs(s.ci95[0] - (s.median - half)) < 1.5);
        assert_true(fabs(s.ci95[1] - (s.median + half)) < 1.5);
        print_message("n = %zu: %.1f ms\n", n, ms);
        free(x);
    }
}

/* A clock that ticks in whole microseconds, and steps of 37.3: one by one they are 37 or 38. */
static void coarse_clock(void **state)
{
    (void)state;
    enum { STEPS = 1003 };
    const double step = 37.3e-3, tick = 1e-3;
    double times[STEPS], samples[STEPS], one[STEPS];
    for (int i = 0; i < STEPS; i++)
        times[i] = (floor((i + 1) * step / tick) - floor(i * step / tick)) * tick;
    ls_statistics s;
    size_t n = ls_statistics_group(times, STEPS, 1, one);
    assert_int_equal(n, STEPS);
    assert_memory_equal(one, times, sizeof times);
    ls_statistics_compute(one, n, &s);
    assert_true(fabs(s.median - step) > 0.007 * step);
    const size_t together = ls_statistics_group_size(tick, step);
    assert_int_equal(together, 6);
    n = ls_statistics_group(times, STEPS, together, samples);
    assert_int_equal(n, STEPS / 6); /* the last of 7 */
    assert_close(samples[n - 1] * 7, times[996] + times[997] + times[998] + times[999] +
                                         times[1000] + times[1001] + times[1002]);
    ls_statistics_compute(samples, n, &s);
    assert_true(fabs(s.median - step) < 0.005 * step && fabs(s.p90 - step) < 0.005 * step);
    assert_int_equal(ls_statistics_group_size(1e-6, 3e-3), 1); /* nanoseconds */
    assert_int_equal(ls_statistics_group(times, 3, 200, samples), 1);
    assert_int_equal(ls_statistics_group(times, 0, 200, samples), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_figures), cmocka_unit_test(smallest_samples),
        cmocka_unit_test(nine_samples),  cmocka_unit_test(interval_is_the_bootstrap),
        cmocka_unit_test(large_samples), cmocka_unit_test(coarse_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
