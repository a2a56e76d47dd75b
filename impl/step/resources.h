/* SPDX-License-Identifier: MIT */
/*
 * Resources: what this process has opened for a plan: replicas with their memory, and
 * communicators. Verbs make operations on them; the run (run.h) owns them.
 */
#pragma once

#include "common/comm/comm.h"
#include "impl/step/program/program.h"

typedef struct ls_served ls_served;

/** A member's end of a channel; all zero if it is not in this process. */
typedef struct ls_end {
    ls_comm *comm;
    void *scratch; /**< of a group: for one all-reduce at a time */
    void *terms;   /**< of a group: sums of shares left between exchanges (terms.c); or NULL */
} ls_end;

/** The ends of a channel in this process. */
typedef struct ls_ends {
    ls_end *items;   /**< [members] */
    ls_comm **comms; /**< [members + 1] existing communicators, by rank; else NULL */
} ls_ends;

/** An end of a communicator between members, of a channel or for control. */
typedef struct ls_connection {
    ls_comm *comm;
    int member;
    int number;  /**< of the communicator, equal in all processes */
    bool counts; /**< its messages are traffic, which the end counts */
} ls_connection;

/** Memory for what crosses a border, before the part that needs it does. */
typedef struct ls_landing {
    void *memory;
    size_t each; /**< bytes of the largest piece */
    int pieces;  /**< of a micro-batch */
} ls_landing;

typedef struct ls_resources {
    const ls_step_plan *plan;
    ls_member *members;         /**< [plan->all] */
    ls_comm **statistics_comms; /**< [devices] ends of the communicator of statistics; or NULL */
    ls_ends *ends;              /**< [channels] of the plan */
    ls_connection *connections; /**< [connection_count] all ends, open until the run is closed */
    size_t connection_count;
    int communicators;
    void **arrived;       /**< [replicas, copies] copies' gradients at owners here; NULL at first */
    ls_landing *landings; /**< [replicas, borders] at parts here; or NULL */
    ls_served *served;    /**< (ps/) NULL if no ranges are placed */
} ls_resources;

/** Opens a member on each of this process's devices, then communicators. All processes call it.
 * Close also on failure; the plan outlives the resources. */
ls_status ls_resources_open(const ls_step_plan *plan, ls_resources *out);

/** After all operations: communicators; then members. Members' queues are used in between. */
void ls_resources_disconnect(ls_resources *resources);
void ls_resources_close(ls_resources *resources);

/** Gives up all communicators: operations that wait in them fail, here and in other processes. Does
 * nothing if a device of this process hangs. */
void ls_resources_abandon(const ls_resources *resources);

/** Whether what a communicator sends is counted as the strategy's traffic, or is for control. */
typedef enum ls_counting { LS_COUNTED, LS_UNCOUNTED } ls_counting;
/** Opens a communicator between members [count] of this process, and of others, which all call it;
 * comms[i] is the end of members[i]. */
ls_status ls_connect(ls_resources *resources, const int *members, int count, ls_counting counting,
                     ls_comm **comms);
/** Number of a communicator; if it is not open here, the number of open ones. */
int ls_connection_number(const ls_resources *resources, const ls_comm *comm);

/** Adds what a member's memory must be: its replica's buffers, its slices, its communicators. */
void ls_resources_memory(const ls_resources *resources, int member, ls_memory_formula *formula);

/** build.c: appends what the strategy describes of a step of this kind, if it occurs, and the ends
 * of members' steps. */
ls_status ls_build_step(ls_resources *resources, int kind, ls_step_program *programs);
/** The forward passes of evaluation, of each replica over a piece of its full batch: pieces
 * [replicas]; -1 means none. */
ls_status ls_build_evaluation(ls_resources *resources, const int *pieces, ls_step_program *program);
/** The strategy's closed form of a step's traffic. */
ls_traffic ls_build_formula(ls_resources *resources, int kind);

/** Sets the parameters of all members. */
ls_status ls_resources_load(const ls_resources *resources, const ls_state_source *source);
/** Copies what `members` have of a block of the model's elements, if they are in this process. */
ls_status ls_resources_gather(const ls_resources *resources, ls_range members, ls_values values,
                              ls_range block, float *out);
/** Sends values [count] from one process to all others of [first, last], which all call this. */
ls_status ls_broadcast(const ls_job *job, int from, int first, int last, float *values,
                       size_t count);

/** call.c: a part of ls_resources_open. */
ls_status ls_channels_open(ls_resources *resources);
