/* SPDX-License-Identifier: MIT */
/*
 * Replica: one device's share of a training job: its flat buffers, its queue, its argument block,
 * and the operations that strategies compose their steps of:
 *
 *     feed       gather a slice of the batch into a net's inputs
 *     (net)      forward, backward
 *     update     weight decay, then the optimizer's pass, over a range of the flat buffers
 *     finish     record the step, move the argument block on
 *
 * Weight decay is added to the sum of all replicas' gradients. Its part of the loss is that of the
 * values before the update: it is computed when they are set, by a load or the step before.
 */
#pragma once

#include "common/nn/graph_parts.h"
#include "common/nn/net.h"
#include "common/nn/net_nodes.h"
#include "impl/strategy.h"

enum {
    LS_REPLICA_ARRAYS = LS_DATA_INPUTS + 1, /* inputs, then the target */
    LS_REPLICA_LOSSES = 128 /* more than an exact tree's height and finished subtrees, and decay */
};

/** Who computes weight decay's part of the loss. */
typedef enum ls_decay_loss {
    LS_DECAY_UPDATES,  /**< who updates the variables */
    LS_DECAY_HERE,     /**< this one, from variables that it gets each step: it puts decay_loss */
    LS_DECAY_ELSEWHERE /**< another one */
} ls_decay_loss;

/** A buffer of device memory. */
typedef struct ls_replica_buffer {
    const char *what;  /**< for people; NULL: no step touches it */
    ls_memory_use use; /**< by which it is counted */
    size_t element;    /**< of an array whose parts are told apart; else 0 */
    size_t bytes;
    bool carried; /**< the next step goes by what it holds */
    void *memory;
} ls_replica_buffer;

enum { LS_REPLICA_BUFFERS = 14 };

typedef struct ls_replica {
    const ls_job *job;
    ls_device *device;
    int number; /**< of the device that it computes for */
    ls_queue *queue;
    ls_kernels *kernels;
    const ls_graph *graph; /**< the model's, or one place's part of it */
    size_t elements;       /**< P: parameters of the graph */
    size_t owned;          /**< of those, the first that it updates itself */
    void *parameters;      /**< real [P] */
    ls_decay_loss decays;
    bool own_variables;      /**< parameters and argument block are not another replica's */
    bool updates;            /**< the update happens here */
    void *gradients;         /**< real [P] */
    void *slot[2];           /**< real [owned], as many as the optimizer has; else NULL */
    void *average;           /**< real [owned]: moving averages, where it updates; or NULL */
    ls_step_state *state;    /**< argument block of training */
    double *loss;            /**< [LS_REPLICA_LOSSES] parts of the loss; in fast mode the first */
    size_t sums;             /**< how many parts a step has at most */
    size_t more;             /**< parts that are recorded beside the first: sums - 1, and decay */
    double *more_losses;     /**< [job->records, more]; NULL for none */
    ls_op_list decay_loss;   /**< sets decay[0]; empty where nothing decays, or is updated, here */
    double *decay;           /**< [2]: weight decay's part of the loss, and 0; NULL */
    ls_step_record *records; /**< [job->records] */
    uint64_t *mark_ns;       /**< [1] */
    uint32_t *indices;       /**< [rows] */
    const void *train[LS_REPLICA_ARRAYS];
    const void *test[LS_REPLICA_ARRAYS];
    ls_op *mark;
    ls_step_state *test_state; /**< argument block of evaluation */
    uint64_t *correct;         /**< [1] */
    ls_op_list test_feed;      /**< made by the first evaluation */
    ls_op_list test_count;
    struct ls_test_outputs *test_outputs;          /**< likewise; NULL: they are on another place */
    int slots;                                     /**< of the optimizer that are kept here */
    ls_replica_buffer buffers[LS_REPLICA_BUFFERS]; /**< [buffer_count] all that are its own */
    int buffer_count;
} ls_replica;

typedef struct ls_replica_options {
    const ls_job *job;
    ls_device *device;
    int number;                /**< of the job's devices: which one it computes for */
    int64_t rows;              /**< of its largest slice */
    const ls_graph_part *part; /**< NULL: the whole model */
    size_t sums;               /**< parts that its gradient comes in at most: 1 in fast mode */
    bool no_optimizer;         /**< no optimizer state: the update happens elsewhere */
    ls_decay_loss decay_loss;
    const struct ls_replica *variables_of; /**< NULL, or one on the same device whose parameters
                                                and argument block it uses */
} ls_replica_options;

/** Opens a queue and the kernels on the device and takes all buffers. */
ls_status ls_replica_open(const ls_replica_options *options, ls_replica **out);

/** Takes NULL. Nets and operations made on it are closed before. */
void ls_replica_close(ls_replica *replica);

/** Appends the operations that gather samples [first, first + rows) of each batch into the net. */
ls_status ls_replica_feed(ls_replica *replica, ls_net *net, uint64_t first, ls_op_list *ops);

/** Appends weight decay, where the gradient has none in it (`decay`), the optimizer's pass, and
 * what else each step moves on, over a range of the flat buffers. */
ls_status ls_replica_update(ls_replica *replica, ls_range range, bool decay, ls_op_list *ops);

/** Appends the end of a step of `batch` samples. */
ls_status ls_replica_finish(ls_replica *replica, int64_t batch, ls_op_list *ops);

/** Sets parameters from the host, optimizer state to zero, the argument block to job->start. */
ls_status ls_replica_load(ls_replica *replica, const float *parameters);

/** What the next step goes by (carried.h). */
ls_status ls_replica_keep(ls_replica *replica, struct ls_carried *carried);

ls_status ls_replica_gather(ls_replica *replica, float *parameters);

/** See ls_strategy.records: this replica's ends of steps and first parts of the loss. */
ls_status ls_replica_records(ls_replica *replica, uint64_t first, uint64_t count,
                             ls_step_record *out, uint64_t *mark_ns);

/** What is recorded of the loss of record `index` beside its first part, [more]. */
ls_status ls_replica_more_losses(ls_replica *replica, uint64_t index, double *out);

/** Adds weight decay's part to `count` losses from record `first`; this replica updates. */
ls_status ls_replica_add_decay(ls_replica *replica, uint64_t first, uint64_t count,
                               ls_step_record *records);

/**
 * Evaluation in pieces, for who drives several replicas' nets: makes the operations for `net` at
 * the first call; puts the gathering of samples position, ...; puts the count of right ones, where
 * the net has the model's output; and reads it, having been reset by `begin`.
 */
ls_status ls_replica_test_begin(ls_replica *replica, ls_net *net);
ls_status ls_replica_test_feed(ls_replica *replica, uint64_t position);
ls_status ls_replica_test_count(ls_replica *replica);
ls_status ls_replica_test_end(ls_replica *replica, ls_evaluation *out);

/** Of how many samples an evaluation of `most` is. */
uint64_t ls_replica_test_samples(const ls_job *job, uint64_t most);

/** Around an evaluation, where there are moving averages: puts them in the parameters' place, and
 *  the parameters back. They wait. */
ls_status ls_replica_average_in(ls_replica *replica);
ls_status ls_replica_average_out(ls_replica *replica);

/** See ls_run_kind.evaluate: by `net`, with this replica's parameters, or their averages. */
ls_status ls_replica_evaluate(ls_replica *replica, ls_net *net, uint64_t most, ls_evaluation *out);
