/* SPDX-License-Identifier: MIT */
/*
 * Replicas: the replicas of this process, one on each of the job's devices, each with its slices
 * of the full batch and of an epoch's last one. What every replicated strategy does the same way
 * is done here: opening, loading, waiting, records, evaluation, memory. What differs, the step, is
 * in the strategies' own files.
 */
#ifndef LS_IMPL_REPLICAS_H
#define LS_IMPL_REPLICAS_H

#include "impl/slice.h"

enum { LS_FULL, LS_TAIL, LS_BATCHES }; /* the two sizes of a batch */

/** One replica, its slices, and its own part of the two steps. */
typedef struct ls_member {
    ls_replica *replica;
    ls_slice *slice[LS_BATCHES];     /**< LS_TAIL: NULL where every batch is full */
    ls_op_list update[LS_BATCHES];   /**< filled by the strategy, freed here */
    ls_op_list finish[LS_BATCHES];   /**< filled here: the end of the step */
    ls_program *program[LS_BATCHES]; /**< made by the strategy, freed here; NULL: none */
} ls_member;

typedef struct ls_replicas {
    const ls_job *job;
    int count; /**< n */
    ls_member *members;
} ls_replicas;

/** Batch size of the full batch or the tail; 0 where there is no tail. */
int64_t ls_replicas_batch(const ls_job *job, int which);

ls_status ls_replicas_open(const ls_job *job, ls_replicas *out);
void ls_replicas_close(ls_replicas *replicas);

/* The entries of ls_strategy, for all members. */
ls_status ls_replicas_load(ls_replicas *replicas, const float *parameters);
ls_status ls_replicas_sync(ls_replicas *replicas);
ls_status ls_replicas_mark(ls_replicas *replicas);

/** End: the last member's to end. Loss: the members' parts added up (ls_slice_loss_sum). */
ls_status ls_replicas_records(ls_replicas *replicas, uint64_t first, uint64_t count,
                              ls_step_record *out, uint64_t *mark_ns);

ls_status ls_replicas_evaluate(ls_replicas *replicas, double *accuracy);
void ls_replicas_describe(const ls_replicas *replicas, ls_run_info *out);
void ls_replicas_each(const ls_replicas *replicas, ls_op_visit visit, void *context);
ls_memory_formula ls_replicas_memory(const ls_replicas *replicas, size_t index);

#endif
