/* SPDX-License-Identifier: MIT */
/* Shared by the files of impl/step: tasks, lanes, groups, and the run to which the steps belong. */
#pragma once

#include "common/comm/comm.h"
#include "impl/buckets.h"
#include "impl/replicas.h"
#include "impl/step/step.h"

typedef struct ls_stepped ls_stepped;

/** Kinds of steps: LS_FULL or LS_TAIL, plus LS_LAST for the last step of a period (ls_job.period).
 * Then the tasks before, and after, all steps that one call enqueues. */
enum { LS_LAST = LS_BATCHES, LS_KINDS = 2 * LS_BATCHES };
enum { LS_BEFORE = LS_KINDS, LS_AFTER, LS_STEPS };
typedef struct ls_served ls_served;

/** A lane: a queue and its times. */
typedef struct ls_lane {
    ls_queue *queue;
    int member;
    const char *name;
    bool own;              /**< it opened the queue; false: it is the member's compute queue */
    ls_time_profile times; /**< while profiled */
    ls_time_log log;       /**< its log, while profiled */
    const bool *pass;      /**< the flag on which tasks enqueued now are skipped; NULL: none */
} ls_lane;

/** A task: operations on one lane, or a copy. */
typedef struct ls_task {
    const char *verb; /**< static text */
    int node;         /**< node of the member's graph that it computes; -1: several or none */
    ls_range range;   /**< elements that it works on; empty: unknown */
    int lane;
    size_t op, op_count;         /**< in step->ops */
    ls_span to, from;            /**< of a copy; to.memory NULL: no copy */
    size_t access, access_count; /**< in step->accesses: by address, disjoint */
    size_t wait, wait_count;     /**< in step->waits: tasks on other lanes */
    bool begins;                 /**< waits for the beginning of its component's step */
    ls_event *event;             /**< recorded behind it, for other tasks' waits */
    int call; /**< tasks with the same number are enqueued by one ls_comm_enqueue; -1: none */
    ls_comm *const *ends; /**< for such a call: the communicator's ends, by rank, ... */
    int rank;             /**< ... and the rank of this task */
    int peer; /**< the other member of a message, or of a request before messages; -1: neither */
    size_t sent,
        received;     /**< elements of the message, or of the messages that a request announces */
    bool announces;   /**< it is a request that announces messages */
    const bool *pass; /**< the task is skipped if true; NULL: never */
} ls_task;

struct ls_step {
    ls_stepped *run;
    int batch_kind; /**< LS_FULL or LS_TAIL */
    int kind;       /**< index in run->step */
    ls_status status;
    ls_task *tasks;
    size_t task_count;
    ls_op **ops; /**< borrowed */
    size_t op_count;
    ls_access *accesses;
    size_t access_count;
    size_t *waits;
    size_t wait_count;
    size_t *said;      /**< [members] acts of its slice, or in a divided replica gathered pieces,
                            already appended */
    const bool **pass; /**< [members] `pass` of the tasks appended now */
    int calls;
    ls_op_list own;    /**< operations owned by this step */
    ls_traffic copied; /**< bytes copied between devices in one step */
    ls_traffic called; /**< counted by communicators when enqueued, in one step */
};

/** A component: lanes that wait for each other by events, and are one program. */
typedef struct ls_component {
    int driver; /**< lane of its last task, which begins and ends its step */
    int lanes;
    bool has[LS_STEPS]; /**< whether it has tasks in that kind of step */
    ls_event *begun;
    ls_program *program[LS_KINDS];
} ls_component;

/** A member's end of its group's all-reduces. */
typedef struct ls_group_end {
    int lane;      /**< of the all-reduces */
    void *scratch; /**< for one all-reduce at a time */
} ls_group_end;

/** A group: members at the same place of all replicas, which reduce gradients bucket by bucket. */
typedef struct ls_group {
    ls_buckets buckets;
    int count;               /**< members of this process; 0: nothing to reduce */
    int *members;            /**< [count] */
    ls_group_end *ends;      /**< [count] */
    ls_comm **comms;         /**< [count] their ends of the communicator */
    const ls_layout *layout; /**< hosts of the members; NULL: they are in this process */
    ls_layout spread;        /**< *layout, if a replica has several processes */
    int *hosts;
} ls_group;

/** A member's end of a communicator. */
typedef struct ls_held_end {
    ls_comm *comm;
    int member;
    int channel; /**< number of the communicator, equal in all processes */
    bool counts; /**< its messages are traffic, which the end counts */
} ls_held_end;

/** Communicators of members, open until the run is closed. */
typedef struct ls_held {
    ls_held_end *ends; /**< [end_count] */
    size_t end_count;
    int channels; /**< number of communicators */
} ls_held;

/** A member's end of messages; all zero: it is in another process, or no member sends messages. */
typedef struct ls_message_end {
    ls_comm *comm;
    ls_comm *control; /**< for small messages, if servers serve as requests arrive; else NULL */
    int lane;
} ls_message_end;

/** State of a divided model. */
typedef struct ls_divided {
    void **arrived; /**< [replicas, copies] copies' gradients, at owners of this process */
    ls_step test;   /**< forward pass of evaluation, built by the first evaluation */
} ls_divided;

/** A step enqueued a number of times. */
typedef struct ls_step_put_times {
    const ls_step *step;
    uint64_t times;
} ls_step_put_times;

struct ls_stepped {
    ls_run base;
    ls_graph_parts parts; /**< the model's, by place; count 0: the model is not divided */
    int holder;           /**< in-graph: the member that owns the variables: a replica, or one more,
                               without slices, on the variable device; -1: none. Set before opening */
    int count;            /**< replicas of all processes; with servers, workers */
    int places;           /**< members of each replica, consecutive */
    int loss_place;       /**< the place that has the loss */
    int total;            /**< members: count x places, then servers, or an additional holder */
    int all;              /**< `total`, then, if backward is held, a shadow of each replica */
    ls_member *members;   /**< [all] */
    ls_comm **statistics_comms; /**< [devices] ends of the communicator of statistics; or NULL */
    int *here;                  /**< [here_count] this process's members except shadows, by rank */
    int here_count;
    ls_message_end *ends; /**< [total] */
    ls_comm **comms;      /**< [total + 1] this process's ends, by rank; all NULL: no messages */
    ls_divided divided;
    ls_served *served; /**< NULL: no parameter servers */
    ls_held held;
    ls_step step[LS_STEPS];
    uint64_t at;                 /**< number of the next step to be enqueued */
    uint64_t enqueued[LS_KINDS]; /**< number of steps enqueued so far */
    uint64_t profiled;           /**< steps for which the lanes' logs have memory; 0: no logs */
    ls_step_put_times *puts;     /**< [put_count] steps enqueued while profiled, in order */
    size_t put_count, put_room;
    ls_traffic counted; /**< traffic counted by earlier runs that this one continues */
    ls_lane *lanes;     /**< [lane_count] the members' compute lanes first, in order */
    int lane_count;
    int *component;         /**< [lane_count] component of each; -1: no tasks */
    int *rank_in_component; /**< [lane_count] number of the lane within its component */
    ls_component *components;
    int component_count;
    ls_group *groups; /**< [group_count] by place */
    int group_count;
};

static inline void ls_traffic_add(ls_traffic *sum, ls_traffic more, uint64_t times)
{
    sum->bytes_sent += times * more.bytes_sent;
    sum->messages_sent += times * more.messages_sent;
}

/* step.c: appending tasks. After a failure these do nothing. */

/** Keeps the first failure. */
void ls_step_fail(ls_step *step, ls_status status);
/** Begins a task on a lane; the calls below add to the latest task. NULL after a failure. */
ls_task *ls_task_begin(ls_step *step, const char *verb, int lane, ls_range range);
void ls_task_add_ops(ls_step *step, const ls_op_list *ops);
/** The same; the step takes ownership of the operations, and empties the list. */
void ls_task_take_ops(ls_step *step, ls_op_list *ops);
void ls_task_touch(ls_step *step, const void *memory, size_t bytes, bool writes);
/** Appends a task of new operations, with `status` the outcome of making them; empties the list.
 * NULL after a failure. */
ls_task *ls_task_of(ls_step *step, const char *verb, int lane, ls_range range, ls_op_list *ops,
                    ls_status status);
/** The same for one operation. */
ls_task *ls_task_of_op(ls_step *step, const char *verb, int lane, ls_range range, ls_op *op,
                       ls_status status);
/** Ends the task: sorts and merges its accesses. */
void ls_task_end(ls_step *step);

ls_member *ls_step_member(const ls_step *step, int member);
/** NULL: the member is in another process. */
ls_replica *ls_step_replica(const ls_step *step, int member);

/** Appends a task of a piece's acts of `kinds` (bits 1 << kind), of one node or all (-1); none if
 * they have no operations. */
void ls_step_say_acts(ls_step *step, const char *verb, int member, int piece, unsigned kinds,
                      int node);
/** Appends a task of the member that sums all parts of so many replicas' gradients, up the tree,
 * into `out`, which may be the first part. None if there is one part. */
void ls_step_sum(ls_step *step, int member, ls_range range, const ls_span *parts, int replicas,
                 void *out);
/** Appends a task of a member that adds `more` to `sum`, both in its memory. */
void ls_step_add(ls_step *step, const char *verb, ls_span sum, ls_span more);
/** Appends a copy on a lane; counted as traffic if devices differ. Refuses spans of two sizes, and
 * of two processes; nothing if both are in another process. */
void ls_step_copy(ls_step *step, const char *verb, int lane, ls_span to, ls_span from);
/** Appends the ends of all members' steps, behind all that `build` describes (verbs.c). */
void ls_step_append_ends(ls_step *step);
/** Opens an empty step; close it also on failure. */
ls_status ls_step_open(ls_stepped *run, int kind, ls_step *step);
void ls_step_close(ls_step *step);

/* meetings.c */
/** LS_CODE_CHECK if ends of messages and all-reduces of this process do not match. */
ls_status ls_step_check_meetings(const ls_step *step);

/* run.c */
/** Opens a lane for a member's communication; without `own`, *out is its compute lane. */
ls_status ls_lane_open(ls_stepped *run, int member, const char *name, bool own, int *out);

/* members.c */
/** Opens a member on each device; `run` is zero-filled except `holder`. Close also on failure. */
ls_status ls_members_open(ls_stepped *run);
/** Frees the members and the run itself. */
void ls_members_close(ls_stepped *run);
/** Sets the parameters of all members. */
ls_status ls_members_load(const ls_stepped *run, const float *parameters);
/** Copies the variables owned by members [first, first + count) of this process into the whole
 * parameters. */
ls_status ls_members_gather(const ls_stepped *run, int first, int count, bool averages,
                            float *parameters);
/** Sends values [count] from one process to all others of [first, last], which all call this. */
ls_status ls_members_tell(const ls_stepped *run, int from, int first, int last, float *values,
                          size_t count);
/** The first member of this process. */
int ls_members_own(const ls_stepped *run);
/** Number of members except shadows and servers; how busy servers are is in their report. */
int ls_members_training(const ls_stepped *run);
/** Whether a member is on the job's device number `index`; device_count: the variable device. */
bool ls_members_on(const ls_stepped *run, int member, size_t index);
/** A member's rank in the communicator of messages. */
int ls_members_rank(const ls_stepped *run, int member);

/* held.c */
/** Opens a communicator between devices of these members [count] and of other processes, which all
 * call it; comms[i] is the end of members[i]. */
ls_status ls_held_connect(ls_stepped *run, const int *members, int count, bool counts,
                          ls_comm **comms);
/** Number of a communicator; if it is not held, the number of held ones. */
int ls_held_channel(const ls_held *held, const ls_comm *comm);
/** Adds the memory of a member's communicators. */
void ls_held_memory(const ls_held *held, int member, ls_memory_formula *formula);
/** Gives up all communicators: operations that wait in them fail, here and in other processes. Does
 * nothing if a device of this process hangs. */
void ls_held_abandon(ls_stepped *run);
/** Closes all communicators, after their operations and before the members. */
void ls_held_close(ls_stepped *run);

/* message.c */
/** Opens the ends of members that send messages. All processes call it. */
ls_status ls_ends_open(ls_stepped *run);
/** Index, in the member's buffers, of the first element of a range of the model's flat buffers. */
size_t ls_step_place(const ls_step *step, int member, ls_range range);

/* places.c: divided models. For one place these do nothing. */
ls_status ls_places_open(ls_stepped *run);
void ls_places_close(ls_stepped *run);
/** Gathers the whole parameters of the replica with a part in this process. All processes call
 * it. */
ls_status ls_places_gather(ls_stepped *run, float *parameters);
/** Evaluates by the members, in this process, of the replica of member `own`, divided or not. */
ls_status ls_places_evaluate(ls_stepped *run, int own, uint64_t most, ls_evaluation *out);

/* order.c: which task waits for which, and which lanes form a component. */
ls_status ls_steps_order(ls_stepped *run);

/* lower.c: from tasks to queues, events and programs. */
ls_status ls_steps_open_events(ls_stepped *run);
ls_status ls_steps_capture(ls_stepped *run);
/** Enqueues the tasks of a component, or of all (-1). */
ls_status ls_step_enqueue(ls_step *step, int component);
/** Enqueues tasks one by one, each after the previous one has ended. */
ls_status ls_step_enqueue_serially(ls_step *step);
/** Enqueues tasks that have no order. */
ls_status ls_step_enqueue_apart(ls_step *step);
void ls_steps_close_events(ls_stepped *run);

/* In builds with LOCKSTEP_HOOKS: edit the tasks of a step, then its waits, and check it
 * (impl/tests/step_edits.c). */
#ifdef LOCKSTEP_HOOKS
ls_status ls_steps_edit_tasks(ls_stepped *run);
ls_status ls_steps_edit_waits(ls_stepped *run);
#define LS_STEPS_EDITED(edit) (edit)
#else
#define LS_STEPS_EDITED(edit) LS_OK
#endif

/* group.c */
/** At this place of all replicas. */
ls_status ls_group_open(ls_stepped *run, int place, ls_group *group);
void ls_group_close(ls_group *group);
/** Of the variables that a place updates. */
ls_status ls_group_buckets(const ls_job *job, const ls_graph_parts *parts, int place,
                           ls_buckets *out);
/** Hosts of the members: the job's layout, or in `spread`, with hosts [LS_JOB_REPLICAS]. */
const ls_layout *ls_group_layout(const ls_job *job, int place, int *hosts, ls_layout *spread);
