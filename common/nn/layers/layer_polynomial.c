/* SPDX-License-Identifier: MIT */
/* Polynomial features: x [B,1] becomes (x^2, x, 1) [B,3]. No gradient: it is the first layer. */
#include "common/nn/layers.h"

static ls_status infer(ls_graph *graph, ls_node *node)
{
    if (ls_shape_elements(&graph->nodes[node->inputs[0]].shape) != 1)
        return ls_layer_refuse_input("polynomial", "one number per sample, [1]");
    node->shape = (ls_shape){.rank = 1, .size = {3}};
    return LS_OK;
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_polynomial_args args = {.rows = site->rows, .x = site->input[0], .y = site->output};
    return ls_layer_put_polynomial(site, &args, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    (void)ops;
    return site->input_gradient[0] ? ls_fail(LS_CODE_USAGE, "graph", "polynomial",
                                             "this layer computes no gradient of its input; make "
                                             "it the first layer of the model")
                                   : LS_OK;
}

const ls_layer ls_layer_polynomial = {
    .name = "polynomial",
    .help = "features (x^2, x, 1) of one number",
    .inputs = 1,
    .reads = LS_READS_INPUT,
    .float32_only = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
