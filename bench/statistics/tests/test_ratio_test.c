/* SPDX-License-Identifier: MIT */
/*
 * The ratio test on random series. Noise of a round: with bursts, without a mean, or correlated
 * with drift; a coin decides the order within a pair; looks after 1/64, 1/32, .. 1 of 40 pairs, or
 * of few. Tolerances: figures 1e-12. Rates are of 500 comparisons from a fixed seed, so they do not
 * vary. Required: equal programs are called slower or faster in at most 1%; at threshold 2%, 95% of
 * those slower by 5% and 60% of those slower by 3% are found; wrong verdicts are at most 1% in any
 * noise. LOCKSTEP_PAIRS=FILE, a recorded series of equal programs (a log ratio per line), is judged
 * in the same way. Each pair gets a random sign, which for equal programs has the same
 * distribution. LOCKSTEP_LOADED_PAIRS=FILE, recorded on a busy machine: of 200 comparisons none may
 * be wrong.
 */
#include "bench/statistics/ratio_test.h"
#include "common/base/random/philox.h"

#include <math.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PAIRS = 40, COMPARISONS = 500 };

typedef struct noise {
    enum { BURSTS, CAUCHY, TRAIL } kind;
    double width;
    size_t pairs; /* per comparison; 0: 40 */
} noise;

typedef struct rates {
    int of[4]; /* counts by verdict */
    double blocks;
} rates;

static double uniform(ls_random random, uint64_t at, uint64_t place)
{
    return ls_random_uniform(random, 16 * at + place);
}

static double normal(ls_random random, uint64_t at)
{
    double sum = -6;
    for (uint64_t i = 0; i < 12; i++)
        sum += uniform(random, at, i);
    return sum;
}

/* Noise of a round: a normal body, where one in ten lies in a burst that is slower by up to a
 * third, plus a slow wave; or Cauchy; or an exponential memory of 30 rounds, plus half a percent
 * per round. */
static double turn_noise(ls_random random, uint64_t at, noise of)
{
    double sum = 0.005 * (double)at;
    switch (of.kind) {
    case BURSTS:
        return of.width * normal(random, at) +
               (uniform(random, at, 12) < 0.1 ? 0.3 * uniform(random, at, 13) : 0) +
               0.05 * sin((double)at / 37.0);
    case CAUCHY:
        return of.width * tan(3.14159 * (uniform(random, at, 0) - 0.5));
    case TRAIL:
        for (uint64_t k = 0; k < 30; k++)
            sum += of.width * pow(0.9, (double)k) * normal(random, at + 30 - k);
    }
    return sum;
}

static double coin_of(ls_random random, uint64_t number)
{
    return ls_random_bits(random, 16 * (2 * number) + 14) & 1 ? 1 : -1;
}

static double made_pair(ls_random random, uint64_t number, noise of, double slow)
{
    const double first = turn_noise(random, 2 * number, of);
    const double second = turn_noise(random, 2 * number + 1, of);
    return coin_of(random, number) * (first - second) + log1p(slow);
}

static double *series;
static size_t series_count;

/* Makes one comparison; returns its verdict and the number of its pairs. */
static ls_verdict compare(const double *logs, size_t pairs, double threshold, double *blocks)
{
    ls_ratio_test test = {.threshold = threshold, .cases = 1};
    ls_ratio_result result = {0};
    size_t n = 0;
    while (result.verdict == LS_VERDICT_CANNOT_TELL && n++ < pairs) {
        const double share = ls_ratio_due(&test, n, (double)n / (double)pairs);
        if (share <= 0)
            continue;
        assert_null(ls_ratio_look(&test, logs, n, share, &result));
        test.spent = share;
    }
    *blocks += (double)(n < pairs ? n : pairs);
    return result.verdict;
}

static size_t comparisons = COMPARISONS;

static rates rate(noise of, double slow, double threshold)
{
    const ls_random random = ls_random_stream(1, "test/ratios");
    const size_t pairs = of.pairs ? of.pairs : PAIRS;
    rates out = {0};
    double logs[PAIRS];
    for (uint64_t c = 0; c < comparisons; c++) {
        const uint64_t start = ls_random_bits(random, 4000000000u + c);
        for (uint64_t i = 0; i < pairs; i++)
            logs[i] = series ? coin_of(random, c * PAIRS + i) * series[(start + i) % series_count] +
                                   log1p(slow)
                             : made_pair(random, c * PAIRS + i, of, slow);
        out.of[compare(logs, pairs, threshold, &out.blocks)]++;
    }
    out.blocks /= (double)comparisons;
    const double percent = 100.0 / (double)comparisons;
    printf("noise %.3f, slower by %4.1f%%, threshold %.0f%%: slower %5.1f%%, same %5.1f%%, faster "
           "%4.1f%%, cannot tell %5.1f%%, %.1f blocks\n",
           of.width, 100 * slow, 100 * threshold, out.of[LS_VERDICT_SLOWER] * percent,
           out.of[LS_VERDICT_SAME] * percent, out.of[LS_VERDICT_FASTER] * percent,
           out.of[LS_VERDICT_CANNOT_TELL] * percent, out.blocks);
    return out;
}

/* Wrong verdicts are at most 1% in any noise. */
static void check_wrong(rates equal, rates slow)
{
    assert_true(equal.of[LS_VERDICT_SLOWER] + equal.of[LS_VERDICT_FASTER] <= COMPARISONS / 100);
    assert_true(slow.of[LS_VERDICT_SAME] + slow.of[LS_VERDICT_FASTER] <= COMPARISONS / 100);
}

static void test_rates(void **state)
{
    (void)state;
    const noise kinds[] = {{BURSTS, 0.01, 0},  {BURSTS, 0.04, 0}, {BURSTS, 0.15, 0},
                           {BURSTS, 0.01, 10}, {CAUCHY, 0.01, 0}, {TRAIL, 0.01, 0}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        check_wrong(rate(kinds[i], 0, 0.02), rate(kinds[i], 0.05, 0.02));
        check_wrong(rate(kinds[i], 0, 0.03), rate(kinds[i], 0.06, 0.03));
    }
    const noise quiet = {BURSTS, 0.006, 0}, usual = {BURSTS, 0.01, 0};
    assert_true(rate(quiet, 0.05, 0.02).of[LS_VERDICT_SLOWER] >= 0.95 * COMPARISONS);
    assert_true(rate((noise){BURSTS, 0.005, 0}, 0.03, 0.02).of[LS_VERDICT_SLOWER] >=
                0.60 * COMPARISONS);
    assert_true(rate(quiet, 0.06, 0.03).of[LS_VERDICT_SLOWER] >= 0.95 * COMPARISONS);
    assert_true(rate(quiet, 0, 0.03).of[LS_VERDICT_SAME] >= 0.95 * COMPARISONS);
    assert_true(rate(usual, 0.20, 0.03).blocks <= 20);
    /* exactly at the limit: the error is used up, and not exceeded */
    const rates limit = rate(usual, 0.03, 0.03);
    assert_true(limit.of[LS_VERDICT_SLOWER] <= COMPARISONS / 100);
    assert_true(limit.of[LS_VERDICT_SAME] <= COMPARISONS / 25);
}

/* Six pairs: of 64 sign patterns one has sum 0, one 1, one 2, two 3: at 0.025 one is left out. */
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

/* With too few pairs for an order statistic, the interval is Student's, and a single pair has none.
 * Even equal pairs need some more to decide. */
static void test_few(void **state)
{
    (void)state;
    const double logs[] = {0.0501, 0.0499};
    const ls_ratio_test test = {.threshold = 0.03, .cases = 4};
    ls_ratio_result result;
    assert_null(ls_ratio_look(&test, logs, 2, 1, &result));
    assert_true(fabs(log(result.ci95[1] / result.ci95[0]) - 2 * 12.706 * 0.0001) < 1e-12);
    assert_int_equal(result.more, 9); /* 1/2048 is less than half of 0.5% over four cases */
    assert_null(ls_ratio_look(&test, logs, 1, 1, &result));
    assert_true(isnan(result.ci95[0]) && result.more > 0);
}

/* Few pairs, or no error left, decide nothing; many equal pairs decide at once. */
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
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL); /* 1/128 is more than 0.5% */
    test.spent = 1;
    assert_null(ls_ratio_look(&test, logs, 40, 1, &result));
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL); /* no error is left for a second */
    test.spent = 0;
    assert_true(ls_ratio_due(&test, 8, 0.6) <= 0); /* 1/256 is more than half of 0.5% */
    assert_true(ls_ratio_due(&test, 9, 0.6) >= 0.5 && ls_ratio_due(&test, 9, 0.6) <= 0.5);
    assert_true(ls_ratio_due(&test, 40, 0.01) <= 0 && ls_ratio_due(&test, 1, 1) >= 1);
    test.spent = 0.5;
    assert_true(ls_ratio_due(&test, 40, 0.6) <= 0); /* that look is done */
    test.spent = 0;
    assert_null(ls_ratio_look(&test, logs, 8, 1, &result));
    assert_int_equal(result.verdict, LS_VERDICT_SLOWER);
    test = (ls_ratio_test){.threshold = 0.03, .cases = 10};
    assert_null(ls_ratio_look(&test, logs, 8, 1, &result));
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL); /* ten cases share the error */
}

/* What is surely not slower passes at the last look, and only there. */
static void test_last_look(void **state)
{
    (void)state;
    double logs[40];
    ls_ratio_test test = {.threshold = 0.03, .cases = 1};
    ls_ratio_result result;
    for (int i = 0; i < 40; i++)
        logs[i] = -0.03 + 0.01 * (i % 5 - 2); /* both sides of -3% */
    assert_null(ls_ratio_look(&test, logs, 40, 0.5, &result));
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL);
    assert_null(ls_ratio_look(&test, logs, 40, 1, &result));
    assert_int_equal(result.verdict, LS_VERDICT_FASTER);
    for (int i = 0; i < 40; i++)
        logs[i] = -0.015 + 0.05 * (i % 5 - 2); /* 0 and -3% are both possible, 3% is not */
    assert_null(ls_ratio_look(&test, logs, 40, 0.5, &result));
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL);
    assert_null(ls_ratio_look(&test, logs, 40, 1, &result));
    assert_int_equal(result.verdict, LS_VERDICT_SAME);
    for (int i = 0; i < 40; i++)
        logs[i] = -logs[i]; /* 3% slower is possible */
    assert_null(ls_ratio_look(&test, logs, 40, 1, &result));
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL);
}

static void test_unpaired(void **state)
{
    (void)state;
    const double base[] = {0, 0.001, -0.001, 0.002, -0.002}, far[] = {0.1, 0.101, 0.099};
    const ls_ratio_test test = {.threshold = 0.03, .cases = 1};
    const ls_ratio_side a = {base, 5, 0}, b = {far, 3, 0}, wide = {base, 1, 0.2},
                        none = {base, 0, 0}, two = {(const double[]){0.04, 0.16}, 2, 0};
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
    ls_ratio_unpaired(&test, &a, &two, 0.01, &result);
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL); /* two runs that are far apart */
    const ls_ratio_side one = {base, 1, 0.001}, other = {far, 1, 0.001};
    ls_ratio_unpaired(&test, &a, &other, 0.01, &result);
    assert_int_equal(result.verdict, LS_VERDICT_SLOWER); /* as far apart as five runs are */
    ls_ratio_unpaired(&test, &one, &other, 0.01, &result);
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL); /* one run per side does not tell */
    const ls_ratio_side pair = {(const double[]){0, 0.1}, 2, 0.02};
    ls_ratio_unpaired(&test, &pair, &two, 0.001, &result);
    assert_true(isnan(result.ci95[0])); /* not 0 to infinity, but how many runs would tell */
    assert_true(result.more > 2 && result.more < 1000);
    const ls_ratio_side near = {(const double[]){0, 0.01}, 2, 0.002};
    ls_ratio_unpaired(&test, &near, &near, 0.001, &result);
    assert_true(result.verdict == LS_VERDICT_CANNOT_TELL && result.more >= 2 && result.more < 10);
    const ls_ratio_side step = {(const double[]){1}, 1, 0};
    ls_ratio_unpaired(&test, &a, &step, 0.01, &result);
    assert_int_equal(result.verdict, LS_VERDICT_CANNOT_TELL); /* one step, however far */
    assert_true(fabs(result.ratio - exp(1)) < 1e-12 && isnan(result.ci95[0]));
    ls_ratio_unpaired(&test, &none, &b, 0.01, &result);
    assert_true(isnan(result.ratio) && result.verdict == LS_VERDICT_CANNOT_TELL);
}

/* Reads the series that the variable names; false if it is unset. */
static bool read_series(const char *variable)
{
    const char *path = getenv(variable);
    FILE *stream = path ? fopen(path, "r") : NULL;
    double value;
    if (!stream)
        return false;
    for (series_count = 0; fscanf(stream, "%lf", &value) == 1; series[series_count++] = value)
        series = realloc(series, (series_count + 1) * sizeof *series);
    fclose(stream);
    assert_true(series_count >= PAIRS);
    return true;
}

static int close_series(void **state)
{
    (void)state;
    free(series);
    series = NULL;
    comparisons = COMPARISONS;
    return 0;
}

/* Prints a recorded series of equal programs, and checks the required rates. */
static void test_recorded(void **state)
{
    (void)state;
    if (!read_series("LOCKSTEP_PAIRS"))
        skip();
    const noise own = {BURSTS, 0, 0};
    const rates equal = rate(own, 0, 0.02), five = rate(own, 0.05, 0.02);
    const rates three = rate(own, 0.03, 0.02), six = rate(own, 0.06, 0.03);
    check_wrong(equal, five);
    check_wrong(rate(own, 0, 0.03), six);
    assert_true(five.of[LS_VERDICT_SLOWER] >= 0.95 * COMPARISONS);
    assert_true(three.of[LS_VERDICT_SLOWER] >= 0.60 * COMPARISONS);
    assert_true(six.of[LS_VERDICT_SLOWER] >= 0.95 * COMPARISONS);
}

static void test_loaded(void **state)
{
    (void)state;
    if (!read_series("LOCKSTEP_LOADED_PAIRS"))
        skip();
    comparisons = 200;
    const noise own = {BURSTS, 0, 0};
    const rates equal = rate(own, 0, 0.03), six = rate(own, 0.06, 0.03);
    assert_int_equal(equal.of[LS_VERDICT_SLOWER] + equal.of[LS_VERDICT_FASTER], 0);
    assert_int_equal(six.of[LS_VERDICT_SAME] + six.of[LS_VERDICT_FASTER], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_few),
        cmocka_unit_test(test_little),
        cmocka_unit_test(test_last_look),
        cmocka_unit_test(test_unpaired),
        cmocka_unit_test_teardown(test_recorded, close_series),
        cmocka_unit_test_teardown(test_loaded, close_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
