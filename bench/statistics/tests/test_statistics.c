/* SPDX-License-Identifier: MIT */
/*
 * Statistics against values computed by hand; the interval of the median: known answers, and how
 * often it contains the truth in simulated runs.
 */
#include "bench/statistics/statistics.h"
#include "bench/statistics/ratio_test.h"

#include "common/base/random/philox.h"
#include "common/base/tests/must.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The share of simulated runs whose interval contains the truth: 95%, less for 20 blocks, within
 * four standard deviations of 500 runs. Resampling single steps would reach a third. */
static const double least_coverage = 0.88, most_coverage = 0.99;
static const double figure_error = 1e-12; /* relative */

static void assert_close(double got, double expected)
{
    if (!(fabs(got - expected) <= figure_error * fabs(expected)))
        fail_msg("%.17g instead of %.17g", got, expected);
}

static void known_verdicts(void **state)
{
    (void)state;
    static const struct {
        ls_interval ratio;
        ls_verdict verdict;
    } pairs[] = {{{1.1, 1.01, 1.2}, LS_VERDICT_SLOWER},  {{0.9, 0.8, 0.99}, LS_VERDICT_FASTER},
                 {{1, 0.96, 1.04}, LS_VERDICT_SAME},     {{1, 0.96, 1.06}, LS_VERDICT_CANNOT_TELL},
                 {{1, 0.94, 1}, LS_VERDICT_CANNOT_TELL}, {{2, 0, 0}, LS_VERDICT_CANNOT_TELL},
                 {{1.01, 1, 1.02}, LS_VERDICT_SAME}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_int_equal(ls_verdict_of_pair(pairs[i].ratio), pairs[i].verdict);
}

/* Deviations of 0.03 and 0.04 in logarithms combine to 0.05. */
static void known_ratio(void **state)
{
    (void)state;
    const ls_interval r = ls_statistics_ratio((ls_interval){4, 4 * exp(-0.03), 4 * exp(0.03)},
                                              (ls_interval){2, 2 * exp(-0.04), 2 * exp(0.04)});
    assert_close(r.value, 2);
    assert_close(r.low, 2 * exp(-0.05));
    assert_close(r.high, 2 * exp(0.05));
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

    ls_statistics_compute(NULL, 0, &s);
    assert_int_equal(s.n, 0);
    assert_true(isnan(s.median));
}

static void known_medians(void **state)
{
    (void)state;
    double odd[] = {9, 1, 4}, even[] = {9, 1, 4, 2};
    assert_true(isnan(ls_statistics_median(NULL, 0)));
    assert_close(ls_statistics_median(odd, 3), 4);
    assert_close(ls_statistics_median(even, 4), 3);
    for (size_t i = 1; i < 4; i++)
        assert_true(even[i - 1] < even[i]);
}

static void assert_interval(const double *x, const size_t *ends, size_t blocks, double low,
                            double high)
{
    double ci95[2], again[2];
    must(ls_statistics_interval(x, ends, blocks, ci95));
    must(ls_statistics_interval(x, ends, blocks, again));
    assert_memory_equal(ci95, again, sizeof ci95);
    assert_close(ci95[0], low);
    assert_close(ci95[1], high);
}

/* Two blocks: each fills a resample with probability 1/4, so its median is an end. Nine blocks of
 * one step: the median is 1 with 0.0014, at most 2 with 0.030: the 2nd smallest and largest. */
static void known_intervals(void **state)
{
    (void)state;
    const double two[] = {3, 1, 2, 12, 11, 10, 13}, nine[] = {9, 1, 8, 2, 7, 3, 6, 4, 5};
    const double same[] = {4, 4, 4, 4};
    double none[2], many[2000];
    for (int i = 0; i < 2000; i++)
        many[i] = (i + 700) % 1000 + 1000 * (i / 1000);
    assert_interval(many, (const size_t[]){1000, 2000}, 2, 499.5, 1499.5);
    assert_interval(two, (const size_t[]){3, 7}, 2, 2.0, 11.5);
    assert_interval(nine, (const size_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9}, 9, 2.0, 8.0);
    assert_interval(same, (const size_t[]){1, 4}, 2, 4.0, 4.0);
    assert_interval(nine, (const size_t[]){9}, 1, 1.2, 8.8); /* the middle 95% of its steps */
    must(ls_statistics_interval(NULL, NULL, 0, none));
    assert_true(isnan(none[0]) && isnan(none[1]));
    none[0] = none[1] = 0;
    must(ls_statistics_interval(nine, (const size_t[]){1}, 1, none));
    assert_true(isnan(none[0]) && isnan(none[1])); /* one sample says nothing of another */
}

/* 10 and 30 units in 1 s each: both blocks, one of them twice (a quarter each). A short block
 * counts by its time. */
static void known_rates(void **state)
{
    (void)state;
    const ls_worked two[] = {{10, 1000}, {40, 2000}}, uneven[] = {{1, 10}, {1001, 2010}};
    double ci95[2];
    must(ls_statistics_rate_interval(two, 2, ci95));
    assert_close(ci95[0], 10);
    assert_close(ci95[1], 30);
    must(ls_statistics_rate_interval(uneven, 2, ci95));
    assert_close(ci95[0], 100);
    assert_close(ci95[1], 500);
    must(ls_statistics_rate_interval(two, 1, ci95));
    assert_true(isnan(ci95[0]) && isnan(ci95[1]));
}

static double normal(ls_random random, uint64_t i)
{
    double sum = -6;
    for (uint64_t k = 0; k < 12; k++)
        sum += (double)ls_random_uniform(random, 12 * i + k);
    return sum;
}

/* Runs of blocks with an offset each, and autocorrelation 0.8 between steps; the truth is 100. */
static void blocks_hold_the_truth(void **state)
{
    (void)state;
    enum { RUNS = 500, BLOCKS = LS_STATISTICS_BLOCKS, STEPS = 10 };
    double x[BLOCKS * STEPS], ci95[2];
    size_t ends[BLOCKS], held = 0;
    for (uint64_t run = 0; run < RUNS; run++) {
        const ls_random random = ls_random_stream(run, "test/blocks");
        uint64_t drawn = 0;
        for (size_t b = 0, i = 0; b < BLOCKS; b++) {
            const double level = 100 + 2 * normal(random, drawn++);
            double carried = 0;
            for (size_t k = 0; k < STEPS; k++) {
                carried = 0.8 * carried + 0.6 * normal(random, drawn++);
                x[i++] = level + carried;
            }
            ends[b] = i;
        }
        must(ls_statistics_interval(x, ends, BLOCKS, ci95));
        held += ci95[0] <= 100 && 100 <= ci95[1];
    }
    const double share = (double)held / RUNS;
    print_message("%.1f%% of the intervals hold the truth\n", 100 * share);
    assert_true(share >= least_coverage && share <= most_coverage);
}

/* A clock with 1 us resolution, and steps of 37.3 us: single readings are 37 or 38. */
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
    const size_t per_group = ls_statistics_group_size(tick, step);
    assert_int_equal(per_group, 6);
    n = ls_statistics_group(times, STEPS, per_group, samples);
    assert_int_equal(n, STEPS / 6); /* without the last of 7 */
    assert_close(samples[n - 1] * 7, times[996] + times[997] + times[998] + times[999] +
                                         times[1000] + times[1001] + times[1002]);
    ls_statistics_compute(samples, n, &s);
    assert_true(fabs(s.median - step) < 0.005 * step && fabs(s.p90 - step) < 0.005 * step);
    assert_int_equal(ls_statistics_group_size(1e-6, 3e-3), 1); /* a clock of nanoseconds */
    assert_int_equal(ls_statistics_group(times, 3, 200, samples), 1);
    assert_int_equal(ls_statistics_group(times, 0, 200, samples), 0);
}

/* Only initial steps that differ from the rest are discarded: not a single slow step, not a level
 * that stays, and none of a few steps. */
static void not_yet_steady(void **state)
{
    (void)state;
    enum { STEPS = 60 };
    double x[STEPS];
    size_t out;
    const ls_random random = ls_random_stream(3, "test/steady");
    for (size_t i = 0; i < STEPS; i++)
        x[i] = 100 + normal(random, i);
    must(ls_steady_from(x, STEPS, &out));
    assert_int_equal(out, 0);
    x[6] = 300; /* an outlier of the scheduler */
    must(ls_steady_from(x, STEPS, &out));
    assert_int_equal(out, 0);
    x[0] = 400;
    x[1] = x[2] = 130;
    must(ls_steady_from(x, STEPS, &out));
    assert_int_equal(out, 3);
    for (size_t i = 0; i < STEPS; i++)
        x[i] = (i < 10 ? 90 : 100) + normal(random, i) / 4; /* faster at first */
    must(ls_steady_from(x, STEPS, &out));
    assert_int_equal(out, 10);
    for (size_t i = 0; i < STEPS; i++)
        x[i] = (i < 30 ? 120 : 100) + normal(random, i) / 4;
    must(ls_steady_from(x, STEPS, &out));
    assert_int_equal(out, 0);
    x[0] = 400;
    must(ls_steady_from(x, 7, &out));
    assert_int_equal(out, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_figures), cmocka_unit_test(known_verdicts),
        cmocka_unit_test(known_ratio),   cmocka_unit_test(known_intervals),
        cmocka_unit_test(known_rates),   cmocka_unit_test(blocks_hold_the_truth),
        cmocka_unit_test(coarse_clock),  cmocka_unit_test(not_yet_steady),
        cmocka_unit_test(known_medians),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
