/* SPDX-License-Identifier: MIT */
/* What is checked of a trained case: finite losses and parameters, equal replicas, bytes sent. */
#pragma once

#include "bench/train/time_steps.h"

/** Whether a check failed, and which. */
typedef struct ls_verdict {
    bool failed;
    char reason[LS_REASON_SIZE];
} ls_verdict;

/** Fails, saying why; the first failure stays. */
void ls_verdict_fail(ls_verdict *verdict, const char *why, ...)
    __attribute__((format(printf, 2, 3)));

/** Whether the loss of `step` is not finite; then `reason` says so. */
bool ls_loss_diverged(double loss, uint64_t step, char reason[LS_REASON_SIZE]);

/** As above, for the parameters after `steps` steps; `infinite`: ls_session_found. */
bool ls_values_diverged(const ls_variables *variables, size_t infinite, uint64_t steps,
                        char reason[LS_REASON_SIZE]);

/** The steps' losses must be finite. */
void ls_check_losses(const ls_step_times *steps, ls_verdict *verdict);

/** What the checks after the last step read. */
typedef struct ls_checked {
    char digest[33];          /**< of the parameters */
    bool counted;             /**< full steps sent something: `sent` and `formula` are set */
    ls_traffic sent, formula; /**< of one full step */
} ls_checked;

/** Checks a session after its last step. All processes together: a failed check of one fails all.
 */
ls_status ls_check_trained(ls_session *session, ls_verdict *verdict, ls_checked *out);
