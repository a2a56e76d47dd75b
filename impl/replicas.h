/* SPDX-License-Identifier: MIT */
/*
 * Replicas, each with its slices of the full batch and of an epoch's last one: what follows of them
 * from the job alone. A replica is one member, on one of the job's devices; where the model is
 * divided over places (graph_parts.h) it is a member a place.
 */
#pragma once

#include "impl/pipeline_schedule.h"
#include "impl/slice.h"

enum { LS_FULL, LS_TAIL, LS_BATCHES }; /* the two sizes of a batch */

/** A device's replica, or its part of one, and its slices. Members of all processes are numbered
 * alike in each; of one that is elsewhere, only `process` is set. */
typedef struct ls_member {
    int process;              /**< that it is in */
    ls_replica *replica;      /**< NULL: it is in another process */
    ls_comm *statistics_comm; /**< adds up batch statistics of all replicas; NULL: not needed.
                                 Borrowed */
    int slots;                /**< pieces of a slice that are at work at once (slice.h); 0: one */
    ls_slice *slice[LS_BATCHES]; /**< LS_TAIL: NULL where every batch is full */
} ls_member;

/** Whether all pieces of a batch are at work at once, to add up its statistics. */
bool ls_replicated_syncs(const ls_job *job);

/** Batch size of the full batch or the tail; 0 where there is no tail. */
int64_t ls_replicated_batch(const ls_job *job, int batch_kind);

/** Pieces of replica d's slice of a batch; 0: it is empty. */
int ls_replicated_pieces(const ls_job *job, int d, int batch_kind);

/** The schedule of replica d, which is a pipeline. It has as many micro-batches as the job asks
 * for, or as there are pieces. */
ls_schedule ls_replicated_schedule(const ls_job *job, int d, int batch_kind);

/** Opens the two slices of replica `number`, counted over all processes, on `member`'s replica. */
ls_status ls_replicated_open_slices(const ls_job *job, int number, ls_member *member);

/** Most parts of the gradient and the loss of replica `number` (of all processes). */
size_t ls_replicated_sums(const ls_job *job, int number);
