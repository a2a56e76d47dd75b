/* SPDX-License-Identifier: MIT */
/* Job: what a strategy is asked to train, with everything resolved. */
#pragma once

#include "common/base/declared.h"
#include "common/comm/comm_choice.h"
#include "common/data/data.h"
#include "common/device/device.h"
#include "common/nn/model.h"
#include "common/nn/optimizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_JOB_REPLICAS = 1024 }; /* most replicas of a job */

/** When servers apply gradients: all of a step at once; each as it arrives; the same, but no worker
 * gets more than `staleness` steps ahead. */
typedef enum ls_ps_mode { LS_PS_SYNC, LS_PS_ASYNC, LS_PS_SSP } ls_ps_mode;

/** How parameter servers work (ps_layout.h). */
typedef struct ls_ps_options {
    int ranks; /**< workers and servers: threads of this process, or processes; 0: no servers */
    ls_ps_mode mode;   /**< when gradients are applied */
    int staleness;     /**< ssp: steps that a worker may be ahead of the slowest */
    int backups;       /**< sync: gradients that a step does not wait for */
    size_t log_events; /**< how many served requests each server keeps, for --ps-record */
    int servers;       /**< of several ranks, the first ones serve */
    bool colocate;     /**< every rank is a worker, servers too */
    bool by_variable;  /**< shards are whole variables; else the same number of bytes each */
} ls_ps_options;

/** Borrowed by a run, which it must outlive. */
typedef struct ls_job {
    const ls_model *model;      /**< what is trained */
    const ls_data *data;        /**< what it is trained on */
    ls_device *const *devices;  /**< of this process, opened for this job */
    size_t device_count;        /**< of them */
    ls_device *variable_device; /**< for towers: one of the devices, or one more */
    ls_declared_values options; /**< values of the strategy's own options (strategy.h) */
    bool backward_held;         /**< backward runs on the device that has the variables */
    int microbatches;           /**< parts that a replica's slice is cut into; 0: it is not cut */
    const int *
        place; /**< [nodes] which of a replica's devices each node is on; NULL: it has one device */
    int split_replicas; /**< D, with `place`: number of replicas; each takes the next M of all
                             ranks' devices; 0: 1 */
    ls_ps_options ps;   /**< parameter servers */
    ls_comm *comm;      /**< of the processes, each a rank; NULL: this one alone */
    const ls_comm_backend *transport; /**< by which devices exchange; NULL: ls_comm_backend_auto */
    uint64_t timeout_ns;              /**< longest wait without progress of another rank */
    int64_t batch;                    /**< global; of every step but the last of an epoch */
    bool epochs;   /**< an epoch's last batch is its remainder, and may be smaller */
    uint64_t seed; /**< of initial values and of the samples' order */
    bool shuffle;  /**< else samples come in the order of the data set */
    bool augment;  /**< images to train on are cropped anywhere and flipped; else in the middle */
    ls_optimizer optimizer; /**< by which it learns */
    int period;     /**< local SGD: replicas train by themselves for so many steps, each by the
                         mean over its own samples, and average in the last one (ls_ends_period).
                         0: no local SGD */
    double average; /**< decay of moving averages of the parameters, which evaluation uses
                         (kernel.h, moving_average); 0: it uses the parameters */
    ls_rate_schedule schedule;     /**< of the learning rate */
    bool sync_statistics;          /**< batch statistics are those of the global batch */
    bool exact;                    /**< canonical shards, summed over a fixed tree */
    int64_t micro_shards;          /**< S; a batch of B is cut into min(S, B) */
    const ls_allreduce *allreduce; /**< the algorithm; exact mode: canonical */
    size_t bucket_bytes; /**< least size of a bucket; 0: one per variable; SIZE_MAX: one for all */
    bool overlap;        /**< all-reduces have a queue of their own */
    ls_math math;        /**< arithmetic of products */
    const ls_kernel_table *table; /**< of all operations; NULL: the device's own */
    bool capture;                 /**< replay captured programs */
    int flip_replica; /**< a fault on purpose: replica whose gradient has a bit flipped; -1: none */
    uint64_t flip_step; /**< in which step */
    uint64_t delay_ns;  /**< a straggler on purpose: delay of each step; 0: none */
    int delay_replica;  /**< first replica that is slow */
    int delay_count;    /**< how many are slow */
    uint64_t records;   /**< capacity of the ring of step records */
    uint64_t start;     /**< number of the first step after parameters are loaded: mostly 0 */
    /** On GPUs. */
    ls_convolution convolution;

    const ls_layout *layout;       /**< hosts and processes of the replicas; NULL: all are in
                                        this process */
    const ls_processes *processes; /**< told of progress, since others may wait for this one; may
                                        be NULL */
} ls_job;

/** How many processes train the job. */
int ls_job_processes(const ls_job *job);

/** This process's number. */
int ls_job_process(const ls_job *job);

/** n: replicas of all ranks; with parameter servers, workers. */
int ls_job_replicas(const ls_job *job);

/** Whether servers serve requests as they arrive (ps_serve.h), so that results depend on timing.
 * Else the workers' gradients are added up in the order of their numbers. */
static inline bool ls_ps_by_arrival(const ls_ps_options *ps)
{
    return ps->mode != LS_PS_SYNC || ps->backups > 0;
}

/** Whether step number `step`, from 0, has an epoch's last, smaller batch. */
bool ls_job_is_tail(const ls_job *job, uint64_t step);

/** M: devices of one replica. */
int ls_job_places(const ls_job *job);

/** Number of devices[index] among all processes' devices: without servers, number d M + m is device
 * m of replica d. */
int ls_job_member(const ls_job *job, size_t index);

/** Parts of a batch whose gradients fast mode adds up: the replicas' slices, or all micro-batches.
 */
int ls_job_parts(const ls_job *job);

/** Steps of one epoch: ceil(samples / batch); 0 where there are no samples. */
uint64_t ls_job_steps_per_epoch(const ls_job *job);

/** Samples that steps [0, steps) take in all. */
uint64_t ls_job_samples(const ls_job *job, uint64_t steps);

/** S' = min(S, B): shards that exact mode cuts a batch of B samples into. */
static inline int64_t ls_job_shards(const ls_job *job, int64_t batch)
{
    return job->micro_shards < batch ? job->micro_shards : batch;
}

/** Samples of an epoch's last batch where it is smaller than the others, else 0. */
int64_t ls_job_tail(const ls_job *job);
