/* SPDX-License-Identifier: MIT */
/* Checkpoints that a trial writes (bench/checkpoint): when, and what it took. */
#pragma once

#include "bench/train/session.h"
#include "bench/train/trial/checked.h"

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
