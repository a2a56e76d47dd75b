/* SPDX-License-Identifier: MIT */
/*
 * What the time of this process's devices went to in the timed steps: the queues read the clock
 * after each operation and record it. All timed steps are accounted, one replay call at a time, if
 * that costs next to nothing; otherwise extra steps after them (profile.h). Steps that are not yet
 * steady are excluded. A device's parts come from its own readings: from its first operation to its
 * last, plus the wait until the steps ended everywhere. Nothing forces their sum to equal the
 * steps' time by the records, which are separate readings: the residual is the difference.
 */
#pragma once

#include "bench/train/time_steps.h"

/** Steps that one call enqueued, and that are accounted. */
typedef struct ls_account {
    uint64_t steps;
    double ms; /**< by their records */
} ls_account;

/** Written by the functions below that take it without const. */
typedef struct ls_accounts {
    enum { LS_ACCOUNTS_UNKNOWN, LS_ACCOUNTS_ALL, LS_ACCOUNTS_NONE } which; /**< of timed steps */
    ls_account *calls;      /**< [count] of the current block */
    ls_time_profile *parts; /**< [count, devices] */
    size_t count, devices;
    double *ns; /**< [devices, LS_TIME_USES] of the steps that count */
    double ms;  /**< of all accounted steps, by their records */
    uint64_t steps;
} ls_accounts;

ls_status ls_account_open(ls_accounts *accounts, size_t devices);
/** Begins again with other devices; what was noted is dropped. */
ls_status ls_account_renew(ls_accounts *accounts, size_t devices);
void ls_account_close(ls_accounts *accounts);

/** Whether the next timed steps are accounted, if a step takes `step_ms` (0 if not known): rank 0
 * decides for all ranks. */
bool ls_account_wanted(ls_accounts *accounts, const ls_session *session, bool waterfall,
                       double step_ms);

/** The next timed steps are not accounted, nor what was noted of this block. */
void ls_account_skip(ls_accounts *accounts);

/** Before ls_time_steps, which ends it. All processes together. */
ls_status ls_account_begin(const ls_session *session, uint64_t steps);

/** Adds the steps. All processes call it together. */
ls_status ls_account_add(ls_accounts *accounts, const ls_session *session,
                         const ls_step_times *steps);

/** At a block's end: excludes its first `left_out` steps, which took `step_ms`. */
void ls_account_take(ls_accounts *accounts, const double *step_ms, size_t left_out);
