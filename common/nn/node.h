/* SPDX-License-Identifier: MIT */
/* A node of a graph (graph.h): its layer, the layer's options, and what follows from them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** What a node computes (layer.h). */
typedef struct ls_layer ls_layer;

enum { LS_NODE_INPUTS = 64, LS_NODE_VARIABLES = 4, LS_SHAPE_RANK = 4, LS_NODE_OPTION_NAME = 28 };

/** Sizes of one sample. */
typedef struct ls_shape {
    int rank;                    /**< at most LS_SHAPE_RANK */
    int64_t size[LS_SHAPE_RANK]; /**< the first `rank` */
} ls_shape;

/** How a convolution's or a pool's window moves. `same`: padded as TensorFlow's SAME, so that there
 *  are ceil(size / stride) positions, the odd pixel of padding after; else only whole windows. */
typedef struct ls_layer_window {
    int64_t height, width; /**< pixels */
    int64_t stride;        /**< 0 means 1 */
    bool same;             /**< see above */
} ls_layer_window;

/** Which part of a sequence passes between the places that share its positions (graph_context.h).
 */
typedef struct ls_layer_exchange {
    int place, places; /**< deal: whose part it takes, of how many */
    int64_t heads;     /**< of all places; a part has whole ones; 0 means positions */
    int64_t ranges;    /**< with heads: equal ranges of the channels, of all heads each */
} ls_layer_exchange;

/** Options of a layer, given when it is added. A field that a layer does not use is 0. */
typedef struct ls_layer_options {
    int64_t units;          /**< dense, conv, lstm, embedding: outputs; shortcut: channels;
                                 attention: heads */
    bool no_bias;           /**< dense, conv */
    ls_layer_window window; /**< conv, max_pool; shortcut: its stride */
    bool centred;           /**< conv, odd windows: SAME with equal padding on both sides */
    bool global_max;        /**< conv: only the largest of all positions */
    double weight_decay;    /**< conv, dense: of the weights; see ls_variable */
    int64_t radius;         /**< lrn: channels on each side */
    double alpha;           /**< lrn: of the sum of squares */
    bool all_states;        /**< lstm: every step's state, not only the last */
    bool last_axis;         /**< dense: of each position's last axis, not of the whole sample */
    bool input_major;       /**< dense: weights are [inputs, outputs] */
    int64_t tokens;         /**< embedding: how many there are */
    int64_t first;          /**< embedding, dropout of a slice: its first token, element */
    int64_t all;            /**< embedding, dropout of a slice: how many in all; or 0 */
    double rate;            /**< dropout: probability of 0 */
    double deviation;       /**< standard deviation of normal first weights; 0 means the layer's
                                 usual */
    char name[LS_NODE_OPTION_NAME]; /**< of node and variables: "wte"; "" means layer and number */
    double forward_ns;              /**< of a sample, where a layer is a time (bench/case) */
    double backward_ns;             /**< as above; both with the next */
    double weights_ns;              /**< of the weight pass */
    int unit;                       /**< of nodes that are repeated together, from 1 (repeat.h) */
    int input;                      /**< input: number of the model's input; target: unused */
    ls_shape shape;                 /**< input, target: of one sample */
    ls_layer_exchange exchange;     /**< deal, collect */
} ls_layer_options;

/** One use of a layer. */
typedef struct ls_node {
    const ls_layer *layer;            /**< what it computes */
    ls_layer_options options;         /**< with which it was added */
    int inputs[LS_NODE_INPUTS];       /**< numbers of earlier nodes */
    int input_count;                  /**< 0 means an input of the model */
    int shares;                       /**< node whose variables this one uses; -1 means its own */
    int uses;                         /**< how many nodes take its output */
    ls_shape shape;                   /**< of its output */
    int variables[LS_NODE_VARIABLES]; /**< indices into the graph's variables */
    int variable_count;               /**< at most LS_NODE_VARIABLES */
    bool exported;                    /**< another place takes its output, too (graph_parts.h) */
    bool copied;                      /**< other places use its variables, too */
    bool border_gradient;             /**< border: a gradient must reach its output */
    int slice;                        /**< number of its slice (graph_split.h), from 1; 0 if none */
    int block;                        /**< number of its block of positions, from 1; 0 if all */
} ls_node;
