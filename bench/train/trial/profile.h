/* SPDX-License-Identifier: MIT */
/*
 * What is profiled: where a step's time goes, once all that the row and the user keep has been
 * read. Uses the timed steps if they were accounted; if that would have cost too much,
 * some extra full steps. With parameter servers, the parts are the workers'. Extra steps also run
 * for a pipeline (for medians over steps of its idle share; if they are long, in several
 * rounds) and for servers (one round, for how busy they are).
 */
#pragma once

#include "bench/train/time_steps.h"
#include "bench/train/trial/timed.h"
#include "common/device/device.h"
#include "impl/pipeline/pipeline_times.h"

/* ---- Bubble --------------------------------------------------------------------------------- */
/*
 * The share of a pipeline's time in which its stages have nothing to do.
 *
 * After the timed steps some more are profiled. A row has the medians over steps of the measured
 * share, and of the share that the schedule gives for the stages' times in the same step. So they
 * belong to the median step: a step that other programs made long counts once, however long.
 */

typedef struct ls_bubble {
    double measured; /**< 1 - work of all stages / (stages x time of the step) */
    double formula;  /**< the share with the time that ls_schedule_span gives for each stage's
                          mean forward and backward pass and what it does after them */
    double slowest;  /**< work of the stage that has most, over the mean of all stages */
    double stage;    /**< idle share of the longest stage's own span (ls_schedule_times.idle) */
    double forward_ms, backward_ms, weights_ms; /**< a micro-batch's passes on a stage, mean of all
                                                     stages */
} ls_bubble;

/** Computes the shares from the profiles [stages] of the stages' queues in a step. The step's time
 * is the longest time of a queue. */
ls_status ls_bubble_measure(const ls_schedule *schedule, const ls_time_profile *stages,
                            ls_bubble *out);

/** The medians over `steps` > 0 steps of the shares that ls_bubble_measure gives for each; profiles
 * [steps, stages]. */
ls_status ls_bubble_median(const ls_schedule *schedule, const ls_time_profile *profiles,
                           size_t steps, ls_bubble *out);

/* ---- Accounted steps ------------------------------------------------------------------------ */
/*
 * What the time of this process's devices went to in the timed steps: the queues read the clock
 * after each operation and record it. All timed steps are accounted, one replay call at a time, if
 * that costs next to nothing; otherwise extra steps after them (below). Steps that are not yet
 * steady are excluded. A device's parts come from its own readings: from its first operation to its
 * last, plus the wait until the steps ended everywhere. Nothing forces their sum to equal the
 * steps' time by the records, which are separate readings: the residual is the difference.
 */

/** Steps that one call enqueued, and that are accounted. */
typedef struct ls_account {
    uint64_t steps;
    double ms; /**< by their records */
} ls_account;

/** Written by the functions below that take it without const. */
typedef struct ls_accounts {
    enum { LS_ACCOUNTS_UNKNOWN, LS_ACCOUNTS_ALL, LS_ACCOUNTS_NONE } which; /**< of timed steps */
    ls_account *calls;      /**< [count] of the current block; 0 forgets them */
    ls_time_profile *parts; /**< [count, devices] */
    size_t count, devices;
    double *ns; /**< [devices, LS_TIME_USES] of the steps that count */
    double ms;  /**< of all accounted steps, by their records */
    uint64_t steps;
} ls_accounts;

ls_status ls_account_open(ls_accounts *accounts, size_t devices);
void ls_account_close(ls_accounts *accounts);

/** Whether the next timed steps are accounted, if a step takes `step_ms` (0 if not known): rank 0
 * decides for all ranks. */
bool ls_account_wanted(ls_accounts *accounts, const ls_session *session, bool waterfall,
                       double step_ms);

/** Before ls_time_steps, which ends it. All processes together. */
ls_status ls_account_begin(const ls_session *session, uint64_t steps);

/** Adds the steps. All processes call it together. */
ls_status ls_account_add(ls_accounts *accounts, const ls_session *session,
                         const ls_step_times *steps);

/** At a block's end: excludes its first `left_out` steps, which took `step_ms`. */
void ls_account_take(ls_accounts *accounts, const double *step_ms, size_t left_out);

/** Most steps that are profiled; for a pipeline, in at most this many rounds. */
enum { LS_PROFILED_MOST = 100, LS_PROFILE_ROUNDS = 15 };

/** How a device that trains spends the mean step, in ms. */
typedef struct ls_device_load {
    double busy_ms, wait_ms; /**< work (with injected delay); waiting. Both 0 if it does not
                                  train */
    double gather_ms;        /**< part of busy_ms: gathering of batches */
} ls_device_load;

typedef struct ls_profile {
    double part_ms[LS_TIME_USES]; /**< of the mean step, by use; all 0 if not known */
    uint64_t accounted;           /**< timed steps among them; 0 means extra steps after them */
    double profiled_ms;           /**< the mean of the accounted steps, by the devices' own
                                       readings */
    double residual;              /**< that over their mean by the records, less 1 */
    ls_device_load *loads;        /**< [devices] of this process, if part_ms is known; else NULL */
    ls_bubble bubble;             /**< of a pipeline: medians of steps; else NaN */
} ls_profile;

/** Nothing is known. */
ls_profile ls_profile_begin(void);
void ls_profile_close(ls_profile *profile);

/** Profiles a session whose timed steps are done; may run extra steps, at most `at_once` by one
 * call, with their times in `times`. All processes together. */
ls_status ls_profile_take(const ls_timed *timed, uint64_t at_once, ls_session *session,
                          ls_accounts *accounts, ls_step_times *times, ls_profile *out);
