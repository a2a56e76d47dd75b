/* SPDX-License-Identifier: MIT */
/* Shared by the files of impl/step: tasks, lanes, groups, and the run that the steps belong to. */
#pragma once

#include "common/comm/comm.h"
#include "impl/buckets.h"
#include "impl/replicas.h"
#include "impl/step/step.h"

typedef struct ls_stepped ls_stepped;

/** Kinds of steps: LS_FULL or LS_TAIL; plus LS_LAST for the last step of a period (ls_job.period).
 * Then what is enqueued once before, or after, steps that one call enqueues. */
enum { LS_LAST = LS_BATCHES, LS_KINDS = 2 * LS_BATCHES };
enum { LS_BEFORE = LS_KINDS, LS_AFTER, LS_STEPS };
typedef struct ls_served ls_served;

/** A lane: a queue, and its times. */
typedef struct ls_lane {
    ls_queue *queue;
    int member;
    const char *name;
    bool own;              /**< opened here; else the member's compute queue */
    ls_time_profile times; /**< while profiled */
    ls_time_log log;       /**< its stretches, while profiled */
    const bool *pass; /**< while tasks are enqueued: the flag that skips the present ones; NULL:
                           none */
} ls_lane;

/** A task: operations on one lane, or a copy. */
typedef struct ls_task {
    const char *verb; /**< static text */
    int node;         /**< node of its member's graph that it computes; -1: several, or none */
    ls_range range;   /**< elements that it works on; empty: not told */
    int lane;
    size_t op, op_count;         /**< in step->ops */
    ls_span to, from;            /**< of a copy; to.memory NULL: no copy */
    size_t access, access_count; /**< in step->accesses: by address, none twice */
    size_t wait, wait_count;     /**< in step->waits: tasks on other lanes */
    bool begins;     /**< waits for the beginning of its component's step, on another lane */
    ls_event *event; /**< recorded behind it, where another task waits for it */
    int call; /**< tasks of the same number are enqueued by one ls_comm_enqueue; -1: not so */
    ls_comm *const *ends; /**< of such a call: the communicator's ends, by rank, ... */
    int rank;             /**< ... and the rank of this task */
    int peer; /**< of a message, or a request before messages: the other member; -1: it is
                   neither */
    size_t sent,
        received;     /**< elements of the message, or of the messages that the request announces */
    bool announces;   /**< it is such a request */
    const bool *pass; /**< skipped where this is true; NULL: never */
} ls_task;

struct ls_step {
    ls_stepped *run;
    int batch_kind; /**< LS_FULL or LS_TAIL */
    int kind;       /**< its number in the run */
    ls_status status;
    ls_task *tasks;
    size_t task_count;
    ls_op **ops; /**< borrowed */
    size_t op_count;
    ls_access *accesses;
    size_t access_count;
    size_t *waits;
    size_t wait_count;
    size_t *said;      /**< [members] how many acts of its slice are appended; of a divided
                            replica, how many pieces are gathered */
    const bool **pass; /**< [members] `pass` of the tasks that are appended now */
    int calls;
    ls_op_list own;    /**< operations that belong to this step */
    ls_traffic copied; /**< between devices, by one step */
    ls_traffic called; /**< by communicators that count when they are enqueued, by one step */
};

/** A component: lanes that wait for each other by events, and so are one program. */
typedef struct ls_component {
    int driver; /**< the lane of its last task, which begins and ends its step */
    int lanes;
    bool has[LS_STEPS]; /**< it has tasks in that kind of step */
    ls_event *begun;
    ls_program *program[LS_KINDS];
} ls_component;

/** What a member has to reduce with the others of its group. */
typedef struct ls_group_end {
    int lane;      /**< of its all-reduces */
    void *scratch; /**< for one of them at a time */
} ls_group_end;

/** A group: the same place of all replicas, which add up their gradients bucket by bucket. */
typedef struct ls_group {
    ls_buckets buckets;
    int count;               /**< members of this process; 0: there is nothing to reduce */
    int *members;            /**< [count] */
    ls_group_end *ends;      /**< [count] */
    ls_comm **comms;         /**< [count] ends of their communicator */
    const ls_layout *layout; /**< where the members are; NULL: in this process */
    ls_layout spread;        /**< what `layout` points to where a replica is on several processes */
    int *hosts;
} ls_group;

/** A member's end of a communicator. */
typedef struct ls_held_end {
    ls_comm *comm;
    int member;
    int channel; /**< number of the communicator, the same in all processes */
    bool counts; /**< what goes through it is traffic, which it counts */
} ls_held_end;

/** The communicators of members, until the run is closed. */
typedef struct ls_held {
    ls_held_end *ends; /**< [end_count] */
    size_t end_count;
    int channels; /**< communicators */
} ls_held;

/** Where a member sends and receives messages; all zero: it is in another process, or nobody does.
 */
typedef struct ls_message_end {
    ls_comm *comm;
    ls_comm *control; /**< for small messages, where servers serve by arrival; else NULL */
    int lane;
} ls_message_end;

/** What a divided model needs besides its members. */
typedef struct ls_divided {
    void **arrived; /**< [replicas, copies] gradients of copies, with their owners here */
    ls_step test;   /**< the forward pass of evaluation, built by the first evaluation */
} ls_divided;

/** A step that was put so often. */
typedef struct ls_step_put_times {
    const ls_step *step;
    uint64_t times;
} ls_step_put_times;

struct ls_stepped {
    ls_run base;
    ls_graph_parts parts; /**< of the model, over places; count 0: it is whole */
    int holder;           /**< in-graph: the member that alone keeps optimizer state; n: one more
                               member, on the job's variable device, without slices; -1: each its own.
                               Set before opening */
    int count;            /**< replicas of all processes; with servers, workers */
    int places;           /**< members of each, one after the other */
    int loss_place;       /**< place that has the loss */
    int total;            /**< members: count x places, then servers, or one more holder */
    int all;              /**< these, and behind them where backward is held there, a shadow of each
                               replica: with its slice, on the holder's device, by its variables */
    ls_member *members;   /**< [all] */
    ls_comm **statistics_comms; /**< [devices] ends of a communicator for batch statistics; or NULL
                                 */
    int *here;                  /**< [here_count] members of this process but shadows, by rank */
    int here_count;
    ls_message_end *ends; /**< [total] */
    ls_comm **comms;      /**< [total + 1] those that are here, by rank; all NULL: no member sends
                               messages */
    ls_divided divided;
    ls_served *served; /**< NULL: members have variables of their own */
    ls_held held;
    ls_step step[LS_STEPS];
    uint64_t at;                 /**< number of the step that is enqueued next */
    uint64_t enqueued[LS_KINDS]; /**< steps enqueued so far */
    uint64_t profiled;           /**< steps that the lanes' logs have room for; 0: none are kept */
    ls_step_put_times *puts;     /**< [put_count] what was put meanwhile, in order */
    size_t put_count, put_room;
    ls_traffic counted; /**< by the communicators of earlier runs that this one continues */
    ls_lane *lanes;     /**< [lane_count] the members' first, in order */
    int lane_count;
    int *component;         /**< [lane_count]; -1: it has no tasks */
    int *rank_in_component; /**< [lane_count] number of a lane among those of its component */
    ls_component *components;
    int component_count;
    ls_group *groups; /**< [group_count] by place, of the places that reduce */
    int group_count;
};

/** *sum += times x more. */
static inline void ls_traffic_add(ls_traffic *sum, ls_traffic more, uint64_t times)
{
    sum->bytes_sent += times * more.bytes_sent;
    sum->messages_sent += times * more.messages_sent;
}

/* step.c: appending tasks. These do nothing after a failure. */

/** Notes a failure. */
void ls_step_fail(ls_step *step, ls_status status);
/** Begins a task on a lane; the calls below add to it until the next one begins. NULL after a
 * failure.
 */
ls_task *ls_task_begin(ls_step *step, const char *verb, int lane, ls_range range);
void ls_task_add_ops(ls_step *step, const ls_op_list *ops);
/** The same; the step takes the operations over, and the list is empty then. */
void ls_task_take_ops(ls_step *step, ls_op_list *ops);
void ls_task_touch(ls_step *step, const void *memory, size_t bytes, bool writes);
/** A task of operations that were just made, with `status` the outcome of making them; empties the
 * list. NULL after a failure. */
ls_task *ls_task_of(ls_step *step, const char *verb, int lane, ls_range range, ls_op_list *ops,
                    ls_status status);
/** The same of one operation. */
ls_task *ls_task_of_op(ls_step *step, const char *verb, int lane, ls_range range, ls_op *op,
                       ls_status status);
/** Ends the task: sorts and merges its accesses. */
void ls_task_end(ls_step *step);

ls_member *ls_step_member(const ls_step *step, int member);
/** NULL: the member is in another process. */
ls_replica *ls_step_replica(const ls_step *step, int member);

/** Appends a task of a piece's acts: those of `kinds` (bits 1 << kind), of one node or (-1) all.
 * None where they have no operations. */
void ls_step_say_acts(ls_step *step, const char *verb, int member, int piece, unsigned kinds,
                      int node);
/** Appends a task of the member: `out` = the sum, up the tree, of the partial sums of so many
 * replicas' gradients; `out` may be the first of these. None where there is one part. */
void ls_step_sum(ls_step *step, int member, ls_range range, const ls_span *parts, int replicas,
                 void *out);
/** Appends a copy by a lane, counted where devices differ. */
void ls_step_copy(ls_step *step, const char *verb, int lane, ls_span to, ls_span from);
/** Opens an empty step; close it also on failure. */
ls_status ls_step_open(ls_stepped *run, int kind, ls_step *step);
/** Frees what a step holds. */
void ls_step_close(ls_step *step);

/* meetings.c */
/** LS_CODE_CHECK where the ends of this process's messages and all-reduces do not match. */
ls_status ls_step_check_meetings(const ls_step *step);

/* run.c */
/** Opens a lane for what a member exchanges; with `own` false *out is the lane on which it
 * computes. */
ls_status ls_lane_open(ls_stepped *run, int member, const char *name, bool own, int *out);

/* members.c */
/** Opens a member on each device; `run` is zero-filled but for `holder`, and to be closed also on
 *  failure. */
ls_status ls_members_open(ls_stepped *run);
/** Frees the members and the run itself. */
void ls_members_close(ls_stepped *run);
/** Sets all members. */
ls_status ls_members_load(const ls_stepped *run, const float *parameters);
/** Gathers into the whole parameters what members [first, first + count) own, those that are here.
 */
ls_status ls_members_gather(const ls_stepped *run, int first, int count, bool averages,
                            float *parameters);
/** Values [count] go from one process to the others of [first, last], which all call this. */
ls_status ls_members_tell(const ls_stepped *run, int from, int first, int last, float *values,
                          size_t count);
/** The first member that is here. */
int ls_members_own(const ls_stepped *run);
/** How many members are no shadows, and no servers: how busy these are, their report says. */
int ls_members_training(const ls_stepped *run);
/** Whether a member is on device number `index` of the job; the one behind is its variable device.
 */
bool ls_members_on(const ls_stepped *run, int member, size_t index);
/** A member's rank in the communicator of messages. */
int ls_members_rank(const ls_stepped *run, int member);

/* held.c */
/** Opens a communicator of these members' devices [count] and those of the other processes, which
 *  all call it; comms[i] is the end of members[i]. */
ls_status ls_held_connect(ls_stepped *run, const int *members, int count, bool counts,
                          ls_comm **comms);
/** The number of its communicator; of one that is not held: one more than there are. */
int ls_held_channel(const ls_held *held, const ls_comm *comm);
/** Adds what a member holds. */
void ls_held_memory(const ls_held *held, int member, ls_memory_formula *formula);
/** While the members are open, and none of their operations is left. */
void ls_held_close(ls_stepped *run);

/* message.c */
/** Opens the ends of members that send messages; all processes call it. */
ls_status ls_ends_open(ls_stepped *run);
/** The first element of a range of the model's flat buffers in the member's own. */
size_t ls_step_place(const ls_step *step, int member, ls_range range);

/* places.c: models over several places. They do nothing where there is one. */
ls_status ls_places_open(ls_stepped *run);
void ls_places_close(ls_stepped *run);
/** The whole parameters of the replica that has a part here, also from other processes; all call
 * it. */
ls_status ls_places_gather(ls_stepped *run, float *parameters);
/** By the members here of the replica that `own` is of: an undivided one, too. */
ls_status ls_places_evaluate(ls_stepped *run, int own, uint64_t most, ls_evaluation *out);

/* order.c: which task waits for which, and which lanes are a component. */
ls_status ls_steps_order(ls_stepped *run);

/* lower.c: from tasks to queues, events and programs. */
ls_status ls_steps_open_events(ls_stepped *run);
ls_status ls_steps_capture(ls_stepped *run);
/** Enqueues the tasks of a component, or (-1) of all. */
ls_status ls_step_enqueue(ls_step *step, int component);
/** Enqueues the tasks one by one, each when the one before has ended. */
ls_status ls_step_enqueue_serially(ls_step *step);
/** Enqueues tasks between which there is no order. */
ls_status ls_step_enqueue_apart(ls_step *step);
void ls_steps_close_events(ls_stepped *run);

/* Builds with LOCKSTEP_HOOKS edit the tasks of a step, then its waits, and check them
 * (impl/tests/step_edits.c). */
#ifdef LOCKSTEP_HOOKS
ls_status ls_steps_edit_tasks(ls_stepped *run);
ls_status ls_steps_edit_waits(ls_stepped *run);
#define LS_STEPS_EDITED(edit) (edit)
#else
#define LS_STEPS_EDITED(edit) LS_OK
#endif

/* group.c */
/** Of this place of all replicas. */
ls_status ls_group_open(ls_stepped *run, int place, ls_group *group);
void ls_group_close(ls_group *group);
/** Of the variables that a place updates. */
ls_status ls_group_buckets(const ls_job *job, const ls_graph_parts *parts, int place,
                           ls_buckets *out);
/** Where the members are; hosts [LS_JOB_REPLICAS] and `spread` hold what is returned. */
const ls_layout *ls_group_layout(const ls_job *job, int place, int *hosts, ls_layout *spread);
