/* SPDX-License-Identifier: MIT */
/* Session: a strategy at work on opened devices; the candidate, or a judge of it. */
#pragma once

#include "bench/case/workplace.h"
#include "bench/train/session_memory.h"

#include <jansson.h>

/** Opens the plan's devices and its strategy, and loads the initial values; all processes of the
 *  case together, which get the same: success, or the failure of the one that failed. */
ls_status ls_session_open(const ls_workplace *place, const ls_plan_of_case *plan, ls_session *out);

/** Makes the run of a judge of the plan; `job` is the plan's, on one device. */
typedef ls_status (*ls_session_opener)(const ls_plan_of_case *plan, const ls_job *job,
                                       ls_run **out);

/** Opens the plan's first device alone and a run on it; loads the initial values. */
ls_status ls_session_open_one(const ls_workplace *place, const ls_plan_of_case *plan,
                              ls_session_opener open, ls_session *out);

/** The same of `single`. */
ls_status ls_session_open_single(const ls_workplace *place, const ls_plan_of_case *plan,
                                 ls_session *out);

/** As ls_session_open, with the delay that --inject asks for: not for what is compared. */
ls_status ls_session_open_delayed(const ls_workplace *place, const ls_plan_of_case *plan,
                                  ls_session *out);

/** What the plan needs, by an opening with memory that is only counted. CPU devices stand for GPUs:
 *  the workspace is theirs. Not yet run on a GPU. */
ls_status ls_session_need(const ls_workplace *place, const ls_plan_of_case *plan, ls_need *out);

/** Closes the devices and opens them again, with memory of their own, to go on where the session
 *  stands: digests and losses are those of one that was never closed. After a failure it may be
 *  closed (run is NULL). All processes of the case together, which get the same. */
ls_status ls_session_reopen(const ls_workplace *place, ls_session *session);

/** Waits for what was put. A session that has lost a device, or loses it now, is left as it is
 *  (ls_workplace.left). */
void ls_session_close(ls_session *session);

/** Whether this process is the one that looks at what all have alike: parameters, the test set. */
bool ls_session_leads(const ls_session *session);

/*
 * The following are called by all processes of the case together, each with what it has alone to do
 * in them, and all get the same: success, or the failure of the one that failed. So nobody goes on
 * to what the others never come to.
 */

/** Puts `count` steps, full batches and epochs' last ones as they come, and waits for them.
 *  count is at most job.records. */
ls_status ls_session_steps(ls_session *session, uint64_t count);

/** Reads the records of the last `count` steps. */
ls_status ls_session_records(ls_session *session, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns);

/** Goes on at step number `step` with these parameters [elements], the optimizer's state zero. */
ls_status ls_session_begin_at(ls_session *session, uint64_t step, const float *values);

/** Copies the parameters to the host, float32 [elements]. */
ls_status ls_session_gather(ls_session *session, float *values);

/** What the model makes of the first `most` test samples. All ranks call it, and all get rank 0's
 * accuracy; `outputs` are of those that evaluate, rank 0 among them. */
ls_status ls_session_evaluate(ls_session *session, uint64_t most, ls_evaluation *out);

/** One step, waited for; parameters [elements] and loss after it. */
ls_status ls_session_one_step(ls_session *session, float *values, double *loss);

/** What differs between `first`, the parameters [elements] of replica 0, and those of the others of
 *  this process that keep their own: goes into `differs`; "": nothing. `other` [elements] is used.
 */
ls_status ls_session_compare_replicas(ls_session *session, const float *first, float *other,
                                      char differs[LS_REASON_SIZE]);

/** Which kernel each operation of a step got: {operation: kernel, ...}, owned by the caller. */
json_t *ls_step_kernels(const ls_run *run);

/* ---- Watched devices (session_watch.c; common/device/watch.h): --timeout where ranks are devices
 * of one process, and of GPUs ------------------------------------------------------------------ */

/** Watches the session's devices where they are such, or a GPU is among them; before its strategy
 * is opened. */
ls_status ls_session_watch(ls_session *session);

/** Of a session that has lost a device, a line each on stderr: which hangs, and what the others
 *  waited for. */
void ls_session_autopsy(const ls_session *session);

/** A rank's devices hang from here on (--inject hang); one device where the case has one rank. */
ls_status ls_session_hang(const ls_session *session, int rank);

/** Whether the loss of `step` is not finite; then `reason` says so. */
bool ls_loss_diverged(double loss, uint64_t step, char reason[LS_REASON_SIZE]);

/** The same of the parameters [elements] after `steps` steps. */
bool ls_values_diverged(const ls_variables *variables, const float *values, uint64_t steps,
                        char reason[LS_REASON_SIZE]);
