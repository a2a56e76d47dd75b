/* SPDX-License-Identifier: MIT */
/*
 * poly: y = w2 x^2 + w1 x + w0 fitted to 5 x^2 + 3 by squared error. With only three parameters, a
 * step shows the cost of the harness.
 */
#include "common/nn/models.h"

static const ls_model_step chain[] = {
    LS_STEP("input", .shape = {.rank = 1, .size = {1}}),
    LS_STEP("polynomial"),
    LS_STEP("dense", .units = 1, .no_bias = true),
    LS_STEP("squared_error"),
    {.layer = NULL},
};

const ls_model_family ls_model_poly = {
    .name = "poly",
    .help = "y = w2 x^2 + w1 x + w0 by squared error: three parameters: shows the harness's cost",
    .default_data = "synthetic",
    .default_optimizer = "adam",
    .default_rate = 0.1,
    .default_batch = 100,
    .chain = chain,
    .need = {.inputs = 1, .rank = {1}, .shape = {{1}}, .synthetic = "polynomial"},
};
