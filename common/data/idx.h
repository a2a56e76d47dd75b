/* SPDX-License-Identifier: MIT */
/*
 * IDX files, plain or gz: the format of MNIST and Fashion-MNIST.
 *
 * Four bytes 0, 0, type, rank; `rank` big-endian 32-bit sizes; the elements. Only type 0x08
 * (unsigned bytes) is read.
 */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ls_idx {
    int rank; /**< 1..4 */
    int64_t shape[4];
    size_t bytes;  /**< product of shape */
    uint8_t *data; /**< owned by the caller (free) */
} ls_idx;

/**
 * Reads a whole file, inflating it if it is gz. LS_CODE_MISSING, naming the file, for: a missing,
 * truncated or mislabelled file, a rank or size out of range, data longer or shorter than the
 * header says, a damaged gz stream. Memory is only allocated if the header's claim is possible: the
 * size of the file, or for gz at most 1032 times that.
 */
ls_status ls_idx_read(const char *path, ls_idx *out);

/** Version of the zlib that is loaded: "1.2.13". Static text. */
const char *ls_idx_zlib_version(void);
