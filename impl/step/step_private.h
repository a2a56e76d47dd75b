/* SPDX-License-Identifier: MIT */
/* What the files of the step share: tasks, lanes, groups, and the run that the steps belong to. */
#pragma once

#include "common/comm/comm.h"
#include "impl/buckets.h"
#include "impl/replicas.h"
#include "impl/step/step.h"

typedef struct ls_stepped ls_stepped;

/** Kinds of steps: of a full batch or an epoch's last one; where steps have a period, plus
 *  LS_LAST: the last one of it. */
enum { LS_LAST = LS_BATCHES, LS_KINDS = 2 * LS_BATCHES };
typedef struct ls_served ls_served;

/** A queue, and what is put on it. */
typedef struct ls_lane {
    ls_queue *queue;
    int member;
    const char *name;
    bool own;               /**< opened here; else the member's compute queue */
    ls_time_profile times;  /**< while profiled */
    ls_time_profile blamed; /**< the same, waits for other lanes by what these did (blame.c) */
    ls_time_log log;        /**< what it did, while profiled */
    const bool *pass;       /**< while tasks are put: what those of now are passed over by */
} ls_lane;

/** Operations on one queue, or a copy. */
typedef struct ls_task {
    const char *verb; /**< static text */
    int node;         /**< of its member's graph, the one that it is of; -1: of several, or none */
    ls_range range;   /**< elements that it is about; none: nothing to say */
    int lane;
    size_t op, op_count;         /**< in step->ops */
    ls_span to, from;            /**< of a copy; to.memory NULL: none */
    size_t access, access_count; /**< in step->accesses: in order of addresses, none twice */
    size_t wait, wait_count;     /**< in step->waits: tasks on other lanes */
    bool begins;                 /**< waits for the beginning of its component's step */
    ls_event *event;             /**< recorded behind it, where another task waits for it */
    int call; /**< put together with its neighbours of the same number (ls_comm_put); -1: alone */
    ls_comm *const *ends; /**< of such a call: all of the communicator, by rank, ... */
    int rank;             /**< ... and whose it is */
    int peer; /**< member that a message, or what announces some, is with; -1: it is neither */
    size_t sent, received; /**< elements, by such a task; or by the messages that it announces */
    bool announces;
    const bool *pass; /**< passed over while this holds; NULL: never */
} ls_task;

struct ls_step {
    ls_stepped *run;
    int which; /**< LS_FULL or LS_TAIL */
    int kind;  /**< that, and LS_LAST */
    ls_status status;
    ls_task *tasks;
    size_t task_count;
    ls_op **ops; /**< borrowed */
    size_t op_count;
    ls_access *accesses;
    size_t access_count;
    size_t *waits;
    size_t wait_count;
    size_t *said; /**< [members] how many acts of its slice; of a divided replica, how many pieces
                       have been gathered */
    const bool **pass; /**< [members] what tasks are passed over by that are said now */
    int calls;
    ls_op_list own; /**< operations that were made for this step alone */
    void **staging; /**< memory of the holder's device, each of a whole gradient */
    size_t staging_count;
    ls_traffic copied; /**< between devices, by one step */
    ls_traffic called; /**< by communicators that count where they are put, by one step */
};

/** Lanes that events tie together: one program, and one order of events. */
typedef struct ls_component {
    int driver; /**< the lane of its last task, which begins and ends its step */
    int lanes;
    bool has[LS_KINDS]; /**< tasks in that step */
    ls_event *begun;
    ls_program *program[LS_KINDS];
} ls_component;

/** Of which variables a group is. */
typedef struct ls_group_options {
    const ls_job *job;
    const ls_graph *graph; /**< of the members: the model's, or a place's part of it */
    size_t elements;       /**< of its variables those that the members update, the first ones */
    int place;             /**< of each replica, that the members are */
} ls_group_options;

/** A member of a group, and what it has to reduce with the others. */
typedef struct ls_group_end {
    int member;
    int lane; /**< of its all-reduces */
    float *scratch;
    size_t scratch_elements;
} ls_group_end;

/** The same place of all replicas, which add up their gradients bucket by bucket. */
typedef struct ls_group {
    ls_buckets buckets;
    ls_range *order;    /**< [buckets.count] in the order in which backward makes them final */
    ls_group_end *ends; /**< [member_count] of this process */
    int member_count;
    ls_comm **comms; /**< [count] of the communicator, where there are variables */
    int count;
    const ls_layout *layout; /**< where the members are; NULL: in this process */
    ls_layout spread;        /**< that, where a replica is on several processes */
    int *hosts;
} ls_group;

typedef struct ls_update_made {
    int member;
    ls_range range;
    ls_op_list ops;
} ls_update_made;

/** What a model over several places needs beside its members. */
typedef struct ls_divided {
    void **arrived; /**< [replicas, copies] gradients of copies, with their owners here */
    ls_comm **ends; /**< [members] of a communicator of all devices; NULL: none is elsewhere */
    int transfers;  /**< lane of the first member's transfers, which the others' follow */
    ls_step test;   /**< the forward pass of evaluation, made by the first one */
} ls_divided;

/** A step that was put so often. */
typedef struct ls_step_put_times {
    const ls_step *step;
    uint64_t times;
} ls_step_put_times;

struct ls_stepped {
    ls_replicated shared; /**< members and their slices */
    ls_divided places;
    ls_served *served; /**< NULL: members have variables of their own */
    ls_step step[LS_KINDS];
    uint64_t at;             /**< number of the step that is put next */
    uint64_t put[LS_KINDS];  /**< steps so far */
    uint64_t profiled;       /**< steps that the lanes' logs have room for; 0: none are kept */
    ls_step_put_times *puts; /**< [put_count] what was put meanwhile, in order */
    size_t put_count, put_room;
    ls_traffic counted;    /**< by ends of communicators of the runs that this one goes on from */
    ls_step before, after; /**< what is put once before, or after, steps that are put together */
    ls_lane *lanes;        /**< [lane_count] the members' first, in order */
    int lane_count;
    int *component; /**< [lane_count]; -1: it has no tasks */
    int *place;     /**< [lane_count] of a lane among those of its component */
    ls_component *components;
    int component_count;
    ls_group *groups; /**< [group_count] by place, of those that reduce */
    int group_count;
    ls_update_made *updates;
    size_t update_count;
};

/** What ends of communicators have counted so far, of runs that this one goes on from, too. */
ls_traffic ls_stepped_counted(const ls_stepped *run);

/** *sum += times x more. */
static inline void ls_traffic_add(ls_traffic *sum, ls_traffic more, uint64_t times)
{
    sum->bytes_sent += times * more.bytes_sent;
    sum->messages_sent += times * more.messages_sent;
}

/* step.c: appending. They do nothing after a failure. */

/** Makes room for one more of so many items of `size` bytes; keeps the first failure. */
void *ls_step_grow(ls_status *status, void *items, size_t count, size_t size);
/** Notes a failure. */
void ls_step_fail(ls_step *step, ls_status status);
/** Begins a task on a lane; what is said until the next one is added to it. NULL after a failure.
 */
ls_task *ls_task_begin(ls_step *step, const char *verb, int lane, ls_range range);
void ls_task_add_ops(ls_step *step, const ls_op_list *ops);
/** The same of operations that belong to the step from here on; empties the list. */
void ls_task_take_ops(ls_step *step, ls_op_list *ops);
void ls_task_touch(ls_step *step, const void *memory, size_t bytes, bool writes);
/** A task of operations that were made for it, or that this failed for; empties the list. NULL
 * after a failure. */
ls_task *ls_task_of(ls_step *step, const char *verb, int lane, ls_range range, ls_op_list *ops,
                    ls_status status);
/** The same of one operation. */
ls_task *ls_task_of_op(ls_step *step, const char *verb, int lane, ls_range range, ls_op *op,
                       ls_status status);
/** Brings its accesses into order. */
void ls_task_end(ls_step *step);

ls_member *ls_step_member(const ls_step *step, int member);
/** NULL: the member is elsewhere. */
ls_replica *ls_step_replica(const ls_step *step, int member);

/** A task of those acts of a piece that are of these kinds (1 << kind each), of one node or (-1)
 * all; none where they have no operations. */
void ls_step_say_acts(ls_step *step, const char *verb, int member, int piece, unsigned kinds,
                      int node);
/** A task of the member: `out`, in its memory or of the first of them, = the sum of the parts that
 *  the gradients of so many replicas come in, up the tree. None where there is one part. */
void ls_step_sum(ls_step *step, int member, ls_range range, const ls_span *parts, int replicas,
                 void *out);
/** A copy by a lane, counted where devices differ. */
void ls_step_copy(ls_step *step, const char *verb, int lane, ls_span to, ls_span from);
/** An empty step; to be closed also on failure. */
ls_status ls_step_open(ls_stepped *run, int which, ls_step *step);
/** Frees what a step holds. */
void ls_step_close(ls_step *step);

/* meetings.c */
/** Whether all ends of messages and all-reduces of this process meet; else LS_CODE_CHECK. */
ls_status ls_step_check_meetings(const ls_step *step);

/* run.c */
/** Opens a lane of its own for what a member exchanges; else (`own` false) *out is that on which it
 *  computes. */
ls_status ls_lane_open(ls_stepped *run, int member, const char *name, bool own, int *out);

/* places.c: models over several places. They do nothing where there is one. */
ls_status ls_places_open(ls_stepped *run);
void ls_places_close(ls_stepped *run);
/** Between processes: the whole parameters of the replica that has a part here; all call it. */
ls_status ls_places_gather(ls_stepped *run, float *parameters);
ls_status ls_places_evaluate(ls_stepped *run, uint64_t most, ls_evaluation *out);
/** Bytes that an owner has for the gradients of a copy. */
size_t ls_places_arrived(const ls_stepped *run, const ls_variable_copy *copy, int owner);
void ls_places_memory(const ls_stepped *run, int member, ls_memory_formula *formula);
/* served.c: */

/** The first element of a range of the model's flat buffers in the member's own. */
size_t ls_step_place(const ls_step *step, int member, ls_range range);

/* run_facts.c */
/** What one process found of a test set, to all, the others' accuracy being -1; `mine`: how it went
 *  here. */
ls_status ls_stepped_tell(const ls_job *job, ls_status mine, ls_evaluation *out);

/* order.c: who waits for whom, and which lanes belong together. */
ls_status ls_steps_order(ls_stepped *run);

/* lower.c: queues, events, programs. */
ls_status ls_steps_open_events(ls_stepped *run);
ls_status ls_steps_capture(ls_stepped *run);
/** Puts the tasks of a component, or (-1) of all. */
ls_status ls_step_put(ls_step *step, int component);
/** Puts the tasks one after the other, each when the one before has ended. */
ls_status ls_step_put_serially(ls_step *step);
/** Puts what has no order with others. */
ls_status ls_step_put_apart(ls_step *step);
void ls_steps_close_events(ls_stepped *run);

/* Builds for tests (LOCKSTEP_HOOKS) edit steps as they are said, then who waits for whom, and check
 * them: impl/tests/step_edits.c. */
#ifdef LOCKSTEP_HOOKS
ls_status ls_steps_edit_tasks(ls_stepped *run);
ls_status ls_steps_edit_waits(ls_stepped *run);
#define LS_STEPS_EDITED(edit) (edit)
#else
#define LS_STEPS_EDITED(edit) LS_OK
#endif

/* group.c */
ls_status ls_group_open(ls_stepped *run, const ls_group_options *options, ls_group *group);
void ls_group_close(ls_stepped *run, ls_group *group);
ls_status ls_group_buckets(const ls_group_options *options, ls_buckets *out);
/** Where the members are; hosts [LS_JOB_REPLICAS] and `spread` hold what is returned. */
const ls_layout *ls_group_layout(const ls_group_options *options, int *hosts, ls_layout *spread);
