/* SPDX-License-Identifier: MIT */
/* Raw: files as bytes, and the memory that data are kept in. Shared by the readers of common/data.
 */
#pragma once

#include "common/base/grow.h"

#include <stddef.h>

/** A regular file, open for reading. `what` ("IDX file") and `path` begin its messages; borrowed.
 */
typedef struct ls_raw_file {
    const char *what, *path;
    int fd;
    size_t size; /**< bytes, when it was opened */
} ls_raw_file;

/** LS_CODE_MISSING if there is no such file, or it is not a regular one. */
ls_status ls_raw_open(const char *what, const char *path, ls_raw_file *out);

/** The next `size` bytes of the file into `out`; LS_CODE_MISSING where fewer are left. */
ls_status ls_raw_read(const ls_raw_file *file, void *out, size_t size);
/** Reads the bytes from `at` on; the position for ls_raw_read does not matter. */
ls_status ls_raw_read_at(const ls_raw_file *file, size_t at, void *out, size_t size);

void ls_raw_close(ls_raw_file *file);

/**
 * Memory of `bytes` bytes (at least 1), at a multiple of 64, not touched yet; in huge pages where
 * it is large, because batches are gathered from it at random. Freed with free. `where` says what
 * for, in a failure.
 */
ls_status ls_raw_allocate(const char *where, size_t bytes, void **out);
