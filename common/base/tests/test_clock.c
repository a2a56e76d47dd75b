/* SPDX-License-Identifier: MIT */
/* The clock is monotonic, and a sleep lasts at least as requested, even with signals. */
#include "common/base/clock.h"
#include "common/base/tests/must.h"

#include <signal.h>
#include <sys/time.h>

enum { SLEEP_NS = 20000000 };

static void test_monotonic(void **state)
{
    uint64_t before = ls_clock_ns();
    assert_true(before > 0);
    for (int i = 0; i < 100000; i++) {
        uint64_t now = ls_clock_ns();
        assert_true(now >= before);
        before = now;
    }
}

static void test_sleep(void **state)
{
    uint64_t start = ls_clock_ns();
    ls_clock_sleep(SLEEP_NS);
    assert_true(ls_clock_ns() - start >= SLEEP_NS);
}

static void on_alarm(int number)
{
}

static void test_sleep_through_signals(void **state)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval every_ms = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &every_ms, NULL), 0);
    uint64_t start = ls_clock_ns();
    ls_clock_sleep(SLEEP_NS);
    uint64_t slept = ls_clock_ns() - start;
    assert_int_equal(setitimer(ITIMER_REAL, &off, NULL), 0);
    assert_true(slept >= SLEEP_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_monotonic),
        cmocka_unit_test(test_sleep),
        cmocka_unit_test(test_sleep_through_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
