/* SPDX-License-Identifier: MIT */
/*
 * make_parallel: a function of batches, run on several devices at once.
 *
 * The batches lie on one device, the holder, with the batch axis first. Each is split along that
 * axis into n parts; part d is rows floor(d B / n) to floor((d+1) B / n) - 1, so sizes differ by at
 * most one. The function is built once for every part, on that part's device, with the same
 * variables; its outputs are concatenated on the holder. It is in-graph: enqueued in a capture, all
 * parts are one program.
 *
 *     every other device fetches the variables and its rows, runs the function,
 *     sends its outputs back; where there are gradients, these too
 *     the holder runs its own parts meanwhile, waits, and adds gradients up: ((g0 + g1) + g2) + ...
 *
 * So results depend on the number of parts, never on the devices that they run on. Rows and
 * variables that are on the holder already are used where they are.
 */
#pragma once

#include "common/comm/comm_choice.h"
#include "common/device/op_list.h"
#include "common/kernel/kernel.h"
#include "common/nn/graph.h"

enum { LS_PARALLEL_BATCHES = 4, LS_PARALLEL_PARTS = 1024 };

typedef struct ls_parallel ls_parallel;

/** Rows in device memory, dense. */
typedef struct ls_batch {
    void *data;
    size_t row_bytes;
} ls_batch;

/** One part, as the function sees it: everything is in the memory of the part's device. */
typedef struct ls_part {
    const void *context; /**< the function's, as given */
    int number, count;   /**< d and n */
    int64_t first, rows; /**< of the batch */
    int64_t batch;       /**< B */
    ls_device *device;
    ls_kernels *kernels; /**< of that device */
    int input_count, output_count;
    ls_batch input[LS_PARALLEL_BATCHES];  /**< [rows] */
    ls_batch output[LS_PARALLEL_BATCHES]; /**< [rows], to be filled */
    void *variables;                      /**< not to be written */
    void *gradients;                      /**< of its rows, to be overwritten; NULL: not wanted */
    double *loss;   /**< [1] of its rows, to be overwritten; NULL: not wanted */
    ls_op_list ops; /**< for the function to fill; freed with the part */
    void *own;      /**< the function's own */
} ls_part;

/** A function of batches. */
typedef struct ls_part_function {
    /** Makes what a part needs: appends operations to part->ops. */
    ls_status (*open)(ls_part *part);
    /** Enqueues the part on a queue of its device. NULL: part->ops are enqueued. */
    ls_status (*enqueue)(ls_part *part, ls_queue *queue);
    /** Frees part->own, also after a failed open. NULL: nothing to free. */
    void (*close)(ls_part *part);
} ls_part_function;

/** Memory named here is the holder's, borrowed until ls_parallel_close. */
typedef struct ls_parallel_options {
    const ls_part_function *function;
    const void *context;
    ls_device *const *devices;    /**< [count] each part's, read while opening; may repeat */
    int count;                    /**< n, at most LS_PARALLEL_PARTS and B */
    const ls_kernel_table *table; /**< NULL: the default of each device */
    ls_queue *queue;              /**< of the holder; drives all parts */
    int64_t rows;                 /**< B */
    int input_count, output_count;
    ls_batch input[LS_PARALLEL_BATCHES];
    ls_batch output[LS_PARALLEL_BATCHES];
    void *variables; /**< shared by all parts; NULL: none */
    size_t variable_bytes;
    void *gradients; /**< [variable_bytes] sum over parts; NULL: not wanted */
    double *loss;    /**< [1] sum over parts; NULL: not wanted */
} ls_parallel_options;

/** make_parallel(function, count, inputs...): takes all memory, builds every part. LS_CODE_USAGE
 *  for a count that leaves a part without a row. */
ls_status ls_make_parallel(const ls_parallel_options *options, ls_parallel **out);

/** Enqueues one run on the holder's queue (and, through events, on the others'). May be captured
 * together with what comes before and after it, such as an optimizer's pass. */
ls_status ls_parallel_enqueue(ls_parallel *parallel);

/** Waits for the holder's queue and the others; the first failure on any of them. */
ls_status ls_parallel_sync(ls_parallel *parallel);

/** What one run copies between devices: counted when it was last enqueued. */
ls_traffic ls_parallel_traffic(const ls_parallel *parallel);

/** After ls_parallel_sync, and after programs with it in them are closed. Takes NULL. */
void ls_parallel_close(ls_parallel *parallel);

/**
 * The function of a graph; its context is the ls_graph. Inputs are the graph's; output 0, if there
 * is one, the model's output. With gradients wanted the last input is the target, and loss and
 * gradients are the part's share of the mean over the whole batch. LS_CODE_USAGE where rows do not
 * have the graph's sizes.
 */
extern const ls_part_function ls_part_graph;
