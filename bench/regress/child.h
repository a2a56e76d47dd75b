/* SPDX-License-Identifier: MIT */
/* Child: another program, run to its end, with what it said. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ls_child {
    char *out, *err; /**< its outputs; never NULL, but after a failure */
    int code;        /**< exit status; of one that a signal ended, 128 + its number */
    int signal;      /**< that ended it; 0: none */
} ls_child;

/**
 * Runs argv[0] (as found in PATH) in `folder` (NULL: this one), in a process group of its own, for
 * at most `limit_ns`. LS_CODE_MISSING where it cannot be started, or is not over in time: then it
 * is killed. LS_CODE_INTERRUPTED where a signal came to this program, unless it cleans up. A child
 * that fails is no failure of this call.
 */
ls_status ls_child_run(char *const argv[], const char *folder, bool cleans, uint64_t limit_ns,
                       ls_child *out);

/** Takes a zero-filled one. */
void ls_child_free(ls_child *child);

/** The last line of its errors, without "lockstep: "; in `text`, which is returned. */
char *ls_child_says(const ls_child *child, char *text, size_t size);
