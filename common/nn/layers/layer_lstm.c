/* SPDX-License-Identifier: MIT */
/*
 * LSTM over a sequence [T,I]: the last state [H], or with the option all_states all, [T,H] (the
 * formulas: kernel_layers.h). Variables weight_ih [4H,I], weight_hh [4H,H], bias [4H], gates in the
 * order i, f, g, o; the forget gate's bias begins at 1. Gates, cells and states of all steps are
 * kept for backward.
 */
#include "common/nn/layers.h"

static ls_lstm_shape shape_of(const ls_graph *graph, const ls_node *node, int64_t rows)
{
    const ls_shape *input = &graph->nodes[node->inputs[0]].shape;
    return (ls_lstm_shape){.rows = rows,
                           .steps = input->size[0],
                           .inputs = input->size[1],
                           .hidden = node->options.units,
                           .last = !node->options.all_states};
}

static ls_status infer(ls_graph *graph, ls_node *node)
{
    const int64_t H = node->options.units;
    if (graph->nodes[node->inputs[0]].shape.rank != 2)
        return ls_layer_refuse_input("lstm", "a sequence of vectors, [steps, values]");
    if (H < 1 || H > 1 << 20)
        return ls_fail(LS_CODE_USAGE, "graph", "lstm",
                       "this layer needs 1 to %d units; give `units:` in this range", 1 << 20);
    const ls_lstm_shape s = shape_of(graph, node, 1);
    node->shape = node->options.all_states ? (ls_shape){.rank = 2, .size = {s.steps, H}}
                                           : (ls_shape){.rank = 1, .size = {H}};
    const ls_variable ih = {.rank = 2,
                            .shape = {4 * H, s.inputs},
                            .initializer = LS_INITIALIZER_GLOROT_UNIFORM,
                            .fan_in = s.inputs,
                            .fan_out = 4 * H};
    const ls_variable hh = {.rank = 2,
                            .shape = {4 * H, H},
                            .initializer = LS_INITIALIZER_GLOROT_UNIFORM,
                            .fan_in = H,
                            .fan_out = 4 * H};
    const ls_variable bias = {
        .rank = 1, .shape = {4 * H}, .initializer = LS_INITIALIZER_FORGET_ONE};
    LS_TRY(ls_graph_variable(graph, node, "weight_ih", &ih));
    LS_TRY(ls_graph_variable(graph, node, "weight_hh", &hh));
    return ls_graph_variable(graph, node, "bias", &bias);
}

static size_t kept_bytes(const ls_graph *graph, const ls_node *node, int64_t rows,
                         size_t real_bytes)
{
    const ls_lstm_shape s = shape_of(graph, node, rows);
    return (size_t)(rows * s.steps * LS_LSTM_KEPT * s.hidden) * real_bytes;
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_lstm_forward_args args = {
        .shape = shape_of(site->graph, site->node, site->rows),
        .x = site->input[0],
        .weight_ih = site->variable[0],
        .weight_hh = site->variable[1],
        .bias = site->variable[2],
        .kept = site->kept,
        .y = site->output,
    };
    return ls_layer_put_lstm_forward(site, &args, ops);
}

static ls_lstm_backward_args weights_of(const ls_layer_site *site)
{
    return (ls_lstm_backward_args){
        .shape = shape_of(site->graph, site->node, site->rows),
        .x = site->input[0],
        .kept = site->kept,
        .dweight_ih = site->variable_gradient[0],
        .dweight_hh = site->variable_gradient[1],
        .dbias = site->variable_gradient[2],
    };
}

static ls_status backward_weights(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_lstm_backward_args args = weights_of(site);
    return ls_layer_put_lstm_backward(site, &args, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    ls_lstm_backward_args args = weights_of(site);
    if (site->weights_apart)
        args.dweight_ih = args.dweight_hh = args.dbias = NULL;
    args.weight_ih = site->variable[0];
    args.weight_hh = site->variable[1];
    args.dy = site->output_gradient;
    args.dx = site->input_gradient[0];
    return ls_layer_put_lstm_backward(site, &args, ops);
}

static double flops(const ls_graph *graph, const ls_node *node, double *input_gradient)
{
    const ls_lstm_shape s = shape_of(graph, node, 1);
    double inputs = 8.0 * (double)(s.steps * s.hidden) * (double)s.inputs;
    double states = 8.0 * (double)(s.steps * s.hidden) * (double)s.hidden;
    *input_gradient = inputs;
    return 2 * inputs + 3 * states;
}

/* The inputs of all steps are one product; the states are one product per step. */
static int products(const ls_graph *graph, const ls_node *node, int64_t rows, bool inputs_too,
                    ls_layer_product out[LS_LAYER_PRODUCTS])
{
    const ls_lstm_shape s = shape_of(graph, node, rows);
    const int64_t N = rows * s.steps, H = s.hidden, G = 4 * s.hidden;
    out[0] = (ls_layer_product){"forward", false, false, true, N, G, s.inputs, 1};
    out[1] = (ls_layer_product){"state", false, false, true, rows, G, H, s.steps};
    out[2] = (ls_layer_product){"dstate", true, false, false, rows, H, G, s.steps};
    out[3] = (ls_layer_product){"dweight_ih", true, true, false, G, s.inputs, N, 1};
    out[4] = (ls_layer_product){"dweight_hh", true, true, false, G, H, N, 1};
    out[5] = (ls_layer_product){"ddata", true, false, false, N, s.inputs, G, 1};
    return inputs_too ? 6 : 5;
}

const ls_layer ls_layer_lstm = {
    .name = "lstm",
    .help = "long short-term memory over a sequence: the last state, or all",
    .inputs = 1,
    .reads = LS_READS_INPUT,
    .float32_only = true,
    .infer = infer,
    .kept_bytes = kept_bytes,
    .forward = forward,
    .backward = backward,
    .backward_weights = backward_weights,
    .flops = flops,
    .products = products,
};
