/* SPDX-License-Identifier: MIT */
/*
 * Convolution: image [H,W,C] to [H',W',O], weight [O,C,KH,KW], bias [O]. With the option global_max
 * the output is the maximum over all positions, [O], and the image is never stored; each output's
 * gradient covers only the position of its maximum (kept). Only allowed on an input: the gradient
 * of x is not computed.
 */
#include "common/nn/layers.h"
#include "common/nn/layers/layer_window.h"

static ls_status shape_of(const ls_graph *graph, const ls_node *node, int64_t rows,
                          ls_conv_shape *out)
{
    const ls_shape *image = &graph->nodes[node->inputs[0]].shape;
    *out =
        (ls_conv_shape){.rows = rows, .channels = image->size[2], .outputs = node->options.units};
    LS_TRY(ls_layer_windows("conv", image, &node->options.window, &out->window));
    if (node->options.centred) {
        out->window.top = out->window.height / 2;
        out->window.left = out->window.width / 2;
    }
    return LS_OK;
}

static ls_status infer(ls_graph *graph, ls_node *node)
{
    ls_conv_shape s;
    LS_TRY(shape_of(graph, node, 1, &s));
    if (s.outputs < 1)
        return ls_fail(LS_CODE_USAGE, "graph", "conv",
                       "this layer needs at least one unit; give `units:` of 1 or more");
    if (node->options.centred &&
        (!node->options.window.same || s.window.height % 2 == 0 || s.window.width % 2 == 0))
        return ls_fail(LS_CODE_USAGE, "graph", "conv",
                       "`pad: centred` needs a window of odd height and width; change the "
                       "window, or use `pad: same`");
    if (node->options.global_max && graph->nodes[node->inputs[0]].layer->role != LS_LAYER_INPUT)
        return ls_fail(LS_CODE_USAGE, "graph", "conv",
                       "this layer can have global_max only if it takes an input of the model; use "
                       "a layer global_max_pool instead");
    const ls_window *w = &s.window;
    node->shape = node->options.global_max
                      ? (ls_shape){.rank = 1, .size = {s.outputs}}
                      : (ls_shape){.rank = 3, .size = {w->out_height, w->out_width, s.outputs}};
    const ls_variable weight = {.rank = 4,
                                .shape = {s.outputs, s.channels, w->height, w->width},
                                .initializer = LS_INITIALIZER_GLOROT_UNIFORM,
                                .fan_in = s.channels * w->height * w->width,
                                .fan_out = s.outputs * w->height * w->width,
                                .decay = node->options.weight_decay};
    LS_TRY(ls_graph_variable(graph, node, "weight", &weight));
    if (node->options.no_bias)
        return LS_OK;
    const ls_variable bias = {.rank = 1, .shape = {s.outputs}, .initializer = LS_INITIALIZER_ZERO};
    return ls_graph_variable(graph, node, "bias", &bias);
}

static size_t kept_bytes(const ls_graph *graph, const ls_node *node, int64_t rows,
                         size_t real_bytes)
{
    (void)graph;
    (void)real_bytes;
    if (!node->options.global_max)
        return 0;
    return (size_t)rows * (size_t)node->options.units * sizeof(int32_t);
}

static ls_status forward_max(const ls_layer_site *site, ls_op_list *ops)
{
    ls_conv_max_forward_args args = {
        .x = site->input[0],
        .weight = site->variable[0],
        .bias = site->node->options.no_bias ? NULL : site->variable[1],
        .y = site->output,
        .argmax = site->kept,
        .activation = site->relu_follows ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE,
    };
    LS_TRY(shape_of(site->graph, site->node, site->rows, &args.shape));
    return ls_layer_put_conv_max_forward(site, &args, ops);
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    if (site->node->options.global_max)
        return forward_max(site, ops);
    ls_conv_forward_args args = {
        .x = site->input[0],
        .weight = site->variable[0],
        .bias = site->node->options.no_bias ? NULL : site->variable[1],
        .y = site->output,
        .activation = site->relu_follows ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE,
    };
    LS_TRY(shape_of(site->graph, site->node, site->rows, &args.shape));
    return ls_layer_put_conv_forward(site, &args, ops);
}

static ls_status weights_max(const ls_layer_site *site, ls_op_list *ops)
{
    ls_conv_max_backward_weights_args args = {
        .x = site->input[0],
        .dy = site->output_gradient,
        .argmax = site->kept,
        .dweight = site->variable_gradient[0],
        .dbias = site->node->options.no_bias ? NULL : site->variable_gradient[1],
    };
    LS_TRY(shape_of(site->graph, site->node, site->rows, &args.shape));
    return ls_layer_put_conv_max_backward_weights(site, &args, ops);
}

static ls_status backward_weights(const ls_layer_site *site, ls_op_list *ops)
{
    if (site->node->options.global_max)
        return weights_max(site, ops);
    ls_conv_backward_weights_args weights = {
        .x = site->input[0],
        .dy = site->output_gradient,
        .dweight = site->variable_gradient[0],
        .dbias = site->node->options.no_bias ? NULL : site->variable_gradient[1],
    };
    LS_TRY(shape_of(site->graph, site->node, site->rows, &weights.shape));
    return ls_layer_put_conv_backward_weights(site, &weights, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    if (!site->weights_apart)
        LS_TRY(backward_weights(site, ops));
    if (!site->input_gradient[0] || site->node->options.global_max)
        return LS_OK;
    ls_conv_backward_data_args data = {
        .dy = site->output_gradient,
        .weight = site->variable[0],
        .dx = site->input_gradient[0],
        .forward = site->forward && site->forward->count ? site->forward->items[0] : NULL,
    };
    LS_TRY(shape_of(site->graph, site->node, site->rows, &data.shape));
    return ls_layer_put_conv_backward_data(site, &data, ops);
}

static double flops(const ls_graph *graph, const ls_node *node, double *input_gradient)
{
    ls_conv_shape s;
    *input_gradient = 0;
    if (shape_of(graph, node, 1, &s))
        return 0;
    const ls_window *w = &s.window;
    double tap = 2.0 * (double)(s.channels * w->height * w->width) * (double)s.outputs;
    double all = tap * (double)(w->out_height * w->out_width);
    if (node->options.global_max)
        return all + tap;
    *input_gradient = all;
    return 2 * all;
}

/* Products over the image's windows as rows ("im2col"); the input's gradient is a convolution of
 * the output's. With global_max the gradients cover too little to count as products. */
static int products(const ls_graph *graph, const ls_node *node, int64_t rows, bool inputs_too,
                    ls_layer_product out[LS_LAYER_PRODUCTS])
{
    ls_conv_shape s;
    if (shape_of(graph, node, rows, &s))
        return 0;
    const ls_window *w = &s.window;
    const int64_t O = s.outputs, tap = s.channels * w->height * w->width;
    const int64_t N = rows * w->out_height * w->out_width, in = rows * w->in_height * w->in_width;
    out[0] = (ls_layer_product){"forward", false, false, true, N, O, tap, 1};
    if (node->options.global_max || !in)
        return 1;
    out[1] = (ls_layer_product){"dweight", true, true, false, O, tap, N, 1};
    out[2] = (ls_layer_product){
        "ddata", true, false, false, in, s.channels, O * w->height * w->width * N / in, 1};
    return inputs_too ? 3 : 2;
}

const ls_layer ls_layer_conv = {
    .name = "conv",
    .help = "convolution over an image, any stride, valid or SAME",
    .inputs = 1,
    .fuses_relu = true,
    .reads = LS_READS_INPUT,
    .infer = infer,
    .kept_bytes = kept_bytes,
    .forward = forward,
    .backward = backward,
    .backward_weights = backward_weights,
    .flops = flops,
    .products = products,
};
