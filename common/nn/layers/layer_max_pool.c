/* SPDX-License-Identifier: MIT */
/*
 * Max pools on images [H,W,C]: with a moving window, to [H',W',C], or of the whole image, to [C].
 * Kept: the position of each maximum, so the gradient only covers maxima. The pool's output masks a
 * ReLU before it: where it is positive, its input was.
 */
#include "common/nn/layers.h"
#include "common/nn/layers/layer_window.h"

static ls_status windows_of(const ls_graph *graph, const ls_node *node, ls_window *out)
{
    const ls_shape *image = &graph->nodes[node->inputs[0]].shape;
    ls_layer_window window = node->options.window;
    if (node->layer == &ls_layer_global_max_pool)
        window = (ls_layer_window){.height = image->size[0], .width = image->size[1]};
    return ls_layer_windows(node->layer->name, image, &window, out);
}

static int64_t channels_of(const ls_graph *graph, const ls_node *node)
{
    return graph->nodes[node->inputs[0]].shape.size[2];
}

static ls_status infer(ls_graph *graph, ls_node *node)
{
    ls_window w;
    LS_TRY(windows_of(graph, node, &w));
    node->shape =
        (ls_shape){.rank = 3, .size = {w.out_height, w.out_width, channels_of(graph, node)}};
    if (node->layer == &ls_layer_global_max_pool)
        node->shape = (ls_shape){.rank = 1, .size = {channels_of(graph, node)}};
    return LS_OK;
}

static size_t kept_bytes(const ls_graph *graph, const ls_node *node, int64_t rows,
                         size_t real_bytes)
{
    (void)graph;
    (void)real_bytes;
    return (size_t)rows * (size_t)ls_shape_elements(&node->shape) * sizeof(int32_t);
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    ls_max_pool_forward_args args = {.rows = site->rows,
                                     .channels = channels_of(site->graph, site->node),
                                     .x = site->input[0],
                                     .y = site->output,
                                     .argmax = site->kept};
    LS_TRY(windows_of(site->graph, site->node, &args.window));
    return ls_layer_put_max_pool_forward(site, &args, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    ls_max_pool_backward_args args = {.rows = site->rows,
                                      .channels = channels_of(site->graph, site->node),
                                      .dy = site->output_gradient,
                                      .argmax = site->kept,
                                      .relu_output = site->input_relu ? site->output : NULL,
                                      .dx = site->input_gradient[0]};
    LS_TRY(windows_of(site->graph, site->node, &args.window));
    return ls_layer_put_max_pool_backward(site, &args, ops);
}

const ls_layer ls_layer_max_pool = {
    .name = "max_pool",
    .help = "maximum of each window of an image, any stride, valid or SAME",
    .inputs = 1,
    .fuses_relu_mask = true,
    .reads = LS_READS_OUTPUT,
    .infer = infer,
    .kept_bytes = kept_bytes,
    .forward = forward,
    .backward = backward,
};

const ls_layer ls_layer_global_max_pool = {
    .name = "global_max_pool",
    .help = "maximum of each channel over an image",
    .inputs = 1,
    .fuses_relu_mask = true,
    .reads = LS_READS_OUTPUT,
    .infer = infer,
    .kept_bytes = kept_bytes,
    .forward = forward,
    .backward = backward,
};
