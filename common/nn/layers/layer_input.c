/* SPDX-License-Identifier: MIT */
/* Input: a batch of one of the data set's inputs, or the data that a border between places
 * receives. Others fill it; it has no operations. */
#include "common/nn/layers.h"

static ls_status infer(ls_graph *graph, ls_node *node)
{
    (void)graph;
    node->shape = node->options.shape;
    if (node->shape.rank < 1 || ls_shape_elements(&node->shape) < 1)
        return ls_fail(LS_CODE_USAGE, "graph", "input",
                       "an input needs at least one element; give sizes of 1 or more");
    return LS_OK;
}

const ls_layer ls_layer_input = {
    .name = "input",
    .help = "a batch from the data set",
    .role = LS_LAYER_INPUT,
    .infer = infer,
};

const ls_layer ls_layer_border = {
    .name = "border",
    .help = "the output of a node on another place",
    .role = LS_LAYER_INPUT,
};
