/* SPDX-License-Identifier: MIT */
/* What the files of the step share: tasks, lanes, groups, and the run that the steps belong to. */
#pragma once

#include "common/comm/comm.h"
#include "impl/buckets.h"
#include "impl/replicas.h"
#include "impl/step/step.h"

typedef struct ls_stepped ls_stepped;

/** Kinds of steps: of a full batch or an epoch's last one; where steps have a period, plus
 *  LS_LAST: the last one of it. Then what is put once before, or after, steps that are put
 *  together. */
enum { LS_LAST = LS_BATCHES, LS_KINDS = 2 * LS_BATCHES };
enum { LS_BEFORE = LS_KINDS, LS_AFTER, LS_STEPS };
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
    int kind;  /**< its number in the run */
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
    ls_op_list own;    /**< operations that were made for this step alone */
    ls_traffic copied; /**< between devices, by one step */
    ls_traffic called; /**< by communicators that count where they are put, by one step */
};

/** Lanes that events tie together: one program, and one order of events. */
typedef struct ls_component {
    int driver; /**< the lane of its last task, which begins and ends its step */
    int lanes;
    bool has[LS_STEPS]; /**< tasks in that step */
    ls_event *begun;
    ls_program *program[LS_KINDS];
} ls_component;

/** What a member has to reduce with the others of its group. */
typedef struct ls_group_end {
    int lane;      /**< of its all-reduces */
    void *scratch; /**< for one of them at a time */
} ls_group_end;

/** The same place of all replicas, which add up their gradients bucket by bucket. */
typedef struct ls_group {
    ls_buckets buckets;
    int count;               /**< members of this process; 0: there is nothing to reduce */
    int *members;            /**< [count] */
    ls_group_end *ends;      /**< [count] */
    ls_comm **comms;         /**< [count] ends of their communicator */
    const ls_layout *layout; /**< where the members are; NULL: in this process */
    ls_layout spread;        /**< that, where a replica is on several processes */
    int *hosts;
} ls_group;

/** Memory of a member's device, for what it exchanges. */
typedef struct ls_room {
    void *memory;
    size_t bytes;
    int member;
    const char *what; /**< for people; NULL: as activations */
} ls_room;

/** A member's end of a communicator. */
typedef struct ls_held_end {
    ls_comm *comm;
    int member;
    int channel; /**< number of the communicator, the same in all processes */
    bool counts; /**< what goes through it is traffic, which it counts */
} ls_held_end;

/** What members hold to exchange with others, until the run is closed. */
typedef struct ls_held {
    ls_room *rooms; /**< [room_count] */
    size_t room_count;
    ls_held_end *ends; /**< [end_count] */
    size_t end_count;
    int channels; /**< communicators */
} ls_held;

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
    ls_run base;
    ls_graph_parts parts; /**< of the model, over places; count 0: it is whole */
    int holder;   /**< in-graph: the member that alone keeps optimizer state; n: one more member, on
                       the job's variable device, without slices; -1: each its own. Set before opening
                   */
    int *process; /**< [total] of each member, where those of all processes are numbered and the
                       ones elsewhere have no replica; NULL: all are here */
    int count;    /**< replicas of this process */
    int places;   /**< members of each that are here, one after the other */
    int first;    /**< place of the first of these */
    int losses;   /**< place that has the loss */
    int total;    /**< members: count x places, or count + 1 */
    int all;      /**< these, and behind them where backward is held there, a shadow of each
                       replica: with its slice, on the holder's device, by its variables */
    ls_member *members; /**< [all] */
    ls_comm **meetings; /**< [count] ends of a communicator for batch statistics; or NULL */
    ls_divided divided;
    ls_served *served; /**< NULL: members have variables of their own */
    ls_held held;
    ls_step step[LS_STEPS];
    uint64_t at;             /**< number of the step that is put next */
    uint64_t put[LS_KINDS];  /**< steps so far */
    uint64_t profiled;       /**< steps that the lanes' logs have room for; 0: none are kept */
    ls_step_put_times *puts; /**< [put_count] what was put meanwhile, in order */
    size_t put_count, put_room;
    ls_traffic counted; /**< by ends of communicators of the runs that this one goes on from */
    ls_lane *lanes;     /**< [lane_count] the members' first, in order */
    int lane_count;
    int *component; /**< [lane_count]; -1: it has no tasks */
    int *place;     /**< [lane_count] of a lane among those of its component */
    ls_component *components;
    int component_count;
    ls_group *groups; /**< [group_count] by place, of those that reduce */
    int group_count;
};

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
ls_status ls_step_open(ls_stepped *run, int kind, ls_step *step);
/** Frees what a step holds. */
void ls_step_close(ls_step *step);

/* meetings.c */
/** Whether all ends of messages and all-reduces of this process meet; else LS_CODE_CHECK. */
ls_status ls_step_check_meetings(const ls_step *step);

/* run.c */
/** Opens a lane of its own for what a member exchanges; else (`own` false) *out is that on which it
 *  computes. */
ls_status ls_lane_open(ls_stepped *run, int member, const char *name, bool own, int *out);

/* members.c */
/** Opens a member on each device; `run` is zero-filled but for `holder`, and to be closed also on
 *  failure. */
ls_status ls_members_open(ls_stepped *run);
/** Frees the members and the run itself. */
void ls_members_close(ls_stepped *run);
/** Sets all members. */
ls_status ls_members_load(const ls_stepped *run, const float *parameters);
/** The whole parameters of the replica whose first member is `first`: what of it is here. */
ls_status ls_members_gather(const ls_stepped *run, int first, float *parameters);
/** Copies a place's variables from (or, `out`, the ones that it owns to) the whole flat buffer. */
void ls_members_move(const ls_graph_parts *parts, int place, float *whole, float *here, bool out);

/* held.c */
ls_status ls_held_take(ls_stepped *run, int member, const char *what, size_t bytes, void **out);
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

/* places.c: models over several places. They do nothing where there is one. */
ls_status ls_places_open(ls_stepped *run);
void ls_places_close(ls_stepped *run);
/** Between processes: the whole parameters of the replica that has a part here; all call it. */
ls_status ls_places_gather(ls_stepped *run, float *parameters);
ls_status ls_places_evaluate(ls_stepped *run, uint64_t most, ls_evaluation *out);
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
/** Of this place of all replicas. */
ls_status ls_group_open(ls_stepped *run, int place, ls_group *group);
void ls_group_close(ls_group *group);
/** Of the variables that a place updates. */
ls_status ls_group_buckets(const ls_job *job, const ls_graph_parts *parts, int place,
                           ls_buckets *out);
/** Where the members are; hosts [LS_JOB_REPLICAS] and `spread` hold what is returned. */
const ls_layout *ls_group_layout(const ls_job *job, int place, int *hosts, ls_layout *spread);
