/* SPDX-License-Identifier: MIT */
/*
 * Standard output: it carries what commands print, and nothing that a library prints
 * (ONEDNN_VERBOSE, NCCL_DEBUG, UCX_LOG_LEVEL, ...). The program keeps the real one for itself, and
 * descriptor 1, hence C's `stdout`, C++'s and what a child inherits, becomes standard error.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdio.h>

/** Once, first of all in main, when descriptors 0 to 2 are open. LS_CODE_MISSING if no descriptor
 * is left. */
ls_status ls_output_open(void);

/** The real standard output; before ls_output_open, and in tests, `stdout`. */
FILE *ls_output(void);

/**
 * Flushes a stream to which all was written. LS_CODE_UNREAD if it is standard output and its reader
 * has gone (`| head`); LS_CODE_MISSING if any of it could not be written. `results`: the file that
 * keeps what could not be printed; NULL if there is none.
 */
ls_status ls_output_flush(FILE *stream, const char *results);

/** Flushes and closes standard output, with the failures of ls_output_flush. */
ls_status ls_output_close(void);

/** ls_whole_file for measured figures: if the file cannot be written, it goes to standard output,
 * and the failure is returned. So `write` is called once more. */
ls_status ls_output_file(const char *what, const char *path,
                         ls_status (*write)(FILE *stream, void *context), void *context);

/** Whether the path is a name of descriptor 1, as /dev/stdout. */
bool ls_output_is_named(const char *path);
