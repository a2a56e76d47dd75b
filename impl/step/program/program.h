/* SPDX-License-Identifier: MIT */
/*
 * Program of a step: its tasks, what they access and wait for, as plain data. `build` and
 * the verbs (step.h) make it from a plan; all here are functions of it, without queues, events or
 * devices. Operations are borrowed, and read only for their accesses and costs.
 */
#pragma once

#include "common/device/op_list.h"
#include "impl/step/plan/plan.h"

#include <stdio.h>

/** Kinds of steps: LS_FULL or LS_TAIL, plus LS_LAST for the last step of a period
 * (ls_job_update.period), and (f + 1) LS_LAST for one that exchanges fragment f. Behind the
 * programs of all kinds are two programs of the tasks before, and after, all steps that one call
 * enqueues: numbers kinds + LS_BEFORE and kinds + LS_AFTER. */
enum { LS_LAST = LS_BATCHES };
enum { LS_BEFORE, LS_AFTER, LS_UNORDERED };

/** How a task touches memory: ls_access.writes. */
typedef enum ls_touch { LS_READS, LS_WRITES } ls_touch;

/** The kind of step number `step`, from 0, if its batch has this kind. */
static inline int ls_kind_of_step(const ls_job *job, int batch_kind, uint64_t step)
{
    return batch_kind + (job->update.period ? LS_LAST * (1 + ls_job_fragment(job, step)) : 0);
}

/** Number of kinds of steps. */
static inline int ls_kinds_of_steps(const ls_job *job)
{
    return LS_LAST * (1 + (job->update.period ? ls_job_fragments(job) : 0));
}

/** Consecutive items of a list. */
typedef struct ls_items {
    size_t first, count;
} ls_items;

/** What a task copies from one member's memory to another's. */
typedef struct ls_task_copy {
    int from_member, to_member;
    const void *from;
    void *to; /**< NULL if the task is not a copy */
    size_t bytes;
    bool crosses; /**< between two devices: traffic */
} ls_task_copy;

/** The end of a message or all-reduce that a task is, or a request (ls_channel.arrivals). */
typedef struct ls_task_end {
    int channel;           /**< -1 if it uses no channel */
    int peer;              /**< the other member; -1 means an all-reduce */
    size_t sent, received; /**< elements of messages, or announced ones; 0 if only a library
                                knows */
    bool announces;        /**< a request that announces messages */
} ls_task_end;

/** A task: operations on one lane, or a copy. */
typedef struct ls_task {
    const char *verb; /**< static text */
    int node;         /**< node of the member's graph that it computes; or -1 */
    ls_range range;   /**< elements that it works on; empty if unknown */
    int lane;
    ls_items ops;        /**< in the program's ops */
    ls_items accesses;   /**< in its accesses: reads, then writes, by address, disjoint */
    ls_items waits;      /**< in its waits: numbers of earlier tasks on other lanes */
    bool begins;         /**< waits for the beginning of its component's step */
    double flops, bytes; /**< of one run: of its operations; a copy's bytes read and written */
    int call;            /**< tasks with the same number are enqueued together; -1 means alone */
    ls_task_copy copy;
    ls_task_end end;
    const bool *skip; /**< the task is skipped if true; NULL if never */
    int microbatch;   /**< that it is a part of, from 1; 0 if none */
    int piece;        /**< of accumulated gradients, from 1; 0 if it belongs to none */
} ls_task;

typedef struct ls_step_program {
    const ls_lanes *lanes; /**< borrowed */
    ls_status status;      /**< the first failure; appending does nothing after one */
    ls_task *tasks;        /**< [task_count] in the order of `build` */
    size_t task_count;
    ls_op **ops; /**< [op_count] borrowed */
    int *nodes;  /**< [op_count] node of the member's graph; -1 if of no pass */
    size_t op_count;
    ls_access *accesses;
    size_t access_count;
    size_t *waits;
    size_t wait_count;
    uint64_t empty_copies; /**< between devices: messages without bytes or a task */
    int calls;             /**< numbers of ls_task.call given so far */
    const bool *skip;      /**< of tasks appended now */
    int microbatch, piece; /**< of tasks appended now */
    int node;              /**< of operations appended now, from 1; 0 if none */
    ls_op_list own;        /**< operations that belong to this program */
} ls_step_program;

/** A component: lanes that wait for each other by events, and are one captured program. */
typedef struct ls_component {
    int driver; /**< lane of its last task, which begins and ends its step */
    int lanes;
    bool *has; /**< [kinds + LS_UNORDERED] whether it has tasks in that program */
} ls_component;

typedef struct ls_components {
    int *component; /**< [lanes] of each; -1 means no tasks */
    int *rank;      /**< [lanes] number of the lane within its component */
    ls_component *items;
    int count;
} ls_components;

/* ---- program.c: appending -------------------------------------------------------------------- */

/** Begins a task on a lane; the calls below add to the latest task. NULL after a failure. */
ls_task *ls_task_begin(ls_step_program *program, const char *verb, int lane, ls_range range);
void ls_task_add_ops(ls_step_program *program, const ls_op_list *ops);
/** As above; the program takes ownership of the operations, and empties the list. */
void ls_task_take_ops(ls_step_program *program, ls_op_list *ops);
void ls_task_touch(ls_step_program *program, const void *memory, size_t bytes, ls_touch touch);
/** Ends the task: sorts and merges its accesses. */
void ls_task_finish(ls_step_program *program);
/** Appends a task of new operations, with `status` the outcome of making them; empties the list.
 * NULL after a failure. */
ls_task *ls_task_of(ls_step_program *program, const char *verb, int lane, ls_range range,
                    ls_op_list *ops, ls_status status);
/** As above, for one operation. */
ls_task *ls_task_of_op(ls_step_program *program, const char *verb, int lane, ls_range range,
                       ls_op *op, ls_status status);
/** Sets what the latest task, an end of rank `rank`, sends and receives: its operations' messages.
 */
void ls_task_count_messages(ls_step_program *program, int rank);
/** Keeps the first failure. */
void ls_step_program_fail(ls_step_program *program, ls_status status);
void ls_step_program_close(ls_step_program *program);

/** What one run of its tasks copies between devices; communicators do not count this. */
ls_traffic ls_step_program_copied(const ls_step_program *program);
/** What one run of its tasks sends: what they copy between devices, the messages of operations, and
 * messages from ends without tasks (ls_channel.arrivals). */
ls_traffic ls_step_program_traffic(const ls_step_program *program);

/* ---- order.c, match.c ------------------------------------------------------------------------ */

/** Finds the components of all programs [kinds + LS_UNORDERED], and the waits of steps. Close
 * components also on failure. */
ls_status ls_step_programs_order(ls_step_program *programs, int kinds, ls_components *out);
void ls_components_close(ls_components *components);

/** LS_CODE_CHECK if ends of messages and all-reduces of this process do not match, or if a member's
 * step has no end. */
ls_status ls_step_program_match(const ls_step_program *program);

/** Two tasks that access the same memory in no order. */
typedef struct ls_race {
    const ls_step_program *program, *earlier_program;
    const ls_task *task, *earlier; /**< NULL if there are none */
    bool step_before;              /**< `earlier` belongs to the step before */
    ls_access both;                /**< memory that both touch */
} ls_race;

/** The first race of a step of `a` and the following one of `b`, both ordered. */
ls_status ls_step_programs_race(const ls_step_program *a, const ls_step_program *b,
                                const ls_components *components, ls_race *out);
