/* SPDX-License-Identifier: MIT */
/*
 * Team: the OpenMP threads of a queue's thread, bound to the device's cores.
 *
 * oneDNN's threads are libgomp's, one team per thread that calls it. It also runs our own loops, so
 * a device of c cores has c busy threads, never 2c. libgomp is called by its ABI (GOMP_parallel),
 * not by pragmas, so that gcc and clang builds share one run-time library.
 *
 * Work is divided by the number of threads that was asked for. libgomp may make a smaller team, and
 * says nothing; so the team that comes is checked when it is set up and in every use.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>

/** Splits work over the calling thread's team: body(context, part, parts) for each part. Fails, and
 *  calls no body, if the team has another size. */
ls_status ls_team_run(int threads, void (*body)(void *context, int part, int parts), void *context);

/** Fails unless a library that is called on this thread gets a team of `threads`. */
ls_status ls_team_check(int threads);

/**
 * Sets up the calling thread: bound to `cores` (part i > 0 of its team to cores[i] only), denormals
 * flushed in each (*flushes; false if not by this processor), and a team of `count` threads for
 * OpenMP. If `make_team` is false, only the number is set, and the thread may run on any of the
 * cores. Fails if such a team does not come, naming the variable or limit.
 */
ls_status ls_team_setup(const int *cores, int count, bool make_team, bool *flushes);

/** The failure of pthread_create with this error. */
ls_status ls_team_refuse_thread(int error);

/** Flushes denormals to zero on the calling thread; false if this processor cannot. */
bool ls_flush_denormals(void);
