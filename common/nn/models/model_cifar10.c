/* SPDX-License-Identifier: MIT */
/*
 * cifar10: the two-convolution tutorial model on 24x24x3 crops: convolution 5x5x64, ReLU, pool 3/2,
 * LRN; convolution 5x5x64, ReLU, LRN, pool 3/2; dense 384, ReLU, dense 192, ReLU, dense 10. Weight
 * decay on the first two dense layers. Convolutions and pools are padded as TensorFlow's SAME.
 */
#include "common/nn/models.h"

#include <stdio.h>

enum { SIDE = 24, COLOURS = 3, CLASSES = 10 };

typedef struct step {
    const char *layer;
    ls_layer_options options;
} step;

static ls_status build(const char *sizes, ls_model *model)
{
    static const ls_layer_options conv = {.units = 64, .window = {5, 5, 1, true}};
    static const ls_layer_options pool = {.window = {3, 3, 2, true}};
    static const ls_layer_options lrn = {.radius = 4, .alpha = 0.001 / 9};
    const step steps[] = {
        {"channels_last", {0}},
        {"conv", conv},
        {"relu", {0}},
        {"max_pool", pool},
        {"lrn", lrn},
        {"conv", conv},
        {"relu", {0}},
        {"lrn", lrn},
        {"max_pool", pool},
        {"channels_first", {0}},
        {"dense", {.units = 384, .weight_decay = 0.004}},
        {"relu", {0}},
        {"dense", {.units = 192, .weight_decay = 0.004}},
        {"relu", {0}},
        {"dense", {.units = CLASSES}},
        {"softmax_cross_entropy", {0}},
    };
    if (sizes)
        return ls_fail(LS_CODE_USAGE, "model", "cifar10", "has no sizes; give the name alone");
    snprintf(model->name, sizeof model->name, "cifar10");
    model->need = (ls_data_need){.inputs = 1,
                                 .rank = {3},
                                 .shape = {{COLOURS, SIDE, SIDE}},
                                 .classes = CLASSES,
                                 .synthetic = "classes"};
    const ls_layer_options input = {.shape = {.rank = 3, .size = {COLOURS, SIDE, SIDE}}};
    int node;
    LS_TRY(ls_graph_add(model->graph, "input", NULL, -1, &input, &node));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        LS_TRY(ls_graph_add(model->graph, steps[i].layer, (int[]){node, -1}, -1, &steps[i].options,
                            &node));
    return LS_OK;
}

const ls_model_kind ls_model_cifar10 = {
    .name = "cifar10",
    .help = "the two-convolution tutorial model, with LRN and weight decay, on 24x24 crops",
    .default_data = "cifar10",
    .default_optimizer = "sgd",
    .default_rate = 0.1,
    .default_batch = 128,
    .rate_epochs = 350,
    .average = 0.9999,
    .convolves = true,
    .build = build,
};
