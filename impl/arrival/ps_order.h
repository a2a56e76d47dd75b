/* SPDX-License-Identifier: MIT */
/*
 * Order: the requests that a server served, in order, and how far apart workers were. The bits of
 * an asynchronous run depend on this order alone.
 */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { LS_PS_BINS = 256 }; /* the last one includes all larger values */

typedef struct ls_ps_histogram {
    uint64_t bins[LS_PS_BINS];
    uint64_t count, sum, max;
} ls_ps_histogram;

void ls_ps_histogram_note(ls_ps_histogram *histogram, uint64_t value);
void ls_ps_histogram_join(ls_ps_histogram *sum, const ls_ps_histogram *more);

/** Statistics of a server. */
typedef struct ls_ps_report {
    ls_ps_histogram lead;      /**< steps ahead of the slowest worker when a gradient was applied */
    ls_ps_histogram staleness; /**< updates by others since the pull of the gradient's worker */
    uint64_t dropped;          /**< late gradients, with backup workers */
} ls_ps_report;

/** A worker's request to a server. */
typedef enum ls_ps_kind {
    LS_PS_PULL,  /**< requests the shard's variables */
    LS_PS_PUSH,  /**< sends a gradient of the shard */
    LS_PS_EMPTY, /**< has no gradient in this step, since it has no samples */
    LS_PS_DROP,  /**< logged for a late gradient, with backup workers */
    LS_PS_BYE    /**< has finished all enqueued steps */
} ls_ps_kind;

/** A served request. */
typedef struct ls_ps_event {
    uint32_t worker;
    uint32_t kind; /**< ls_ps_kind except LS_PS_BYE */
} ls_ps_event;

/** One server's events; `lost` counts events that exceed `capacity`. */
typedef struct ls_ps_log {
    ls_ps_event *events; /**< [capacity] */
    size_t count, capacity, lost;
} ls_ps_log;

void ls_ps_log_note(ls_ps_log *log, int worker, ls_ps_kind kind);
