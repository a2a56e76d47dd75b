/* SPDX-License-Identifier: MIT */
/* Operations of layers, and passes of layers with two halves; see layer.h. */
#include "common/nn/graph.h"
#include "common/nn/layer.h"

ls_status ls_layer_forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_layer *layer = site->node->layer;
    LS_TRY(layer->forward(site, ops));
    return layer->forward_rest ? layer->forward_rest(site, ops) : LS_OK;
}

ls_status ls_layer_backward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_layer *layer = site->node->layer;
    LS_TRY(layer->backward(site, ops));
    return layer->backward_rest ? layer->backward_rest(site, ops) : LS_OK;
}

#define LS_LAYER_PUT(entry, args)                                                                  \
    ls_status ls_layer_put_##entry(const ls_layer_site *site, const args *arguments,               \
                                   ls_op_list *ops)                                                \
    {                                                                                              \
        const ls_kernel_table *table = site->kernels->table;                                       \
        ls_op *op;                                                                                 \
        LS_TRY(ls_kernel_table_need(table, #entry, site->node->layer->name, "another model"));     \
        LS_TRY(table->entry(site->kernels, arguments, &op));                                       \
        return ls_op_list_add(ops, op);                                                            \
    }
LS_KERNEL_ENTRIES(LS_LAYER_PUT)
