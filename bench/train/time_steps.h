/* SPDX-License-Identifier: MIT */
/* Steps that are trained by one call, and their times, by the device's own clock. All processes of
 * the case call the functions, and get the same status. */
#pragma once

#include "bench/train/session.h"

/** What ls_time_steps finds. */
typedef struct ls_step_times {
    uint64_t first, count;   /**< the steps */
    ls_step_record *records; /**< [count] end and loss of each */
    double *ms;              /**< [count] time of each */
    double mean_ms;          /**< 0 if none was timed yet */
    uint64_t mark_ns;        /**< when the first began; the last ended at its record's end_ns */
    double host_ns;          /**< the host's time to enqueue one step */
    bool memory; /**< whether to ask malloc, which may take milliseconds; set by the caller */
    ls_memory_in_use before, after; /**< if so, memory in use before and after the steps */
} ls_step_times;

/** Makes room for `most` steps; ls_step_times_close frees it, also after a failure. */
ls_status ls_step_times_open(uint64_t most, ls_step_times *out);
void ls_step_times_close(ls_step_times *times);

/**
 * Trains `count` steps (at most job.records), full batches and epochs' last ones as they come,
 * waits for them, and takes their times.
 *
 * All that the harness adds to a step is one clock reading and one record at its end, by the
 * device. A step's time is the difference of two such readings; the first step counts from a mark
 * that the device makes right before it. `out` NULL if nothing is read.
 *
 * `profiled`: ends what ls_account_begin began, before anything is read, since queues note that,
 * too.
 */
ls_status ls_time_steps(ls_session *session, uint64_t count, bool profiled, ls_step_times *out);

/** As above, without times and profile. */
ls_status ls_session_steps(ls_session *session, uint64_t count);

/** Runs one step and waits for it; gives parameters [elements] (NULL if not to this process)
 * and loss after it. */
ls_status ls_session_one_step(ls_session *session, float *values, double *loss);
