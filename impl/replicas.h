/* SPDX-License-Identifier: MIT */
/*
 * Replicas: the replicas of this process, one on each of the job's devices, or on several of them
 * (divided.h), each with its slices of the full batch and of an epoch's last one. Other processes
 * may have further ones. What every
 * replicated strategy does the same way is done here: opening, loading, waiting, records,
 * evaluation, memory. What differs, the step, is in the strategies' own files.
 */
#ifndef LS_IMPL_REPLICAS_H
#define LS_IMPL_REPLICAS_H

#include "impl/slice.h"

enum { LS_FULL, LS_TAIL, LS_BATCHES }; /* the two sizes of a batch */

/** One replica, its slices, and its own part of the two steps. */
typedef struct ls_member {
    ls_replica *replica;
    ls_comm *meeting; /**< on which batch statistics are added up; NULL: nowhere else. Borrowed */
    int slots;        /**< pieces of a slice that are at work at once (slice.h); 0: one */
    ls_slice *slice[LS_BATCHES];     /**< LS_TAIL: NULL where every batch is full */
    ls_op_list update[LS_BATCHES];   /**< filled by the strategy, freed here */
    ls_op_list finish[LS_BATCHES];   /**< filled here: the end of the step */
    ls_time_profile times;           /**< of the replica's queue, while profiled */
    ls_program *program[LS_BATCHES]; /**< made by the strategy, freed here; NULL: none */
} ls_member;

typedef struct ls_replicated ls_replicated;

/** Puts one step of a member: what a strategy is about. */
typedef ls_status (*ls_put_step)(ls_replicated *run, ls_member *member, int which);

/** A run of a replicated strategy. Strategies that need more embed this first in their own. */
struct ls_replicated {
    ls_run base;
    ls_put_step put_step;
    int holder; /**< in-graph: the member whose queue drives the step of all, and that alone keeps
                     optimizer state; n: one more member, on the job's variable device, without
                     slices; -1: each its own. Set before opening */
    bool together;      /**< the first member's program, or put_step, holds the step of all */
    const int *process; /**< [total] of each member, where those of all processes are numbered and
                             the ones elsewhere have no replica; NULL: all are here. Borrowed */
    int count;          /**< replicas of this process */
    int places; /**< members of each, one after the other; the first drives the program of all */
    int losses; /**< which of these has the loss */
    int total;  /**< members: count x places, or count + 1 */
    ls_member *members;
    ls_comm **meetings;         /**< [count] ends of a communicator for batch statistics; or NULL */
    uint64_t steps[LS_BATCHES]; /**< put so far */
};

/** Whether pieces of a batch go together and add up its statistics. */
bool ls_replicated_meets(const ls_job *job);

/** Batch size of the full batch or the tail; 0 where there is no tail. */
int64_t ls_replicated_batch(const ls_job *job, int which);

/** Opens a member on each device; `run` is zero-filled but for `holder`, and ls_replicated_close's
 * also on failure.
 */
ls_status ls_replicated_open(ls_replicated *run, const ls_strategy *strategy, const ls_job *job,
                             ls_put_step put_step);

/** Opens the two slices of replica `number`, counted over all processes, on `member`'s replica, and
 *  the ends of its steps; -1: these alone. */
ls_status ls_replicated_open_slices(const ls_job *job, int number, ls_member *member);

/** The most parts that the gradient and the loss of replica `number` of all processes come in. */
size_t ls_replicated_sums(const ls_job *job, int number);

/** Frees what a member holds. */
void ls_member_close(ls_member *member);

/** For strategies that need no more than this: makes a run and lets `prepare` open it. */
ls_status ls_replicated_start(const ls_job *job,
                              ls_status (*prepare)(ls_replicated *run, const ls_job *job),
                              ls_run **out);

/** Appends each member's update of all parameters. */
ls_status ls_replicated_update(ls_replicated *run);

/** Captures a program for each member (or the holder alone) and batch, unless the job asks for
 * none. */
ls_status ls_replicated_capture(ls_replicated *run);

/* Entries of ls_strategy. Load, sync and mark: all members. A step: each member's program, or its
 * operations one by one. Records: the end is the last member's, the loss the sum of their parts; of
 * several processes, all of which call it, ends count from the marks, as if these were one.
 * Parameters and evaluation: the first member's. */
ls_status ls_replicated_load(ls_run *run, const float *parameters);
ls_status ls_replicated_step(ls_run *run, bool tail, uint64_t times);
ls_status ls_replicated_sync(ls_run *run);
ls_status ls_replicated_mark(ls_run *run);
ls_status ls_replicated_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                                uint64_t *mark_ns);
ls_status ls_replicated_gather(ls_run *run, float *parameters);
ls_status ls_replicated_evaluate(ls_run *run, uint64_t most, ls_evaluation *out);
void ls_replicated_describe(const ls_run *run, ls_run_info *out);
void ls_replicated_each(const ls_run *run, ls_op_visit visit, void *context);
ls_status ls_replicated_profile(ls_run *run, bool on);
ls_time_profile ls_replicated_times(const ls_run *run, size_t index);
ls_memory_formula ls_replicated_memory(const ls_run *run, size_t index);

/** What the exchange of batch statistics sent in one full step, by all processes, which all call
 *  it, and what it must by formula; 0 where there is none. After a full step. */
ls_status ls_replicated_statistics_traffic(const ls_replicated *run, ls_traffic *sent,
                                           ls_traffic *formula);

/** *sum += more. */
static inline void ls_traffic_add(ls_traffic *sum, ls_traffic more)
{
    sum->bytes_sent += more.bytes_sent;
    sum->messages_sent += more.messages_sent;
}

/** Of a count over all steps put, the part of a full one, a tail's being `tail`: rounded away from
 *  `expected`, so that a difference in one step alone shows. */
uint64_t ls_steps_part_of_one(const uint64_t steps[LS_BATCHES], uint64_t all, uint64_t tail,
                              uint64_t expected);

/** Waits and closes the programs alone: before what joined their captures is closed. */
void ls_replicated_close_programs(ls_replicated *run);

/** Waits, frees the members and the run itself. */
void ls_replicated_close(ls_run *run);

#endif
