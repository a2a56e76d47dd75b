/* SPDX-License-Identifier: MIT */
/* Session: a strategy at work on opened devices; the candidate, or a judge of it. */
#pragma once

#include "bench/case/workplace.h"
#include "bench/train/session_memory.h"

#include <jansson.h>

/** Opens the plan's devices and its strategy, and loads the initial values. All processes of the
 * case call it, and all get the same status: success, or the failure of the one that failed. */
ls_status ls_session_open(const ls_workplace *workplace, const ls_plan_of_case *plan,
                          ls_session *out);

/** Opens the run of a judge; `job` is the plan's, on one device. */
typedef ls_status (*ls_session_opener)(const ls_plan_of_case *plan, const ls_job *job,
                                       ls_run **out);

/** Opens the plan's first device alone and a run on it; loads the initial values. */
ls_status ls_session_open_one(const ls_workplace *workplace, const ls_plan_of_case *plan,
                              ls_session_opener open, ls_session *out);

/** The same with a run of `single`. */
ls_status ls_session_open_single(const ls_workplace *workplace, const ls_plan_of_case *plan,
                                 ls_session *out);

/** As ls_session_open, with the delay of --inject, which the gate leaves out. */
ls_status ls_session_open_delayed(const ls_workplace *workplace, const ls_plan_of_case *plan,
                                  ls_session *out);

/** The memory that the plan needs, found by opening it with memory that is only counted. CPU
 * devices stand for GPUs, and workspace is a CPU's. */
ls_status ls_session_need(const ls_workplace *workplace, const ls_plan_of_case *plan, ls_need *out);

/** Whether something has taken devices of the session off their cores (ls_device_moved). */
bool ls_session_moved(const ls_session *session);

/** Closes the devices, opens them again with new memory, and continues: digests and losses are
 * those of a session that was never closed. After a failure it may be closed (run is NULL). All
 * processes of the case call it, and get the same status. */
ls_status ls_session_reopen(const ls_workplace *workplace, ls_session *session);

/** Waits for what was enqueued, and closes. A session that has lost a device, or loses one now,
 * stays open (ls_workplace.left). */
void ls_session_close(ls_session *session);

/** Whether this process reads what is the same in all: parameters, evaluation. */
bool ls_session_leads(const ls_session *session);

/*
 * All processes of the case call the following, and all get the same status: success, or the
 * failure of the one that failed. So no process waits for others that have given up.
 */

/** Reads the records of the last `count` steps. */
ls_status ls_session_records(ls_session *session, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns);

/** Continues at step number `step` with these parameters [elements], and optimizer state zero. */
ls_status ls_session_begin_at(ls_session *session, uint64_t step, const float *values);

/** Copies the parameters to the host, float32 [elements]. */
ls_status ls_session_gather(ls_session *session, float *values);

/** Evaluates the first `most` test samples. All ranks get rank 0's accuracy; `outputs` is set on
 * ranks that evaluate, rank 0 among them. */
ls_status ls_session_evaluate(ls_session *session, uint64_t most, ls_evaluation *out);

/* Parts of ls_time_steps (time_steps.h), which trains. */

/** Tells other processes and the watch which `count` steps come next. */
void ls_session_announce(ls_session *session, uint64_t count);

/** Enqueues `count` steps. *host_ns: the host's time to enqueue one, of the first ones. Other
 * processes are not told of a failure. */
ls_status ls_session_enqueue(ls_session *session, uint64_t count, double *host_ns);

/** Compares `first`, the parameters [elements] of replica 0, with those of this process's other
 * replicas that have their own, or with the parts that its devices have; writes the difference to
 * `differs`, or "". `other` [elements] is scratch. */
ls_status ls_session_compare_replicas(ls_session *session, const float *first, float *other,
                                      char differs[LS_REASON_SIZE]);

/** Which kernel each operation of a step got: {operation: kernel, ...}, owned by the caller. */
json_t *ls_step_kernels(const ls_run *run);

/* ---- Watched devices (session_watch.c; common/device/watch.h): --timeout where ranks are devices
 * of one process, and of GPUs ------------------------------------------------------------------ */

/** Watches the session's devices if there are several, or one is a GPU; before its strategy is
 * opened. */
ls_status ls_session_watch(ls_session *session);

/** Of a session that has lost a device, a line each on stderr: which hangs, and what the others
 *  waited for. */
void ls_session_autopsy(const ls_session *session);

/** Makes a rank's devices hang (--inject hang); a single device if there is only one rank. */
ls_status ls_session_hang(const ls_session *session, int rank);
