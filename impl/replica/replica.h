/* SPDX-License-Identifier: MIT */
/*
 * Replica: one device's share of a training job: flat buffers, a queue, an argument block, and the
 * operations from which strategies compose steps:
 *
 *     feed       gathers a slice of the batch into a net's inputs
 *     (net)      forward, backward
 *     squares    sums of the gradient's squares, block by block, with weight decay; from these
 *                the gradient's norm, and the factor by which an update scales it (job.update.clip)
 *     update     weight decay and the optimizer's pass, over a range of the flat buffers
 *     finish     records the step and advances the argument block
 *
 * Weight decay is added to the sum of all replicas' gradients. Its part of a step's loss comes from
 * the values before the update, and is computed when they are set: by a load or by the previous
 * step.
 */
#pragma once

#include "common/nn/divide/graph_parts.h"
#include "common/nn/net.h"
#include "common/nn/net_nodes.h"
#include "impl/windows.h"
#include "impl/strategy.h"

enum {
    LS_REPLICA_ARRAYS = LS_DATA_INPUTS + 1, /* inputs, then the target */
    LS_REPLICA_LOSSES = 128 /* above an exact tree's height and number of finished subtrees */
};

/** A split's input number i, or its target. */
static inline const ls_array *ls_replica_array(const ls_split *split, int i)
{
    return i < LS_DATA_INPUTS ? &split->input[i] : &split->target;
}

/** Where weight decay's part of the loss is computed. */
typedef enum ls_decay_loss {
    LS_DECAY_UPDATES,  /**< by the replica that updates the variables */
    LS_DECAY_HERE,     /**< by this one, with `decay_loss`; it gets variables in each step */
    LS_DECAY_ELSEWHERE /**< by another replica */
} ls_decay_loss;

/** A replica's shares (ls_bucket_share) of buckets, which are all that it updates; its optimizer
 * state has them one after the other, in the order of the buckets. */
typedef struct ls_shares {
    const ls_buckets *buckets; /**< NULL if it updates all that it owns */
    int share, count;          /**< number `share` of `count` */
} ls_shares;

/** A buffer of device memory. */
typedef struct ls_replica_buffer {
    const char *what;  /**< its name; NULL means no step touches it */
    ls_memory_use use; /**< its kind in memory counts */
    size_t element;    /**< bytes per element of an array whose ranges are named; else 0 */
    size_t bytes;
    bool carried; /**< the next step depends on its contents */
    void *memory;
} ls_replica_buffer;

/** What a replica updates. */
typedef struct ls_replica_updated {
    size_t owned;     /**< elements [0, owned) are this replica's */
    ls_shares shares; /**< if set, it updates only its share of each bucket */
    size_t stated;    /**< elements that it updates: owned, or its shares' */
    /** real [stated]: its part of each array and strategy buffer; or NULL */
    void *state[LS_ARRAYS + LS_OWNED_MOST];
    const ls_own_buffer *owns; /**< the strategy's own buffers; NULL means none */
    int own_count;             /**< how many of these the job uses */
} ls_replica_updated;

/** Where a replica with shares has whole buckets. */
typedef struct ls_replica_windows {
    const ls_windows *parameters; /**< NULL, or in which it has parameters of some buckets */
    const ls_windows *gradients;  /**< NULL, or in which it has gradients of some buckets */
    void *whole_parameters;       /**< the parameters' windows; all parameters if it has no
                                       windows */
    void *whole_gradients;        /**< the gradients' windows; all gradients if it has no windows */
} ls_replica_windows;

/** The gradient's norm. */
typedef struct ls_replica_norm {
    double *squares;     /**< [blocks of the model] sums of the gradient's squares; or NULL */
    double *own_squares; /**< [blocks of its part] as above, in its order; or `squares` */
    ls_clip *clip;       /**< [1] norm and factor; NULL if it clips no gradient */
} ls_replica_norm;

/** A replica's parts of a step's loss. */
typedef struct ls_replica_loss {
    double *parts;         /**< [LS_REPLICA_LOSSES]; fast: sum and a piece's, or each abreast
                                piece's */
    size_t sums;           /**< most partial sums of its gradient; 1 in fast mode */
    size_t more;           /**< parts recorded after the first: sums - 1, and weight decay's */
    double *more_losses;   /**< [job->records, more]; NULL if none */
    ls_decay_loss decays;  /**< where weight decay's part is computed */
    ls_op_list decay_loss; /**< sets decay[0]; empty if this replica does not compute it */
    double *decay;         /**< [2] its share of weight decay's part, and 0; or NULL */
} ls_replica_loss;

/** When its steps ended. */
typedef struct ls_replica_timing {
    ls_step_record *records; /**< [job->records] */
    uint64_t *mark_ns;       /**< [1] */
    ls_op *mark;             /**< sets it */
} ls_replica_timing;

/** The data sets, and what gathers samples. */
typedef struct ls_replica_data {
    int64_t rows;      /**< of its largest slice */
    uint32_t *indices; /**< [rows] */
    double *scale;     /**< [1] 1 / a step's targets; NULL if lengths are not ragged */
    float *sequences; /**< [rows, positions] a whole input or target; NULL if positions are whole */
    const void *train[LS_REPLICA_ARRAYS];
    const void *test[LS_REPLICA_ARRAYS];
} ls_replica_data;

/** Evaluation (test_pass.c). */
typedef struct ls_replica_test {
    ls_step_state *state; /**< its argument block */
    uint64_t *correct;    /**< [1] */
    const ls_net *net;    /**< for which the following were built, or NULL */
    uint64_t end;         /**< samples from this number on are not counted */
    ls_op_list feed, count;
    struct ls_test_outputs *outputs; /**< NULL if the model's output is on another place */
} ls_replica_test;

/** What the caller of ls_replica_open sets is named there. */
typedef struct ls_replica {
    const ls_job *job;
    ls_device *device;
    int number; /**< of the job's device for which it computes */
    ls_queue *queue;
    ls_kernels *kernels;
    const ls_graph_part *part;  /**< its part of the model; NULL means the whole */
    const ls_graph *graph;      /**< the model's or the part's */
    const ls_repeat *repeats;   /**< [nodes] of it: which are repeated; NULL if none */
    size_t elements;            /**< P: parameters of the graph */
    bool updates;               /**< whether it updates variables */
    ls_replica_updated updated; /**< which, and the optimizer's state */
    void *parameters;           /**< [P] of the job's precision; in windows [stated], its shares */
    void *masters;              /**< bfloat16: real `[stated]`, rounded to parameters; NULL means
                                     parameters are updated */
    void *gradients;            /**< real [P]; in windows [stated], the sums of its shares */
    ls_replica_windows windows;
    ls_replica_norm norm;
    ls_step_state *state; /**< argument block of training */
    ls_replica_loss loss;
    float *wire_error; /**< [1] largest rounding error of a wire (comm_wire.h); or NULL */
    ls_replica_timing timing;
    ls_replica_data data;
    ls_replica_test test;
    ls_replica_buffer *buffers; /**< [buffer_count] all that it owns */
    size_t buffer_count;
} ls_replica;

/** The values that it updates: its masters, or (float32) its parameters. */
static inline void *ls_replica_trained(const ls_replica *replica)
{
    return replica->masters ? replica->masters : replica->parameters;
}

/** Bytes of an element of its parameters. */
size_t ls_replica_parameter_bytes(const ls_replica *replica);

/** Opens a queue and kernels on the device, and allocates all buffers. The caller sets of `like`
 * the job, device, number, part, repeats, `updates`, data.rows, loss.sums and loss.decays, and,
 * where there are any: shares and buffers of the strategy (updated), windows, and the parameters
 * and argument block of another replica on this device, which it shares. All else is zero. */
ls_status ls_replica_open(const ls_replica *like, ls_replica **out);

/** Allocates device memory until the replica is closed; `what` as in ls_replica_buffer. `out` is
 * the address of a pointer. */
ls_status ls_replica_take(ls_replica *replica, const char *what, ls_memory_use use, size_t bytes,
                          void *out);

/** Allocates what it needs to find its gradient's norm, if it does (job.update.clip). */
ls_status ls_replica_take_clip(ls_replica *replica);

/** Takes NULL. Close its nets and operations first. */
void ls_replica_close(ls_replica *replica);

/** The part of each batch that a net computes. */
typedef struct ls_replica_part {
    uint64_t first;            /**< its first sample in the batch */
    uint64_t divided, divisor; /**< first, and number, of samples whose mean it contributes to */
} ls_replica_part;

/** Appends operations that gather samples [first, first + rows) of each batch into the net. */
ls_status ls_replica_feed(ls_replica *replica, ls_net *net, const ls_replica_part *part,
                          ls_op_list *ops);

/** As above, for the test set, from the sample at test_state's position on. */
ls_status ls_replica_feed_test(ls_replica *replica, ls_net *net, ls_op_list *ops);

/** Whether weight decay is still to be added to a gradient, or included in it. */
typedef enum ls_decay_left { LS_DECAY_TO_ADD, LS_DECAY_INCLUDED } ls_decay_left;

/** Appends the sums of squares of a range of its gradients, where blocks begin and end, behind what
 * adds the weight decay that is left. */
ls_status ls_replica_square(ls_replica *replica, ls_range range, ls_decay_left decay,
                            ls_op_list *ops);

/** Appends copies of all sums in its own order to where they are in the whole model, if the order
 * differs. */
ls_status ls_replica_place_squares(ls_replica *replica, ls_op_list *ops);

/** Appends what follows from all blocks' sums: the norm and the factor. */
ls_status ls_replica_clip(ls_replica *replica, ls_op_list *ops);

/** Both, of all its gradients; nothing if job.update.clip is 0. */
ls_status ls_replica_clip_all(ls_replica *replica, ls_decay_left decay, ls_op_list *ops);

/** Appends, over a range of the flat buffers, weight decay (with job.update.clip, the gradient
 * includes it), the optimizer's pass, and the steps of moving statistics and averages. */
ls_status ls_replica_update(ls_replica *replica, ls_range range, ls_decay_left decay,
                            ls_op_list *ops);

/** Appends rounding the updated range to the copy that layers read, if it has one. */
ls_status ls_replica_round(ls_replica *replica, ls_range range, ls_op_list *ops);

/** A range of the elements that it updates, and where its state has them. */
typedef struct ls_replica_part_of {
    ls_range range;
    size_t state, next;
} ls_replica_part_of;

/** The next range of what it updates: one, or a share of each bucket. `part`: zero before the
 * first. False if there are no more. */
bool ls_replica_next(const ls_replica *replica, ls_replica_part_of *part);

/** Where a range that it updates is, in elements of each array. */
typedef struct ls_replica_at {
    size_t state;      /**< of the optimizer; of masters */
    size_t parameters; /**< as layers read them, between steps */
    size_t trained;    /**< of ls_replica_trained */
    size_t gradients;
} ls_replica_at;

/** LS_CODE_USAGE if the range is in none of its shares. */
ls_status ls_replica_find(const ls_replica *replica, ls_range range, ls_replica_at *out);

/** Appends setting `decay` to weight decay's part of the loss, of all that it updates. */
ls_status ls_replica_decay_loss(ls_replica *replica, ls_op_list *ops);

/** Appends the end of a step of `batch` samples. */
ls_status ls_replica_finish(ls_replica *replica, int64_t batch, ls_op_list *ops);

/** replica_values.c: sets the parts that `count` replicas of one job have of the model's
 * parameters, optimizer state to job->resumed or else zero, and the argument block to job->start.
 */
ls_status ls_replicas_load(ls_replica *const *replicas, int count, const ls_state_source *source);

/** Sets what it has of a block of the model's parameters, float32 [block.count]: masters and what
 * layers read. */
ls_status ls_replica_put(ls_replica *replica, ls_range block, const float *values);

/** Copies what it has of a block of the model's elements to `out`, float32 [block.count]: the
 * variables that it owns, or, for other arrays, the elements that it updates; it leaves the rest.
 * Without averages, the variables take their place. */
ls_status ls_replica_gather(ls_replica *replica, ls_values values, ls_range block, float *out);

/** Copies what it has of a block of the rounded parameters that its layers read, as
 * ls_replica_gather; nothing if they are not rounded. */
ls_status ls_replica_copies(ls_replica *replica, ls_range block, float *out);

/** Copies a range of an array's updated elements to the host. Elements are counted as in optimizer
 * state (ls_replica_updated.stated). */
ls_status ls_replica_read(ls_replica *replica, ls_values values, ls_range range, float *out);

/** Copies its gradient to where it is in the model's. */
ls_status ls_replica_gradient(ls_replica *replica, float *gradient);

/** Saves or restores the state on which the next step depends (carried.h). */
ls_status ls_replica_keep(ls_replica *replica, struct ls_carried *carried);

/** See ls_run_functions.records: this replica's ends of steps and first parts of losses. */
ls_status ls_replica_records(ls_replica *replica, uint64_t first, uint64_t count,
                             ls_step_record *out, uint64_t *mark_ns);

/** Record `index`'s further parts of the loss, [more]. */
ls_status ls_replica_more_losses(ls_replica *replica, uint64_t index, double *out);

/** Adds weight decay's part to `count` losses from record `first`; for a replica that updates. */
ls_status ls_replica_add_decay(ls_replica *replica, uint64_t first, uint64_t count,
                               ls_step_record *records);

/** Frees what it keeps for the next evaluation (test_pass.c). */
void ls_replica_forget_test(ls_replica *replica);
