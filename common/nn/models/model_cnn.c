/* SPDX-License-Identifier: MIT */
/*
 * cnn: 28x28x1, convolution 3x3 to 32 without padding, ReLU, global max pool, dense 10. The pool is
 * part of the convolution, and the ReLU after it: max and ReLU may change places.
 */
#include "common/nn/models.h"

#include <stdio.h>

static ls_status build(const char *sizes, ls_model *model)
{
    if (sizes)
        return ls_fail(LS_CODE_USAGE, "model", "cnn", "has no sizes; give the name alone");
    snprintf(model->name, sizeof model->name, "cnn");
    model->need = (ls_data_need){
        .inputs = 1, .rank = {3}, .shape = {{1, 28, 28}}, .classes = 10, .synthetic = "classes"};
    const ls_layer_options input = {.shape = {.rank = 3, .size = {28, 28, 1}}};
    const ls_layer_options conv = {
        .units = 32, .window = {.height = 3, .width = 3}, .global_max = true};
    const ls_layer_options dense = {.units = 10};
    int node;
    LS_TRY(ls_graph_add(model->graph, "input", NULL, -1, &input, &node));
    LS_TRY(ls_graph_add(model->graph, "conv", (int[]){node, -1}, -1, &conv, &node));
    LS_TRY(ls_graph_add(model->graph, "relu", (int[]){node, -1}, -1, NULL, &node));
    LS_TRY(ls_graph_add(model->graph, "dense", (int[]){node, -1}, -1, &dense, &node));
    return ls_graph_add(model->graph, "softmax_cross_entropy", (int[]){node, -1}, -1, NULL, &node);
}

const ls_model_kind ls_model_cnn = {
    .name = "cnn",
    .help = "convolution 3x3x32, ReLU, global max pool and dense on 28x28 images",
    .default_data = "fashion-mnist",
    .default_optimizer = "adam",
    .default_rate = 0.001,
    .default_batch = 256,
    .build = build,
};
