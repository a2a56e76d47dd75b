/* SPDX-License-Identifier: MIT */
/*
 * tied: 784-32-32-32-10 with ReLU, whose two middle layers share variables. For tests, and only in
 * builds with LOCKSTEP_HOOKS, since no model for users is like it.
 */
#include "common/nn/models.h"

static const ls_model_step chain[] = {
    LS_STEP("input", .shape = {.rank = 1, .size = {784}}),
    LS_STEP("dense", .units = 32),
    LS_STEP("relu"),
    LS_STEP("dense", .units = 32),
    LS_STEP("relu"),
    {.layer = "dense", .options = {.units = 32}, .shares = 3},
    LS_STEP("relu"),
    LS_STEP("dense", .units = 10),
    LS_STEP("softmax_cross_entropy"),
    {.layer = NULL},
};

const ls_model_family ls_model_tied = {
    .name = "tied",
    .help = "for tests: a perceptron two of whose layers share their variables",
    .default_data = "synthetic:1000",
    .default_optimizer = "adam",
    .default_rate = 0.001,
    .default_batch = 64,
    .chain = chain,
    .need = {.inputs = 1, .rank = {1}, .shape = {{784}}, .classes = 10, .synthetic = "classes"},
};
