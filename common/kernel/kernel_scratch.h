/* SPDX-License-Identifier: MIT */
/*
 * Scratch: device memory in which a table's operations work. Operations of one `ls_kernels` share
 * it, so it grows with the largest operation, not with their number. What an operation takes is
 * among the accesses that it declares, so no two of them run at the same time. Nothing in it lasts
 * from one run to the next.
 */
#pragma once

#include "common/device/device.h"

/** One allocation. */
typedef struct ls_scratch_block {
    void *memory; /**< on the device */
    size_t bytes; /**< its size */
    size_t taken; /**< by the operation that is being made */
} ls_scratch_block;

/** All that the operations made so far need. */
typedef struct ls_scratch {
    ls_device *device;        /**< borrowed; NULL if the table's operations take none */
    ls_scratch_block *blocks; /**< [count] owned */
    size_t count;             /**< blocks */
} ls_scratch;

/** Begins a new operation, which may take all that there is. */
void ls_scratch_begin(ls_scratch *scratch);

/** Takes memory for this operation, aligned to 64 bytes. */
ls_status ls_scratch_take(ls_scratch *scratch, size_t bytes, void **out);

/** Bytes of all blocks. */
size_t ls_scratch_bytes(const ls_scratch *scratch);

/** After all operations are freed. */
void ls_scratch_release(ls_scratch *scratch);
