/* SPDX-License-Identifier: MIT */
/*
 * Pulse: whether the queues of a machine's devices go on, for a thread that works on none of them
 * and waits for none: one that tells other processes that this one lives.
 *
 * On CPU devices every command and every operation of a program counts; on GPUs every end of a
 * step, every all-reduce of NCCL's, and what the host puts and comes back from.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ls_pulse ls_pulse;

/** A queue's place in a pulse. */
typedef struct ls_pulse_place {
    const struct ls_queue *queue;
    uint64_t (*progress)(const struct ls_queue *queue); /**< a number that changes as it goes on */
    uint64_t seen;                                      /**< these two are the pulse's */
    struct ls_pulse_place *next;
} ls_pulse_place;

ls_status ls_pulse_open(ls_pulse **out);

/** After its queues are closed. Takes NULL. */
void ls_pulse_close(ls_pulse *pulse);

/** Whether anything has moved on since the latest call. From any one thread. */
bool ls_pulse_moved(ls_pulse *pulse);

/* For back ends, and device_dispatch.c. Each takes NULL. */

/** From here on the queue is looked at, until it is removed; `progress` from any thread. */
void ls_pulse_add(ls_pulse *pulse, ls_pulse_place *place);
void ls_pulse_remove(ls_pulse *pulse, ls_pulse_place *place);

/** The host has put something, or has come back from what it waited for. */
void ls_pulse_beat(ls_pulse *pulse);
