/* SPDX-License-Identifier: MIT */
/*
 * make_parallel: a function of batches, run on several devices at once.
 *
 * The batches are on one device, the holder; the batch axis is the first. Each is split along it
 * into n parts; part d is rows floor(d B / n) to floor((d+1) B / n) - 1, so sizes differ by at most
 * one. The function is built for each part, on the part's device, with the same variables; its
 * outputs are concatenated on the holder. It is in-graph: if captured, all parts are one program.
 *
 *     the other devices fetch the variables and their rows, run the function, and send back its
 *     outputs, and gradients if there are any
 *     the holder runs its own parts meanwhile, waits, and sums gradients: ((g0 + g1) + g2) + ...
 *
 * So results depend on the number of parts, not on the devices. The holder's own parts use its rows
 * and variables in place.
 */
#pragma once

#include "common/comm/comm_choice.h"
#include "common/device/op_list.h"
#include "common/kernel/kernel.h"
#include "common/nn/graph.h"

enum { LS_PARALLEL_BATCHES = 4, LS_PARALLEL_PARTS = 1024 };

typedef struct ls_parallel ls_parallel;

/** Rows in device memory, contiguous. */
typedef struct ls_batch {
    void *data;
    size_t row_bytes;
} ls_batch;

/** One part, as passed to the function; all its memory is on the part's device. */
typedef struct ls_part {
    const void *context; /**< the function's, see options */
    int number, count;   /**< d and n */
    int64_t first, rows; /**< of the batch */
    int64_t batch;       /**< B */
    ls_device *device;
    ls_kernels *kernels; /**< on that device */
    int input_count, output_count;
    ls_batch input[LS_PARALLEL_BATCHES];  /**< [rows] */
    ls_batch output[LS_PARALLEL_BATCHES]; /**< [rows] to be filled */
    void *variables;                      /**< read-only */
    void *gradients;                      /**< of its rows, to be overwritten; NULL if not needed */
    double *loss;   /**< [1] of its rows, to be overwritten; NULL if not needed */
    ls_op_list ops; /**< to be filled by the function; freed with the part */
    void *own;      /**< the function's own */
} ls_part;

typedef struct ls_part_function {
    /** Opens a part: appends operations to part->ops. */
    ls_status (*open)(ls_part *part);
    /** Enqueues the part on a queue of its device. NULL means enqueues part->ops. */
    ls_status (*enqueue)(ls_part *part, ls_queue *queue);
    /** Frees part->own, also after a failed open. May be NULL. */
    void (*close)(ls_part *part);
} ls_part_function;

/** All memory is the holder's, borrowed until ls_parallel_close. */
typedef struct ls_parallel_options {
    const ls_part_function *function;
    const void *context;
    ls_device *const *devices;    /**< [count] of each part, may repeat; read when opened */
    int count;                    /**< n, at most LS_PARALLEL_PARTS and B */
    const ls_kernel_table *table; /**< NULL means the default of each device */
    ls_queue *queue;              /**< the holder's; drives all parts */
    int64_t rows;                 /**< B */
    int input_count, output_count;
    ls_batch input[LS_PARALLEL_BATCHES];
    ls_batch output[LS_PARALLEL_BATCHES];
    void *variables; /**< shared by all parts; NULL if none */
    size_t variable_bytes;
    void *gradients; /**< [variable_bytes] sum over parts; NULL if not needed */
    double *loss;    /**< [1] sum over parts; NULL if not needed */
} ls_parallel_options;

/** make_parallel(function, count, inputs...): allocates all memory and builds every part.
 * LS_CODE_USAGE if a part would have no row. */
ls_status ls_make_parallel(const ls_parallel_options *options, ls_parallel **out);

/** Enqueues one run on the holder's queue, and by events on the others. May be captured together
 * with what precedes and follows it, such as the optimizer's pass. */
ls_status ls_parallel_enqueue(ls_parallel *parallel);

/** Waits for the holder's queue and all others; returns the first failure. */
ls_status ls_parallel_sync(ls_parallel *parallel);

/** Copies between devices in one run, counted when it was last enqueued. */
ls_traffic ls_parallel_traffic(const ls_parallel *parallel);

/** Call it after ls_parallel_sync, and after closing programs that contain it. Takes NULL. */
void ls_parallel_close(ls_parallel *parallel);

/**
 * The function of a graph; its context is the ls_graph. Inputs are the graph's; output 0, if any,
 * is the model's output. If gradients are needed, the last input is the target, and loss and
 * gradients are the part's share of the mean over the whole batch. LS_CODE_USAGE if the rows do not
 * have the graph's sizes.
 */
extern const ls_part_function ls_part_graph;
