/* SPDX-License-Identifier: MIT */
/*
 * What the lanes of a run in one process did while it was profiled: every operation, copy and wait
 * of every step, with its times. The arrays have plain values, so processes can send them.
 *
 *     slice     a stretch of a lane's time: an operation, a copy or a wait, or a piece of one. A
 *               lane's slices are in order and do not overlap
 *     part      of a wait for another lane: by what that lane did meanwhile
 *     message   one end of a message; the peer's trace has the other end
 */
#pragma once

#include "impl/replica/replicas.h"

#include <stdint.h>

enum { LS_TRACE_TEXT = 40 };

typedef struct ls_trace_slice {
    uint64_t begin_ns, end_ns; /**< by this process's clock (ls_clock_ns) */
    int32_t lane;
    int32_t step;  /**< number among the profiled steps; -1 means before or after them */
    int32_t kind;  /**< ls_stretch_kind */
    int32_t use;   /**< ls_time_use; LS_TIME_WAIT for a peer, LS_TIME_IDLE for another lane */
    int64_t run;   /**< equal in all slices of one execution of an operation */
    int64_t cause; /**< the slice that a lane waits for; -1 if unknown */
    double bytes, flops;
    int32_t microbatch, stage;   /**< of a pipeline; -1 if none */
    char partner[LS_TRACE_TEXT]; /**< other end of a message or copy: "cpu:1"; or "" */
    char name[LS_TRACE_TEXT];
    char layer[LS_TRACE_TEXT]; /**< ""; "dense0"; for a range "dense0 to dense1" */
} ls_trace_slice;

typedef struct ls_trace_part {
    uint64_t begin_ns, end_ns;
    int64_t slice;
    int32_t use;
    int32_t reserved;
} ls_trace_part;

typedef struct ls_trace_message {
    int64_t slice; /**< the first slice of its operation's execution that is not a wait */
    uint64_t bytes;
    int32_t channel, from, to;
    int32_t sends; /**< 1 for the sending end; 0 for receiving; copies: both */
    int32_t index; /**< number among the slice's messages */
} ls_trace_message;

/** `channel` of a copy between devices of this process; `from` and `to` are members. */
enum { LS_TRACE_COPY = -1 };

typedef struct ls_trace_lane {
    char name[2 * LS_TRACE_TEXT]; /**< "cpu:0 compute" */
    char device[LS_TRACE_TEXT];
    int32_t member;
    int32_t main;    /**< 1 for a compute queue of a member that trains; else 0 */
    int32_t used;    /**< 1 if the lane has slices */
    int32_t number;  /**< the device's number in its process */
    int32_t channel; /**< of the lane's messages, where they are two-ended; -1 if none */
    int32_t rank;    /**< the lane's rank in that channel */
} ls_trace_lane;

typedef struct ls_trace {
    ls_trace_slice *slices; /**< [slice_count] lane by lane */
    size_t slice_count;
    ls_trace_part *parts; /**< [part_count] ordered by slice, then by time */
    size_t part_count;
    ls_trace_message *messages; /**< [message_count] */
    size_t message_count;
    ls_trace_lane *lanes; /**< [lane_count] */
    size_t lane_count;
    uint64_t lost; /**< waits that did not fit into the logs */
} ls_trace;

/** What a trace has: times, or also names and layers of slices. */
typedef enum ls_trace_of { LS_TRACE_TIMES, LS_TRACE_NAMED } ls_trace_of;

/** Traces the steps that were profiled last, after they have ended. Close it also on failure. */
ls_status ls_steps_trace(const ls_run *run, ls_trace_of what, ls_trace *out);

void ls_trace_close(ls_trace *trace);

/** Divides waits for other lanes into parts; `begin` [lanes + 1]: a lane's first slice. */
ls_status ls_trace_blame(ls_trace *trace, const size_t *begin);

/** Returns `items` with room for one more; a failure is in *status. Allocations are large: freed
 * small ones would serve a step's leak, which the check of the heap's growth would then miss. */
void *ls_trace_grow(ls_status *status, void *items, size_t count, size_t size);
