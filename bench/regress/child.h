/* SPDX-License-Identifier: MIT */
/* Child: runs another program to its end, and returns its output. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ls_child {
    char *out, *err; /**< its output and errors; NULL only after a failure */
    int code;        /**< exit status; 128 + signal where a signal ended it */
    int signal;      /**< that ended it; 0 if none */
} ls_child;

/**
 * Runs argv[0] (found in PATH), in its own process group, for at most `limit_ns`. LS_CODE_MISSING
 * if it cannot be started, or is killed at the limit. LS_CODE_INTERRUPTED if this program received
 * a signal. A child that fails is not a failure of this call.
 */
ls_status ls_child_run(char *const argv[], uint64_t limit_ns, ls_child *out);

/** Takes a zero-filled one. */
void ls_child_free(ls_child *child);

/** Copies the last line of its errors, without "lockstep: ", to `text`, and returns that. */
char *ls_child_says(const ls_child *child, char *text, size_t size);
