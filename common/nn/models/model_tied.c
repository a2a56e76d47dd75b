/* SPDX-License-Identifier: MIT */
/*
 * tied: 784-32-32-32-10 with ReLU, whose two middle layers share their variables: for tests, and
 * built with LOCKSTEP_HOOKS alone, as long as no model of users shares any.
 */
#include "common/nn/models.h"

#ifdef LOCKSTEP_HOOKS

#include <stdio.h>

/* A dense layer after `*node`, with ReLU but for the last; `shares` as in ls_graph_add. */
static ls_status add_dense(ls_graph *graph, int64_t units, int shares, bool relu, int *node)
{
    const ls_layer_options dense = {.units = units};
    int before = *node;
    LS_TRY(ls_graph_add(graph, "dense", (int[]){before, -1}, shares, &dense, node));
    if (!relu)
        return LS_OK;
    before = *node;
    return ls_graph_add(graph, "relu", (int[]){before, -1}, -1, NULL, node);
}

static ls_status build(const char *text, ls_model *model)
{
    int node;
    if (text)
        return ls_fail(LS_CODE_USAGE, "model", text, "tied has no sizes to be set");
    snprintf(model->name, sizeof model->name, "tied");
    model->need = (ls_data_need){
        .inputs = 1, .rank = {1}, .shape = {{784}}, .classes = 10, .synthetic = "classes"};
    const ls_layer_options input = {.shape = {.rank = 1, .size = {784}}};
    LS_TRY(ls_graph_add(model->graph, "input", NULL, -1, &input, &node));
    LS_TRY(add_dense(model->graph, 32, -1, true, &node));
    const int owner = node + 1;
    LS_TRY(add_dense(model->graph, 32, -1, true, &node));
    LS_TRY(add_dense(model->graph, 32, owner, true, &node));
    LS_TRY(add_dense(model->graph, 10, -1, false, &node));
    return ls_graph_add(model->graph, "softmax_cross_entropy", (int[]){node, -1}, -1, NULL, &node);
}

const ls_model_kind ls_model_tied = {
    .name = "tied",
    .help = "for tests: a perceptron two of whose layers share their variables",
    .default_data = "synthetic:1000",
    .default_optimizer = "adam",
    .default_rate = 0.001,
    .default_batch = 64,
    .build = build,
};

#endif
