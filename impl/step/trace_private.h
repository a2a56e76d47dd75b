/* SPDX-License-Identifier: MIT */
/* What a trace is made with: which steps were put, whose operations are whose. */
#ifndef LS_IMPL_STEP_TRACE_PRIVATE_H
#define LS_IMPL_STEP_TRACE_PRIVATE_H

#include "impl/step/step_private.h"
#include "impl/step/trace.h"

/** A step's tasks by lane. */
typedef struct ls_lane_tasks {
    size_t *tasks; /**< [tasks] those of lane l from first[l] on, in order */
    size_t *first; /**< [lanes + 1] */
} ls_lane_tasks;

/** A step that was put, or what is put before or after steps. */
typedef struct ls_traced_step {
    const ls_step *step;
    const ls_lane_tasks *lanes;
    size_t base;    /**< of its tasks in ls_tracing.last */
    int32_t number; /**< -1: not a step */
} ls_traced_step;

/** An operation of the run, and the node of its member's graph that it is of; -1: none. */
typedef struct ls_op_node {
    const ls_op *op;
    int node, member;
} ls_op_node;

enum { LS_TRACED_KINDS = 4 }; /* before, full, a period's last, after */

typedef struct ls_tracing {
    const ls_stepped *run;
    ls_trace *out;
    ls_status status;
    ls_lane_tasks kinds[LS_TRACED_KINDS];
    ls_traced_step *sequences; /**< [sequence_count] in the order in which they were put */
    size_t sequence_count;
    int64_t *last;     /**< of each task of each of these its last slice; -1: none */
    ls_op_node *nodes; /**< [node_count] by address */
    size_t node_count;
    size_t *begin; /**< [lanes + 1] a lane's first slice */
    size_t slice_room, message_room, part_room;
    int64_t runs;
    uint64_t copies;
} ls_tracing;

/** Finds what was put; the trace's lanes get their names. Failures are w->status. */
void ls_tracing_open(ls_tracing *w);
void ls_tracing_close(ls_tracing *w);

/** Whether a step has the operation. */
bool ls_tracing_knows(const ls_tracing *w, const ls_op *op);

/** Of which layer, or layers, an operation of a task is; "": none. */
void ls_tracing_layer(const ls_tracing *w, const ls_step *step, const ls_task *task,
                      const ls_op *op, char out[LS_TRACE_TEXT]);

/** The task of a place in ls_tracing.last. */
const ls_task *ls_tracing_task(const ls_tracing *w, int64_t id);

/** The number of a communicator, the same in all processes. */
int ls_tracing_channel(const ls_stepped *run, const ls_comm *end);

/** blame.c: parts of the waits for other lanes. */
void ls_tracing_blame(ls_tracing *w);

/** Makes room for what the lanes do in so many steps, or (0) gives it back. */
ls_status ls_lanes_open_logs(ls_stepped *run, uint64_t steps);
/** ls_lane.blamed of the steps that were profiled. */
ls_status ls_lanes_blame(ls_stepped *run);

#endif
