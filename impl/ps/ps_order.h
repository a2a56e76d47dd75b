/* SPDX-License-Identifier: MIT */
/*
 * Order: what a server did in the order in which requests came, and how far workers were apart.
 * What was served, in that order, is all that an asynchronous run's bits depend on.
 */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { LS_PS_BINS = 256 }; /* the last one counts what is larger, too */

typedef struct ls_ps_histogram {
    uint64_t bins[LS_PS_BINS];
    uint64_t count, sum, max;
} ls_ps_histogram;

void ls_ps_histogram_note(ls_ps_histogram *histogram, uint64_t value);
void ls_ps_histogram_join(ls_ps_histogram *sum, const ls_ps_histogram *more);

/** What a worker asks of a server. */
typedef enum ls_ps_kind {
    LS_PS_PULL,  /**< the shard's variables */
    LS_PS_PUSH,  /**< takes a gradient of it */
    LS_PS_EMPTY, /**< has no sample, so no gradient, in this step */
    LS_PS_DROP,  /**< noted of a gradient that came too late (backup workers) */
    LS_PS_BYE    /**< all steps that were put are done */
} ls_ps_kind;

/** One thing served. */
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
