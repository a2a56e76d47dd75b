/* SPDX-License-Identifier: MIT */
/*
 * Log: lines for people, on one stream. Rows of figures never pass through here, and nothing in a
 * timed step logs.
 */
#pragma once

#include <stdio.h>

/** How much is written. */
typedef enum ls_log_level { LS_LOG_QUIET, LS_LOG_NORMAL, LS_LOG_VERBOSE } ls_log_level;

/** Passed by pointer to whoever may write a line; NULL if none is written. Borrows the stream. */
typedef struct ls_log {
    FILE *stream;       /**< written to; borrowed */
    ls_log_level level; /**< of the lines that are written: this or less */
} ls_log;

/** Writes "lockstep: <text>\n", escaped (escape.h), when `level` is at most the log's own. */
void ls_log_line(const ls_log *log, ls_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Writes such a line to stderr, whatever the level. */
void ls_log_stderr(const char *format, ...) __attribute__((format(printf, 1, 2)));
