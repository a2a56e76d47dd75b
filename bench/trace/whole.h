/* SPDX-License-Identifier: MIT */
/*
 * The trace of all processes of a case, on one clock, on rank 0; and what is derived from it: the
 * window of the steps shown, their waterfall and their critical path. One more step is profiled
 * before and one after the shown steps, so that no start or end is in the window: it extends from
 * the end of the step before to the end of the last one shown, each on the main lane that ends
 * last. If workers run independently there is no such end, and the window is the whole time.
 */
#pragma once

#include "bench/train/session.h"
#include "impl/step/trace/trace.h"

#include <jansson.h>

/** A process's clock less rank 0's, and the most that it can be wrong by. */
typedef struct ls_clock_offset {
    int64_t ns;
    uint64_t error_ns;
} ls_clock_offset;

/** A shown piece of a slice: all of it within the window, or a part of a wait. */
typedef struct ls_shown {
    uint64_t begin_ns, end_ns;
    int64_t slice;
    int32_t use, reserved;
} ls_shown;

/** In ls_shown.slice: the lane has ended its work, and waits for the other lanes to end. */
enum { LS_SHOWN_END = -1 };

/** A message or a copy between devices of a step that is shown: both its ends. */
typedef struct ls_flow {
    int64_t from_slice, to_slice; /**< sender's first slice except waits, receiver's last; equal
                                       if one is unknown */
    int from_lane, to_lane;
    uint64_t bytes;
} ls_flow;

/** The critical path, in ns. */
typedef struct ls_path {
    uint64_t ns[LS_TIME_USES]; /**< of its slices, within the window */
    uint64_t handover_ns;      /**< between slices, until the waiting one continues */
    uint64_t begin_ns;         /**< where it begins */
} ls_path;

typedef struct ls_whole_trace {
    ls_trace trace;          /**< lanes and slices of all, by rank; times on rank 0's clock */
    int *process;            /**< [lanes] */
    size_t *first;           /**< [lanes + 1] a lane's first slice */
    int64_t *other;          /**< [messages] number of the other end; -1 if not known */
    int64_t *next;           /**< [messages] next message of the same slice; -1 if none */
    int64_t *message_of;     /**< [slices] first message of the slice; -1 if none */
    bool *critical;          /**< [slices] */
    ls_clock_offset *clocks; /**< [ranks] */
    int ranks;
    uint64_t steps;            /**< that are shown */
    int lead;                  /**< how many were profiled before them */
    uint64_t begin_ns, end_ns; /**< the window */
    ls_shown *shown;           /**< [shown_count] by lane and time */
    size_t *shown_first;       /**< [lanes + 1] */
    size_t shown_count;
    ls_flow *flows; /**< [flow_count] */
    size_t flow_count;
    ls_time_profile parts; /**< the waterfall: of all main lanes, in the window */
    int main_lanes;
    ls_path path;
} ls_whole_trace;

/**
 * Runs `steps` steps, profiled, and gathers the traces at rank 0; the others get an empty one. All
 * processes of the case call it. Close it also on failure.
 */
ls_status ls_whole_trace_take(ls_session *session, uint64_t steps, ls_whole_trace *out);
void ls_whole_trace_close(ls_whole_trace *whole);

/** Parts of ls_whole_trace_take (flows.c, path.c). `synchronous`: steps end on all lanes.
 */
ls_status ls_whole_trace_flows(ls_whole_trace *whole, bool synchronous);
ls_status ls_whole_trace_path(ls_whole_trace *whole);

/* ---- The file (write.c), of Chrome's format, which Perfetto and chrome://tracing open -----------
 */

/** The word that gives a slice its colour in a viewer, for each use of time. */
extern const char *const ls_trace_categories[LS_TIME_USES];

/**
 * Writes the trace. `other` gets the waterfall and other facts of the whole trace, and becomes
 * `otherData`. `devices`: how many devices the file shows as one process; with ranks that are
 * threads, a rank's.
 */
ls_status ls_trace_write(const ls_whole_trace *whole, const char *path, int devices, json_t *other);
