/* SPDX-License-Identifier: MIT */
/* The monotonic clock that every duration in the suite is taken from. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/** Nanoseconds of CLOCK_MONOTONIC (read in user space by the vDSO: about 20 ns a call). */
uint64_t ls_clock_ns(void);

/** That time as the system's calls take it, which wait by CLOCK_MONOTONIC. */
struct timespec ls_clock_timespec(uint64_t ns);

/** Yields the core. False: something else had it for 0.2 ms or more; sleep, and what is waited for
 *  wakes the thread at once, where another yield would wait for that program's next slice, too. */
bool ls_clock_yield(void);

/** Sleeps, through signals, for `ns` nanoseconds. */
void ls_clock_sleep(uint64_t ns);

/** Sleeps, through signals, until ls_clock_ns() is at least `ns`; returns at once where it is. Sets
 *  the calling thread's timer slack to 1 ns: on a virtual machine it then woke 19 us late, not 67.
 */
void ls_clock_sleep_until(uint64_t ns);
