/* SPDX-License-Identifier: MIT */
/* Local response normalisation across the channels of an image: y = x / (1 + alpha sum x^2)^0.75.
 */
#include "common/nn/layers.h"

static ls_status infer(ls_graph *graph, ls_node *node)
{
    node->shape = graph->nodes[node->inputs[0]].shape;
    if (node->shape.rank != 3)
        return ls_layer_refuse_input("lrn", "an image, [height, width, channels]");
    if (node->options.radius < 1 || node->options.radius > 1 << 20 || !(node->options.alpha > 0))
        return ls_fail(LS_CODE_USAGE, "graph", "lrn",
                       "this layer needs a radius and an alpha above 0; give both");
    return LS_OK;
}

static int64_t pixels_of(const ls_layer_site *site)
{
    return site->rows * site->node->shape.size[0] * site->node->shape.size[1];
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_lrn_forward_args args = {.pixels = pixels_of(site),
                                      .channels = site->node->shape.size[2],
                                      .radius = site->node->options.radius,
                                      .alpha = site->node->options.alpha,
                                      .x = site->input[0],
                                      .y = site->output};
    return ls_layer_put_lrn_forward(site, &args, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_lrn_backward_args args = {.pixels = pixels_of(site),
                                       .channels = site->node->shape.size[2],
                                       .radius = site->node->options.radius,
                                       .alpha = site->node->options.alpha,
                                       .relu = site->input_relu != NULL,
                                       .x = site->input[0],
                                       .dy = site->output_gradient,
                                       .dx = site->input_gradient[0]};
    return ls_layer_put_lrn_backward(site, &args, ops);
}

const ls_layer ls_layer_lrn = {
    .name = "lrn",
    .help = "local response normalisation across channels",
    .inputs = 1,
    .fuses_relu_mask = true,
    .reads = LS_READS_INPUT,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
