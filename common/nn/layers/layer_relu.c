/* SPDX-License-Identifier: MIT */
/*
 * ReLU: y = max(x, 0); dx = dy where y > 0. A net lets the layer before or after compute it in its
 * own pass if that can (layer.h, fuses_relu and fuses_relu_mask).
 */
#include "common/nn/layers.h"

static ls_status infer(ls_graph *graph, ls_node *node)
{
    node->shape = graph->nodes[node->inputs[0]].shape;
    return LS_OK;
}

static int64_t elements(const ls_layer_site *site)
{
    return site->rows * ls_shape_elements(&site->node->shape);
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_relu_forward_args args = {
        .count = elements(site), .x = site->input[0], .y = site->output};
    return ls_layer_put_relu_forward(site, &args, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_relu_backward_args args = {.count = elements(site),
                                        .y = site->output,
                                        .dy = site->output_gradient,
                                        .dx = site->input_gradient[0]};
    return ls_layer_put_relu_backward(site, &args, ops);
}

const ls_layer ls_layer_relu = {
    .name = "relu",
    .help = "rectified linear unit: y = max(x, 0)",
    .inputs = 1,
    .reads = LS_READS_OUTPUT,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
