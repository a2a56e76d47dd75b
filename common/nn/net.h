/* SPDX-License-Identifier: MIT */
/*
 * Net: a graph at work on a device for a fixed number of rows.
 *
 * Opening takes all memory and makes all operations; forward and backward only enqueue them. Each
 * node knows which range of the flat gradient buffer its backward pass makes final, so that a
 * strategy can send it while backward goes on.
 */
#pragma once

#include "common/device/op_list.h"
#include "common/kernel/kernel.h"
#include "common/nn/graph.h"

#include <stdbool.h>
#include <stdint.h>

/** A graph with memory and operations on a device. */
typedef struct ls_net ls_net;

/** What a net is made of. It may use memory of a net with an equal graph and at least as many rows,
 * if the two never run at the same time: all (memory_of), or the window, if the other runs no
 * unit's passes meanwhile (window_of), or the scratch (scratch_of; unused if for fewer rows). */
typedef struct ls_net_options {
    const ls_graph *graph;      /**< borrowed */
    ls_range nodes;             /**< nodes of the graph that it has, closed; count 0 means all */
    ls_kernels *kernels;        /**< of the device it runs on */
    int64_t rows;               /**< samples of this replica's slice */
    uint64_t divisor;           /**< global batch size: the loss is the sum over rows / divisor */
    ls_precision precision;     /**< of `parameters`, of outputs and of their gradients */
    void *parameters;           /**< [elements] of `precision`, device memory, borrowed */
    void *gradients;            /**< real [elements]; NULL means forward only */
    const size_t *parameter_at; /**< [variables] its first element in `parameters`; NULL means as
                                     flat; borrowed */
    const size_t *gradient_at;  /**< [variables] its first element in `gradients`; borrowed */
    const double *scale_at; /**< [1] 1 / the batch's targets, on the device, borrowed; or NULL */
    double *loss;           /**< [1], device memory, borrowed; NULL if not wanted */
    ls_net *memory_of;      /**< a net whose memory it uses instead of its own; or NULL */
    const struct ls_repeat *repeats; /**< [nodes] which are repeated (repeat.h); NULL if there is
                                        none. Borrowed */
    ls_net *window_of;               /**< a net whose window it uses; or NULL */
    ls_net *scratch_of;              /**< a net whose scratch for widened values it uses; or NULL */
    uint64_t seed;                   /**< of dropout */
    bool weights_apart;         /**< nodes that can (ls_node_splits) have their weight pass apart */
    const bool *waits;          /**< [nodes] gradients final after weight passes; NULL if only split
                                     nodes' */
    struct ls_choices *choices; /**< NULL, or of kinks, to note or to take over (choices.h) */
    bool synced; /**< batch statistics over `divisor` rows: the caller enqueues halves, sums in
                    between */
} ls_net_options;

/** Takes all memory and makes all operations. LS_CODE_MISSING if the kernel table does not have
 * what a layer needs. */
ls_status ls_net_open(const ls_net_options *options, ls_net **out);

/** Takes NULL. */
void ls_net_close(ls_net *net);

/** Where input number `index` (0 means x0) is gathered: real [rows, elements of one sample]; then
 * ls_net_store_inputs. */
void *ls_net_input(const ls_net *net, int index); /**< NULL if the graph has no such input */
/** Appends rounding the gathered inputs to where they are stored, if that is elsewhere. */
ls_status ls_net_store_inputs(ls_net *net, ls_op_list *ops);
/** The target: int32 [rows], or real as the output. NULL without a loss. */
void *ls_net_target(const ls_net *net);

/** Where dropout layers find the position, in the endless sequence, of the first row [1]: set it
 * (set_first) before each forward pass. NULL without dropout. */
uint64_t *ls_net_first(const ls_net *net);

/** The model's stored output [rows, elements], valid after forward. */
const void *ls_net_output(const ls_net *net);

/** Appends widening it, if it is stored in bfloat16. *out: where it is then, real [rows, elements],
 * until the net's next pass. */
ls_status ls_net_read_output(ls_net *net, ls_op_list *ops, const void **out);

/** Enqueues the forward pass up to the model's output, without the loss. */
ls_status ls_net_predict(ls_net *net, ls_queue *queue);

/** Enqueues the forward pass and the loss with its gradient. */
ls_status ls_net_forward(ls_net *net, ls_queue *queue);

/** Enqueues the backward pass, last node first. */
ls_status ls_net_backward(ls_net *net, ls_queue *queue);
