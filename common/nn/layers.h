/* SPDX-License-Identifier: MIT */
/* The layers, a file each in layers/; layers.c lists them. */
#pragma once

#include "common/nn/graph.h"
#include "common/nn/layer.h"

extern const ls_layer ls_layer_input;
extern const ls_layer ls_layer_dense;
extern const ls_layer ls_layer_relu;
extern const ls_layer ls_layer_conv;
extern const ls_layer ls_layer_max_pool;
extern const ls_layer ls_layer_global_max_pool;
extern const ls_layer ls_layer_lrn;
extern const ls_layer ls_layer_bn;
extern const ls_layer ls_layer_shortcut;
extern const ls_layer ls_layer_global_mean_pool;
extern const ls_layer ls_layer_channels_first;
extern const ls_layer ls_layer_channels_last;
extern const ls_layer ls_layer_lstm;
extern const ls_layer ls_layer_concat;
extern const ls_layer ls_layer_logistic_loss;
extern const ls_layer ls_layer_polynomial;
extern const ls_layer ls_layer_add;
extern const ls_layer ls_layer_softmax_cross_entropy;
extern const ls_layer ls_layer_squared_error;
extern const ls_layer ls_layer_embedding;
extern const ls_layer ls_layer_positions;
extern const ls_layer ls_layer_layer_norm;
extern const ls_layer ls_layer_attention;
extern const ls_layer ls_layer_gelu;
extern const ls_layer ls_layer_dropout;

/** LS_CODE_USAGE: the layer needs an input of another shape: "an image, [height, width]". */
ls_status ls_layer_refuse_input(const char *layer, const char *needed);
