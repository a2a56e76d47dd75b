/* SPDX-License-Identifier: MIT */
/*
 * Order: which requests a server served, in what order, and how far apart workers were. The bits of
 * an asynchronous run depend on this order alone.
 */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { LS_PS_BINS = 256 }; /* the last one counts larger values, too */

typedef struct ls_ps_histogram {
    uint64_t bins[LS_PS_BINS];
    uint64_t count, sum, max;
} ls_ps_histogram;

void ls_ps_histogram_note(ls_ps_histogram *histogram, uint64_t value);
void ls_ps_histogram_join(ls_ps_histogram *sum, const ls_ps_histogram *more);

/** What a server saw. */
typedef struct ls_ps_report {
    ls_ps_histogram lead;      /**< steps that a worker was ahead when its gradient was applied */
    ls_ps_histogram staleness; /**< updates by others since its pull */
    uint64_t dropped;          /**< gradients that came too late, with backup workers */
} ls_ps_report;

/** A worker's request to a server. */
typedef enum ls_ps_kind {
    LS_PS_PULL,  /**< wants the shard's variables */
    LS_PS_PUSH,  /**< sends a gradient of the shard */
    LS_PS_EMPTY, /**< has no sample, so no gradient, in this step */
    LS_PS_DROP,  /**< noted of a gradient that came too late (backup workers) */
    LS_PS_BYE    /**< has done all steps that were enqueued */
} ls_ps_kind;

/** A request that was served. */
typedef struct ls_ps_event {
    uint32_t worker;
    uint32_t kind; /**< ls_ps_kind, but for LS_PS_BYE */
} ls_ps_event;

/** One server's events; those after `capacity` are counted in `lost`. */
typedef struct ls_ps_log {
    ls_ps_event *events;
    size_t count, capacity, lost;
} ls_ps_log;

ls_status ls_ps_log_open(size_t capacity, ls_ps_log *out);
void ls_ps_log_close(ls_ps_log *log);
void ls_ps_log_note(ls_ps_log *log, int worker, ls_ps_kind kind);
