/* SPDX-License-Identifier: MIT */
/* Child: runs another program to its end, and returns its output. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>
#include <stdio.h>

typedef struct ls_child {
    FILE *input;        /**< given: its standard input; NULL means nothing */
    char **environment; /**< given; NULL means this program's */
    const char *folder; /**< given: where it runs; NULL means here */
    size_t most;        /**< given: bytes that it may print; less than 64 MiB means that */
    char *out, *err;    /**< its output and errors; NULL only after a failure */
    size_t out_bytes;   /**< of `out`, which a zero follows */
    int code;           /**< exit status; 128 + signal where a signal ended it */
    int signal;         /**< that ended it; 0 if none */
    int error;          /**< errno, where it cannot be started; else 0 */
} ls_child;

/**
 * Runs argv[0] (found in PATH), in its own process group, for at most `limit_ns`. `child` is
 * zero-filled but for what is given. LS_CODE_MISSING if it cannot be started, or is killed at the
 * limit. LS_CODE_INTERRUPTED if this program received a signal. A child that fails is not a failure
 * of this call.
 */
ls_status ls_child_run(char *const argv[], uint64_t limit_ns, ls_child *child);

/** The bytes of an open file, and a zero after them, owned by the caller (free); NULL if it cannot
 * be read. */
char *ls_child_read(int file, size_t *bytes);

/** Takes a zero-filled one. */
void ls_child_free(ls_child *child);

/** Copies the last line of its errors, without "lockstep: ", to `text`, and returns that. */
char *ls_child_says(const ls_child *child, char *text, size_t size);
