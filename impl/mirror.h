/* SPDX-License-Identifier: MIT */
/*
 * Mirror: the same variables on a device of each replica, kept equal by an all-reduce of their
 * gradients in buckets. `mirrored` is one of these; a model divided over M places has M, one a
 * place.
 *
 *     begin     what goes before the gradients are computed
 *     final     the all-reduce of every bucket that a range of gradients makes final
 *     update    the member's own variables, bucket by bucket
 *
 * Where the communicator's queues are ordered by events (GPUs), the all-reduces of all members are
 * put together, when all gradients have been.
 */
#ifndef LS_IMPL_MIRROR_H
#define LS_IMPL_MIRROR_H

#include "impl/reducer.h"

/** A zero-filled one has no variables: everything is done at once. */
typedef struct ls_mirror {
    ls_buckets buckets;
    ls_reducer *reducers; /**< [count] of this process's replicas; NULL: nothing to reduce */
    int count;
    const ls_layout *layout; /**< where the members are; NULL: in this process */
    ls_layout spread;        /**< that, where a replica is on several processes */
    int *hosts;
    ls_traffic sent[LS_BATCHES]; /**< together: by one step, counted when it is put or captured */
} ls_mirror;

typedef struct ls_mirror_options {
    const ls_job *job;
    const ls_graph *graph; /**< of the members: the model's, or a place's part of it */
    size_t elements;       /**< of its variables those that the members update, the first ones */
    int place;             /**< of each replica, that the members are */
    ls_member *const *members; /**< [count] one of each replica of this process */
    int count;
} ls_mirror_options;

/** All processes call it. To be closed also on failure. */
ls_status ls_mirror_open(const ls_mirror_options *options, ls_mirror *out);

/** When the members' queues are empty and their programs closed. */
void ls_mirror_close(ls_mirror *mirror);

/* One step of member `index`, on its replica's queue: see above. */
ls_status ls_mirror_begin(ls_mirror *mirror, int index, int which);
ls_status ls_mirror_final(ls_mirror *mirror, int index, int which, size_t first, size_t count);
ls_status ls_mirror_update(ls_mirror *mirror, int index);

/** Whether the steps of all members are one, and their all-reduces wait for ls_mirror_put. */
bool ls_mirror_together(const ls_mirror *mirror);

/** Together: puts the all-reduces of all members. */
ls_status ls_mirror_put(ls_mirror *mirror, int which);

/** Whether a library can make the queues wait for ever, so that ls_mirror_wait is needed. */
bool ls_mirror_waits(const ls_mirror *mirror);

/** Before the members' queues are waited for (ls_reducer_wait). */
ls_status ls_mirror_wait(ls_mirror *mirror, uint64_t timeout_ns);

/** Waits for the all-reduces' own queues, after the members'. */
ls_status ls_mirror_sync(ls_mirror *mirror);

/** See ls_strategy.profile. */
ls_status ls_mirror_profile(ls_mirror *mirror, bool on);

void ls_mirror_each(const ls_mirror *mirror, ls_op_visit visit, void *context);

/** Adds what one full step of all processes sent, and must have by formula, when `steps`
 *  [LS_BATCHES] have been put. All processes call it. */
ls_status ls_mirror_traffic(const ls_mirror *mirror, const ls_job *job, const uint64_t *steps,
                            ls_traffic *sent, ls_traffic *formula);

/** Fast mode, in sequence: the steps of a sum of parts of [elements], `count` of them, zeros where
 *  there is none (has[d]), in the order of the algorithm, bucket by bucket. */
ls_status ls_mirror_sum(const ls_mirror_options *options, const bool *has, int count,
                        ls_sum_order *out);

#endif
