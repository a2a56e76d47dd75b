/* SPDX-License-Identifier: MIT */
/*
 * What the lanes of a run in one process did while it was profiled: every operation, copy and wait
 * of every step, with its times. Arrays of plain values, so that processes can send them.
 *
 *     slice     a stretch of a lane's time, of one operation, copy or wait. One lane's follow each
 *               other, in order, and do not overlap
 *     part      of a wait for another lane: by what that did meanwhile
 *     message   one end of it; the peer's slices have the other one
 */
#pragma once

#include "impl/replicas.h"

#include <stdint.h>

enum { LS_TRACE_TEXT = 40 };

typedef struct ls_trace_slice {
    uint64_t begin_ns, end_ns; /**< of this process's clock (ls_clock_ns) */
    int32_t lane;
    int32_t step;  /**< number among the profiled steps; -1: once before or after them */
    int32_t kind;  /**< ls_stretch_kind */
    int32_t use;   /**< ls_time_use; a wait for a peer: LS_TIME_WAIT, for another lane: IDLE */
    int64_t run;   /**< the same for all slices of one run of an operation */
    int64_t cause; /**< of a wait for another lane: slice that it waits for; -1: not known, or
                        none */
    double bytes, flops;
    char name[LS_TRACE_TEXT];
    char layer[LS_TRACE_TEXT]; /**< ""; "dense0"; of a range "dense0 to dense1" */
} ls_trace_slice;

typedef struct ls_trace_part {
    uint64_t begin_ns, end_ns;
    int64_t slice;
    int32_t use;
    int32_t reserved;
} ls_trace_part;

typedef struct ls_trace_message {
    int64_t slice; /**< first slice of its operation's run that is no wait */
    uint64_t bytes;
    int32_t channel, from, to;
    int32_t sends; /**< 1: the sending end; 0: the receiving one; LS_TRACE_COPY: a copy, both
                        ends */
    int32_t index; /**< number among the messages of its slice */
} ls_trace_message;

/** `channel` of a copy between devices of this process; `from` and `to` are main lanes then. */
enum { LS_TRACE_COPY = -1 };

typedef struct ls_trace_lane {
    char name[2 * LS_TRACE_TEXT]; /**< "cpu:0 compute" */
    char device[LS_TRACE_TEXT];
    int32_t member;
    int32_t main;   /**< 1: a device's compute queue; 0: a queue that transfers for it, or serves */
    int32_t used;   /**< 1: it has slices */
    int32_t number; /**< of its device among those of its process */
    int32_t served; /**< channel of its messages between workers and servers; -1: it has none */
    int32_t rank;   /**< its rank in that channel */
} ls_trace_lane;

typedef struct ls_trace {
    ls_trace_slice *slices; /**< [slice_count] lane by lane */
    size_t slice_count;
    ls_trace_part *parts; /**< [part_count] in the order of their slices and of time */
    size_t part_count;
    ls_trace_message *messages; /**< [message_count] */
    size_t message_count;
    ls_trace_lane *lanes; /**< [lane_count] */
    size_t lane_count;
    uint64_t lost; /**< waits that there was no room for */
} ls_trace;

/** Of the steps that were profiled last, when that has ended. `named`: with names and layers. To
 *  be closed also on failure. */
ls_status ls_stepped_trace(const ls_run *run, bool named, ls_trace *out);

void ls_trace_close(ls_trace *trace);
