/* SPDX-License-Identifier: MIT */
/*
 * Replicas, each with slices of the full batch and the tail: what the job alone determines. A
 * replica is one member, on one of the job's devices; in a model divided over places
 * (graph_parts.h), one member for each place.
 */
#pragma once

#include "impl/pipeline/pipeline_schedule.h"
#include "impl/replica/slice.h"

/** A device's replica, or its part of one, and its slices; all zero: in another process. */
typedef struct ls_member {
    ls_replica *replica;
    ls_comm *statistics_comm;    /**< sums batch statistics over replicas; NULL if there is none.
                                    Borrowed */
    ls_slice *slice[LS_BATCHES]; /**< LS_TAIL: NULL if every batch is full */
    void *inboxes;               /**< [peers, elements] of ls_average; NULL until a step needs it */
} ls_member;

/** Whether all pieces of a batch are in flight together, to sum batch statistics. */
bool ls_replicated_syncs(const ls_job *job);

/** Size of the full batch or the tail; 0 if there is no tail. */
int64_t ls_replicated_batch(const ls_job *job, int batch_kind);

/** What replica d computes of a batch: batch, number, count and pieces (slice.h). */
ls_slice_options ls_replicated_slice(const ls_job *job, int d, int batch_kind);

/** Number of pieces of replica d's slice of a batch; 0 if it is empty. */
int ls_replicated_pieces(const ls_job *job, int d, int batch_kind);

/** As above, for the exchanges of gradients before number `exchange`. */
int ls_replicated_before(const ls_job *job, int d, int batch_kind, int exchange);

/** How many exchanges of gradients have samples, on some replica. */
int ls_replicated_exchanges(const ls_job *job, int batch_kind);

/** Rows of the batch's first piece. */
int64_t ls_replicated_first_rows(const ls_job *job);

/** The piece whose net evaluates: the first one. In exact mode the first one of as many rows as the
 * batch's first piece, so that outputs have the bits of `single`; -1 if replica d has no such
 * piece.
 */
int ls_replicated_test_piece(const ls_job *job, int d);

/** The schedule of replica d, a pipeline, with as many micro-batches as the job's option, but at
 * most as many as there are pieces; of exchanges, if micro-batches are exchanged one by one. */
ls_schedule ls_replicated_schedule(const ls_job *job, int d, int batch_kind);

/** For how many pieces a chunk of a pipeline's stage has memory at once: the pieces of the
 * micro-batches that it holds, or, if gradients are in windows, of an exchange. */
ls_status ls_replicated_slots(const ls_job *job, int d, int stage, int chunk, int *out);

/** Opens both slices of replica `number`, counted over all processes, on `member`'s replica, with
 * so many slots of each chunk (slice.h). */
ls_status ls_replicated_open_slices(const ls_job *job, int number, const int *slots,
                                    ls_member *member);

/** Most partial sums of replica `number`, counted over all processes. */
size_t ls_replicated_sums(const ls_job *job, int number);
