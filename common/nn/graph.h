/* SPDX-License-Identifier: MIT */
/*
 * Graph: a model as a small DAG of layers, before it is placed on any device.
 *
 * A node names its layer, its inputs and the node whose variables it shares. Nodes are in
 * topological order: inputs come before uses. The last node is the loss; its first input is the
 * model's output. Shapes are for one sample; the batch axis comes first and is not named.
 */
#pragma once

#include "common/base/status.h"
#include "common/nn/node.h"
#include "common/nn/variables.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ls_graph ls_graph;

/** Product of the sizes; 1 for rank 0. */
int64_t ls_shape_elements(const ls_shape *shape);

typedef struct ls_allreduce ls_allreduce; /**< common/comm/comm.h */

/** Which slices of split layers a graph has, and how they are summed (graph_split.h). */
typedef struct ls_graph_slices {
    int splits;                /**< Z: slices of the whole; 0 if no layer is split */
    int place, places;         /**< it has part `place` of `places` of them, evenly split */
    bool alike;                /**< places have equally large variables, one by one */
    bool sequence;             /**< slices have blocks of positions, too */
    bool rounded;              /**< addends of slices are stored as outputs are; else in float32 */
    const ls_allreduce *order; /**< of one part: the algorithm of the sum; NULL means exact */
} ls_graph_slices;

/** Which positions of each sequence a graph has: two blocks of them (graph_context.h). */
typedef struct ls_graph_blocks {
    int64_t whole;              /**< T: positions of a sequence; 0 if the graph has all */
    int64_t first[2], count[2]; /**< positions of the blocks */
} ls_graph_blocks;

/** A model: nodes and their variables. */
struct ls_graph {
    ls_node *nodes;         /**< [count] in topological order; owned */
    int count;              /**< nodes */
    ls_variables variables; /**< of all nodes; owned */
    ls_graph_slices slices; /**< all zero: no layer is split */
    ls_graph_blocks blocks; /**< all zero: it has all positions */
};

/** An empty graph, owned by the caller (ls_graph_close). */
ls_status ls_graph_open(ls_graph **out);

/** Takes NULL. */
void ls_graph_close(ls_graph *graph);

/**
 * Adds a node: `layer` by name, `inputs` as earlier node numbers, ended by -1; `shares` an earlier
 * node of the same layer, or -1. Sets *out to its number. LS_CODE_USAGE where shapes do not fit.
 */
ls_status ls_graph_add(ls_graph *graph, const char *layer, const int *inputs, int shares,
                       const ls_layer_options *options, int *out);

/** Called by a layer's `infer`: adds a variable of this node, named by layer, number and kind:
 * "dense0.weight". */
ls_status ls_graph_variable(ls_graph *graph, ls_node *node, const char *kind,
                            const ls_variable *like);

/** As above, with a layer that is in no table. */
ls_status ls_graph_add_layer(ls_graph *graph, const ls_layer *layer, const int *inputs, int shares,
                             const ls_layer_options *options, int *out);

enum { LS_NODE_NAME = 40 };

/**
 * The node's name: its layer and number, "dense0", as its variables have it; uses of shared
 * variables differ: "lstm0/a", "lstm0/b", in forward order. Returns `text`.
 */
const char *ls_graph_node_name(const ls_graph *graph, int n, char text[LS_NODE_NAME]);

/** The node that is input number `index` of the model (0 means x0); NULL if there is none. Owned by
 * the graph. */
const ls_node *ls_graph_input(const ls_graph *graph, int index);

/** Whether node n is a ReLU that is fused into the layer before it, which it alone uses. */
bool ls_graph_fuses_relu(const ls_graph *graph, int n);

/** Whether the loss's target is int32 labels, ls_graph_targets of them for each sample; else it is
 * reals, shaped as the output. */
bool ls_graph_takes_labels(const ls_graph *graph);

/** Labels of one sample: of an output [T,V] T, of one [V] 1. */
int64_t ls_graph_targets(const ls_graph *graph);

/** All axes but the last of a shape, multiplied: 1 for rank 0 and 1. */
int64_t ls_shape_positions(const ls_shape *shape);

/** Floating-point operations of node `n` in one training step on one sample. */
double ls_graph_node_flops(const ls_graph *graph, int n);

/** Whether a gradient has to reach the output of node `n`. */
bool ls_graph_wants_gradient(const ls_graph *graph, int n);

/** Floating-point operations of one training step on one sample: 2 per multiply-add of the
 *  products of forward, weight gradients and data gradients; elementwise work is not counted. */
double ls_graph_flops(const ls_graph *graph);

/** Makes the nodes from number `first` on a block of the model. */
void ls_graph_end_block(ls_graph *graph, int first);

/** Numbers a complete model's units: its blocks (repeat.h); without blocks, layers with variables
 * and what follows each. */
void ls_graph_number_units(ls_graph *graph);
