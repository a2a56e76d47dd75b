/* SPDX-License-Identifier: MIT */
/*
 * Dense: y = x w^T + bias, x [B,I] (other shapes are flattened), w [O,I], bias [O], y [B,O].
 * Backward: dw = dy^T x, dbias = column sums of dy, dx = dy w. With last_axis, of a sequence [T,I]
 * each position by itself: x [B T,I], y [B,T,O]. With input_major, w is [I,O].
 */
#include "common/nn/layers.h"

/* Rows of the product for each sample, and its inputs. */
static int64_t positions_of(const ls_graph *graph, const ls_node *node)
{
    return node->options.last_axis ? ls_shape_positions(&graph->nodes[node->inputs[0]].shape) : 1;
}

static int64_t inputs_of(const ls_graph *graph, const ls_node *node)
{
    return ls_shape_elements(&graph->nodes[node->inputs[0]].shape) / positions_of(graph, node);
}

static ls_status infer(ls_graph *graph, ls_node *node)
{
    const ls_shape *from = &graph->nodes[node->inputs[0]].shape;
    const ls_layer_options *o = &node->options;
    const int64_t outputs = o->units;
    if (outputs < 1)
        return ls_fail(LS_CODE_USAGE, "graph", "dense",
                       "this layer needs at least one unit; give `units:` of 1 or more");
    if (o->last_axis && (from->rank != 2 || ls_shape_elements(from) < 1))
        return ls_fail(LS_CODE_USAGE, "graph", "dense",
                       "`each_position: yes` needs a sequence of vectors, [positions, values]; "
                       "remove this option, or change the model's input or the layers before");
    const int64_t inputs = inputs_of(graph, node);
    node->shape = o->last_axis ? (ls_shape){.rank = 2, .size = {from->size[0], outputs}}
                               : (ls_shape){.rank = 1, .size = {outputs}};
    const ls_variable weight = {
        .rank = 2,
        .shape = {o->input_major ? inputs : outputs, o->input_major ? outputs : inputs},
        .initializer = o->deviation > 0 ? LS_INITIALIZER_NORMAL : LS_INITIALIZER_GLOROT_UNIFORM,
        .deviation = o->deviation,
        .fan_in = inputs,
        .fan_out = outputs,
        .decay = node->options.weight_decay};
    LS_TRY(ls_graph_variable(graph, node, "weight", &weight));
    if (node->options.no_bias)
        return LS_OK;
    const ls_variable bias = {.rank = 1, .shape = {outputs}, .initializer = LS_INITIALIZER_ZERO};
    return ls_graph_variable(graph, node, "bias", &bias);
}

/* With enough weights to repay the layout of them that the library wants. */
static bool takes_stored(const ls_graph *graph, const ls_node *node, const ls_kernels *kernels)
{
    enum { LEAST = 16, LEAST_WEIGHTS = 4096 };
    const ls_variable *weight = &graph->variables.items[node->variables[0]];
    return kernels->multiplies_bf16 && weight->shape[0] >= LEAST && weight->shape[1] >= LEAST &&
           weight->count >= LEAST_WEIGHTS;
}

/* y = x w^T, or dx = dy w, of a node that uses stored values. */
static ls_status put_rows(const ls_layer_site *site, bool is_forward, ls_op_list *ops)
{
    const int64_t inputs = inputs_of(site->graph, site->node), outputs = site->node->options.units;
    const bool biased = is_forward && !site->node->options.no_bias;
    const ls_bf16_product_args args = {
        .transpose_b = site->node->options.input_major != is_forward,
        .m = site->rows * positions_of(site->graph, site->node),
        .n = is_forward ? outputs : inputs,
        .k = is_forward ? inputs : outputs,
        .a = is_forward ? site->input[0] : site->output_gradient,
        .b = site->variable[0],
        .bias = biased ? site->variable[1] : NULL,
        .relu = is_forward && site->relu_follows,
        .mask = is_forward ? NULL : site->input_relu,
        .c = is_forward ? site->output : site->input_gradient[0],
    };
    return ls_layer_put_bf16_product(site, &args, ops);
}

static ls_status put_weights(const ls_layer_site *site, ls_op_list *ops)
{
    const int64_t inputs = inputs_of(site->graph, site->node), outputs = site->node->options.units;
    const bool turned = site->node->options.input_major;
    const ls_bf16_product_args args = {
        .transpose_a = true,
        .m = turned ? inputs : outputs,
        .n = turned ? outputs : inputs,
        .k = site->rows * positions_of(site->graph, site->node),
        .a = turned ? site->input[0] : site->output_gradient,
        .b = turned ? site->output_gradient : site->input[0],
        .c = site->variable_gradient[0],
    };
    LS_TRY(ls_layer_put_bf16_product(site, &args, ops));
    if (site->node->options.no_bias)
        return LS_OK;
    const ls_bf16_column_sums_args sums = {args.k, outputs, site->output_gradient,
                                           site->variable_gradient[1]};
    return ls_layer_put_bf16_column_sums(site, &sums, ops);
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    if (site->stored)
        return put_rows(site, true, ops);
    const ls_dense_forward_args args = {
        .rows = site->rows * positions_of(site->graph, site->node),
        .inputs = inputs_of(site->graph, site->node),
        .outputs = site->node->options.units,
        .x = site->input[0],
        .weight = site->variable[0],
        .bias = site->node->options.no_bias ? NULL : site->variable[1],
        .y = site->output,
        .activation = site->relu_follows ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE,
        .input_major = site->node->options.input_major,
    };
    return ls_layer_put_dense_forward(site, &args, ops);
}

static ls_dense_backward_weights_args weights_of(const ls_layer_site *site)
{
    return (ls_dense_backward_weights_args){
        .rows = site->rows * positions_of(site->graph, site->node),
        .inputs = inputs_of(site->graph, site->node),
        .outputs = site->node->options.units,
        .x = site->input[0],
        .dy = site->output_gradient,
        .dweight = site->variable_gradient[0],
        .dbias = site->node->options.no_bias ? NULL : site->variable_gradient[1],
        .input_major = site->node->options.input_major,
    };
}

static ls_status backward_weights(const ls_layer_site *site, ls_op_list *ops)
{
    if (site->stored)
        return put_weights(site, ops);
    const ls_dense_backward_weights_args weights = weights_of(site);
    return ls_layer_put_dense_backward_weights(site, &weights, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_dense_backward_data_args data = {
        .rows = site->rows * positions_of(site->graph, site->node),
        .inputs = inputs_of(site->graph, site->node),
        .outputs = site->node->options.units,
        .dy = site->output_gradient,
        .weight = site->variable[0],
        .relu_output = site->input_relu,
        .dx = site->input_gradient[0],
        .input_major = site->node->options.input_major,
    };
    if (data.dx && !site->stored && site->kernels->table->dense_backward && !site->weights_apart) {
        const ls_dense_backward_args both = {weights_of(site), data};
        return ls_layer_put_dense_backward(site, &both, ops);
    }
    if (!site->weights_apart)
        LS_TRY(backward_weights(site, ops));
    if (!data.dx)
        return LS_OK;
    if (site->stored)
        return put_rows(site, false, ops);
    return ls_layer_put_dense_backward_data(site, &data, ops);
}

static double flops(const ls_graph *graph, const ls_node *node, double *input_gradient)
{
    double product = 2.0 * (double)positions_of(graph, node) * (double)inputs_of(graph, node) *
                     (double)node->options.units;
    *input_gradient = product;
    return 2 * product;
}

static int products(const ls_graph *graph, const ls_node *node, int64_t rows, bool inputs_too,
                    ls_layer_product out[LS_LAYER_PRODUCTS])
{
    const int64_t I = inputs_of(graph, node), O = node->options.units;
    const int64_t N = rows * positions_of(graph, node);
    const bool turned = node->options.input_major;
    out[0] = (ls_layer_product){"forward", false, false, !turned, N, O, I, 1};
    out[1] = (ls_layer_product){"dweight", true, true, false, turned ? I : O, turned ? O : I, N, 1};
    out[2] = (ls_layer_product){"ddata", true, false, turned, N, I, O, 1};
    return inputs_too ? 3 : 2;
}

const ls_layer ls_layer_dense = {
    .name = "dense",
    .help = "fully connected: y = x w^T + bias",
    .inputs = 1,
    .shares_of = "embedding",
    .takes_stored = takes_stored,
    .fuses_relu = true,
    .fuses_relu_mask = true,
    .reads = LS_READS_INPUT,
    .infer = infer,
    .forward = forward,
    .backward = backward,
    .backward_weights = backward_weights,
    .flops = flops,
    .products = products,
};
