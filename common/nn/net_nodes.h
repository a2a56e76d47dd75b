/* SPDX-License-Identifier: MIT */
/*
 * A net (net.h) node by node: to enqueue nodes one by one, to send what they make final, or to look
 * at what they hold.
 */
#pragma once

#include "common/nn/layer.h"

typedef struct ls_net ls_net; /* net.h */

/**
 * What backward reads of the forward pass, as its operations declare it, one buffer after another:
 * outputs, what layers keep besides, and the loss's gradient. False: no more.
 */
bool ls_net_kept(const ls_net *net, size_t index, void **memory, size_t *bytes);

/** Output and gradient of a node [rows, elements]; the gradient is NULL if none is needed. For a
 * border between places, the caller that drives the parts (graph_parts.h) fills the output and
 * reads the gradient. A gradient is valid from the backward pass of the node's last use to the
 * node's own. Before and after, other nodes use its memory, except for borders and what slices or
 * other places share. */
void *ls_net_node_output(const ls_net *net, int node);
void *ls_net_node_gradient(const ls_net *net, int node);

/** Bytes of the stored output, or gradient: all rows. */
size_t ls_net_node_bytes(const ls_net *net, int node);

/** Bytes of an element of a node's stored output in float32 tables. */
size_t ls_net_element_bytes(const ls_graph *graph, int node, ls_precision precision);

/** What node `node`'s operations work on and with. */
ls_layer_site ls_net_site(ls_net *net, int node);

/** The operations of a node's forward or backward pass. A fused ReLU's operations belong to the
 * layer that it is fused with. */
const ls_op_list *ls_net_node_ops(const ls_net *net, int node, bool backward);

/** What a loss of logits in slices (graph_split.h) has of each slice: real
 * [slices,rows,positions,3]; NULL if its logits are whole. */
void *ls_net_loss_parts(const ls_net *net);

/** Where backward leaves element `index` of the flat gradient buffer. */
void *ls_net_gradient(const ls_net *net, size_t index);

int64_t ls_net_rows(const ls_net *net);

/** The sums between the halves, device memory, *count; NULL if there are no sums. */
double *ls_net_node_sums(ls_net *net, int node, bool backward, size_t *count);

/** Where a fork's or join's (graph_split.h) sums of parts are between the halves of backward, or
 * forward; returns how many. */
int ls_net_node_part_sums(ls_net *net, int node, void *out[LS_LAYER_TREES]);

/** The passes of a node that can be enqueued by themselves. */
typedef enum ls_net_pass {
    LS_NET_FORWARD,
    LS_NET_BACKWARD,
    LS_NET_FORWARD_HALF, /**< `synced`: up to the sums, ... */
    LS_NET_FORWARD_REST, /**< ... and what uses them */
    LS_NET_BACKWARD_HALF,
    LS_NET_BACKWARD_REST,
    LS_NET_WEIGHTS, /**< the weight pass of a node that has one apart (ls_net_splits) */
    LS_NET_AGAIN,   /**< a repeated forward pass (repeat.h), and its halves */
    LS_NET_AGAIN_HALF,
    LS_NET_AGAIN_REST,
    LS_NET_PREDICT /**< forward as in evaluation */
} ls_net_pass;

enum { LS_NET_LISTS = 2 };

/** The lists of operations of a pass, in order; the rest of `out` is NULL. */
void ls_net_node_lists(const ls_net *net, int node, ls_net_pass pass,
                       const ls_op_list *out[LS_NET_LISTS]);
ls_status ls_net_node_enqueue(const ls_net *net, int node, ls_net_pass pass, ls_queue *queue);

/** Whether the node's backward pass makes gradients final, and which elements. */
bool ls_net_node_final(const ls_net *net, int node, size_t *first, size_t *count);

/** Whether the node's weight pass can be apart from its backward pass: its layer has one, and all
 * uses of its variables are here and have one. */
bool ls_node_splits(const ls_graph *graph, int node);

/** Whether the node has a weight pass, which makes the gradients of its variables final. */
bool ls_net_splits(const ls_net *net, int node);

/** Device memory that the net's operations hold (the library's scratch). */
size_t ls_net_workspace(const ls_net *net);

/** Bytes of activations that a net of this many rows allocates, if nothing is repeated: the
 * ledger's formula. */
size_t ls_net_activation_bytes(const ls_graph *graph, size_t real_bytes, int64_t rows);

/** As above, for a net with its own memory, and with its scratch (below). */
size_t ls_net_bytes(const ls_net *net, size_t *shared);

/** Bytes of scratch for gradients of variables that several nodes share. */
size_t ls_net_shared_bytes(const ls_graph *graph, size_t real_bytes);
