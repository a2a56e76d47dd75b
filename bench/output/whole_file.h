/* SPDX-License-Identifier: MIT */
/* Whole file: a file that appears when all of it is written. */
#pragma once

#include "common/base/status.h"

#include <stdio.h>

/**
 * Writes beside the path's name, and renames; a device or a pipe, which is there, is written as it
 * is. LS_CODE_MISSING of --out where it cannot be written; else what `write` returns, and then the
 * file is as it was.
 */
ls_status ls_whole_file(const char *path, ls_status (*write)(FILE *stream, void *context),
                        void *context);
