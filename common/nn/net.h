/* SPDX-License-Identifier: MIT */
/*
 * Net: a graph at work on a device for a fixed number of rows.
 *
 * Opening takes all memory and makes all operations; forward and backward only put them on a
 * queue. Of each node is known which range of the flat gradient buffer its backward pass makes
 * final, so that a strategy can send it while backward goes on.
 */
#ifndef LS_COMMON_NN_NET_H
#define LS_COMMON_NN_NET_H

#include "common/kernel/kernel.h"
#include "common/nn/graph.h"
#include "common/nn/layer.h"

typedef struct ls_net ls_net;

typedef struct ls_net_options {
    const ls_graph *graph;
    ls_kernels *kernels; /**< of the device it runs on */
    int64_t rows;        /**< samples of this replica's slice */
    uint64_t divisor;    /**< global batch size: the loss is the sum over rows / divisor */
    void *parameters;    /**< real [elements], device memory, borrowed */
    void *gradients;     /**< real [elements]; NULL: forward only */
    double *loss;        /**< [1], device memory, borrowed; NULL: not wanted */
    ls_net *memory_of;   /**< NULL, or a net with at least as many rows whose memory this one
                              uses as well: they never run at the same time */
    bool together; /**< its layers' statistics are of the whole batch, `divisor` rows: who puts
                        the halves of nodes adds sums up in between */
    bool whole;    /**< passes are put with all nodes in their order, so neighbours may be one
                        operation, which is the second one's in both directions */
} ls_net_options;

/** Takes all memory and makes all operations. LS_CODE_MISSING where the kernel table lacks what a
 *  layer needs. */
ls_status ls_net_open(const ls_net_options *options, ls_net **out);

/** Takes NULL. */
void ls_net_close(ls_net *net);

/** Where input number `index` (0: x0), and the target, are put: [rows, elements of one sample]. */
void *ls_net_input(const ls_net *net, int index); /**< NULL: the graph has none of this number */
void *ls_net_target(const ls_net *net);

/** The model's output [rows, elements], valid after forward. */
const void *ls_net_output(const ls_net *net);

/**
 * What backward reads of the forward pass, one buffer after the other: the outputs that a layer
 * takes as input, what layers keep beside their outputs, and the loss's gradient. False: there are
 * no more.
 */
bool ls_net_kept(const ls_net *net, size_t index, void **memory, size_t *bytes);

/** Output and gradient of a node [rows, elements]; the gradient NULL where none is wanted. For
 *  borders between places: filled, and read, by who drives the parts (graph_parts.h). */
void *ls_net_node_output(const ls_net *net, int node);
void *ls_net_node_gradient(const ls_net *net, int node);

/** What node `node`'s operations work on and with. */
ls_layer_site ls_net_site(ls_net *net, int node);

/** The operations of a node's forward, or backward pass; those of a ReLU that lives in another
 *  layer are that one's. */
const ls_op_list *ls_net_node_ops(const ls_net *net, int node, bool backward);

/** The flat gradient buffer that backward fills, as given. */
void *ls_net_gradients(const ls_net *net);

int64_t ls_net_rows(const ls_net *net);

/** Puts the forward pass up to the model's output, without the loss. */
ls_status ls_net_predict(ls_net *net, ls_queue *queue);

/** Puts the forward pass and the loss with its gradient. */
ls_status ls_net_forward(ls_net *net, ls_queue *queue);

/** The sums between the halves, device memory, *count; NULL: the node has none. */
double *ls_net_node_sums(ls_net *net, int node, bool backward, size_t *count);

/** What may be put of a node by itself. */
typedef enum ls_net_pass {
    LS_NET_FORWARD,
    LS_NET_BACKWARD,
    LS_NET_FORWARD_HALF, /**< `together`: up to the sums, ... */
    LS_NET_FORWARD_REST, /**< ... and what uses them */
    LS_NET_BACKWARD_HALF,
    LS_NET_BACKWARD_REST,
    LS_NET_PREDICT /**< forward as in evaluation */
} ls_net_pass;

enum { LS_NET_LISTS = 3 };

/** The operations of it, in order; lists that are not there are NULL. */
void ls_net_node_lists(const ls_net *net, int node, ls_net_pass pass,
                       const ls_op_list *out[LS_NET_LISTS]);
ls_status ls_net_node_put(const ls_net *net, int node, ls_net_pass pass, ls_queue *queue);

/** Whether the node's backward pass makes gradients final, and which elements. */
bool ls_net_node_final(const ls_net *net, int node, size_t *first, size_t *count);

/** Puts the backward pass, last node first. */
ls_status ls_net_backward(ls_net *net, ls_queue *queue);

/** Visits every operation of the net, in forward, then backward order of its nodes. */
void ls_net_each(const ls_net *net, ls_op_visit visit, void *context);

/** Device memory that the net's operations hold (the library's scratch). */
size_t ls_net_workspace(const ls_net *net);

/** Bytes of activations that a net of this many rows takes: the ledger's formula. */
size_t ls_net_activation_bytes(const ls_graph *graph, size_t real_bytes, int64_t rows);

/** Bytes of scratch for gradients of variables that several nodes share. */
size_t ls_net_shared_bytes(const ls_graph *graph, size_t real_bytes);

#endif
