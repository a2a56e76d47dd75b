/* SPDX-License-Identifier: MIT */
/*
 * gpt:L-H-C[-T[-V]]: GPT-2's decoder (Radford et al. 2019) with L blocks, H heads, width C, T
 * positions and V tokens. A block: x += c_proj(attention(c_attn(ln_1(x)))), then
 * x += c_proj(gelu(c_fc(ln_2(x)))); after the last one ln_f, and the head, which is the token
 * embedding. Dropout, if any, as in GPT-2, but not of attention's probabilities. Variables have the
 * names and layouts of Hugging Face's GPT-2; the projections that end in a residual sum begin
 * smaller, by sqrt(2L), as in GPT-2.
 */
#include "common/base/numbers.h"
#include "common/nn/models.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct sizes {
    int64_t L, H, C, T, V;
    double dropout;
} gpt_sizes;

enum { SIZES = 5, LEAST = 3 };
static const int64_t most[SIZES] = {1024, 4096, 65536, 1 << 20, 1 << 24};
static const double deviation = 0.02;

static ls_status parse_sizes(const char *text, gpt_sizes *out)
{
    int64_t size[SIZES] = {4, 4, 128, 128, 256};
    int count = 0;
    for (const char *rest = text; rest; count++) {
        char part[24] = "";
        const size_t length = strcspn(rest, "-");
        if (length < sizeof part)
            memcpy(part, rest, length);
        if (count == SIZES || !ls_parse_integer(part, 1, most[count], &size[count]))
            break;
        rest = rest[length] ? rest + length + 1 : NULL;
        if (!rest && count + 1 >= LEAST)
            text = NULL; /* all read */
    }
    if (text)
        return ls_fail(LS_CODE_USAGE, "model", "gpt",
                       "'%s' is not blocks-heads-width[-positions[-tokens]]; give whole numbers "
                       "above 0, at most %lld, %lld, %lld, %lld and %lld in this order, for "
                       "example gpt:4-4-128-128-256",
                       text, (long long)most[0], (long long)most[1], (long long)most[2],
                       (long long)most[3], (long long)most[4]);
    if (size[2] % size[1])
        return ls_fail(LS_CODE_USAGE, "model", "gpt",
                       "%lld heads do not divide a width of %lld evenly; use a number of heads "
                       "that divides the width",
                       (long long)size[1], (long long)size[2]);
    *out = (gpt_sizes){size[0], size[1], size[2], size[3], size[4], 0};
    return LS_OK;
}

/* Adds a layer that takes node *x, named for block `block` (-1 if there is none), and sets *x to
 * it. */
static ls_status append(ls_graph *graph, const char *layer, int block, const char *name,
                        ls_layer_options options, int *x)
{
    if (name && block >= 0)
        snprintf(options.name, sizeof options.name, "h.%d.%s", block, name);
    else if (name)
        snprintf(options.name, sizeof options.name, "%s", name);
    return ls_graph_add(graph, layer, (int[]){*x, -1}, -1, &options, x);
}

/* Adds a dropout layer, if the model has any. */
static ls_status append_dropout(ls_graph *graph, const gpt_sizes *s, int block, const char *name,
                                int *x)
{
    const ls_layer_options drop = {.rate = s->dropout};
    return s->dropout > 0 ? append(graph, "dropout", block, name, drop, x) : LS_OK;
}

/* A dense layer of every position. */
static ls_layer_options projection(int64_t units, double begin)
{
    return (ls_layer_options){
        .units = units, .last_axis = true, .input_major = true, .deviation = begin};
}

static ls_status append_block(ls_graph *graph, const gpt_sizes *s, int n, int *x)
{
    const ls_layer_options none = {0}, heads = {.units = s->H};
    const double less = deviation / sqrt(2 * (double)s->L);
    int y = *x;
    LS_TRY(append(graph, "layer_norm", n, "ln_1", none, &y));
    LS_TRY(append(graph, "dense", n, "attn.c_attn", projection(3 * s->C, deviation), &y));
    LS_TRY(append(graph, "attention", n, NULL, heads, &y));
    LS_TRY(append(graph, "dense", n, "attn.c_proj", projection(s->C, less), &y));
    LS_TRY(append_dropout(graph, s, n, "attn.resid_dropout", &y));
    LS_TRY(ls_graph_add(graph, "add", (int[]){*x, y, -1}, -1, NULL, x));
    y = *x;
    LS_TRY(append(graph, "layer_norm", n, "ln_2", none, &y));
    LS_TRY(append(graph, "dense", n, "mlp.c_fc", projection(4 * s->C, deviation), &y));
    LS_TRY(append(graph, "gelu", n, NULL, none, &y));
    LS_TRY(append(graph, "dense", n, "mlp.c_proj", projection(s->C, less), &y));
    LS_TRY(append_dropout(graph, s, n, "mlp.dropout", &y));
    return ls_graph_add(graph, "add", (int[]){*x, y, -1}, -1, NULL, x);
}

static ls_status build(const char *text, ls_model *model)
{
    gpt_sizes s = {0};
    LS_TRY(parse_sizes(text, &s));
    s.dropout = model->dropout;
    snprintf(model->name, sizeof model->name, "gpt:%lld-%lld-%lld-%lld-%lld", (long long)s.L,
             (long long)s.H, (long long)s.C, (long long)s.T, (long long)s.V);
    model->need = (ls_data_need){.inputs = 1,
                                 .rank = {1},
                                 .shape = {{s.T}},
                                 .classes = (int)s.V,
                                 .targets = s.T,
                                 .synthetic = "tokens"};
    const ls_layer_options input = {.shape = {.rank = 1, .size = {s.T}}};
    const ls_layer_options tokens = {.units = s.C, .tokens = s.V, .deviation = deviation};
    const ls_layer_options positions = {.deviation = deviation}, none = {0};
    const ls_layer_options head = {
        .units = s.V, .no_bias = true, .last_axis = true, .name = "lm_head"};
    ls_graph *graph = model->graph;
    int x, embedding;
    graph->variables.of_gpt2 = true;
    LS_TRY(ls_graph_add(graph, "input", NULL, -1, &input, &x));
    LS_TRY(append(graph, "embedding", -1, "wte", tokens, &x));
    embedding = x;
    LS_TRY(append(graph, "positions", -1, "wpe", positions, &x));
    LS_TRY(append_dropout(graph, &s, -1, "drop", &x));
    for (int n = 0; n < (int)s.L; n++) {
        const int first = graph->count;
        LS_TRY(append_block(graph, &s, n, &x));
        ls_graph_end_block(graph, first);
    }
    LS_TRY(append(graph, "layer_norm", -1, "ln_f", none, &x));
    LS_TRY(ls_graph_add(graph, "dense", (int[]){x, -1}, embedding, &head, &x));
    return ls_graph_add(graph, "softmax_cross_entropy", (int[]){x, -1}, -1, NULL, &x);
}

const ls_declared_option ls_option_lengths = {
    .name = "lengths",
    .placeholder = "WORD",
    .fallback = "full",
    .unit = "",
    .help = "positions of a sample that are targets of training; full: all; ragged: only the first "
            "ones, a number that varies from sample to sample (the loss is the mean over targets)",
    .type = LS_DECLARED_WORD,
    .words = (const char *const[]){"full", "ragged", NULL},
    .implied = true,
};

const ls_model_family ls_model_gpt = {
    .name = "gpt",
    .help = "GPT-2's decoder: blocks-heads-width-positions-tokens, gpt:4-4-128-128-256",
    .default_data = "text",
    .default_optimizer = "adamw",
    .default_rate = 0.0006,
    .default_batch = 16,
    .options = (const ls_declared_option *const[]){&ls_option_dropout, &ls_option_lengths, NULL},
    .build = build,
};
