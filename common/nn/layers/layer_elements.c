/* SPDX-License-Identifier: MIT */
/* Elementwise operations on stored bf16 values, for layers of such values; see layer.h. */
#include "common/nn/graph.h"
#include "common/nn/layer.h"

bool ls_layer_takes_elements(const ls_graph *graph, const ls_node *node, const ls_kernels *kernels)
{
    (void)graph;
    (void)node;
    return kernels->table->bf16_elements;
}

ls_status ls_layer_put_elements(const ls_layer_site *site, ls_bf16_function function, const void *a,
                                const void *b, void *y, ls_op_list *ops)
{
    const int64_t count = site->rows * ls_shape_elements(&site->node->shape);
    const ls_bf16_elements_args args = {function, count, a, b, y};
    return ls_layer_put_bf16_elements(site, &args, ops);
}
