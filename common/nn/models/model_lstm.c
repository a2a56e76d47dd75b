/* SPDX-License-Identifier: MIT */
/*
 * twin-lstm:H: two sequences [T,I], [140,256] if no file sets them (or twin-lstm:H-T-I), through
 * one LSTM of H, used twice with the same variables, the last states concatenated, dense 1,
 * logistic loss. lstm-stack:L: one sequence [140,256] through L LSTMs of 64, the last state, dense
 * 1, logistic loss.
 */
#include "common/base/numbers.h"
#include "common/nn/models.h"

#include <stdio.h>
#include <string.h>

enum { STEPS = 140, VALUES = 256, STACK_UNITS = 64 };
static const int64_t most_units = 4096, most_layers = 64, most_sizes = 65536;

static ls_status parse_size(const char *name, const char *text, int64_t most, int64_t *out)
{
    if (!text || ls_parse_integer(text, 1, most, out))
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "model", name,
                   "'%s' is not a whole number from 1 to %lld; for example %s:%lld", text,
                   (long long)most, name, (long long)*out);
}

static ls_status add_input(ls_model *model, int number, int *out)
{
    const int64_t *shape = model->need.shape[number];
    const ls_layer_options input = {.input = number,
                                    .shape = {.rank = 2, .size = {shape[0], shape[1]}}};
    return ls_graph_add(model->graph, "input", NULL, -1, &input, out);
}

static ls_status add_end(ls_model *model, int node)
{
    const ls_layer_options dense = {.units = 1};
    LS_TRY(ls_graph_add(model->graph, "dense", (int[]){node, -1}, -1, &dense, &node));
    return ls_graph_add(model->graph, "logistic_loss", (int[]){node, -1}, -1, NULL, &node);
}

static void name_twin(int64_t units, const int64_t *shape, char *text, size_t size)
{
    const bool usual = shape[0] == STEPS && shape[1] == VALUES;
    const int used = snprintf(text, size, "twin-lstm:%lld", (long long)units);
    if (!usual)
        snprintf(text + used, size - (size_t)used, "-%lld-%lld", (long long)shape[0],
                 (long long)shape[1]);
}

/* "H" or "H-T-I" */
static ls_status parse_twin(const char *text, int64_t *units, int64_t *shape)
{
    char part[3][24] = {""};
    int parts = 0;
    for (const char *rest = text; rest && parts < 3; parts++) {
        const size_t length = strcspn(rest, "-");
        if (length < sizeof part[0])
            memcpy(part[parts], rest, length);
        rest = rest[length] ? rest + length + 1 : NULL;
    }
    if (!text || !strchr(text, '-'))
        return parse_size("twin-lstm", text, most_units, units);
    if (parts == 3 && strlen(text) == strlen(part[0]) + strlen(part[1]) + strlen(part[2]) + 2 &&
        ls_parse_integer(part[0], 1, most_units, units) &&
        ls_parse_integer(part[1], 1, most_sizes, &shape[0]) &&
        ls_parse_integer(part[2], 1, most_sizes, &shape[1]))
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "model", "twin-lstm",
                   "'%s' is not units-steps-values; give 1 to %lld units, and 1 to %lld steps and "
                   "values, for example twin-lstm:64-140-256",
                   text, (long long)most_units, (long long)most_sizes);
}

static void fit_twin(const ls_model *model, const int64_t *shape, char *text, size_t size)
{
    const ls_variables *variables = &model->graph->variables;
    name_twin(variables->items[1].shape[1], shape, text, size); /* weight_hh [4H,H] */
}

static ls_status build_twin(const char *text, ls_model *model)
{
    int64_t units = STACK_UNITS, shape[2] = {STEPS, VALUES};
    int x[2], h[2], both;
    LS_TRY(parse_twin(text, &units, shape));
    name_twin(units, shape, model->name, sizeof model->name);
    model->need = (ls_data_need){.inputs = 2,
                                 .rank = {2, 2},
                                 .shape = {{shape[0], shape[1]}, {shape[0], shape[1]}},
                                 .classes = 2,
                                 .synthetic = "windows"};
    const ls_layer_options lstm = {.units = units};
    for (int i = 0; i < 2; i++)
        LS_TRY(add_input(model, i, &x[i]));
    LS_TRY(ls_graph_add(model->graph, "lstm", (int[]){x[0], -1}, -1, &lstm, &h[0]));
    LS_TRY(ls_graph_add(model->graph, "lstm", (int[]){x[1], -1}, h[0], &lstm, &h[1]));
    LS_TRY(ls_graph_add(model->graph, "concat", (int[]){h[0], h[1], -1}, -1, NULL, &both));
    return add_end(model, both);
}

static ls_status build_stack(const char *text, ls_model *model)
{
    int64_t layers = 4;
    int node;
    LS_TRY(parse_size("lstm-stack", text, most_layers, &layers));
    snprintf(model->name, sizeof model->name, "lstm-stack:%lld", (long long)layers);
    model->need = (ls_data_need){
        .inputs = 1, .rank = {2}, .shape = {{STEPS, VALUES}}, .classes = 2, .synthetic = "windows"};
    LS_TRY(add_input(model, 0, &node));
    for (int64_t i = 0; i < layers; i++) {
        const ls_layer_options lstm = {.units = STACK_UNITS, .all_states = i + 1 < layers};
        LS_TRY(ls_graph_add(model->graph, "lstm", (int[]){node, -1}, -1, &lstm, &node));
    }
    return add_end(model, node);
}

const ls_model_family ls_model_twin_lstm = {
    .name = "twin-lstm",
    .help =
        "two sequences through one shared LSTM: have both one source? twin-lstm:64 sets its size",
    .default_data = "text",
    .default_optimizer = "rmsprop",
    .default_rate = 0.001,
    .default_batch = 64,
    .build = build_twin,
    .fit = fit_twin,
};

const ls_model_family ls_model_lstm_stack = {
    .name = "lstm-stack",
    .help = "a stack of LSTMs of 64, for pipelines; lstm-stack:4 sets how many",
    .default_data = "text",
    .default_optimizer = "rmsprop",
    .default_rate = 0.001,
    .default_batch = 64,
    .build = build_stack,
};
