/* SPDX-License-Identifier: MIT */
/*
 * Carried: the state of a run, on its way through host memory to a run of the same job that goes
 * on. Whoever has state says each piece of it once, in a fixed order, for both ways.
 */
#pragma once

#include "common/device/device.h"

#include <stdbool.h>

/** Zero-filled at first: it takes. */
typedef struct ls_carried {
    unsigned char *bytes; /**< [count], of [room] */
    size_t count, room;
    size_t at;  /**< given back so far */
    bool gives; /**< back, what it took, to the next run */
} ls_carried;

/** Host memory; while it gives back, of as many bytes as it took. */
ls_status ls_carry_value(ls_carried *carried, void *value, size_t bytes);

/** Memory of the queue's device, which waits. NULL: nothing. */
ls_status ls_carry_memory(ls_carried *carried, ls_queue *queue, void *memory, size_t bytes);

void ls_carried_close(ls_carried *carried);
