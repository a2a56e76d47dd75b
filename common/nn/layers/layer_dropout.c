/* SPDX-License-Identifier: MIT */
/*
 * Dropout: each element is 0 with probability `rate`, or divided by 1 - rate. What is dropped is a
 * function of the seed, the node's name, the sample's position in the endless sequence and the
 * element's number in the sample (kernel_transformer.h): backward finds it again, and nothing is
 * kept but, for all such nodes of a net, the position of its first sample. Evaluation drops
 * nothing.
 */
#include "common/nn/layers.h"

#include <math.h>
#include <stdio.h>

static ls_status infer(ls_graph *graph, ls_node *node)
{
    node->shape = graph->nodes[node->inputs[0]].shape;
    return LS_OK;
}

/* The position; a net uses its first dropout layer's (ls_net_first). */
static size_t kept_bytes(const ls_graph *graph, const ls_node *node, int64_t rows,
                         size_t real_bytes)
{
    (void)graph, (void)node, (void)rows, (void)real_bytes;
    return sizeof(uint64_t);
}

static ls_dropout_args args_of(const ls_layer_site *site, const void *x, void *y)
{
    char name[LS_NODE_NAME], stream[LS_NODE_NAME + 16];
    const ls_layer_options *options = &site->node->options;
    const double rate = options->rate;
    const int64_t width = ls_shape_elements(&site->node->shape);
    ls_graph_node_name(site->graph, (int)(site->node - site->graph->nodes), name);
    snprintf(stream, sizeof stream, "dropout/%s", name);
    return (ls_dropout_args){.rows = site->rows,
                             .width = width,
                             .whole = options->all ? options->all : width,
                             .begin = options->first,
                             .random = ls_random_stream(site->seed, stream),
                             .first = site->first,
                             .threshold = (uint32_t)floor(rate * 4294967296.0),
                             .factor = (float)(1 / (1 - rate)),
                             .x = x,
                             .y = y};
}

/* Puts the operation for all positions here; or for each block of positions: the first block's rows
 * come before the second one's (graph_context.h). */
static ls_status put(const ls_layer_site *site, const ls_dropout_args *all, ls_op_list *ops)
{
    const ls_graph_blocks *blocks = &site->graph->blocks;
    size_t at = 0;
    if (!blocks->whole)
        return ls_layer_put_dropout(site, all, ops);
    const int64_t width = site->node->shape.size[1]; /* of a position */
    for (int b = 0; b < 2; b++) {
        ls_dropout_args args = *all;
        args.width = blocks->count[b] * width;
        args.whole = blocks->whole * width;
        args.begin = blocks->first[b] * width;
        args.x = (const char *)all->x + at;
        args.y = (char *)all->y + at;
        LS_TRY(ls_layer_put_dropout(site, &args, ops));
        at += (size_t)(site->rows * args.width) * site->kernels->table->real_bytes;
    }
    return LS_OK;
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_dropout_args args = args_of(site, site->input[0], site->output);
    return put(site, &args, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_dropout_args args = args_of(site, site->output_gradient, site->input_gradient[0]);
    return args.y ? put(site, &args, ops) : LS_OK;
}

static ls_status predict(const ls_layer_site *site, ls_op_list *ops)
{
    ls_dropout_args args = args_of(site, site->input[0], site->output);
    args.threshold = 0;
    args.factor = 1;
    return ls_layer_put_dropout(site, &args, ops);
}

const ls_layer ls_layer_dropout = {
    .name = "dropout",
    .help = "0 with a probability, else divided by what that leaves; evaluation drops nothing",
    .inputs = 1,
    .infer = infer,
    .kept_bytes = kept_bytes,
    .forward = forward,
    .again = forward,
    .backward = backward,
    .predict = predict,
};
