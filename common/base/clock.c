/* SPDX-License-Identifier: MIT */
/* Monotonic clock; see clock.h. */
#include "common/base/clock.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

uint64_t ls_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void ls_clock_sleep(uint64_t ns)
{
    struct timespec left = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

void ls_clock_sleep_until(uint64_t ns)
{
    if (ls_clock_ns() >= ns)
        return;
    const struct timespec until = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    prctl(PR_SET_TIMERSLACK, 1ul, 0ul, 0ul, 0ul); /* 160 ns, of a sleep of microseconds */
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}
