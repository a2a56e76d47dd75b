/* SPDX-License-Identifier: MIT */
/* Passes of a layer that has two halves; see layer.h. */
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
