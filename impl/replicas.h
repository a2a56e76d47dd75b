/* SPDX-License-Identifier: MIT */
/*
 * Replicas: those of this process, each with its slices of the full batch and of an epoch's last
 * one. A replica is one member, on one of the job's devices; where the model is divided over places
 * (graph_parts.h) it has a member for each place, some of them perhaps in other processes. What
 * does not depend on the step is done here: opening, values, records, memory.
 */
#pragma once

#include "impl/pipeline_schedule.h"
#include "impl/slice.h"

enum { LS_FULL, LS_TAIL, LS_BATCHES }; /* the two sizes of a batch */

/** A device's replica, or its part of one, and its slices. */
typedef struct ls_member {
    ls_replica *replica;
    ls_comm *meeting; /**< adds up batch statistics of all replicas; NULL: not needed. Borrowed */
    int slots;        /**< pieces of a slice that are at work at once (slice.h); 0: one */
    ls_slice *slice[LS_BATCHES];   /**< LS_TAIL: NULL where every batch is full */
    ls_op_list finish[LS_BATCHES]; /**< the end of the step */
} ls_member;

/** Embedded first in ls_stepped. */
typedef struct ls_replicated {
    ls_run base;
    ls_graph_parts parts; /**< of the model, over places; count 0: it is whole */
    int holder;     /**< the member that alone keeps variables and optimizer state (in-graph): a
                         replica's, or n: one more, without slices, on the variable device; -1:
                         each has its own. Set before opening */
    int *process;   /**< [total] of each member, where members of all processes are numbered; those
                         elsewhere have no replica. NULL: all are here */
    int count;      /**< replicas of this process */
    int places;     /**< members of each replica that are here, one after the other */
    int first;      /**< place of the first of these */
    int loss_place; /**< place that computes the loss */
    int total;      /**< members: count x places, or count + 1 */
    int all;        /**< `total`; with job->backward_held also, behind them, a shadow of each
                         replica: its slice on the holder's device, with the holder's variables */
    ls_member *members;         /**< [all] */
    ls_comm **meetings;         /**< [count] ends of a communicator for batch statistics; or NULL */
    uint64_t steps[LS_BATCHES]; /**< enqueued so far */
} ls_replicated;

/** Whether all pieces of a batch are at work at once, to add up its statistics. */
bool ls_replicated_syncs(const ls_job *job);

/** Batch size of the full batch or the tail; 0 where there is no tail. */
int64_t ls_replicated_batch(const ls_job *job, int which);

/** Pieces of replica d's slice of a batch; 0: it is empty. */
int ls_replicated_pieces(const ls_job *job, int d, int which);

/** The schedule of replica d, which is a pipeline. It has as many micro-batches as the job asks
 * for, or as there are pieces. */
ls_schedule ls_replicated_schedule(const ls_job *job, int d, int which);

/** Opens a member on each device. `run` is zero-filled but for `holder`; close it also on failure.
 */
ls_status ls_replicated_open(ls_replicated *run, const ls_job *job);

/** Opens the two slices of replica `number` (of all processes) on `member`'s replica, and the ends
 * of its steps; -1: the ends alone. */
ls_status ls_replicated_open_slices(const ls_job *job, int number, ls_member *member);

/** Most parts of the gradient and the loss of replica `number` (of all processes). */
size_t ls_replicated_sums(const ls_job *job, int number);

/** Copies the parameters of the replica whose first member is `first`, as far as they are here. */
ls_status ls_replicated_gather(const ls_replicated *run, int first, float *parameters);

/** Copies a place's variables from the whole flat buffer; with `out`, those that it owns to it. */
void ls_replicated_move(const ls_graph_parts *parts, int place, float *whole, float *here,
                        bool out);

/** Sets the parameters of all members. */
ls_status ls_replicated_load(ls_run *run, const float *parameters);

/** Frees the members and the run itself. */
void ls_replicated_close(ls_run *run);
