/* SPDX-License-Identifier: MIT */
/* Whole file: a file that appears only when all of it is written; and whether one can be. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdio.h>

/**
 * Writes to a temporary name in the same folder, and renames; an existing device or pipe is written
 * directly. LS_CODE_MISSING, about --out, if that fails; otherwise a failure of `write`, after
 * which the old file is unchanged.
 */
ls_status ls_whole_file(const char *path, ls_status (*write)(FILE *stream, void *context),
                        void *context);

/** LS_CODE_MISSING, about `what`, if no file of that name can be written. Creates none. */
ls_status ls_file_writable(const char *what, const char *path);

/** Whether both names are of one file that exists. */
bool ls_same_file(const char *path, const char *other);

/** Creates a folder and its parents, if they are not there. LS_CODE_MISSING, about `what`, if it
 * cannot be written. */
ls_status ls_folder_make(const char *what, const char *path);
