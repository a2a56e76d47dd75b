/* SPDX-License-Identifier: MIT */
/* Findings in series with known answers: drift, two modes, autocorrelation. Tolerance: false alarms
 * in 2% of 500 series of noise. */
#include "bench/row/row.h"

#include "common/base/random/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCKS = 30, TIMES = 400, SERIES = 500 };
static const int most_alarms = 10; /* of SERIES, of each kind: 2% */

static double normal(ls_random random, uint64_t i)
{
    double sum = -6;
    for (uint64_t k = 0; k < 12; k++)
        sum += (double)ls_random_uniform(random, 12 * i + k);
    return sum;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void noise_alone_has_nothing(void **state)
{
    (void)state;
    int alarms[3] = {0};
    double x[TIMES], figure, means[2];
    for (uint64_t s = 0; s < SERIES; s++) {
        const ls_random random = ls_random_stream(s, "test/findings");
        for (size_t i = 0; i < TIMES; i++)
            x[i] = 100 + 8 * normal(random, i);
        alarms[0] += ls_find_drift(x, BLOCKS, &figure);
        alarms[1] += ls_find_autocorrelation(x, BLOCKS, &figure);
        qsort(x, TIMES, sizeof *x, compare_doubles);
        alarms[2] += ls_find_modes(x, TIMES, means, &figure);
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(alarms[i], 0, most_alarms);
}

static void known_series(void **state)
{
    (void)state;
    const ls_random random = ls_random_stream(1, "test/known");
    double drifts[BLOCKS], waves[BLOCKS], modes[TIMES], figure, means[2];
    for (size_t i = 0; i < BLOCKS; i++) {
        drifts[i] = 100 + (double)i / 2 + normal(random, i);
        waves[i] = (i / 5 % 2 ? 110 : 100) + normal(random, i);
    }
    for (size_t i = 0; i < TIMES; i++)
        modes[i] = (i % 4 ? 100 : 130) + 2 * normal(random, 1000 + i);
    qsort(modes, TIMES, sizeof *modes, compare_doubles);
    assert_true(ls_find_drift(drifts, BLOCKS, &figure));
    assert_true(figure > 0.07 && figure < 0.13);
    assert_false(ls_find_drift(drifts, 7, &figure));
    assert_false(ls_find_drift(waves, BLOCKS, &figure));
    assert_true(ls_find_autocorrelation(waves, BLOCKS, &figure));
    assert_true(figure > 0.5 && figure < 0.8);
    assert_true(ls_find_modes(modes, TIMES, means, &figure));
    assert_true(means[0] > 99 && means[0] < 101 && means[1] > 128 && means[1] < 132);
    assert_true(figure > 0.23 && figure < 0.27);
    for (size_t i = 0; i < TIMES; i++)
        modes[i] = 100;
    assert_false(ls_find_modes(modes, TIMES, means, &figure));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_alone_has_nothing),
        cmocka_unit_test(known_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
