/* SPDX-License-Identifier: MIT */
/*
 * poly: y = w2 x^2 + w1 x + w0 fitted to 5 x^2 + 3 by squared error. Three parameters, so a step
 * shows what the machinery itself costs.
 */
#include "common/nn/models.h"

#include <stdio.h>

static ls_status build(const char *sizes, ls_model *model)
{
    if (sizes)
        return ls_fail(LS_CODE_USAGE, "model", "poly", "has no sizes; give the name alone");
    snprintf(model->name, sizeof model->name, "poly");
    model->need = (ls_data_need){
        .inputs = 1, .rank = {1}, .shape = {{1}}, .classes = 0, .synthetic = "polynomial"};
    const ls_layer_options input = {.shape = {.rank = 1, .size = {1}}};
    const ls_layer_options dense = {.units = 1, .no_bias = true};
    int node;
    LS_TRY(ls_graph_add(model->graph, "input", NULL, -1, &input, &node));
    LS_TRY(ls_graph_add(model->graph, "polynomial", (int[]){node, -1}, -1, NULL, &node));
    LS_TRY(ls_graph_add(model->graph, "dense", (int[]){node, -1}, -1, &dense, &node));
    return ls_graph_add(model->graph, "squared_error", (int[]){node, -1}, -1, NULL, &node);
}

const ls_model_kind ls_model_poly = {
    .name = "poly",
    .help = "y = w2 x^2 + w1 x + w0 by squared error: three parameters, the machinery's own cost",
    .default_data = "synthetic",
    .default_optimizer = "adam",
    .default_rate = 0.1,
    .default_batch = 100,
    .build = build,
};
