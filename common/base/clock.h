/* SPDX-License-Identifier: MIT */
/* The monotonic clock that every duration in the suite is taken from. */
#ifndef LS_COMMON_BASE_CLOCK_H
#define LS_COMMON_BASE_CLOCK_H

#include <stdint.h>

/** Nanoseconds of CLOCK_MONOTONIC (read in user space by the vDSO: about 20 ns a call). */
uint64_t ls_clock_ns(void);

/** Sleeps, through signals, for `ns` nanoseconds. */
void ls_clock_sleep(uint64_t ns);

#endif
