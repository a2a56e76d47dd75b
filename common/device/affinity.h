/* SPDX-License-Identifier: MIT */
/* Affinity: the cores that a thread may run on, on machines of any number of them. */
#pragma once

#include "common/base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/** Binds the calling thread to the cores (the system's numbers). Fails unless the thread may run on
 * each of them; after a failure it may be bound to some. */
ls_status ls_affinity_bind(const int *cores, int count);

/** Whether the thread may run exactly on these cores; true if the system does not tell. */
bool ls_affinity_is(pthread_t thread, const int *cores, int count);

/** A digest of the cores that the calling thread may run on; 0 if the system does not tell. */
uint64_t ls_affinity_digest(void);

/**
 * Fails, naming the variables, if OpenMP's library binds this process's threads: the first thread
 * was bound to one OpenMP place before main, so its cores are not the process's, and later threads
 * would be bound to other cores than their device's.
 */
ls_status ls_affinity_check_openmp(void);
