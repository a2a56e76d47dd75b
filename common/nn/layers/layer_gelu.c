/* SPDX-License-Identifier: MIT */
/* GELU by its tanh form (kernel_transformer.h), elementwise. */
#include "common/nn/layers.h"

static ls_status infer(ls_graph *graph, ls_node *node)
{
    node->shape = graph->nodes[node->inputs[0]].shape;
    return LS_OK;
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    if (site->stored)
        return ls_layer_put_elements(site, LS_BF16_GELU, site->input[0], NULL, site->output, ops);
    const ls_gelu_forward_args args = {.count = site->rows * ls_shape_elements(&site->node->shape),
                                       .x = site->input[0],
                                       .y = site->output};
    return ls_layer_put_gelu_forward(site, &args, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    if (site->stored && site->input_gradient[0])
        return ls_layer_put_elements(site, LS_BF16_GELU_BACKWARD, site->input[0],
                                     site->output_gradient, site->input_gradient[0], ops);
    const ls_gelu_backward_args args = {.count = site->rows * ls_shape_elements(&site->node->shape),
                                        .x = site->input[0],
                                        .dy = site->output_gradient,
                                        .dx = site->input_gradient[0]};
    return args.dx ? ls_layer_put_gelu_backward(site, &args, ops) : LS_OK;
}

const ls_layer ls_layer_gelu = {
    .name = "gelu",
    .help = "x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2",
    .inputs = 1,
    .takes_stored = ls_layer_takes_elements,
    .reads = LS_READS_INPUT,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
