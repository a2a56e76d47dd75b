/* SPDX-License-Identifier: MIT */
/* Global mean pool: the mean of each channel over all pixels, [H,W,C] to [C]. */
#include "common/nn/layers.h"

static ls_status infer(ls_graph *graph, ls_node *node)
{
    const ls_shape *image = &graph->nodes[node->inputs[0]].shape;
    if (image->rank != 3 || ls_shape_elements(image) < 1)
        return ls_layer_refuse_input("global_mean_pool", "an image, [height, width, channels]");
    node->shape = (ls_shape){.rank = 1, .size = {image->size[2]}};
    return LS_OK;
}

static int64_t pixels_of(const ls_layer_site *site)
{
    return site->input_node[0]->shape.size[0] * site->input_node[0]->shape.size[1];
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_mean_pool_forward_args args = {.rows = site->rows,
                                            .pixels = pixels_of(site),
                                            .channels = site->node->shape.size[0],
                                            .x = site->input[0],
                                            .y = site->output};
    return ls_layer_put_mean_pool_forward(site, &args, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_mean_pool_backward_args args = {.rows = site->rows,
                                             .pixels = pixels_of(site),
                                             .channels = site->node->shape.size[0],
                                             .dy = site->output_gradient,
                                             .dx = site->input_gradient[0]};
    return ls_layer_put_mean_pool_backward(site, &args, ops);
}

const ls_layer ls_layer_global_mean_pool = {
    .name = "global_mean_pool",
    .help = "the mean of each channel over all pixels",
    .inputs = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
