/* SPDX-License-Identifier: MIT */
/* Session: a strategy at work on opened devices; the candidate, or a judge of it. */
#pragma once

#include "bench/case/workplace.h"
#include "common/device/link.h"
#include "common/device/watch.h"

#include <jansson.h>
#include <stdio.h>

/** Opens the run of a judge; `job` is the plan's, on one device. */
typedef ls_status (*ls_session_opener)(const ls_plan_of_case *plan, const ls_job *job,
                                       ls_run **out);

/** Opens a run of `single`: a ls_session_opener. */
ls_status ls_session_single(const ls_plan_of_case *plan, const ls_job *job, ls_run **out);

/** How a session is opened; zero-filled: the plan's devices and its strategy. */
typedef struct ls_opening {
    ls_session_opener judge; /**< on the first device alone; heeds signals (ls_session_heed) */
    bool delayed;            /**< with the delay of --inject, which the gate leaves out */
    bool counted;            /**< memory is only counted, and no step can run */
    bool renewed;            /**< the caller sets the values */
} ls_opening;

/** A strategy at work on opened devices. */
typedef struct ls_session {
    const ls_plan_of_case *plan;
    ls_job job;
    ls_job *lent;        /**< copy of `job` for `run`; not freed if a device is lost */
    bool *left;          /**< ls_workplace.left */
    ls_device **devices; /**< [device_count] */
    size_t device_count;
    ls_network *network; /**< between the devices; NULL means no links */
    ls_watch *watch;     /**< of the devices; NULL if none (bench/train/session_watch.c) */
    ls_run *run;
    ls_session_opener judge;             /**< that opened the run; NULL if it trains */
    bool heeds;                          /**< signals (ls_session_heed) */
    uint64_t step;                       /**< steps done */
    uint64_t since;                      /**< the first of them that the run's counters have */
    uint64_t latest_first, latest_count; /**< the latest steps (ls_time_steps) */
    uint64_t setup_ns;                   /**< time that opening took */
    bool moved;                          /**< before it was last opened again (ls_session_moved) */
} ls_session;

/* ---- Memory: by formula, and what steps allocate and keep (session_memory.c) ---------------- */

/** Memory that one device needs. */
typedef struct ls_need_device {
    char name[40];
    size_t limit; /**< bytes that --memory allows */
    ls_memory_formula formula;
} ls_need_device;

/** Memory that a case needs; owned by the caller (ls_need_free). */
typedef struct ls_need {
    ls_need_device *devices;
    size_t count;
    size_t host; /**< bytes of the host's heap that opening took besides */
    bool full;   /**< a device had no room */
} ls_need;

/** What the session's devices allocated; an open session needs just that, even if memory is only
 * counted. `devices` is NULL if out of memory. */
void ls_need_of(const ls_session *session, ls_need *out);
ls_need ls_need_copy(const ls_need *need);
void ls_need_free(ls_need *need);

/** All ranks' devices, as many of each, in their order. By all processes of the case; `comm` may be
 * NULL. */
ls_status ls_need_join(ls_comm *comm, ls_need *need);

/** Sum over all uses, in bytes. */
size_t ls_need_sum(const ls_memory_formula *formula);

/**
 * Prints the need of device `first` and of later devices with the same need, largest first:
 * "cpu:0+cpu:1: 2.3 MiB each (activations 1.1 MiB, optimizer 795.1 KiB, ..)". Returns how many
 * devices that are.
 */
size_t ls_need_print(FILE *stream, const ls_need *need, size_t first);

/** The refusal of a case, or of its judge, without enough memory: what each device needs and for
 * what, and what --memory allows. LS_OK if each has enough. */
ls_status ls_need_refuse(const ls_need *need, const ls_plan_of_case *plan, bool judge);

/** Memory that a session uses at a moment, in bytes. */
typedef struct ls_memory_in_use {
    size_t devices; /**< by their ledgers */
    size_t heap;    /**< on the host, with malloc's headers: 64 bytes count as 80 */
} ls_memory_in_use;

/** Does not see memory that is mapped without malloc. */
ls_memory_in_use ls_memory_in_use_by(const ls_session *session);

/** With fewer steps, a library's first allocations would look like growth in each step. */
enum { LS_GROWTH_STEPS = 5 };

/** Memory that steps allocated and kept. */
typedef struct ls_growth {
    double heap_least, heap_most; /**< bytes per step, of a call's steps */
    size_t calls;
    double devices; /**< bytes of all steps */
    uint64_t steps;
} ls_growth;

/** Adds `steps` steps, enqueued by one call and done now. */
void ls_growth_add(ls_growth *growth, ls_memory_in_use before, ls_memory_in_use after,
                   uint64_t steps);

/** Bytes per step: growth of the devices' memory, plus the least growth of the heap over all calls,
 * unless there are fewer steps than LS_GROWTH_STEPS. */
double ls_growth_per_step(const ls_growth *growth);

/* ---- Sessions (session.c) -------------------------------------------------------------------- */

/** Opens devices and a run on them, and loads the initial values; of an elastic case the devices of
 * its first members. All processes of the case call it, except for a judge's, and all get the same
 * status: success, or the failure of the one that failed. */
ls_status ls_session_open(const ls_workplace *workplace, const ls_plan_of_case *plan,
                          ls_opening how, ls_session *out);

/** From here on a signal ends waits for the session's devices, in the middle of a step, too; the
 * failure is LS_CODE_INTERRUPTED. Closing then leaves the session to the process's end, as if it
 * had lost a device. Not where the command has several processes. */
void ls_session_heed(const ls_workplace *workplace, ls_session *session);

/** The memory that the plan needs, or, unless `judge` is NULL, a judge of it, found by opening it
 * with memory that is only counted. CPU devices stand for GPUs, and workspace is a CPU's. Called as
 * ls_session_open. The caller frees `out`. */
ls_status ls_session_need(const ls_workplace *workplace, const ls_plan_of_case *plan,
                          ls_session_opener judge, ls_need *out);

/** Whether something has taken devices of the session off their cores (ls_device_moved). */
bool ls_session_moved(const ls_session *session);

/** Closes the devices, opens them again with new memory, and continues: digests and losses do not
 * change by that. After a failure it may be closed (run is NULL). All processes of the case call
 * it, and get the same status. */
ls_status ls_session_reopen(const ls_workplace *workplace, ls_session *session);

/** Closes the devices, and opens a plan's devices, as the session was opened before, without
 * values: the caller sets values. Its numbers of steps stay. As ls_session_reopen. */
ls_status ls_session_renew(const ls_workplace *workplace, const ls_plan_of_case *plan,
                           ls_session *session);

/** Whether a full batch is among the steps that the run's counters have. */
bool ls_session_has_full(const ls_session *session);

/** Waits for what was enqueued, and closes; a zero-filled session is closed. A session that has
 * lost a device, or loses one now, stays open (ls_workplace.left). */
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

/** Continues at step number `step` with the given parameters, and optimizer state zero. */
ls_status ls_session_begin_at(ls_session *session, uint64_t step, const ls_state_source *source);

/* The values of a session (session_values.c), without room for a whole model: */

/** A block of the model's elements, values [block.count]. */
typedef ls_status ls_values_visit(void *context, ls_range block, const float *values);

/** Visits all blocks of an array of the state, of one variable after the other, in the model's
 * order or by their names. NULL means this process only gives what others need. */
ls_status ls_session_each(ls_session *session, ls_values array, bool by_name,
                          ls_values_visit *visit, void *context);

/** Copies an array of the state to `out`, float32 [elements of the model]. NULL means as above. */
ls_status ls_session_gather(ls_session *session, ls_values array, float *out);

/** What is found in the parameters. */
typedef struct ls_session_found {
    char digest[33];              /**< of all, as ls_variables_digest */
    size_t infinite;              /**< the first element that is not finite; SIZE_MAX if none */
    char differs[LS_REASON_SIZE]; /**< the first that devices or replicas have differently; "" if
                                       none */
} ls_session_found;

ls_status ls_session_look(ls_session *session, ls_session_found *out);

/** Writes the parameters to a safetensors file; NULL means another process does. A failure to write
 * is this process's alone. */
ls_status ls_session_save(ls_session *session, const char *path);

/** Evaluates the first `samples` of the test set, on all devices; `outputs` as in ls_evaluating. A
 * signal stops it within a second or, with several processes, a batch. */
ls_status ls_session_evaluate(ls_session *session, uint64_t samples, bool outputs,
                              ls_evaluation *out);

/** Which kernel each operation of a step got: {operation: kernel, ...}, owned by the caller
 * (step_kernels.c). */
json_t *ls_step_kernels(const ls_run *run);

/* ---- The waterfall: a step's time in parts, as rows and traces have it (step_kernels.c) ------ */

enum { LS_WATERFALL_PARTS = 6 }; /**< in the order of the fields of `waterfall` and `gap` */

/** Adds up times by use into the parts: compute, exposed communication, wait, copy, optimizer,
 * harness; idle time without a cause is the harness's.
 */
void ls_waterfall_parts(const double ms[LS_TIME_USES], double parts[LS_WATERFALL_PARTS]);

/** Sets the row's group `waterfall` to the parts; parts of no time are absent. */
void ls_waterfall_put(json_t *row, const double ms[LS_TIME_USES]);

/* ---- Watched devices (session_watch.c; common/device/watch.h): --timeout where ranks are devices
 * of one process, and of GPUs ------------------------------------------------------------------ */

/** Watches the session's devices if there are several, or one is a GPU; before its strategy is
 * opened. */
ls_status ls_session_watch(ls_session *session);

/** Prints which device of a session hangs, and what the others waited for, each on a line on
 * stderr. */
void ls_session_autopsy(const ls_session *session);

/** Makes a rank's devices hang (--inject hang); a single device if there is only one rank. */
ls_status ls_session_hang(const ls_session *session, int rank);
