/* SPDX-License-Identifier: MIT */
/* The table of layers; see layer.h. */
#include "common/nn/layer.h"

#include "common/nn/layers.h"

#include <stdio.h>
#include <string.h>

static const ls_layer *const layers[] = {
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
    NULL,
};

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

const ls_layer *const *ls_layers(void)
{
    return layers;
}

ls_status ls_layer_find(const char *name, const ls_layer **out)
{
    char names[512] = "";
    size_t used = 0;
    for (size_t i = 0; layers[i]; i++) {
        if (strcmp(layers[i]->name, name) == 0) {
            *out = layers[i];
            return LS_OK;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 layers[i]->name);
    }
    return ls_fail(LS_CODE_USAGE, "layer", name, "no layer of this name; layers are %s", names);
}
