/* SPDX-License-Identifier: MIT */
/*
 * The trace of all processes of a case, on one clock, at rank 0; from there the window of the steps
 * that are shown, their waterfall and their critical path.
 *
 * One step more is profiled before those shown and one after, so that the window is of steps in
 * full swing: from the end of the one before to the end of the last one, by the latest of all main
 * lanes each. Where workers are by themselves there is no such end, and the window is all that was
 * done.
 */
#pragma once

#include "bench/train/session.h"
#include "impl/step/trace.h"

/** A process's clock less rank 0's, and the most that it can be wrong by. */
typedef struct ls_clock_offset {
    int64_t ns;
    uint64_t error_ns;
} ls_clock_offset;

/** What of a slice is shown: all within the window, or a part of a wait. */
typedef struct ls_shown {
    uint64_t begin_ns, end_ns;
    int64_t slice;
    int32_t use, reserved;
} ls_shown;

/** Of ls_shown.slice: a lane that has no more to do until the others have ended, too. */
enum { LS_SHOWN_END = -1 };

/** A message or a copy between devices of a step that is shown: both its ends. */
typedef struct ls_flow {
    int64_t from_slice, to_slice; /**< the first of the sender's run that works, the last of the
                                       receiver's; the same where only one end is known */
    int from_lane, to_lane;
    uint64_t bytes;
} ls_flow;

/** Where the time of the longest chain went, in ns. */
typedef struct ls_path {
    uint64_t ns[LS_TIME_USES]; /**< of its slices, within the window */
    uint64_t handover_ns;      /**< between them: until one that waited goes on */
    uint64_t begin_ns;         /**< where it begins */
} ls_path;

typedef struct ls_whole_trace {
    ls_trace trace;          /**< lanes and slices of all, by rank; times on rank 0's clock */
    int *process;            /**< [lanes] */
    size_t *first;           /**< [lanes + 1] a lane's first slice */
    int64_t *other;          /**< [messages] the other end of a message; -1: not known */
    int64_t *next;           /**< [messages] the next one of its slice; -1: none */
    int64_t *message_of;     /**< [slices] the first one of it; -1: none */
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
 * Puts so many steps, profiled, and brings what was noted to rank 0; the others get an empty trace.
 * All processes of the case call it. To be closed also on failure.
 */
ls_status ls_whole_trace_take(ls_session *session, uint64_t steps, ls_whole_trace *out);
void ls_whole_trace_close(ls_whole_trace *whole);

/** Of ls_whole_trace_take: window.c, flows.c, path.c. */
ls_status ls_whole_trace_window(ls_whole_trace *whole, bool together);
ls_status ls_whole_trace_flows(ls_whole_trace *whole, bool together);
ls_status ls_whole_trace_path(ls_whole_trace *whole);
