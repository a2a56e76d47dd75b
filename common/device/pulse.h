/* SPDX-License-Identifier: MIT */
/*
 * Pulse: whether the queues of a machine's devices make progress. It is read by the thread that
 * sends signs of life to other processes, which uses no queue itself. On CPU devices every command
 * and every operation of a program counts; on GPUs every end of a step, every all-reduce of NCCL,
 * and what the host enqueues and has waited for.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ls_pulse ls_pulse;

/** A queue's entry in a pulse. */
typedef struct ls_pulse_entry {
    const struct ls_queue *queue;
    uint64_t (*progress)(const struct ls_queue *queue); /**< a number that changes with progress */
    uint64_t seen;                                      /**< this member and the next belong to
                                                             the pulse */
    struct ls_pulse_entry *next;
} ls_pulse_entry;

ls_status ls_pulse_open(ls_pulse **out);

/** After its queues are closed. Takes NULL. */
void ls_pulse_close(ls_pulse *pulse);

/** Whether anything has moved on since the latest call. From any one thread. */
bool ls_pulse_moved(ls_pulse *pulse);

/* For back ends, and device_dispatch.c. Each takes NULL. */

/** Adds a queue, until it is removed. Its `progress` is called from any thread. */
void ls_pulse_add(ls_pulse *pulse, ls_pulse_entry *entry);
void ls_pulse_remove(ls_pulse *pulse, ls_pulse_entry *entry);

/** The host has enqueued something, or its wait has ended. */
void ls_pulse_beat(ls_pulse *pulse);
