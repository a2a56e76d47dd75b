/* SPDX-License-Identifier: MIT */
/* Concatenation of two flattened inputs: y = (a, b); da and db are the parts of dy. */
#include "common/nn/layers.h"

static ls_status infer(ls_graph *graph, ls_node *node)
{
    int64_t a = ls_shape_elements(&graph->nodes[node->inputs[0]].shape);
    int64_t b = ls_shape_elements(&graph->nodes[node->inputs[1]].shape);
    node->shape = (ls_shape){.rank = 1, .size = {a + b}};
    return LS_OK;
}

static ls_status append(const ls_layer_site *site, ls_copy_columns_args args, ls_op_list *ops)
{
    args.rows = site->rows;
    return ls_layer_put_copy_columns(site, &args, ops);
}

/* Where input i begins in a row of the output. */
static void *part_of(const ls_layer_site *site, void *row, int i)
{
    int64_t first = i ? ls_shape_elements(&site->input_node[0]->shape) : 0;
    return (char *)row + (size_t)first * site->kernels->table->real_bytes;
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    for (int i = 0; i < 2; i++) {
        int64_t width = ls_shape_elements(&site->input_node[i]->shape);
        LS_TRY(append(site,
                      (ls_copy_columns_args){.width = width,
                                             .x_pitch = width,
                                             .y_pitch = site->node->shape.size[0],
                                             .x = site->input[i],
                                             .y = part_of(site, site->output, i)},
                      ops));
    }
    return LS_OK;
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    for (int i = 0; i < 2; i++) {
        int64_t width = ls_shape_elements(&site->input_node[i]->shape);
        if (!site->input_gradient[i])
            continue;
        LS_TRY(append(site,
                      (ls_copy_columns_args){.width = width,
                                             .x_pitch = site->node->shape.size[0],
                                             .y_pitch = width,
                                             .x = part_of(site, site->output_gradient, i),
                                             .y = site->input_gradient[i]},
                      ops));
    }
    return LS_OK;
}

const ls_layer ls_layer_concat = {
    .name = "concat",
    .help = "concatenation of two inputs",
    .inputs = 2,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
