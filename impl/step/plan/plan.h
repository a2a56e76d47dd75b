/* SPDX-License-Identifier: MIT */
/*
 * Plan: who takes part in a step, a value made from a job before any memory, queue or communicator
 * is opened. All processes number members in the same order; lanes only exist for this process's
 * members.
 *
 * A plan and a strategy's `build` make programs (program.h); a run (run.h) is made from both.
 */
#pragma once

#include "common/nn/divide/graph_context.h"
#include "common/nn/divide/graph_split.h"
#include "common/nn/repeat.h"
#include "impl/buckets.h"
#include "impl/divide.h"
#include "impl/ps/ps_layout.h"
#include "impl/replica/replicas.h"

/** A device's share of a step; see step.h. */
typedef struct ls_planned_member {
    int process;
    int device;  /**< number in the job's devices; device_count: the variable device; -1 if it is in
                      another process */
    int replica; /**< whose slice of the batch it computes; -1 if it computes none */
    int place;   /**< its rank in that replica */
    int rank;    /**< in the channel of messages */
    int sends;   /**< the lane on which it sends copies to members of this process */
    int slots[LS_SCHEDULE_CHUNKS]; /**< of each chunk, pieces in flight at once (slice.h); 0 means
                                      one */
} ls_planned_member;

/** A lane: a queue of a member's device. */
typedef struct ls_lane {
    int member;
    const char *name; /**< static text */
    bool ends;        /**< the member's step ends on it */
} ls_lane;

/** A communicator between members: the ends in it meet. */
typedef struct ls_channel {
    int members;
    int *lane;    /**< [members] of the member's end; -1 if none in this process */
    int arrivals; /**< from this member on, ends serve requests as they arrive; `members`: none */
    int *local;   /**< [local_count] members that have an end in this process */
    int local_count;
} ls_channel;

/** What tasks are on: the lanes and channels of this process. */
typedef struct ls_lanes {
    ls_lane *items; /**< [count] lane m is the compute lane of member m */
    int count;
    ls_channel *channels; /**< [channel_count] for messages; each group; the places of each split
                               replica */
    int channel_count;
} ls_lanes;

enum { LS_MESSAGES, LS_GROUPS }; /* numbers of the channel of messages, of the first group's */

/** A group: members that reduce gradients bucket by bucket. The members of a *set* differ only in
 * axes LS_MEMBER and LS_POSITION of the mesh, and may share the update. Then members that differ
 * only in LS_GROUP reduce their share. */
typedef struct ls_planned_group {
    ls_buckets buckets;
    int before;                  /**< buckets of the places before its own */
    ls_windows windows;          /**< for parameters; if .buckets is NULL, every member has all */
    ls_windows gradient_windows; /**< windows for gradients; as above */
    int first, end, stride;      /**< members first, first + stride, and so on, before end */
    const ls_layout *layout;     /**< hosts of all replicas at its place; NULL: one process */
    ls_layout own_layout;        /**< *layout, if a replica has several processes */
    int *hosts;
} ls_planned_group;

/** Which nodes are repeated. */
typedef struct ls_planned_repeats {
    ls_repeat *whole; /**< [nodes] of the split and placed model; or NULL */
    ls_repeat **of;   /**< [parts] as above, by a part's nodes; or NULL */
} ls_planned_repeats;

/** The members of this process. */
typedef struct ls_local_members {
    int *items; /**< [count] by rank */
    int count;
} ls_local_members;

typedef struct ls_step_plan {
    const ls_job *job;
    const ls_strategy *strategy;
    ls_graph_parts parts; /**< the model's, by place; count 0 if the model is not divided */
    ls_graph *context;    /**< model of all places together, with divided positions
                               (graph_context.h); or NULL */
    ls_graph_part split;  /**< the model with layers split into slices; graph NULL if none is */
    ls_planned_repeats repeats;
    ls_mesh mesh;                /**< a replica's places are consecutive members */
    ls_spread parameters, state; /**< the job's, and placed where the model is divided */
    ls_ps_layout placed;         /**< which ranges owners have that do not compute; or all zero */
    ls_range owners;             /**< members with variables that are updated */
    int holder;                  /**< member that owns all variables, maybe one more; -1 if none */
    int loss_place;              /**< the place that has the loss */
    int total;                   /**< members: replicas x places, then owners that do not compute */
    int all;                    /**< `total`, then, if backward is held, a shadow of each replica */
    ls_planned_member *members; /**< [all] */
    ls_local_members local;     /**< of `total` */
    ls_planned_group *groups;   /**< [group_count] sets, then groups of shares; none if nothing is
                                     reduced */
    int group_count;
    ls_lanes lanes;
} ls_step_plan;

/** Close it also on failure. Borrows the job. */
ls_status ls_step_plan_open(const ls_strategy *strategy, const ls_job *job, ls_step_plan *out);
void ls_step_plan_close(ls_step_plan *plan);

/** NULL if the member is in another process. */
ls_device *ls_step_plan_device(const ls_step_plan *plan, int member);

/** Whether a member is on the job's device number `index`; device_count: the variable device. */
bool ls_step_plan_is_on(const ls_step_plan *plan, int member, size_t index);

/** Whether messages are operations at both ends, also in a process. */
bool ls_step_plan_two_ended(const ls_step_plan *plan);

/** Whether the members that exchange messages have ends of a communicator for them: if they are
 * two-ended, with peers, or if a replica is divided over several processes. */
bool ls_step_plan_has_ends(const ls_step_plan *plan);

/** Replicas whose parameters a replica averages with its own: ls_strategy_average.peers, or none;
 * `out` [LS_JOB_REPLICAS]. Returns how many. */
int ls_step_plan_peers(const ls_step_plan *plan, int replica, int *out);

/** Number of members that train: all but shadows, and owners of placed ranges. */
int ls_step_plan_training(const ls_step_plan *plan);

/** Whether the members of a set share the update; how many share it, or 1. */
bool ls_step_plan_shares(const ls_step_plan *plan);
int ls_step_plan_sharers(const ls_step_plan *plan);

/** Whether a member updates variables; the consecutive members that have a buffer
 * once, together with this one or for it: axes on which each has it whole are the outer ones. */
bool ls_step_plan_updates(const ls_step_plan *plan, int member);
ls_range ls_step_plan_copy(const ls_step_plan *plan, const ls_spread *spread, int member);

/** Range number i that a member owns, counted in its elements, or in the model's if that is placed;
 * false if there are no more. */
bool ls_step_plan_owned_range(const ls_step_plan *plan, int member, size_t i, ls_range *out);

/** How the members of a set have a buffer: complete, or as shares. */
static inline ls_kind ls_spread_held(const ls_spread *spread)
{
    return spread->on[LS_MEMBER] == LS_SHARE ? LS_SHARE : LS_WHOLE;
}

enum { LS_NO_SUM = -1 };
/** What members that have a buffer in one way do to have it in another: an all-reduce or a half of
 * one (ls_half); LS_NO_SUM: nothing, or messages between two of them. */
int ls_step_plan_move(ls_kind has, ls_kind needs);

/** The number of the first set that has a place's buckets. */
int ls_step_plan_group(const ls_step_plan *plan, int place);

/** The channel between the places of a stage of a replica. */
int ls_step_plan_places(const ls_step_plan *plan, int replica, int stage);

/** Places of a stage of a replica. */
static inline int ls_step_plan_each(const ls_step_plan *plan)
{
    return plan->mesh.places / plan->mesh.size[LS_STAGE];
}

/** The first member of this process. */
int ls_step_plan_first_local(const ls_step_plan *plan);

/** How many sets there are, and of each group of replicas; which one a member is in, and the number
 * of its share there. */
int ls_step_plan_sets(const ls_step_plan *plan);
int ls_step_plan_parts(const ls_step_plan *plan);
int ls_step_plan_set(const ls_step_plan *plan, int member);
int ls_step_plan_share(const ls_step_plan *plan, int member);

/** Share of a member in a bucket of its place. */
ls_range ls_step_plan_bucket_share(const ls_step_plan *plan, int member, size_t bucket);

/** The first group of a place's members. */
const ls_planned_group *ls_step_planned_group(const ls_step_plan *plan, int place);

/** What a member has of the model: the part of its place, or all in slices; NULL means the model.
 */
const ls_graph_part *ls_step_plan_part(const ls_step_plan *plan, int member);

/** Sets `repeats`. */
ls_status ls_step_plan_open_repeats(ls_step_plan *plan);
void ls_step_plan_close_repeats(ls_step_plan *plan);

/** LS_CODE_USAGE if the job asks for fewer windows than one node needs. */
ls_status ls_step_plan_check_windows(const ls_strategy *strategy, const ls_job *job);

/** [nodes] Which nodes of a place are repeated; NULL if there is none. */
const ls_repeat *ls_step_plan_repeats(const ls_step_plan *plan, int place);

/** The bucket boundaries of the variables that it updates. */
ls_status ls_step_plan_buckets(const ls_job *job, const ls_graph_part *part, ls_buckets *out);

/** Hosts of a group's members: the job's layout, or in `own_layout`, with hosts [LS_JOB_REPLICAS].
 */
const ls_layout *ls_step_plan_layout(const ls_job *job, int place, int *hosts,
                                     ls_layout *own_layout);
