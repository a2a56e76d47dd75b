/* SPDX-License-Identifier: MIT */
/*
 * Trial: a session of a case that is trained in blocks of steps, many by one call.
 *
 * Each part of its state is a value that one file writes, and others read: what is timed
 * (timed.h), checked (checked.h) and profiled (profile.h), and what is learned, reported and saved
 * (trial_values.c). The time of steps is taken in time_steps.c.
 */
#pragma once

#include "bench/train/change.h"
#include "bench/train/session.h"
#include "bench/train/time_steps.h"
#include "bench/train/trial/checked.h"
#include "bench/train/trial/noise.h"
#include "bench/train/trial/profile.h"
#include "impl/arrival/ps_report.h"
#include "impl/strategy.h"

/* ---- What training reaches: losses, accuracy, and the target -------------------------------- */

/** Written by the functions below that take it without const. */
typedef struct ls_learned {
    double loss_first, loss_last;
    uint64_t trained;       /**< steps */
    uint64_t step_last;     /**< the last step's number, from 0 */
    double gradient_norm;   /**< of the last step, with --clip; NaN if there is none */
    ls_exchanged exchanged; /**< where the job has a period */
    double *losses;         /**< [losses_kept] of timed steps, kept with --verbose; else NULL */
    double *step_ms;        /**< [count] as losses */
    size_t losses_kept, room;
    double accuracy;    /**< NaN if there is none */
    uint64_t evaluated; /**< samples of the evaluation; 0 if there is none */
    bool stopped;       /**< a signal ended the evaluation */
    double ms;          /**< all steps so far, with the warm-up's */
    bool target_reached;
    uint64_t steps_to_target;
    double ms_to_target; /**< time of these steps, with the warm-up's */
    double target_sum;   /**< sum of losses since the target was last checked */
    int target_steps;    /**< how many there are */
} ls_learned;

/** Before the first step. */
ls_learned ls_learned_begin(void);
void ls_learned_close(ls_learned *learned);

/** Makes room for the losses of `count` more timed steps, which are then kept. */
ls_status ls_learned_expect(ls_learned *learned, uint64_t count);

/** Adds the steps of one call. Loss targets are checked against the mean of ten steps. */
void ls_learned_add(ls_learned *learned, const ls_case *config, const ls_step_times *steps,
                    bool timed);

/** Reads the norm of the last step's gradient, with --clip, and what replicas have exchanged, with
 * a period. All processes together. */
ls_status ls_learned_norm(ls_learned *learned, const ls_session *session);

/** Evaluates the first `samples` of the test set, if not 0. All processes together. */
ls_status ls_learned_evaluate(ls_learned *learned, ls_session *session, uint64_t samples);

/** Checks an accuracy target where an epoch has ended, even between two steps. All processes
 * together. */
ls_status ls_learned_look(ls_learned *learned, ls_session *session);

/* ---- What a row reports of memory and parameter servers: read after the last step ----------- */

typedef struct ls_reported {
    ls_memory_ledger *ledgers; /**< [devices]; NULL if the last step is not done */
    size_t rss_peak;           /**< bytes */
    ls_ps_report warm, ended;  /**< of servers, after the warm-up and after the last step */
    ls_ps_server *servers;     /**< [server_count] of this process */
    size_t server_count;
    ls_status unsaved; /**< why the order in which they served could not be written */
} ls_reported;

/** After the warm-up. */
ls_status ls_report_warm(const ls_session *session, ls_reported *out);

/** After the last step. All processes together. */
ls_status ls_report_memory(const ls_session *session, ls_reported *out);

/** Then, what the servers counted so far, and in `record` (NULL means nowhere) the order in which
 * they served it. All processes together. */
ls_status ls_report_servers(const ls_session *session, const char *record, ls_reported *out);

/** How busy the servers were in the steps that were last profiled. */
void ls_report_busy(const ls_session *session, ls_reported *out);

void ls_reported_close(ls_reported *reported);

/* ---- Checkpoints that a trial writes (bench/checkpoint): when, and what it took ------------- */

/** Zero-filled: none are written. Filled by ls_saved_write. */
typedef struct ls_saved {
    bool wanted;      /**< set by the command: the case writes checkpoints */
    uint64_t step;    /**< of the latest one */
    uint64_t bytes;   /**< of its elements */
    uint64_t count;   /**< how many were written */
    uint64_t time_ns; /**< for which the training stood */
} ls_saved;

/** How many of `steps` steps come before the next checkpoint is due. */
uint64_t ls_saved_until(const ls_saved *saved, const ls_workplace *workplace,
                        const ls_session *session, uint64_t steps);

/** Writes a checkpoint if one is due after the steps done: every --checkpoint-interval steps, or
 * `last`. Values that are not finite fail the verdict. All processes call it. */
ls_status ls_saved_write(ls_saved *saved, ls_workplace *workplace, ls_session *session, bool last,
                         ls_verdict *verdict);

/** A trial and its figures, filled by ls_trial_block and ls_trial_finish. */
typedef struct ls_trial {
    ls_session session;
    ls_workplace *workplace;
    ls_step_times latest; /**< steps of the latest call */
    ls_timed timed;
    ls_learned learned;
    ls_accounts accounts;
    ls_noise noise;   /**< of the timed blocks */
    ls_growth growth; /**< of memory, in the timed steps */
    ls_verdict verdict;
    bool interrupted;             /**< it, or a verdict that failed, stops the training */
    uint64_t chunk;               /**< how many steps may be enqueued at once next */
    bool fresh;                   /**< no step has run since the devices were opened */
    uint64_t reopened, reopen_ns; /**< how often the devices were reopened, and the time of that */
    ls_checked checked;           /**< after the last step, like the following */
    ls_reported reported;
    ls_saved saved;       /**< checkpoints */
    bool saves;           /**< set by the command: the parameters are written to --save */
    ls_status unsaved;    /**< why they could not be */
    ls_changes changes;   /**< of members */
    uint64_t block_first; /**< the current block's first step */
    ls_profile profile;
} ls_trial;

ls_status ls_trial_open(ls_workplace *workplace, const ls_plan_of_case *plan, ls_trial *out);

/** Whether no more steps are trained. */
bool ls_trial_stopped(const ls_trial *trial);

/** Runs the warm-up steps. */
ls_status ls_trial_warm_up(ls_trial *trial);

/** Shortest length of an added block, so that the work around it is shorter. */
enum { LS_ADDED_BLOCK_MS = 100 };

/** Runs block `index` of `blocks`: its share of the timed steps. An added block (`index` from
 * `blocks` on) is as long as the others, or LS_ADDED_BLOCK_MS. Every block but the first reopens
 * the devices and continues; if that fails, the trial has no session any more. */
ls_status ls_trial_block(ls_trial *trial, int64_t index, int64_t blocks);

/** Checks what was trained, and finds accuracy, what is reported, and the profile. */
ls_status ls_trial_finish(ls_trial *trial);

void ls_trial_close(ls_trial *trial);
