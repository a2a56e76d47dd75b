/* SPDX-License-Identifier: MIT */
/*
 * Layer normalisation of a sequence's vectors [T,C], each by its own mean and variance (the
 * formulas: kernel_transformer.h). Variables: weight, which begins at 1, and bias [C]. Kept: mean
 * and rate of each position.
 */
#include "common/nn/layers.h"

static const double epsilon = 1e-5;

static ls_status infer(ls_graph *graph, ls_node *node)
{
    const ls_shape *x = &graph->nodes[node->inputs[0]].shape;
    if (x->rank != 2 || ls_shape_elements(x) < 1)
        return ls_layer_refuse_input("layer_norm", "a sequence of vectors, [positions, values]");
    node->shape = *x;
    const ls_variable weight = {
        .rank = 1, .shape = {x->size[1]}, .initializer = LS_INITIALIZER_ONE};
    const ls_variable bias = {.rank = 1, .shape = {x->size[1]}, .initializer = LS_INITIALIZER_ZERO};
    LS_TRY(ls_graph_variable(graph, node, "weight", &weight));
    return ls_graph_variable(graph, node, "bias", &bias);
}

static size_t kept_bytes(const ls_graph *graph, const ls_node *node, int64_t rows,
                         size_t real_bytes)
{
    (void)graph;
    return (size_t)(rows * node->shape.size[0] * 2) * real_bytes;
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_layer_norm_forward_args args = {
        .rows = site->rows * site->node->shape.size[0],
        .width = site->node->shape.size[1],
        .epsilon = epsilon,
        .x = site->input[0],
        .weight = site->variable[0],
        .bias = site->variable[1],
        .y = site->output,
        .moments = site->kept,
    };
    return ls_layer_put_layer_norm_forward(site, &args, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_layer_norm_backward_args args = {
        .rows = site->rows * site->node->shape.size[0],
        .width = site->node->shape.size[1],
        .x = site->input[0],
        .weight = site->variable[0],
        .moments = site->kept,
        .dy = site->output_gradient,
        .dx = site->input_gradient[0],
        .dweight = site->variable_gradient[0],
        .dbias = site->variable_gradient[1],
        .adds = site->adds,
        .rounds = site->rounds,
    };
    return ls_layer_put_layer_norm_backward(site, &args, ops);
}

const ls_layer ls_layer_layer_norm = {
    .name = "layer_norm",
    .help = "each position's vector to mean 0 and variance 1, then times weight, plus bias",
    .inputs = 1,
    .reads = LS_READS_INPUT,
    .adds = true,
    .infer = infer,
    .kept_bytes = kept_bytes,
    .forward = forward,
    .backward = backward,
};
