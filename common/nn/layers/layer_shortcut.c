/* SPDX-License-Identifier: MIT */
/* Shortcut of a residual network to a smaller image with more channels: every stride-th pixel, and
 * zeros in the additional channels (He et al. 2015, option A). No variables. */
#include "common/nn/layers.h"

static ls_shortcut_shape shape_of(const ls_layer_site *site)
{
    const int64_t *in = site->input_node[0]->shape.size;
    return (ls_shortcut_shape){.rows = site->rows,
                               .in_height = in[0],
                               .in_width = in[1],
                               .channels = in[2],
                               .outputs = site->node->shape.size[2],
                               .stride = site->node->options.window.stride};
}

static ls_status infer(ls_graph *graph, ls_node *node)
{
    const ls_shape *image = &graph->nodes[node->inputs[0]].shape;
    const int64_t stride = node->options.window.stride, units = node->options.units;
    if (image->rank != 3)
        return ls_layer_refuse_input("shortcut", "an image, [height, width, channels]");
    if (stride < 1 || units < image->size[2])
        return ls_fail(LS_CODE_USAGE, "graph", "shortcut",
                       "this layer needs a stride of 1 or more, and at least as many channels as "
                       "its input; give larger numbers");
    node->shape = (ls_shape){.rank = 3,
                             .size = {(image->size[0] + stride - 1) / stride,
                                      (image->size[1] + stride - 1) / stride, units}};
    return LS_OK;
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_shortcut_forward_args args = {
        .shape = shape_of(site), .x = site->input[0], .y = site->output};
    return ls_layer_put_shortcut_forward(site, &args, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_shortcut_backward_args args = {
        .shape = shape_of(site), .dy = site->output_gradient, .dx = site->input_gradient[0]};
    return ls_layer_put_shortcut_backward(site, &args, ops);
}

const ls_layer ls_layer_shortcut = {
    .name = "shortcut",
    .help = "every stride-th pixel of an image, and zeros for more channels",
    .inputs = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
