/* SPDX-License-Identifier: MIT */
/*
 * What is profiled: where a step's time goes, once all that the row and the user keep has been
 * read. Uses the timed steps if they were accounted (account.h); if that would have cost too much,
 * some extra full steps. With parameter servers, the parts are the workers'. Extra steps also run
 * for a pipeline (for medians over steps of its idle share, bubble.h; if they are long, in several
 * rounds) and for servers (one round, for how busy they are).
 */
#pragma once

#include "bench/train/trial/account.h"
#include "bench/train/trial/bubble.h"
#include "bench/train/trial/timed.h"

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
