/* SPDX-License-Identifier: MIT */
/*
 * The estimate of a command's remaining time, for cases whose times are known or not. Seconds are
 * made up, without a clock. Tolerance: a third, as users are promised; 1e-9 where it is exact.
 */
#include "bench/progress/work_left.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { CASES = 3, BLOCKS = 5 };

/* The true times of the cases. */
static const double takes[CASES][LS_PHASES] = {
    {0.2, 1.5, 0.3, 12, 1}, {0.2, 0.9, 0.2, 8, 0.8}, {0.3, 1.2, 0.2, 10, 0.9}};

/* Estimates by operation counts: all off by the same factor, and each by another tenth. */
static ls_work begin(ls_work_case cases[CASES], double factor)
{
    ls_work work = {.cases = cases, .count = CASES, .now = CASES};
    for (size_t i = 0; i < CASES; i++) {
        double seconds[LS_PHASES];
        cases[i] = (ls_work_case){0};
        for (int phase = 0; phase < LS_PHASES; phase++)
            seconds[phase] = takes[i][phase] * factor * (1 + 0.1 * (double)i);
        ls_work_expect(&work, i, seconds, false);
    }
    return work;
}

static void pass(ls_work *work, size_t index, ls_phase phase, double *left)
{
    ls_work_enter(work, index, phase);
    ls_work_spend(work, takes[index][phase]);
    ls_work_share(work, 1);
    *left -= takes[index][phase];
}

static void assert_third(const ls_work *work, double left)
{
    const double said = ls_work_left(work);
    assert_true(said > left / 4 * 3 - 0.2 && said < left / 3 * 4 + 0.2);
}

static double all_of_it(void)
{
    double sum = 0;
    for (size_t i = 0; i < CASES; i++)
        for (int phase = 0; phase < LS_PHASES; phase++)
            sum += takes[i][phase];
    return sum;
}

/* Gates, then warm-ups, then blocks in turns, then evaluations. */
static void is_right_from_the_first_case_on(void **state)
{
    (void)state;
    const double factors[] = {0.05, 1, 20};
    for (size_t f = 0; f < 3; f++) {
        ls_work_case cases[CASES];
        ls_work work = begin(cases, factors[f]);
        double left = all_of_it();
        assert_true(ls_work_left(&work) < 0); /* nothing is known yet */
        for (size_t i = 0; i < CASES; i++) {
            pass(&work, i, LS_PHASE_CHECKING, &left);
            assert_third(&work, left);
        }
        for (size_t i = 0; i < CASES; i++) {
            pass(&work, i, LS_PHASE_OPENING, &left);
            pass(&work, i, LS_PHASE_WARM_UP, &left);
            assert_third(&work, left);
        }
        for (int block = 1; block <= BLOCKS; block++)
            for (size_t i = 0; i < CASES; i++) {
                const double seconds = takes[i][LS_PHASE_TIMING] / BLOCKS;
                ls_work_enter(&work, i, LS_PHASE_TIMING);
                ls_work_spend(&work, seconds);
                ls_work_share(&work, (double)block / BLOCKS);
                left -= seconds;
                assert_third(&work, left);
            }
        for (size_t i = 0; i < CASES; i++) {
            pass(&work, i, LS_PHASE_EVALUATING, &left);
            ls_work_end(&work, i);
            assert_third(&work, left);
        }
        assert_true(fabs(ls_work_left(&work)) < 1e-9);
    }
}

/* The gate has timed some steps of the case. */
static void measured_steps_count_more_than_counted_ones(void **state)
{
    (void)state;
    ls_work_case cases[CASES];
    ls_work work = begin(cases, 1);
    double left = all_of_it(), seconds[LS_PHASES] = {0, 0, 3, 120, 10}; /* ten times slower */
    pass(&work, 0, LS_PHASE_CHECKING, &left);
    ls_work_expect(&work, 0, seconds, true);
    assert_true(ls_work_left(&work) > 300);
}

static void a_silent_phase_counts_down_and_never_below_nothing(void **state)
{
    (void)state;
    ls_work_case cases[CASES];
    ls_work work = begin(cases, 1);
    double left = all_of_it();
    pass(&work, 0, LS_PHASE_CHECKING, &left);
    ls_work_enter(&work, 1, LS_PHASE_CHECKING);
    const double before = ls_work_left(&work);
    ls_work_spend(&work, 0.5);
    assert_true(fabs(before - 0.5 - ls_work_left(&work)) < 1e-9);
    ls_work_spend(&work, 1000);
    const double late = ls_work_left(&work);
    ls_work_spend(&work, 1);
    assert_true(late > 0 && fabs(late - ls_work_left(&work)) < 1e-9);
}

/* Cases that end early, such as one that fails its check. */
static void what_has_ended_is_not_left(void **state)
{
    (void)state;
    ls_work_case cases[CASES];
    ls_work work = begin(cases, 1);
    double left = all_of_it();
    pass(&work, 0, LS_PHASE_CHECKING, &left);
    for (size_t i = 0; i < CASES; i++)
        ls_work_end(&work, i);
    assert_true(fabs(ls_work_left(&work)) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_right_from_the_first_case_on),
        cmocka_unit_test(measured_steps_count_more_than_counted_ones),
        cmocka_unit_test(a_silent_phase_counts_down_and_never_below_nothing),
        cmocka_unit_test(what_has_ended_is_not_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
