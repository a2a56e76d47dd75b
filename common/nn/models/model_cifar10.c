/* SPDX-License-Identifier: MIT */
/*
 * cifar10: the two-convolution tutorial model on 24x24x3 crops: convolution 5x5x64, ReLU, pool 3/2,
 * LRN; convolution 5x5x64, ReLU, LRN, pool 3/2; dense 384, ReLU, dense 192, ReLU, dense 10. Weight
 * decay on the first two dense layers. Convolutions and pools are padded as TensorFlow's SAME.
 */
#include "common/nn/models.h"

enum { SIDE = 24, COLOURS = 3, CLASSES = 10 };

static const ls_model_step chain[] = {
    LS_STEP("input", .shape = {.rank = 3, .size = {COLOURS, SIDE, SIDE}}),
    LS_STEP("channels_last"),
    LS_STEP("conv", .units = 64, .window = {5, 5, 1, true}),
    LS_STEP("relu"),
    LS_STEP("max_pool", .window = {3, 3, 2, true}),
    LS_STEP("lrn", .radius = 4, .alpha = 0.001 / 9),
    LS_STEP("conv", .units = 64, .window = {5, 5, 1, true}),
    LS_STEP("relu"),
    LS_STEP("lrn", .radius = 4, .alpha = 0.001 / 9),
    LS_STEP("max_pool", .window = {3, 3, 2, true}),
    LS_STEP("channels_first"),
    LS_STEP("dense", .units = 384, .weight_decay = 0.004),
    LS_STEP("relu"),
    LS_STEP("dense", .units = 192, .weight_decay = 0.004),
    LS_STEP("relu"),
    LS_STEP("dense", .units = CLASSES),
    LS_STEP("softmax_cross_entropy"),
    {.layer = NULL},
};

const ls_model_family ls_model_cifar10 = {
    .name = "cifar10",
    .help = "the two-convolution tutorial model, with LRN and weight decay, on 24x24 crops",
    .default_data = "cifar10",
    .default_optimizer = "sgd",
    .default_rate = 0.1,
    .default_batch = 128,
    .rate_epochs = 350,
    .average = 0.9999,
    .convolves = true,
    .chain = chain,
    .need = {.inputs = 1,
             .rank = {3},
             .shape = {{COLOURS, SIDE, SIDE}},
             .classes = CLASSES,
             .synthetic = "classes"},
};
