/* SPDX-License-Identifier: MIT */
/*
 * Reducer: one replica's all-reduces of its gradients, bucket by bucket.
 *
 *     zero      an empty slice's gradient is 0
 *     bucket    the all-reduce of bucket b, once backward has made it final
 *     update    the replica's parameters of bucket b, once its gradient is the sum of all replicas'
 *
 * Overlapped, the all-reduces have a queue of their own: bucket b waits there for an event that the
 * replica's queue records when b is final, and travels while backward goes on. Else they are put on
 * the replica's queue itself, which is faster where one core does both and memory is shared.
 *
 * Ranks whose queues events order (GPUs) are put together: all gradients, all sums, all updates.
 * What then happens when, only events say: with a queue of their own, sums overlap just so.
 */
#ifndef LS_IMPL_REDUCER_H
#define LS_IMPL_REDUCER_H

#include "impl/buckets.h"
#include "impl/replicas.h"

typedef struct ls_reducer {
    ls_member *member; /**< borrowed */
    ls_comm *comm;
    ls_queue *queue;    /**< that the all-reduces are put on */
    bool own_queue;     /**< overlapped: it is not the replica's */
    ls_event **final;   /**< [buckets] bucket b is final; overlapped only */
    ls_event **reduced; /**< [buckets] bucket b is the sum; overlapped only */
    float *scratch;
    size_t scratch_elements;
    ls_op_list *buckets[LS_BATCHES]; /**< [buckets] */
    ls_op_list zero[LS_BATCHES];
    ls_op_list *update;    /**< [buckets] */
    ls_time_profile times; /**< of its own queue, while profiled */
    size_t bucket_count;
} ls_reducer;

/** For `member`. `reducer->comm` is set, which it takes over; all else of it is zero. To be closed
 *  also on failure. */
ls_status ls_reducer_open(const ls_job *job, const ls_buckets *buckets, ls_member *member,
                          ls_reducer *reducer);

/** After the replica's queue is empty and its programs are closed. */
void ls_reducer_close(ls_reducer *reducer);

/** Puts what goes before the gradients are computed. */
ls_status ls_reducer_begin(ls_reducer *reducer, int which);

/** A bucket that what was put on the replica's queue so far makes final: puts its all-reduce, or,
 *  where ranks are put together, what that waits for. */
ls_status ls_reducer_put(ls_reducer *reducer, int which, size_t bucket);

/** Where ranks are put together (ls_comm_together): puts the all-reduces of all of them, after
 *  every bucket of each is final. */
ls_status ls_reducers_put(ls_reducer *reducers, int count, int which);

/** Puts the update of a bucket's parameters on the replica's queue, once its sum is there. */
ls_status ls_reducer_update(ls_reducer *reducer, size_t bucket);

/** Before the replica's queue is waited for: where a library could keep that for ever, waits until
 *  it is empty or the library is given up. */
ls_status ls_reducer_wait(ls_reducer *reducer, uint64_t timeout_ns);

/** Waits for the reducer's own queue; its failure, if any. */
ls_status ls_reducer_sync(ls_reducer *reducer);

/** See ls_strategy.profile, for its own queue. */
ls_status ls_reducer_profile(ls_reducer *reducer, bool on);

/** The replica's profile, in which waiting for the own queue is told apart: what that was at work
 *  is exposed communication, what it waited for peers is waiting. */
ls_time_profile ls_reducer_times(const ls_reducer *reducer, ls_time_profile replica);

void ls_reducer_each(const ls_reducer *reducer, ls_op_visit visit, void *context);

/** Adds to the formula of the replica's device what it holds. */
void ls_reducer_memory(const ls_reducer *reducer, ls_memory_formula *formula);

/** What the all-reduces of one step move by formula, summed over replicas, which are where `layout`
 *  says. */
ls_traffic ls_reducer_formula(const ls_job *job, const ls_buckets *buckets, const ls_layout *layout,
                              int which);

#endif
