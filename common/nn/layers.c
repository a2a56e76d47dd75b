/* SPDX-License-Identifier: MIT */
/* The table of layers; see layer.h. */
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
    &ls_layer_dropout,
    NULL,
};
const ls_registry ls_layers = {"layer", layers};

ls_status ls_layer_refuse_input(const char *layer, const char *needed)
{
    return ls_fail(LS_CODE_USAGE, "graph", layer,
                   "this layer needs %s; change the model's input or the layers before this one",
                   needed);
}

ls_status ls_layer_find(const char *name, const ls_layer **out)
{
    *out = ls_registry_find(&ls_layers, name, strlen(name));
    return *out ? LS_OK : ls_registry_refuse(&ls_layers, name);
}
