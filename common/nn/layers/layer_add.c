/* SPDX-License-Identifier: MIT */
/* Add: y = a + b, elementwise; da = db = dy. For residual connections. */
#include "common/nn/layers.h"

#include <string.h>

static ls_status infer(ls_graph *graph, ls_node *node)
{
    const ls_shape *a = &graph->nodes[node->inputs[0]].shape;
    const ls_shape *b = &graph->nodes[node->inputs[1]].shape;
    if (a->rank != b->rank || memcmp(a->size, b->size, sizeof a->size))
        return ls_fail(
            LS_CODE_USAGE, "graph", "add",
            "the two inputs of this layer must have the same shape; change either input");
    node->shape = *a;
    return LS_OK;
}

static ls_status append(const ls_layer_site *site, const void *a, const void *b, void *y,
                        ls_op_list *ops)
{
    if (site->stored)
        return ls_layer_put_elements(site, LS_BF16_ADD, a, b, y, ops);
    const ls_add_args args = {
        .count = site->rows * ls_shape_elements(&site->node->shape), .a = a, .b = b, .y = y};
    return ls_layer_put_add(site, &args, ops);
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    return append(site, site->input[0], site->input[1], site->output, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    for (int i = 0; i < 2; i++)
        if (site->input_gradient[i] && site->input_gradient[i] != site->output_gradient)
            LS_TRY(append(site, site->output_gradient, NULL, site->input_gradient[i], ops));
    return LS_OK;
}

const ls_layer ls_layer_add = {
    .name = "add",
    .help = "sum of two inputs: y = a + b",
    .inputs = 2,
    .passes_gradient = true,
    .takes_stored = ls_layer_takes_elements,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
