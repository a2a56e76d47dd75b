/* SPDX-License-Identifier: MIT */
/* What a trace is made from: which tasks each lane was given, and which node an operation belongs
 * to. */
#pragma once

#include "impl/step/step_private.h"
#include "impl/step/trace.h"

/** One thing that a lane was given, of a task of a step: a wait, an operation or a copy. */
typedef struct ls_given {
    ls_stretch_kind kind;
    int32_t number; /**< of the step; -1: once before or after steps */
    const ls_step *step;
    const ls_task *task;
    int64_t id;       /**< of the task, in ls_tracing.last */
    const ls_op *op;  /**< of LS_STRETCH_OP; else NULL */
    int64_t awaited;  /**< of LS_STRETCH_EVENT: the task that is waited for, in ls_tracing.last;
                           -1: none */
    const char *verb; /**< what that task does */
} ls_given;

/** All that a lane was given, in order. */
typedef struct ls_given_list {
    ls_given *items;
    size_t count;
    int64_t ended; /**< its last task of earlier steps; -1: none */
    const char *verb;
} ls_given_list;

/** An operation of a pass, and its node in its member's graph. */
typedef struct ls_op_node {
    const ls_op *op;
    int node, member;
} ls_op_node;

typedef struct ls_tracing {
    const ls_stepped *run;
    ls_trace *out;
    bool named; /**< slices get names and layers */
    ls_status status;
    ls_given_list *given; /**< [lanes] */
    int64_t *last;        /**< [tasks] last slice of each task of each step; -1: none */
    size_t tasks;         /**< of all steps */
    ls_op_node *nodes;    /**< [node_count] by address */
    size_t node_count;
    size_t *begin; /**< [lanes + 1] a lane's first slice */
    int64_t runs;
} ls_tracing;

/** Room for one more of so many items. No small pieces of the heap come and go: what a leak took
 *  would be given back before it is counted. */
void *ls_tracing_grow(ls_tracing *w, void *items, size_t count, size_t size);

/** Finds what the lanes were given, and names the trace's lanes. A failure is in w->status. */
void ls_tracing_open(ls_tracing *w);
void ls_tracing_close(ls_tracing *w);

/** The layer, or layers, that an operation belongs to; `given`: what the lane was given last, or
 * NULL. "": none.
 */
void ls_tracing_layer(const ls_tracing *w, const ls_given *given, const ls_op *op,
                      char out[LS_TRACE_TEXT]);

/** blame.c: parts of the waits for other lanes. */
void ls_tracing_blame(ls_tracing *w);

/** Makes room for what the lanes do in so many steps. */
ls_status ls_lanes_open_logs(ls_stepped *run, uint64_t steps);
/** What is put now: a trace finds its tasks by it. */
void ls_lanes_note_put(ls_stepped *run, const ls_step *step, uint64_t times);
