/* SPDX-License-Identifier: MIT */
/*
 * cnn: 28x28x1, convolution 3x3 to 32 without padding, ReLU, global max pool, dense 10. The pool is
 * part of the convolution, with the ReLU after it: max and ReLU commute.
 */
#include "common/nn/models.h"

static const ls_model_step chain[] = {
    LS_STEP("input", .shape = {.rank = 3, .size = {28, 28, 1}}),
    LS_STEP("conv", .units = 32, .window = {.height = 3, .width = 3}, .global_max = true),
    LS_STEP("relu"),
    LS_STEP("dense", .units = 10),
    LS_STEP("softmax_cross_entropy"),
    {.layer = NULL},
};

const ls_model_family ls_model_cnn = {
    .name = "cnn",
    .help = "convolution 3x3x32, ReLU, global max pool and dense on 28x28 images",
    .default_data = "fashion-mnist",
    .default_optimizer = "adam",
    .default_rate = 0.001,
    .default_batch = 256,
    .chain = chain,
    .need =
        {.inputs = 1, .rank = {3}, .shape = {{1, 28, 28}}, .classes = 10, .synthetic = "classes"},
};
