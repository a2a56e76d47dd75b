/* SPDX-License-Identifier: MIT */
/* The monotonic clock that every duration in the suite is taken from. */
#pragma once

#include <stdint.h>
#include <time.h>

/** Nanoseconds of CLOCK_MONOTONIC (read in user space by the vDSO: about 20 ns a call). */
uint64_t ls_clock_ns(void);

/** That time as the system's calls take it, which wait by CLOCK_MONOTONIC. */
struct timespec ls_clock_timespec(uint64_t ns);

/** Yields the core; the nanoseconds until this thread has it again: some 500 where nothing else
 * wants it, over LS_CLOCK_SWITCH_NS where something else ran, whole slices of what computes there.
 * Who waits does so for a time in all, then sleeps: what it waits for wakes it at once. */
uint64_t ls_clock_yield(void);

enum { LS_CLOCK_SWITCH_NS = 2000 };

/** Sleeps, through signals, for `ns` nanoseconds. */
void ls_clock_sleep(uint64_t ns);

/** Sleeps, through signals, until ls_clock_ns() is at least `ns`; returns at once where it is. Sets
 *  the calling thread's timer slack to 1 ns: on a virtual machine it then woke 19 us late, not 67.
 */
void ls_clock_sleep_until(uint64_t ns);
