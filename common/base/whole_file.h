/* SPDX-License-Identifier: MIT */
/*
 * Whole file: how every file of results is written. A file appears only once it is complete. To its
 * user it stays the same file: links lead to it, it keeps its mode and owner, and a file that is
 * mounted is written in place. What would fail at the end is checked before.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/**
 * Writes a file by `write`, which need not look at errors of the stream. LS_CODE_MISSING, about
 * `what` (the option that names the file), if it cannot be written; otherwise a failure of `write`,
 * after which the old file is unchanged. A device or pipe is written directly.
 */
ls_status ls_whole_file(const char *what, const char *path,
                        ls_status (*write)(FILE *stream, void *context), void *context);

/** LS_CODE_MISSING, about `what`, if no file of that name can be written that has so many bytes (0
 * if not known). Leaves no file behind. */
ls_status ls_file_writable(const char *what, const char *path, uint64_t bytes);

/** Whether both names belong to one file that exists. */
bool ls_same_file(const char *path, const char *other);

/** Creates a folder and its parents, if they are not there. LS_CODE_MISSING, about `what`, if it
 * cannot be written. */
ls_status ls_folder_make(const char *what, const char *path);
