/* SPDX-License-Identifier: MIT */
/*
 * resnet:6n+2: the residual networks for CIFAR-10 (He et al. 2015, section 4.2) on 32x32x3 images.
 *     convolution 3x3x16, bn, ReLU; three stages of n blocks with 16, 32 and 64 channels; the mean
 *     of each channel; dense 10
 *     block: convolution 3x3, bn, ReLU, convolution 3x3, bn, plus the block's input, ReLU
 * The first block of stages 2 and 3 has stride 2, and its input passes through a shortcut that pads
 * with zero channels. Convolutions have no bias, which bn would cancel, and are padded by one pixel
 * on each side. Weight decay on convolution and dense weights.
 */
#include "common/base/numbers.h"
#include "common/nn/models.h"

#include <stdio.h>

enum { SIDE = 32, COLOURS = 3, BORDER = 4, CLASSES = 10, STAGES = 3, WIDTH = 16 };

static const int64_t most_layers = 1202;
static const double decay = 1e-4;

/* A convolution and its bn, which adds `shortcut` (-1 if there is none), and a ReLU. */
static ls_status add_unit(ls_graph *graph, int64_t units, int64_t stride, int shortcut, int *node)
{
    const ls_layer_options conv = {.units = units,
                                   .no_bias = true,
                                   .window = {3, 3, stride, true},
                                   .centred = true,
                                   .weight_decay = decay};
    LS_TRY(ls_graph_add(graph, "conv", (int[]){*node, -1}, -1, &conv, node));
    LS_TRY(ls_graph_add(graph, "bn", (int[]){*node, shortcut, -1}, -1, NULL, node));
    return ls_graph_add(graph, "relu", (int[]){*node, -1}, -1, NULL, node);
}

static ls_status add_block(ls_graph *graph, int64_t units, int64_t stride, int *node)
{
    const ls_layer_options options = {.units = units, .window = {.stride = stride}};
    const int first = graph->count;
    int shortcut = *node;
    LS_TRY(add_unit(graph, units, stride, -1, node));
    if (stride > 1)
        LS_TRY(ls_graph_add(graph, "shortcut", (int[]){shortcut, -1}, -1, &options, &shortcut));
    LS_TRY(add_unit(graph, units, 1, shortcut, node));
    ls_graph_end_block(graph, first);
    return LS_OK;
}

static ls_status build(const char *sizes, ls_model *model)
{
    int64_t layers = 20;
    if (sizes && (!ls_parse_integer(sizes, 8, most_layers, &layers) || layers % 6 != 2))
        return ls_fail(
            LS_CODE_USAGE, "model", "resnet",
            "'%s' is not a possible number of layers; use 6n + 2 from 8 to %lld, as resnet:20",
            sizes, (long long)most_layers);
    snprintf(model->name, sizeof model->name, "resnet:%lld", (long long)layers);
    model->need = (ls_data_need){.inputs = 1,
                                 .rank = {3},
                                 .shape = {{COLOURS, SIDE, SIDE}},
                                 .classes = CLASSES,
                                 .border = BORDER,
                                 .synthetic = "classes"};
    const ls_layer_options input = {.shape = {.rank = 3, .size = {COLOURS, SIDE, SIDE}}};
    const ls_layer_options dense = {.units = CLASSES, .weight_decay = decay};
    ls_graph *graph = model->graph;
    int node;
    LS_TRY(ls_graph_add(graph, "input", NULL, -1, &input, &node));
    LS_TRY(ls_graph_add(graph, "channels_last", (int[]){node, -1}, -1, NULL, &node));
    LS_TRY(add_unit(graph, WIDTH, 1, -1, &node));
    for (int stage = 0; stage < STAGES; stage++)
        for (int64_t block = 0; block < (layers - 2) / 6; block++)
            LS_TRY(add_block(graph, WIDTH << stage, stage && !block ? 2 : 1, &node));
    LS_TRY(ls_graph_add(graph, "global_mean_pool", (int[]){node, -1}, -1, NULL, &node));
    LS_TRY(ls_graph_add(graph, "dense", (int[]){node, -1}, -1, &dense, &node));
    return ls_graph_add(graph, "softmax_cross_entropy", (int[]){node, -1}, -1, NULL, &node);
}

const ls_declared_option ls_option_sync_bn = {"sync-bn",
                                              "yes|no",
                                              "no",
                                              "",
                                              "yes: batch norms use the statistics of all replicas",
                                              .type = LS_DECLARED_SWITCH};

const ls_model_family ls_model_resnet = {
    .name = "resnet",
    .help = "residual network on 32x32 crops: resnet:20, or any 6n + 2 layers",
    .default_data = "cifar10",
    .default_optimizer = "momentum:0.9",
    .default_rate = 0.1,
    .default_batch = 128,
    .convolves = true,
    .options = (const ls_declared_option *const[]){&ls_option_sync_bn, NULL},
    .build = build,
};
