/* SPDX-License-Identifier: MIT */
/*
 * Embedding: tokens [T], whole numbers from 0 to V - 1, become rows of weight [V,C]: y [T,C]. And
 * positions: each position's own vector, a row of weight [T,C], is added. A dense layer may share
 * the embedding's weight: the head of a language model.
 */
#include "common/nn/layers.h"

static ls_status embedding_infer(ls_graph *graph, ls_node *node)
{
    const ls_shape *x = &graph->nodes[node->inputs[0]].shape;
    const ls_layer_options *o = &node->options;
    if (x->rank != 1 || x->size[0] < 1)
        return ls_fail(LS_CODE_USAGE, "graph", "embedding", "takes a sequence of tokens");
    if (o->units < 1 || o->tokens < 1)
        return ls_fail(LS_CODE_USAGE, "graph", "embedding", "needs units and tokens, 1 or more");
    node->shape = (ls_shape){.rank = 2, .size = {x->size[0], o->units}};
    const ls_variable weight = {.rank = 2,
                                .shape = {o->tokens, o->units},
                                .initializer = LS_INITIALIZER_NORMAL,
                                .deviation = o->deviation};
    return ls_graph_variable(graph, node, "weight", &weight);
}

static ls_status embedding_forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_embedding_forward_args args = {
        .rows = site->rows * site->node->shape.size[0],
        .tokens = site->node->options.tokens,
        .width = site->node->options.units,
        .x = site->input[0],
        .weight = site->variable[0],
        .y = site->output,
        .first = site->node->options.first,
        .all = site->node->options.all,
    };
    return ls_layer_put_embedding_forward(site, &args, ops);
}

static ls_status embedding_backward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_embedding_backward_args args = {
        .rows = site->rows * site->node->shape.size[0],
        .tokens = site->node->options.tokens,
        .width = site->node->options.units,
        .x = site->input[0],
        .dy = site->output_gradient,
        .dweight = site->variable_gradient[0],
        .first = site->node->options.first,
    };
    return ls_layer_put_embedding_backward(site, &args, ops);
}

static ls_status positions_infer(ls_graph *graph, ls_node *node)
{
    const ls_shape *x = &graph->nodes[node->inputs[0]].shape;
    if (x->rank != 2)
        return ls_fail(LS_CODE_USAGE, "graph", "positions", "takes a sequence of vectors");
    node->shape = *x;
    const ls_variable weight = {.rank = 2,
                                .shape = {x->size[0], x->size[1]},
                                .initializer = LS_INITIALIZER_NORMAL,
                                .deviation = node->options.deviation};
    return ls_graph_variable(graph, node, "weight", &weight);
}

static ls_status positions_forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_positions_forward_args args = {
        .rows = site->rows,
        .count = ls_shape_elements(&site->node->shape),
        .x = site->input[0],
        .weight = site->variable[0],
        .y = site->output,
    };
    return ls_layer_put_positions_forward(site, &args, ops);
}

static ls_status positions_backward(const ls_layer_site *site, ls_op_list *ops)
{
    const int64_t count = ls_shape_elements(&site->node->shape);
    const ls_positions_backward_args args = {.rows = site->rows,
                                             .count = count,
                                             .dy = site->output_gradient,
                                             .dweight = site->variable_gradient[0]};
    const ls_add_args copy = {
        .count = site->rows * count, .a = site->output_gradient, .y = site->input_gradient[0]};
    LS_TRY(ls_layer_put_positions_backward(site, &args, ops));
    return copy.y ? ls_layer_put_add(site, &copy, ops) : LS_OK;
}

const ls_layer ls_layer_embedding = {
    .name = "embedding",
    .help = "tokens become vectors: y = weight[x]",
    .inputs = 1,
    .infer = embedding_infer,
    .forward = embedding_forward,
    .backward = embedding_backward,
};

const ls_layer ls_layer_positions = {
    .name = "positions",
    .help = "each position's own vector is added: y = x + weight",
    .inputs = 1,
    .infer = positions_infer,
    .forward = positions_forward,
    .backward = positions_backward,
};
