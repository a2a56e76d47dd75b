/* SPDX-License-Identifier: MIT */
/*
 * Watch: notices a device of this process that hangs: one of several, while others wait for it; or
 * a GPU whose work does not end. A thread that waits for a queue of a watched device checks several
 * times per timeout whether any queue of the watched devices makes progress. If none has made
 * progress for a whole timeout, no transfer is in flight on a link, and one device is at work while
 * another only waits, the device at work is lost, and every wait for a queue fails from then on.
 * Threads that hang cannot be ended: such devices, and what was made on them, are not closed. A GPU
 * makes progress when a step or an all-reduce of NCCL ends; a step must be shorter than the
 * timeout. So a GPU at work without progress is lost, even if no thread waits for it, together with
 * all GPUs of the watch, since they share programs. The failure names the GPU that has finished the
 * fewest steps. A GPU that waits in a collective for a slow rank is at work, too: with ranks on
 * GPUs, --timeout must exceed their slowest step. One host thread uses a watch and the queues of
 * its devices. Leaves out a single CPU device: the host cannot tell its long work from a hang.
 */
#pragma once

#include "common/device/device.h"

typedef struct ls_watch ls_watch;

/** What a queue, or a device, is doing. */
typedef struct ls_activity {
    enum { LS_AT_REST, LS_AT_WAIT, LS_AT_WORK } kind;
    const void *command; /**< this and `done` change with progress */
    uint64_t done;       /**< commands */
    uint64_t replays;    /**< of programs, done since ls_watch_begin; UINT64_MAX if not known */
    char what[128];      /**< an operation's name, or what is waited for */
} ls_activity;

ls_status ls_watch_open(uint64_t timeout_ns, ls_watch **out);

/** After its devices are closed. Takes NULL. */
void ls_watch_close(ls_watch *watch);

/** From here on the device's queues are watched: before any is opened. */
void ls_device_watch(ls_device *device, ls_watch *watch);

/** Replays are counted from here; the first is step `step`. The queues are empty. Takes NULL. */
void ls_watch_begin(ls_watch *watch, uint64_t step);

/** Whether a device was lost; false for NULL. */
bool ls_watch_lost(const ls_watch *watch);

/** How long there was no progress when a device was lost. */
double ls_watch_seconds(const ls_watch *watch);

/** What a device is doing: at work if any of its queues is, otherwise waiting if any is. */
ls_activity ls_watch_activity(const ls_watch *watch, const ls_device *device);

/** The queue of the device that was opened first; NULL if the device has no queue. */
ls_queue *ls_watch_queue(const ls_watch *watch, const ls_device *device);

/* For back ends. */

ls_status ls_watch_add(ls_watch *watch, ls_queue *queue);
void ls_watch_remove(ls_watch *watch, const ls_queue *queue);

/** How long to wait before a look. */
uint64_t ls_watch_patience_ns(const ls_watch *watch);

/** Checks, during that wait; fails if a device is lost. */
ls_status ls_watch_look(ls_watch *watch);
