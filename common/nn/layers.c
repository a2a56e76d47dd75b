/* SPDX-License-Identifier: MIT */
/* The table of layers; their operations, and passes of layers with two halves; see layer.h. */
#include "common/nn/layers.h"

#include <string.h>

static const void *const layers[] = {
    &ls_layer_input,
    &ls_layer_dense,
    &ls_layer_relu,
    &ls_layer_polynomial,
    &ls_layer_add,
    &ls_layer_softmax_cross_entropy,
    &ls_layer_squared_error,
    &ls_layer_conv,
    &ls_layer_lstm,
    &ls_layer_concat,
    &ls_layer_logistic_loss,
    &ls_layer_max_pool,
    &ls_layer_global_max_pool,
    &ls_layer_lrn,
    &ls_layer_bn,
    &ls_layer_shortcut,
    &ls_layer_global_mean_pool,
    &ls_layer_channels_first,
    &ls_layer_channels_last,
    &ls_layer_embedding,
    &ls_layer_positions,
    &ls_layer_layer_norm,
    &ls_layer_attention,
    &ls_layer_gelu,
    NULL,
};
const ls_registry ls_layers = {"layer", layers};

ls_status ls_layer_find(const char *name, const ls_layer **out)
{
    *out = ls_registry_find(&ls_layers, name, strlen(name));
    return *out ? LS_OK : ls_registry_refuse(&ls_layers, name);
}

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
        LS_TRY(ls_kernel_table_need(table, #entry, site->node->layer->name));                      \
        LS_TRY(table->entry(site->kernels, arguments, &op));                                       \
        return ls_op_list_add(ops, op);                                                            \
    }
LS_KERNEL_ENTRIES(LS_LAYER_PUT)
