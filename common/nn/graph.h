/* SPDX-License-Identifier: MIT */
/*
 * Graph: a model as a small DAG of layers, before it is placed on any device.
 *
 * A node names its layer, its inputs and the node whose variables it shares. Nodes
 * are in topological order: inputs come before uses. The last node is the loss; its first input is
 * the model's output. Shapes are those of one sample; the batch axis comes first and is not named.
 */
#ifndef LS_COMMON_NN_GRAPH_H
#define LS_COMMON_NN_GRAPH_H

#include "common/base/status.h"
#include "common/nn/variables.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ls_layer ls_layer;
typedef struct ls_graph ls_graph;

enum { LS_NODE_INPUTS = 4, LS_NODE_VARIABLES = 4, LS_SHAPE_RANK = 4 };

typedef struct ls_shape {
    int rank;
    int64_t size[LS_SHAPE_RANK];
} ls_shape;

/** Product of the sizes; 1 for rank 0. */
int64_t ls_shape_elements(const ls_shape *shape);

/** How a convolution's or a pool's window moves. `same`: padded as TensorFlow's SAME, so that there
 *  are ceil(size / stride) positions, the odd pixel of padding after; else only whole windows. */
typedef struct ls_layer_window {
    int64_t height, width;
    int64_t stride; /**< 0: 1 */
    bool same;
} ls_layer_window;

/** What a layer is told when it is added. A field that a layer does not use is 0. */
typedef struct ls_layer_options {
    int64_t units;          /**< dense, conv, lstm: outputs; shortcut: channels */
    bool no_bias;           /**< dense, conv */
    ls_layer_window window; /**< conv, max_pool; shortcut: its stride */
    bool centred;           /**< conv, of odd windows: SAME, but padded alike on both sides */
    bool global_max;        /**< conv: only the largest of all positions */
    double weight_decay;    /**< conv, dense: of the weights; see ls_variable */
    int64_t radius;         /**< lrn: channels on each side */
    double alpha;           /**< lrn: of the sum of squares */
    bool all_states;        /**< lstm: every step's state, not only the last */
    int input;              /**< input: number of the model's input; target: unused */
    ls_shape shape;         /**< input, target: of one sample */
} ls_layer_options;

typedef struct ls_node {
    const ls_layer *layer;
    ls_layer_options options;
    int inputs[LS_NODE_INPUTS];
    int input_count;
    int shares;                       /**< node whose variables this one uses; -1: its own */
    int uses;                         /**< how many nodes take its output */
    ls_shape shape;                   /**< of its output */
    int variables[LS_NODE_VARIABLES]; /**< indices into the graph's variables */
    int variable_count;
    bool exported;        /**< another place takes its output, too (graph_parts.h) */
    bool border_gradient; /**< border: a gradient must reach its output */
} ls_node;

struct ls_graph {
    ls_node *nodes;
    int count;
    ls_variables variables;
};

ls_status ls_graph_open(ls_graph **out);

/** Takes NULL. */
void ls_graph_close(ls_graph *graph);

/**
 * Adds a node: `layer` by name, `inputs` as earlier node numbers, ended by -1; `shares` an earlier
 * node of the same layer, or -1. Sets *out to its number. LS_CODE_USAGE where shapes do not fit.
 */
ls_status ls_graph_add(ls_graph *graph, const char *layer, const int *inputs, int shares,
                       const ls_layer_options *options, int *out);

/** For layers, while they are added: a new variable `<layer><index>.<kind>` of this node. */
ls_status ls_graph_variable(ls_graph *graph, ls_node *node, const char *kind,
                            const ls_variable *like);

enum { LS_NODE_NAME = 40 };

/**
 * The node's name: its layer and number, "dense0", as its variables have it; uses of shared
 * variables are told apart: "lstm0/a", "lstm0/b", in forward order. Returns `text`.
 */
const char *ls_graph_node_name(const ls_graph *graph, int n, char text[LS_NODE_NAME]);

/** Floating-point operations of node `n` in one training step on one sample. */
double ls_graph_node_flops(const ls_graph *graph, int n);

/** Whether a gradient has to reach the output of node `n`. */
bool ls_graph_wants_gradient(const ls_graph *graph, int n);

/** Floating-point operations of one training step on one sample: 2 per multiply-add of the
 *  products of forward, weight gradients and data gradients; elementwise work is not counted. */
double ls_graph_flops(const ls_graph *graph);

#endif
