/* SPDX-License-Identifier: MIT */
/*
 * Carried: the state of a run, saved in host memory and restored into another run of the same job,
 * which continues it. One function lists all pieces of the state, for both directions.
 */
#pragma once

#include "common/device/device.h"

#include <stdbool.h>

/** Zero-filled: it saves. */
typedef struct ls_carried {
    unsigned char *bytes; /**< [count], allocated: [room] */
    size_t count, room;
    size_t at;  /**< bytes restored so far */
    bool gives; /**< false if it saves; true if it restores */
} ls_carried;

/** Saves or restores a piece of host memory; its size is the same both times. */
ls_status ls_carry_value(ls_carried *carried, void *value, size_t bytes);

/** As above, for memory of the queue's device; waits. Does nothing if `memory` is NULL. */
ls_status ls_carry_memory(ls_carried *carried, ls_queue *queue, void *memory, size_t bytes);

void ls_carried_close(ls_carried *carried);
