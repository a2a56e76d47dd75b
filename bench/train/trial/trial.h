/* SPDX-License-Identifier: MIT */
/*
 * Trial: a session of a case that is trained in blocks of steps, many by one call.
 *
 * Each part of its state is a value that one file writes, and others read: what is timed (timed.h),
 * learned (learned.h), accounted (account.h), checked (checked.h), reported (reported.h) and
 * profiled (profile.h). The time of steps is taken in time_steps.c.
 */
#pragma once

#include "bench/train/trial/checked.h"
#include "bench/train/trial/learned.h"
#include "bench/train/trial/noise.h"
#include "bench/train/trial/profile.h"
#include "bench/train/trial/reported.h"
#include "bench/train/trial/saved.h"
#include "bench/train/change.h"
#include "bench/train/session.h"

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
