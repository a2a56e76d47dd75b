/* SPDX-License-Identifier: MIT */
/* Monotonic clock; see clock.h. */
#include "common/base/clock.h"

#include <errno.h>
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
