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
 * Weight decay is added to the sum of all replicas' gradients. Its part of a step's loss is that of
 * the values before the update: it is computed when these are set, by a load or by the step before.
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
    LS_DECAY_UPDATES,  /**< the replica that updates the variables */
    LS_DECAY_HERE,     /**< this one, by `decay_loss`, from variables that it gets each step */
    LS_DECAY_ELSEWHERE /**< another replica */
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

typedef struct ls_replica {
    const ls_job *job;
    ls_device *device;
    int number; /**< which of the job's devices it computes for */
    ls_queue *queue;
    ls_kernels *kernels;
    const ls_graph_part *part; /**< that it has of the model; NULL: all */
    const ls_graph *graph;     /**< the model's, or the part's */
    size_t elements;           /**< P: parameters of the graph */
    size_t owned;              /**< how many of those it updates itself: the first ones */
    void *parameters;          /**< real [P] */
    ls_decay_loss decays;
    bool own_variables;      /**< parameters and argument block are its own, not those of
                                  `variables_of` */
    bool updates;            /**< it updates variables */
    void *gradients;         /**< real [P] */
    void *slot[2];           /**< real [owned], as many as the optimizer has; else NULL */
    void *average;           /**< real [owned]: moving averages, where it updates; or NULL */
    ls_step_state *state;    /**< argument block of training */
    double *loss;            /**< [LS_REPLICA_LOSSES] parts of the loss; fast mode has one */
    size_t sums;             /**< parts of a step's loss, at most */
    size_t more;             /**< parts recorded besides the first: sums - 1, and weight decay's */
    double *more_losses;     /**< [job->records, more]; NULL for none */
    ls_op_list decay_loss;   /**< sets decay[0]; empty where this replica has no weight decay to
                                  compute */
    double *decay;           /**< [2]: weight decay's part of the loss, and 0; or NULL */
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
    struct ls_test_outputs *test_outputs; /**< likewise; NULL: another place has the model's
                                               output */
    int slots;                            /**< buffers of optimizer state, as in `slot` */
    ls_replica_buffer *buffers;           /**< [buffer_count] all that are its own */
    size_t buffer_count;
} ls_replica;

typedef struct ls_replica_options {
    const ls_job *job;
    ls_device *device;
    int number;                /**< which of the job's devices it computes for */
    int64_t rows;              /**< of its largest slice */
    const ls_graph_part *part; /**< NULL: the whole model */
    size_t sums;               /**< most partial sums of its gradient: 1 in fast mode */
    bool no_optimizer;         /**< no optimizer state: another replica updates */
    ls_decay_loss decay_loss;
    const struct ls_replica *variables_of; /**< NULL, or a replica on the same device whose
                                                parameters and argument block it uses */
} ls_replica_options;

/** Opens a queue and the kernels on the device and takes all buffers. */
ls_status ls_replica_open(const ls_replica_options *options, ls_replica **out);

/** Takes memory of its device, which it has until it is closed; `what` as in ls_replica_buffer.
 * `out`: address of a pointer. */
ls_status ls_replica_take(ls_replica *replica, const char *what, ls_memory_use use, size_t bytes,
                          void *out);

/** Takes NULL. Nets and operations made on it are closed before. */
void ls_replica_close(ls_replica *replica);

/** Appends the operations that gather samples [first, first + rows) of each batch into the net. */
ls_status ls_replica_feed(ls_replica *replica, ls_net *net, uint64_t first, ls_op_list *ops);

/** Appends weight decay, where the gradient has none in it (`decay`), the optimizer's pass, and
 * what else each step moves on, over a range of the flat buffers. */
ls_status ls_replica_update(ls_replica *replica, ls_range range, bool decay, ls_op_list *ops);

/** Appends the end of a step of `batch` samples. */
ls_status ls_replica_finish(ls_replica *replica, int64_t batch, ls_op_list *ops);

/** Sets its part of the model's parameters, float32 [elements of the model], optimizer state to
 * zero, the argument block to job->start. */
ls_status ls_replica_load(ls_replica *replica, const float *parameters);

/** Copies what it owns to its place in the model's parameters; with `averages` the moving averages,
 * where it has some. */
ls_status ls_replica_gather(ls_replica *replica, bool averages, float *parameters);

/** Saves or restores all that the next step depends on (carried.h). */
ls_status ls_replica_keep(ls_replica *replica, struct ls_carried *carried);

/** See ls_strategy.records: this replica's ends of steps and first parts of the loss. */
ls_status ls_replica_records(ls_replica *replica, uint64_t first, uint64_t count,
                             ls_step_record *out, uint64_t *mark_ns);

/** The other parts of the loss that record `index` has, [more]. */
ls_status ls_replica_more_losses(ls_replica *replica, uint64_t index, double *out);

/** Adds weight decay's part to `count` losses from record `first`; for a replica that updates. */
ls_status ls_replica_add_decay(ls_replica *replica, uint64_t first, uint64_t count,
                               ls_step_record *records);

/** A replica, or its part of one, that evaluates with a net. */
typedef struct ls_tested {
    ls_replica *replica;
    ls_net *net;
} ls_tested;

/** See ls_run_kind.evaluate: with the present parameters of the parts [count] of one model, or
 * their averages. `predict` takes a batch through all nets; NULL: there is one part. Where the
 * model's output is on none of them out->accuracy is -1. */
ls_status ls_replica_evaluate(const ls_tested *parts, int count,
                              ls_status (*predict)(void *context), void *context, uint64_t most,
                              ls_evaluation *out);
