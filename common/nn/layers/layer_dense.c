/* SPDX-License-Identifier: MIT */
/*
 * Dense: y = x w^T + bias, x [B,I] (other shapes are flattened), w [O,I], bias [O], y [B,O].
 * Backward: dw = dy^T x, dbias = column sums of dy, dx = dy w.
 */
#include "common/nn/layers.h"

static ls_status infer(ls_graph *graph, ls_node *node)
{
    int64_t inputs = ls_shape_elements(&graph->nodes[node->inputs[0]].shape);
    int64_t outputs = node->options.units;
    if (outputs < 1)
        return ls_fail(LS_CODE_USAGE, "graph", "dense", "needs at least one unit");
    node->shape = (ls_shape){.rank = 1, .size = {outputs}};
    const ls_variable weight = {.rank = 2,
                                .shape = {outputs, inputs},
                                .initializer = LS_INITIALIZER_GLOROT_UNIFORM,
                                .fan_in = inputs,
                                .fan_out = outputs,
                                .decay = node->options.weight_decay};
    LS_TRY(ls_graph_variable(graph, node, "weight", &weight));
    if (node->options.no_bias)
        return LS_OK;
    const ls_variable bias = {.rank = 1, .shape = {outputs}, .initializer = LS_INITIALIZER_ZERO};
    return ls_graph_variable(graph, node, "bias", &bias);
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_dense_forward_args args = {
        .rows = site->rows,
        .inputs = ls_shape_elements(&site->input_node[0]->shape),
        .outputs = site->node->options.units,
        .x = site->input[0],
        .weight = site->variable[0],
        .bias = site->node->options.no_bias ? NULL : site->variable[1],
        .y = site->output,
        .activation = site->relu_follows ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE,
    };
    return ls_layer_put_dense_forward(site, &args, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    int64_t inputs = ls_shape_elements(&site->input_node[0]->shape);
    const ls_dense_backward_weights_args weights = {
        .rows = site->rows,
        .inputs = inputs,
        .outputs = site->node->options.units,
        .x = site->input[0],
        .dy = site->output_gradient,
        .dweight = site->variable_gradient[0],
        .dbias = site->node->options.no_bias ? NULL : site->variable_gradient[1],
    };
    const ls_dense_backward_data_args data = {
        .rows = site->rows,
        .inputs = inputs,
        .outputs = site->node->options.units,
        .dy = site->output_gradient,
        .weight = site->variable[0],
        .relu_output = site->input_relu,
        .dx = site->input_gradient[0],
    };
    if (data.dx && site->kernels->table->dense_backward) {
        const ls_dense_backward_args both = {weights, data};
        return ls_layer_put_dense_backward(site, &both, ops);
    }
    LS_TRY(ls_layer_put_dense_backward_weights(site, &weights, ops));
    if (!data.dx)
        return LS_OK;
    return ls_layer_put_dense_backward_data(site, &data, ops);
}

static double flops(const ls_graph *graph, const ls_node *node, double *input_gradient)
{
    double product = 2.0 * (double)ls_shape_elements(&graph->nodes[node->inputs[0]].shape) *
                     (double)node->options.units;
    *input_gradient = product;
    return 2 * product;
}

static int products(const ls_graph *graph, const ls_node *node, int64_t rows, bool inputs_too,
                    ls_layer_product out[LS_LAYER_PRODUCTS])
{
    const int64_t I = ls_shape_elements(&graph->nodes[node->inputs[0]].shape);
    const int64_t O = node->options.units;
    out[0] = (ls_layer_product){"forward", false, false, true, rows, O, I, 1};
    out[1] = (ls_layer_product){"dweight", true, true, false, O, I, rows, 1};
    out[2] = (ls_layer_product){"ddata", true, false, false, rows, I, O, 1};
    return inputs_too ? 3 : 2;
}

const ls_layer ls_layer_dense = {
    .name = "dense",
    .help = "fully connected: y = x w^T + bias",
    .inputs = 1,
    .fuses_relu = true,
    .fuses_relu_mask = true,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .products = products,
};
