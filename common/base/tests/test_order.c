/* SPDX-License-Identifier: MIT */
/* Sample order: permutations that differ and look random, and consistent ranges. */
#include "common/base/random/order.h"
#include "common/base/tests/must.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Most standard deviations of a chi-square statistic from its mean. */
static const double sigmas = 5;
/* Largest relative deviation of a position's count from its expectation, for up to 16 samples. */
static const double tiny_bias = 0.15;

static const uint64_t sizes[] = {1, 2, 3, 5, 10, 100, 255, 256, 257, 60000};
enum { SIZES = sizeof sizes / sizeof *sizes, MOST = 60000, MOST_COUNTED = 257, EPOCHS = 20000 };

static uint32_t *epoch_samples(uint64_t samples, uint64_t seed, uint64_t epoch, bool shuffle)
{
    const ls_sample_order order = {.samples = samples, .seed = seed, .shuffle = shuffle};
    ls_order_epoch set;
    uint32_t *out = malloc(samples * sizeof *out);
    assert_non_null(out);
    ls_order_epoch_set(&order, epoch, &set);
    ls_order_epoch_samples(&set, 0, samples, out);
    return out;
}

static void test_bijection(void **state)
{
    static unsigned char seen[MOST];
    for (int i = 0; i < SIZES; i++) {
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            uint32_t *samples = epoch_samples(sizes[i], 1, epoch, true);
            memset(seen, 0, sizeof seen);
            for (uint64_t p = 0; p < sizes[i]; p++) {
                assert_true(samples[p] < sizes[i] && !seen[samples[p]]);
                seen[samples[p]] = 1;
            }
            free(samples);
        }
    }
}

static void test_differs(void **state)
{
    uint32_t *base = epoch_samples(MOST, 1, 0, true), *again = epoch_samples(MOST, 1, 0, true);
    uint32_t *others[] = {epoch_samples(MOST, 1, 1, true), epoch_samples(MOST, 2, 0, true),
                          epoch_samples(MOST, (uint64_t)1 << 32 | 1, 0, true),
                          epoch_samples(MOST, 1, 0, false)};
    assert_memory_equal(base, again, MOST * sizeof *base);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        int same = 0; /* expected number: Poisson with mean 1 */
        for (int p = 0; p < MOST; p++)
            same += base[p] == others[i][p];
        assert_in_range(same, 0, 10);
        free(others[i]);
    }
    free(base);
    free(again);
}

static void test_file_order(void **state)
{
    const ls_sample_order order = {.samples = 7, .seed = 1};
    ls_order_epoch cache = {.epoch = UINT64_MAX};
    uint32_t out[30];
    ls_order_samples(&order, 5, 30, &cache, out);
    for (uint32_t i = 0; i < 30; i++)
        assert_int_equal(out[i], (5 + i) % 7);
}

/* The endless sequence is one epoch after another, whatever range is requested. */
static void test_crossing_epochs(void **state)
{
    enum { N = 10, LENGTH = 45 };
    const ls_sample_order order = {.samples = N, .seed = 3, .shuffle = true};
    uint32_t whole[LENGTH], part[LENGTH];
    for (uint64_t epoch = 0; epoch * N < LENGTH; epoch++) {
        uint32_t *samples = epoch_samples(N, 3, epoch, true);
        for (uint64_t p = 0; p < N && epoch * N + p < LENGTH; p++)
            whole[epoch * N + p] = samples[p];
        free(samples);
    }
    ls_order_epoch cache = {.epoch = UINT64_MAX};
    for (uint64_t first = 0; first < LENGTH; first++) {
        for (uint64_t count = 0; first + count <= LENGTH; count++) {
            ls_order_samples(&order, first, count, &cache, part);
            assert_memory_equal(part, whole + first, count * sizeof *part);
        }
    }
    assert_true(cache.epoch == (LENGTH - 1) / N);
}

/* A loop's vector body, its tail, and single elements give the same. */
static void test_sub_ranges(void **state)
{
    for (int i = 0; i < SIZES; i++) {
        const ls_sample_order order = {.samples = sizes[i], .seed = 9, .shuffle = true};
        ls_order_epoch set;
        ls_order_epoch_set(&order, 4, &set);
        uint32_t *whole = epoch_samples(sizes[i], 9, 4, true), *part = malloc(MOST * sizeof *part);
        for (uint64_t p = 0; p < sizes[i]; p++) {
            ls_order_epoch_samples(&set, p, 1, part);
            assert_int_equal(part[0], whole[p]);
        }
        uint64_t first = sizes[i] / 3, count = sizes[i] - first;
        ls_order_epoch_samples(&set, first, count, part);
        assert_memory_equal(part, whole + first, count * sizeof *part);
        free(whole);
        free(part);
    }
}

/* The largest size allowed, at both ends and in the middle. */
static void test_largest(void **state)
{
    const ls_sample_order order = {.samples = INT32_MAX, .seed = 1, .shuffle = true};
    ls_order_epoch set;
    uint32_t out[1000];
    ls_order_epoch_set(&order, 0, &set);
    const uint64_t firsts[] = {0, INT32_MAX / 2, (uint64_t)INT32_MAX - 1000};
    for (size_t i = 0; i < 3; i++) {
        ls_order_epoch_samples(&set, firsts[i], 1000, out);
        for (int j = 0; j < 1000; j++)
            assert_true(out[j] < INT32_MAX);
        for (int j = 1; j < 1000; j++)
            assert_true(out[j] != out[j - 1]);
    }
}

/* Chi-square of `cells` counts about the mean `expected`; `freedom` degrees of freedom. */
static void check_uniform(const int *count, int cells, double expected, double freedom)
{
    double statistic = 0;
    for (int i = 0; i < cells; i++)
        statistic += (count[i] - expected) * (count[i] - expected) / expected;
    assert_true(fabs(statistic - freedom) < sigmas * sqrt(2 * freedom));
}

/* Counts how often sample s is at position p, over EPOCHS epochs, in count[p * n + s]. */
static void count_places(uint64_t samples, int *count)
{
    const ls_sample_order order = {.samples = samples, .seed = 1, .shuffle = true};
    size_t n = samples;
    memset(count, 0, n * n * sizeof *count);
    ls_order_epoch set;
    uint32_t out[MOST_COUNTED];
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        ls_order_epoch_set(&order, epoch, &set);
        ls_order_epoch_samples(&set, 0, samples, out);
        for (size_t p = 0; p < n; p++)
            count[p * n + out[p]]++;
    }
}

/* Over many epochs each sample is at each position equally often, also for sizes for which the
 * network iterates (cycle walking). */
static void test_places_uniform(void **state)
{
    static int count[MOST_COUNTED * MOST_COUNTED];
    static const uint64_t few[] = {17, 50, 100, 257};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        int n = (int)few[i];
        count_places(few[i], count);
        check_uniform(count, n * n, (double)EPOCHS / n, (double)(n - 1) * (n - 1));
    }
}

/* For a few codes, six rounds leave a measurable bias over so many epochs: it is bounded. */
static void test_tiny_places(void **state)
{
    int count[16 * 16];
    for (uint64_t samples = 2; samples <= 16; samples++) {
        double expected = (double)EPOCHS / (double)samples;
        count_places(samples, count);
        for (uint64_t i = 0; i < samples * samples; i++)
            assert_true(fabs(count[i] - expected) < tiny_bias * expected);
    }
}

/* Mixing within an epoch of 60,000: samples of any tenth of the file are spread over all tenths of
 * the epoch, and neighbours in the epoch are not neighbours in the file. */
static void test_mixing(void **state)
{
    enum { TENTHS = 10 };
    for (uint64_t seed = 1; seed <= 5; seed++) {
        uint32_t *samples = epoch_samples(MOST, seed, 0, true);
        int count[TENTHS * TENTHS] = {0}, steps[TENTHS] = {0};
        for (uint32_t p = 0; p < MOST; p++)
            count[p / (MOST / TENTHS) * TENTHS + samples[p] / (MOST / TENTHS)]++;
        check_uniform(count, TENTHS * TENTHS, MOST / (TENTHS * TENTHS), 81);
        for (uint32_t p = 1; p < MOST; p++)
            steps[(samples[p] + MOST - samples[p - 1]) % MOST / (MOST / TENTHS)]++;
        check_uniform(steps, TENTHS, (MOST - 1.0) / TENTHS, TENTHS - 1);
        free(samples);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bijection),      cmocka_unit_test(test_differs),
        cmocka_unit_test(test_file_order),     cmocka_unit_test(test_crossing_epochs),
        cmocka_unit_test(test_sub_ranges),     cmocka_unit_test(test_largest),
        cmocka_unit_test(test_places_uniform), cmocka_unit_test(test_tiny_places),
        cmocka_unit_test(test_mixing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
