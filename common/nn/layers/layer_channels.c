/* SPDX-License-Identifier: MIT */
/*
 * Order of an image's axes. Files store [C,H,W], and a dense layer after an image has its inputs in
 * that order; layers of images use [H,W,C].
 */
#include "common/nn/layers.h"

static ls_status infer(ls_graph *graph, ls_node *node)
{
    const ls_shape *image = &graph->nodes[node->inputs[0]].shape;
    const int64_t *size = image->size;
    if (image->rank != 3)
        return ls_layer_refuse_input(
            node->layer->name,
            node->layer == &ls_layer_channels_last
                ? "an image, [channels, height, width], to move its channels to the end"
                : "an image, [height, width, channels], to move its channels to the front");
    node->shape = node->layer == &ls_layer_channels_last
                      ? (ls_shape){.rank = 3, .size = {size[1], size[2], size[0]}}
                      : (ls_shape){.rank = 3, .size = {size[2], size[0], size[1]}};
    return LS_OK;
}

/* Transposes pixels and channels, or back. */
static ls_status append(const ls_layer_site *site, bool to_last, const void *x, void *y,
                        ls_op_list *ops)
{
    const int64_t *size = site->node->shape.size;
    const bool last = site->node->layer == &ls_layer_channels_last;
    const int64_t channels = last ? size[2] : size[0];
    const int64_t pixels = ls_shape_elements(&site->node->shape) / channels;
    const ls_transpose_args args = {.batch = site->rows,
                                    .rows = to_last ? channels : pixels,
                                    .columns = to_last ? pixels : channels,
                                    .x = x,
                                    .y = y};
    return ls_layer_put_transpose(site, &args, ops);
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    return append(site, site->node->layer == &ls_layer_channels_last, site->input[0], site->output,
                  ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    return append(site, site->node->layer != &ls_layer_channels_last, site->output_gradient,
                  site->input_gradient[0], ops);
}

const ls_layer ls_layer_channels_first = {
    .name = "channels_first",
    .help = "an image's axes as channel, row, column: for a dense layer after it",
    .inputs = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};

const ls_layer ls_layer_channels_last = {
    .name = "channels_last",
    .help = "an image's axes as row, column, channel: from a file's order",
    .inputs = 1,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
