/* SPDX-License-Identifier: MIT */
/*
 * The ratio test on series that are drawn: noise of two turns with heavy tails, drift and bursts, a
 * coin for who comes first, looks at 1/64, 1/32, .. 1 of 40 pairs.
 * Tolerances: figures 1e-12. Rates are of 500 comparisons from a fixed seed, so they do not vary;
 * wanted are those of the issue: of equal programs at most 1% slower or faster, at threshold 2%
 * 95% of 5% slower and 60% of 3% slower found, and no wrong verdict beyond 1% in any noise.
 * LOCKSTEP_PAIRS=FILE, a series that was recorded (a log ratio a line), is judged the same way.
 */
#include "bench/regress/ratio_test.h"
#include "common/base/philox.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PAIRS = 40, COMPARISONS = 500 };

typedef struct rates {
    int of[4]; /* by verdict */
    double blocks;
} rates;

/* Noise of a turn: a normal body, one in ten in a burst that is slower by up to a third, and a slow
 * wave. */
static double turn_noise(ls_random random, uint64_t at, double width)
{
    double sum = -6;
    for (uint64_t i = 0; i < 12; i++)
        sum += ls_random_uniform(random, 16 * at + i);
    const double burst = ls_random_uniform(random, 16 * at + 12) < 0.1f
                             ? 0.3 * ls_random_uniform(random, 16 * at + 13)
                             : 0;
    return width * sum + burst + 0.05 * sin((double)at / 37.0);
}

static double made_pair(ls_random random, uint64_t number, double width, double slow)
{
    const double first = turn_noise(random, 2 * number, width);
    const double second = turn_noise(random, 2 * number + 1, width);
    const double coin = ls_random_bits(random, 16 * (2 * number) + 14) & 1 ? 1 : -1;
    return coin * (first - second) + log1p(slow);
}

static double *series;
static size_t series_count;

/* One comparison: its verdict, and how many pairs it took. */
static ls_verdict compare(const double *logs, double threshold, double *blocks)
{
    ls_ratio_test test = {.threshold = threshold, .cases = 1};
    ls_ratio_result result = {0};
    for (double share = 1.0 / 64; share <= 1; share *= 2) {
        const size_t n = (size_t)(share * PAIRS);
        if (share < 1 && !ls_ratio_can_look(&test, n, share))
            continue;
        assert_null(ls_ratio_look(&test, logs, n, share, &result));
        *blocks += (double)n * (result.verdict != LS_VERDICT_CANNOT_TELL || share >= 1);
        if (result.verdict != LS_VERDICT_CANNOT_TELL)
            break;
    }
    return result.verdict;
}

static rates rate(double width, double slow, double threshold)
{
    const ls_random random = ls_random_stream(1, "test/ratios");
    rates out = {0};
    double logs[PAIRS];
    for (uint64_t c = 0; c < COMPARISONS; c++) {
        const uint64_t start = ls_random_bits(random, 4000000000u + c);
        for (uint64_t i = 0; i < PAIRS; i++)
            logs[i] = series ? series[(start + i) % series_count] + log1p(slow)
                             : made_pair(random, c * PAIRS + i, width, slow);
        out.of[compare(logs, threshold, &out.blocks)]++;
    }
    out.blocks /= COMPARISONS;
    printf("noise %.3f, slower by %4.1f%%, threshold %.0f%%: slower %5.1f%%, same %5.1f%%, faster "
           "%4.1f%%, cannot tell %5.1f%%, %.1f blocks\n",
           width, 100 * slow, 100 * threshold, out.of[LS_VERDICT_SLOWER] / 5.0,
           out.of[LS_VERDICT_SAME] / 5.0, out.of[LS_VERDICT_FASTER] / 5.0,
           out.of[LS_VERDICT_CANNOT_TELL] / 5.0, out.blocks);
    return out;
}

/* What is never called by more than 1%, whatever the noise. */
static void check_wrong(rates equal, rates slow)
{
    assert_true(equal.of[LS_VERDICT_SLOWER] + equal.of[LS_VERDICT_FASTER] <= COMPARISONS / 100);
    assert_true(slow.of[LS_VERDICT_SAME] + slow.of[LS_VERDICT_FASTER] <= COMPARISONS / 100);
}

static void test_rates(void **state)
{
    (void)state;
    const double widths[] = {0.01, 0.04, 0.15};
    for (size_t i = 0; i < 3; i++) {
        check_wrong(rate(widths[i], 0, 0.02), rate(widths[i], 0.05, 0.02));
        check_wrong(rate(widths[i], 0, 0.03), rate(widths[i], 0.06, 0.03));
    }
    assert_true(rate(0.006, 0.05, 0.02).of[LS_VERDICT_SLOWER] >= 0.95 * COMPARISONS);
    assert_true(rate(0.005, 0.03, 0.02).of[LS_VERDICT_SLOWER] >= 0.60 * COMPARISONS);
    assert_true(rate(0.006, 0.06, 0.03).of[LS_VERDICT_SLOWER] >= 0.95 * COMPARISONS);
    assert_true(rate(0.006, 0, 0.03).of[LS_VERDICT_SAME] >= 0.95 * COMPARISONS);
    assert_true(rate(0.01, 0.20, 0.03).blocks <= 20);
    /* at the limit itself: the error is spent, and not more */
    assert_true(rate(0.01, 0.03, 0.03).of[LS_VERDICT_SLOWER] <= COMPARISONS / 100);
    assert_true(rate(0.01, 0.03, 0.03).of[LS_VERDICT_SAME] <= COMPARISONS / 25);
}

/* Six pairs: of 64 signs one has the sum 0, one 1, one 2, two 3: at 0.025 one is left out. */
static void test_bounds(void **state)
{
    (void)state;
    const double logs[] = {0.06, 0.01, 0.05, 0.02, 0.04, 0.03};
    ls_ratio_test test = {.threshold = 0.03, .cases = 1};
    ls_ratio_result result;
    assert_null(ls_ratio_look(&test, logs, 6, 1, &result));
    assert_true(fabs(result.ratio - exp(0.035)) < 1e-12);
    assert_true(fabs(result.ci95[0] - exp(0.01)) < 1e-12); /* 0.01, then (0.01 + 0.02) / 2 */
    assert_true(fabs(result.ci95[1] - exp(0.06)) < 1e-12);
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL);
    assert_true(result.more > 0);
}

/* Few pairs, or no error left, decide nothing; many equal ones do at once. */
static void test_little(void **state)
{
    (void)state;
    double logs[PAIRS];
    for (size_t i = 0; i < PAIRS; i++)
        logs[i] = 0.5;
    ls_ratio_test test = {.threshold = 0.03, .cases = 1};
    ls_ratio_result result;
    assert_null(ls_ratio_look(&test, logs, 0, 0.5, &result));
    assert_true(isnan(result.ratio) && result.verdict == LS_VERDICT_CANNOT_TELL);
    assert_null(ls_ratio_look(&test, logs, 7, 1, &result));
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL); /* 1 of 128 is more than 0.5% */
    assert_null(ls_ratio_look(&test, logs, 40, 1, &result));
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL); /* a second last look has nothing */
    test.spent = 0;
    assert_false(ls_ratio_can_look(&test, 7, 1));
    assert_true(ls_ratio_can_look(&test, 8, 1));
    assert_null(ls_ratio_look(&test, logs, 8, 1, &result));
    assert_int_equal(result.verdict, LS_VERDICT_SLOWER);
    test = (ls_ratio_test){.threshold = 0.03, .cases = 10};
    assert_null(ls_ratio_look(&test, logs, 8, 1, &result));
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL); /* ten cases share the error */
}

static void test_unpaired(void **state)
{
    (void)state;
    const double base[] = {0, 0.001, -0.001, 0.002, -0.002}, far[] = {0.1, 0.101, 0.099};
    const ls_ratio_test test = {.threshold = 0.03, .cases = 1};
    const ls_ratio_side a = {base, 5, 0}, b = {far, 3, 0}, wide = {base, 1, 0.2},
                        none = {base, 0, 0};
    ls_ratio_result result;
    ls_ratio_unpaired(&test, &a, &b, 0.01, &result);
    assert_int_equal(result.verdict, LS_VERDICT_SLOWER);
    assert_true(fabs(result.ratio - exp(0.1)) < 1e-12 && result.blocks == 3);
    ls_ratio_unpaired(&test, &b, &a, 0.01, &result);
    assert_int_equal(result.verdict, LS_VERDICT_FASTER);
    ls_ratio_unpaired(&test, &a, &a, 0.01, &result);
    assert_int_equal(result.verdict, LS_VERDICT_SAME);
    ls_ratio_unpaired(&test, &a, &a, 0.02, &result);
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL);
    ls_ratio_unpaired(&test, &wide, &b, 0.01, &result);
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL);
    assert_true(result.more > 0);
    ls_ratio_unpaired(&test, &none, &b, 0.01, &result);
    assert_true(isnan(result.ratio) && result.verdict == LS_VERDICT_CANNOT_TELL);
}

/* A recorded series of equal programs: printed, and the figures held. */
static void test_recorded(void **state)
{
    (void)state;
    const char *path = getenv("LOCKSTEP_PAIRS");
    FILE *stream = path ? fopen(path, "r") : NULL;
    if (!stream)
        skip();
    double value;
    for (; fscanf(stream, "%lf", &value) == 1; series[series_count++] = value)
        series = realloc(series, (series_count + 1) * sizeof *series);
    fclose(stream);
    assert_true(series_count >= PAIRS);
    printf("%zu recorded pairs\n", series_count);
    const rates equal = rate(0, 0, 0.02), five = rate(0, 0.05, 0.02), three = rate(0, 0.03, 0.02);
    check_wrong(equal, five);
    check_wrong(rate(0, 0, 0.03), rate(0, 0.06, 0.03));
    assert_true(five.of[LS_VERDICT_SLOWER] >= 0.95 * COMPARISONS);
    assert_true(three.of[LS_VERDICT_SLOWER] >= 0.60 * COMPARISONS);
    free(series);
    series = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),    cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_little),   cmocka_unit_test(test_unpaired),
        cmocka_unit_test(test_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
