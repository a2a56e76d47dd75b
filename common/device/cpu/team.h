/* SPDX-License-Identifier: MIT */
/*
 * Team: the OpenMP threads of a queue's thread, bound to the device's cores.
 *
 * oneDNN's threads are libgomp's, one team per thread that calls it. The same team runs our own
 * loops, so a device of c cores has c busy threads, never 2c. libgomp is called by its ABI
 * (GOMP_parallel), not by pragmas, so that gcc and clang builds share one run-time library.
 */
#pragma once

#include <stdbool.h>

/** Splits work over the calling thread's team: body(context, part, parts) for each part. */
void ls_team_run(int threads, void (*body)(void *context, int part, int parts), void *context);

/**
 * Sets up the calling thread: bound to `cores` (part i > 0 of its team to cores[i] only), denormals
 * flushed in each, and a team of `count` threads for OpenMP. If `make_team` is false, only the
 * number is set, and the thread may run on any of the cores. False: denormals are not flushed.
 */
bool ls_team_setup(const int *cores, int count, bool make_team);

/** Flushes denormals to zero on the calling thread; false if this processor cannot. */
bool ls_flush_denormals(void);
