/* SPDX-License-Identifier: MIT */
/*
 * Carried: the state of a run, saved in host memory and restored into a run of the same job that
 * continues it. One function names each piece of the state in a fixed order, for both directions.
 */
#pragma once

#include "common/device/device.h"

#include <stdbool.h>

/** Zero-filled: it saves. */
typedef struct ls_carried {
    unsigned char *bytes; /**< [count], of [room] */
    size_t count, room;
    size_t at;  /**< restored so far */
    bool gives; /**< it restores what it saved */
} ls_carried;

/** Saves or restores a piece of host memory, of the same size both times. */
ls_status ls_carry_value(ls_carried *carried, void *value, size_t bytes);

/** Likewise a piece of the memory of the queue's device; waits. `memory` NULL: nothing. */
ls_status ls_carry_memory(ls_carried *carried, ls_queue *queue, void *memory, size_t bytes);

void ls_carried_close(ls_carried *carried);
