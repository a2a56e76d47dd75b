/* SPDX-License-Identifier: MIT */
/* Monotonic clock; see clock.h. */
#include "common/base/clock.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>

uint64_t ls_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct timespec ls_clock_timespec(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

uint64_t ls_clock_yield(void)
{
    const uint64_t begin_ns = ls_clock_ns();
    sched_yield();
    return ls_clock_ns() - begin_ns;
}

void ls_clock_sleep(uint64_t ns)
{
    struct timespec left = ls_clock_timespec(ns);
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

void ls_clock_sleep_until(uint64_t ns)
{
    if (ls_clock_ns() >= ns)
        return;
    const struct timespec until = ls_clock_timespec(ns);
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul,
          0ul); /* costs 160 ns, compared with microseconds for the sleep */
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}
