/* SPDX-License-Identifier: MIT */
/* The monotonic clock that every duration in the suite is taken from. */
#pragma once

#include <stdint.h>
#include <time.h>

/** Nanoseconds of CLOCK_MONOTONIC (read in user space by the vDSO: about 20 ns a call). */
uint64_t ls_clock_ns(void);

/** A time of ls_clock_ns for system calls that wait by CLOCK_MONOTONIC. */
struct timespec ls_clock_timespec(uint64_t ns);

/** Yields the core; returns the nanoseconds until this thread runs again: about 500 where nothing
 * else is ready, more than LS_CLOCK_SWITCH_NS where another thread ran, up to its whole time slice.
 * A waiter yields for a limited time, then sleeps until it is woken. */
uint64_t ls_clock_yield(void);

enum { LS_CLOCK_SWITCH_NS = 2000 };

/** Sleeps, through signals, for `ns` nanoseconds. */
void ls_clock_sleep(uint64_t ns);

/** Sleeps, through signals, until ls_clock_ns() is at least `ns`; returns at once where it is. Sets
 *  the calling thread's timer slack to 1 ns: on a virtual machine it then woke 19 us late, not 67.
 */
void ls_clock_sleep_until(uint64_t ns);
