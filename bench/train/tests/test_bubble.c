/* SPDX-License-Identifier: MIT */
/*
 * The idle share of a pipeline: measured from its stages' queues, and computed from the schedule.
 * Tolerance: 1e-12.
 */
#include "bench/train/trial/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

static void check(const ls_schedule *schedule, const ls_time_profile *stages, double measured,
                  double formula, double slowest)
{
    ls_bubble got;
    assert_null(ls_bubble_measure(schedule, stages, &got));
    assert_true(fabs(got.measured - measured) <= 1e-12);
    assert_true(fabs(got.formula - formula) <= 1e-12);
    assert_true(fabs(got.slowest - slowest) <= 1e-12);
}

/* Two equal stages, four micro-batches of 10 forward and 20 backward: idle for 1/5 of the time. The
 * second stage's queue ends early; the rest of the step counts as idle, too. */
static void test_equal(void **state)
{
    (void)state;
    ls_time_profile stages[2] = {{{0}}, {{0}}};
    for (int s = 0; s < 2; s++) {
        stages[s].ns[LS_TIME_COMPUTE] = 40;
        stages[s].ns[LS_TIME_BACKWARD] = 80;
    }
    stages[0].ns[LS_TIME_IDLE] = 30;
    stages[1].ns[LS_TIME_IDLE] = 10;
    for (int kind = 0; kind < 2; kind++)
        check(&(ls_schedule){2, 4, kind ? &ls_schedule_1f1b : &ls_schedule_gpipe, 1}, stages, 0.2,
              0.2, 1);
    stages[0].ns[LS_TIME_WAIT] = 50; /* waiting for each other is idle time */
    check(&(ls_schedule){2, 4, &ls_schedule_gpipe, 1}, stages, 1 - 240.0 / 400, 0.2, 1);
}

/* Copies belong to the passes, updates follow them. GPipe: 10 + 30 + 3 x 30 forward, 20 + 40 + 3 x
 * 40 backward, 8 at the end: 318, in which the stages work 120 + 8 and 280. */
static void test_unequal(void **state)
{
    (void)state;
    ls_time_profile stages[2] = {{{0}}, {{0}}};
    stages[0].ns[LS_TIME_COMPUTE] = 28;
    stages[0].ns[LS_TIME_COPY] = 12;
    stages[0].ns[LS_TIME_BACKWARD] = 80;
    stages[0].ns[LS_TIME_OPTIMIZER] = 6;
    stages[0].ns[LS_TIME_HARNESS] = 2;
    stages[0].ns[LS_TIME_IDLE] = 200;
    stages[1].ns[LS_TIME_COMPUTE] = 120;
    stages[1].ns[LS_TIME_BACKWARD] = 150;
    stages[1].ns[LS_TIME_COPY] = 10;
    check(&(ls_schedule){2, 4, &ls_schedule_gpipe, 1}, stages, 1 - 408.0 / 656, 1 - 408.0 / 636,
          280 / 204.0);
}

/* Steps that others made ten times as long, or one stage slow in, are most of the time, but not the
 * median step. */
static void test_steps(void **state)
{
    (void)state;
    const ls_schedule schedule = {2, 4, &ls_schedule_gpipe, 1};
    ls_time_profile steps[5][2] = {{{{0}}}};
    ls_bubble got;
    for (int k = 0; k < 5; k++)
        for (int s = 0; s < 2; s++) {
            steps[k][s].ns[LS_TIME_COMPUTE] = k == 4 && s == 0 ? 4000 : 40;
            steps[k][s].ns[LS_TIME_BACKWARD] = 80;
            steps[k][s].ns[LS_TIME_WAIT] = k == 1 ? 1380 : 30;
        }
    assert_null(ls_bubble_median(&schedule, steps[0], 5, &got));
    assert_true(fabs(got.measured - 0.2) <= 1e-12);
    assert_true(fabs(got.formula - 0.2) <= 1e-12);
    assert_true(fabs(got.slowest - 1) <= 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_unequal),
        cmocka_unit_test(test_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
