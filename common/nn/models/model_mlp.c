/* SPDX-License-Identifier: MIT */
/*
 * mlp: a multi-layer perceptron, by default 784-128-10: dense and ReLU layers, a last dense layer,
 * softmax cross-entropy over its outputs.
 */
#include "common/base/numbers.h"
#include "common/nn/models.h"

#include <stdio.h>
#include <string.h>

enum { MLP_SIZES = 16 };
static const int64_t largest_size = 1 << 20;

static ls_status parse_sizes(const char *text, int64_t sizes[MLP_SIZES], int *count)
{
    char item[24];
    *count = 0;
    for (const char *rest = text; rest;) {
        size_t length = strcspn(rest, "-");
        bool fits = length > 0 && length < sizeof item && *count < MLP_SIZES;
        if (fits) {
            memcpy(item, rest, length);
            item[length] = 0;
            fits = ls_parse_integer(item, 1, largest_size, &sizes[*count]);
        }
        if (!fits)
            return ls_fail(LS_CODE_USAGE, "model", *text ? text : "(empty)",
                           "mlp takes 2 to %d sizes, whole numbers from 1 to %lld joined by '-'; "
                           "for example mlp:784-128-10",
                           MLP_SIZES, (long long)largest_size);
        (*count)++;
        rest = rest[length] ? rest + length + 1 : NULL;
    }
    if (*count < 2)
        return ls_fail(LS_CODE_USAGE, "model", text,
                       "mlp needs at least two sizes, joined by '-' (a comma would begin another "
                       "model); for example mlp:784-128-10");
    return LS_OK;
}

static ls_status build(const char *text, ls_model *model)
{
    int64_t sizes[MLP_SIZES];
    int count, node;
    LS_TRY(parse_sizes(text ? text : "784-128-10", sizes, &count));
    size_t used = (size_t)snprintf(model->name, sizeof model->name, "mlp");
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(model->name + used, sizeof model->name - used, "%c%lld",
                                 i ? '-' : ':', (long long)sizes[i]);
    model->need = (ls_data_need){.inputs = 1,
                                 .rank = {1},
                                 .shape = {{sizes[0]}},
                                 .classes = (int)sizes[count - 1],
                                 .synthetic = "classes"};
    const ls_layer_options input = {.shape = {.rank = 1, .size = {sizes[0]}}};
    LS_TRY(ls_graph_add(model->graph, "input", NULL, -1, &input, &node));
    for (int i = 1; i < count; i++) {
        const ls_layer_options dense = {.units = sizes[i]};
        LS_TRY(ls_graph_add(model->graph, "dense", (int[]){node, -1}, -1, &dense, &node));
        if (i + 1 < count)
            LS_TRY(ls_graph_add(model->graph, "relu", (int[]){node, -1}, -1, NULL, &node));
        if (i + 1 < count && model->dropout > 0) {
            ls_layer_options drop = {.rate = model->dropout};
            snprintf(drop.name, sizeof drop.name, "dropout%d", i - 1);
            LS_TRY(ls_graph_add(model->graph, "dropout", (int[]){node, -1}, -1, &drop, &node));
        }
    }
    return ls_graph_add(model->graph, "softmax_cross_entropy", (int[]){node, -1}, -1, NULL, &node);
}

const ls_declared_option ls_option_dropout = {
    .name = "dropout",
    .placeholder = "X",
    .fallback = "0",
    .unit = "",
    .help = "probability with which training drops an output of mlp's hidden layers; of gpt's "
            "embedding and of both projections of a block",
    .type = LS_DECLARED_REAL,
    .low = 0,
    .high = 1,
    .below = true,
    .implied = true,
};

const ls_model_family ls_model_mlp = {
    .name = "mlp",
    .help = "perceptron with ReLU and softmax cross-entropy; mlp:784-128-10 sets the sizes",
    .default_data = "fashion-mnist",
    .default_optimizer = "adam",
    .default_rate = 0.001,
    .default_batch = 256,
    .options = (const ls_declared_option *const[]){&ls_option_dropout, NULL},
    .build = build,
};
