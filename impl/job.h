/* SPDX-License-Identifier: MIT */
/* Job: what a strategy is asked to train, with everything resolved. */
#pragma once

#include "common/base/declared.h"
#include "common/comm/comm_choice.h"
#include "common/data/data.h"
#include "common/device/device.h"
#include "common/nn/model.h"
#include "common/nn/optimizer.h"
#include "impl/mesh.h"
#include "impl/ps/ps_options.h"
#include "impl/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_JOB_REPLICAS = 4096 }; /* most replicas of a job */

/** A full batch; an epoch's remainder batch. */
typedef enum ls_batch_kind { LS_FULL, LS_TAIL, LS_BATCHES } ls_batch_kind;

/** Which samples of the training set the steps have. */
typedef struct ls_job_sampling {
    bool epochs;  /**< an epoch's last batch is the remainder, and may be smaller */
    bool shuffle; /**< false if samples are in the order of the data set */
    bool augment; /**< training images are cropped at random and flipped; else in the center */
    bool ragged;  /**< sequences have targets at as many positions as their sample's number gives */
} ls_job_sampling;

/** How a replica is divided, besides the job's mesh and spreads. */
typedef struct ls_job_division {
    const int *place;   /**< [nodes] stage, or part with chunks, of each; or NULL */
    int microbatches;   /**< micro-batches of a replica's slice; 0 if it is not split */
    int chunks;         /**< parts of a stage (pipeline_schedule.h); 0 means 1 */
    bool weights_apart; /**< backward passes are data passes and weight passes */
    bool backward_held; /**< backward runs on the variable device */
    bool sequence;      /**< with slices: positions, too, are divided over them, in blocks */
    bool windows_given; /**< false if windows rise to what one node needs */
} ls_job_division;

/** Exact mode: the batch is split into shards, whose gradients are summed in a fixed tree. */
typedef struct ls_job_exact {
    bool on;        /**< false if fast mode */
    int64_t shards; /**< S; a batch of B samples is split into min(S, B) */
    int splits;     /**< slices of split layers; 0 means 1 */
} ls_job_exact;

/** How variables follow from a gradient. */
typedef struct ls_job_update {
    ls_optimizer optimizer;    /**< with its values */
    ls_rate_schedule schedule; /**< of the learning rate */
    double clip;               /**< the norm to which gradients are scaled down; or 0 */
    double average; /**< decay of moving averages, evaluated in the parameters' place; or 0 */
    bool own_mean;  /**< a replica's gradient is its own samples' mean, else a part */
    int period;     /**< steps of a period, whose last differs (ls_bucket); or 0 */
    int fragments;  /**< parts exchanged in turns, each once a period; 0 means 1 */
    int owned;      /**< how many of the strategy's own buffers it has (ls_strategy.owns) */
} ls_job_update;

/** The processes that train together. */
typedef struct ls_job_ranks {
    ls_comm *comm;                 /**< whose ranks are the processes; NULL if there is one */
    uint64_t timeout_ns;           /**< longest wait without progress of another rank */
    const ls_layout *layout;       /**< hosts and processes of replicas; NULL means this process */
    const ls_processes *processes; /**< notified of progress, for waiting ranks; may be NULL */
} ls_job_ranks;

/** What devices send each other in a step. */
typedef struct ls_job_exchange {
    const ls_comm_backend *transport; /**< between devices; NULL means ls_comm_backend_auto */
    const ls_allreduce *allreduce;    /**< the algorithm; exact mode: canonical */
    size_t bucket_bytes;        /**< least bytes of a bucket; 0: one per variable; SIZE_MAX: one */
    bool overlap;               /**< all-reduces have a separate queue */
    bool transfers;             /**< so have copies between a pipeline's stages within a process */
    ls_wire_form wire;          /**< of means of parameters (ls_mean); else, float32 */
    ls_wire_form gradient_wire; /**< of gradients that are summed (ls_give): float32 or bf16 */
    bool sync_statistics;       /**< batch statistics come from the global batch */
} ls_job_exchange;

/** Which implementations compute. */
typedef struct ls_job_kernels {
    ls_math math;                 /**< arithmetic of products */
    ls_precision precision;       /**< of stored values; masters, sums and state are float32 */
    ls_convolution convolution;   /**< algorithm, on GPUs */
    const ls_kernel_table *table; /**< of all operations; NULL means the device's own */
    bool capture;                 /**< replay captured programs */
    struct ls_choices *choices;   /**< of kinks (choices.h); NULL if not asked for */
} ls_job_kernels;

/** Injected faults, to test the checks that must notice them. */
typedef struct ls_job_faults {
    int flip_replica;   /**< a bit of this replica's gradient is flipped; -1 if none */
    uint64_t flip_step; /**< in this step */
    uint64_t delay_ns;  /**< delay of each step of some replicas; 0 if none */
    int delay_replica;  /**< the first delayed one */
    int delay_count;    /**< number of delayed ones */
} ls_job_faults;

/** Gradient accumulation: a replica computes its slice as pieces, one after the other. */
typedef struct ls_accumulation {
    int pieces;   /**< 0 means 1 */
    bool each;    /**< gradients are exchanged in each piece's backward pass; else in the last's */
    bool breadth; /**< with `each`: pieces run node by node together, with one exchange */
} ls_accumulation;

/** Borrowed by a run, which it must outlive. */
typedef struct ls_job {
    const ls_model *model;      /**< to train */
    const ls_data *data;        /**< training and test sets */
    ls_device *const *devices;  /**< [device_count] this process's, opened for this job */
    size_t device_count;        /**< see devices */
    ls_device *variable_device; /**< where `towers` has its variables: one of devices, or another */
    ls_declared_values options; /**< values of the strategy's own options (strategy.h) */
    ls_mesh mesh;               /**< devices of all ranks; with servers, workers */
    ls_spread parameters;       /**< how they are spread between steps */
    ls_spread gradients;        /**< how their sums are spread */
    ls_spread state;            /**< how the optimizer's state is spread */
    ls_job_division division;   /**< how a replica is divided */
    int drops;                  /**< outputs that the forward pass drops (repeat.h) */
    ls_accumulation accumulation; /**< of a replica's slice, where there are no micro-batches */
    ls_ps_options ps;             /**< parameter servers */
    ls_job_ranks ranks;           /**< processes */
    int64_t batch;                /**< global batch size */
    uint64_t seed;                /**< of initial values and of the samples' order */
    ls_job_sampling sampling;     /**< which samples a step has */
    ls_job_exact exact;           /**< fixed order of sums */
    ls_job_update update;         /**< optimizer, with what surrounds it */
    ls_job_exchange exchange;     /**< between devices */
    ls_job_kernels kernels;       /**< which implementations compute */
    ls_job_faults faults;         /**< injected */
    uint64_t records;             /**< capacity of the ring of step records */
    uint64_t start; /**< number of the first step after parameters are loaded: usually 0 */
    const ls_state_source *resumed; /**< optimizer state and averages to continue from; NULL
                                         means first step */
} ls_job;

/** Whether what layers store is rounded to bf16. */
static inline bool ls_job_rounds(const ls_job *job)
{
    return job->kernels.precision == LS_PRECISION_BF16;
}

/** All elements of its model. */
static inline ls_range ls_job_elements(const ls_job *job)
{
    return (ls_range){0, job->model->graph->variables.elements};
}

/** The name of an array of its state, as PyTorch names the optimizers' ("param", "exp_avg",
 * "average"); NULL if the job has no such array. */
const char *ls_state_name(const ls_job *job, ls_values array);

/** How many processes train the job. */
int ls_job_processes(const ls_job *job);

/** This process's number. */
int ls_job_process(const ls_job *job);

/** The mesh of its devices; with parameter servers, of workers. */
ls_mesh ls_job_mesh(const ls_job *job);

/** Number of replicas of all ranks; with parameter servers, of workers. */
int ls_job_replicas(const ls_job *job);

/** Whether step number `step`, from 0, has an epoch's smaller, remainder batch. */
bool ls_job_is_tail(const ls_job *job, uint64_t step);

/** A number of parts, of which 0 stands for 1. */
static inline int ls_parts_of(int number)
{
    return number > 1 ? number : 1;
}

/** Number of fragments of the parameters, at least 1. */
static inline int ls_job_fragments(const ls_job *job)
{
    return ls_parts_of(job->update.fragments);
}

/** The fragment that is exchanged behind step number `step`, from 0; -1 if there is none. With step
 * s from 1, period H and F fragments it is f if s mod H = f H / F. */
int ls_job_fragment(const ls_job *job, uint64_t step);

/** Elements of fragment `f` of F: variables k of K with floor(k F / K) = f. */
ls_range ls_job_fragment_range(const ls_job *job, int f);

/** Whether an epoch's smaller batch exists, and none of `steps` steps from `first` on has it; the
 * number of the next step that has it. */
bool ls_job_lacks_tail(const ls_job *job, uint64_t first, uint64_t steps, uint64_t *next);

/** Number of devices of one replica. */
int ls_job_places(const ls_job *job);

/** Stages of a replica. */
int ls_job_stages(const ls_job *job);

/** Parts of a stage. */
static inline int ls_job_chunks(const ls_job *job)
{
    return ls_parts_of(job->division.chunks);
}

/** Whether layers are split over each replica's devices, if it has several. */
static inline bool ls_job_slices(const ls_job *job)
{
    return job->mesh.rest == LS_SLICE;
}

/** Slices of split layers (graph_split.h); 1 if no layer is split. */
int ls_job_splits(const ls_job *job);

/** Number of devices[index] among the devices of all processes. Without servers, number d M + m is
 * device m of replica d. */
int ls_job_member(const ls_job *job, size_t index);

/** Pieces of a replica's slice in fast mode: its micro-batches, or accumulation's pieces. */
int ls_job_pieces(const ls_job *job);

/** Number of gradients that fast mode sums in a step: of the replicas' slices, of all
 * micro-batches, or of the places' positions of all slices. */
int ls_job_parts(const ls_job *job);

/** Elements of a block: what cuts buckets, or servers' ranges, cuts between blocks of a variable;
 * 0: anywhere. */
size_t ls_job_block(const ls_job *job);

/** Whether fast mode's gradient is a sum over parts, not computed from the unchanged whole
 * batch. */
static inline bool ls_job_sums(const ls_job *job)
{
    return ls_job_parts(job) > 1 || ls_job_splits(job) > 1 || job->exchange.gradient_wire;
}

/** Steps of one epoch: ceil(samples / batch); 0 if there are no samples. */
uint64_t ls_job_steps_per_epoch(const ls_job *job);

/** Samples of steps [0, steps), together. */
uint64_t ls_job_samples(const ls_job *job, uint64_t steps);

/** S' = min(S, B): number of shards that exact mode splits a batch of B samples into; fast mode: 0.
 */
static inline int64_t ls_job_shards(const ls_job *job, int64_t batch)
{
    const int64_t shards = job->exact.on ? job->exact.shards : 0;
    return shards < batch ? shards : batch;
}

/** Size of an epoch's remainder batch; 0 if all batches are full. */
int64_t ls_job_tail(const ls_job *job);
