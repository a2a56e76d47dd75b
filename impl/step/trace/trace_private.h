/* SPDX-License-Identifier: MIT */
/* The input of a trace: what was enqueued on each lane, and the node of each operation. */
#pragma once

#include "impl/step/run/run.h"
#include "impl/step/trace/trace.h"

/** An item enqueued on a lane for a task: a wait, an operation or a copy. */
typedef struct ls_item {
    ls_stretch_kind kind;
    int32_t number; /**< of the step; -1 means before or after steps */
    const ls_step_program *program;
    const ls_task *task;
    int64_t id;       /**< index of the task in ls_tracing.last */
    const ls_op *op;  /**< of LS_STRETCH_OP; otherwise NULL */
    int64_t awaited;  /**< of LS_STRETCH_EVENT: index of the awaited task in ls_tracing.last; -1 if
                           none */
    const char *verb; /**< of the awaited task */
} ls_item;

/** All items enqueued on a lane, in order. */
typedef struct ls_item_list {
    ls_item *items;
    size_t count;
    int64_t ended; /**< index of its last task of earlier steps; -1 if none */
    const char *verb;
} ls_item_list;

/** An operation of a pass, and its node in the member's graph. */
typedef struct ls_op_node {
    const ls_op *op;
    int node, member;
} ls_op_node;

typedef struct ls_tracing {
    const ls_step_run *run;
    ls_trace *out;
    bool named; /**< slices get names and layers */
    ls_status status;
    ls_item_list *enqueued; /**< [lanes] in order */
    int64_t *last;          /**< [tasks] each task's last slice, by step; or -1 */
    size_t tasks;           /**< of all steps */
    ls_op_node *nodes;      /**< [node_count] by address */
    size_t node_count;
    size_t *begin; /**< [lanes + 1] a lane's first slice */
    int64_t runs;
} ls_tracing;

/** Returns `items` with room for one more. Allocations are large: freed small ones would serve a
 * step's leak, which the check of the heap's growth would then miss. */
void *ls_tracing_grow(ls_tracing *w, void *items, size_t count, size_t size);

/** Lists what was enqueued on each lane, and names the trace's lanes. A failure is in w->status. */
void ls_tracing_open(ls_tracing *w);
void ls_tracing_close(ls_tracing *w);

/** The layer or layers of an operation. `item` is the last one found, or NULL. "" if there is none.
 */
void ls_tracing_layer(const ls_tracing *w, const ls_item *item, const ls_op *op,
                      char out[LS_TRACE_TEXT]);

/** Whom and what the work of an item on a lane is for: micro-batch, stage, partner. `item` is NULL
 * before the first one. */
void ls_tracing_for(const ls_tracing *w, int lane, const ls_item *item, ls_trace_slice *slice);

/** blame.c: divides waits for other lanes into parts. */
void ls_tracing_blame(ls_tracing *w);
