/* SPDX-License-Identifier: MIT */
/*
 * Embedding: tokens [T], whole numbers from 0 to V - 1, become rows of weight [V,C]: y [T,C]. And
 * positions: each position's own vector, a row of weight [T,C], is added. A dense layer may share
 * the embedding's weight: the head of a language model.
 */
#include "common/nn/layers.h"

static ls_status embedding_infer(ls_graph *graph, ls_node *node)
{
    const ls_shape *x = &graph->nodes[node->inputs[0]].shape;
    const ls_layer_options *o = &node->options;
    if (x->rank != 1 || x->size[0] < 1)
        return ls_layer_refuse_input("embedding", "a sequence of tokens, [positions]");
    if (o->units < 1 || o->tokens < 1)
        return ls_fail(
            LS_CODE_USAGE, "graph", "embedding",
            "this layer needs units and tokens; give `units:` and `tokens:` of 1 or more");
    node->shape = (ls_shape){.rank = 2, .size = {x->size[0], o->units}};
    const ls_variable weight = {.rank = 2,
                                .shape = {o->tokens, o->units},
                                .initializer = LS_INITIALIZER_NORMAL,
                                .deviation = o->deviation};
    return ls_graph_variable(graph, node, "weight", &weight);
}

static ls_status embedding_forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_embedding_forward_args args = {
        .rows = site->rows * site->node->shape.size[0],
        .tokens = site->node->options.tokens,
        .width = site->node->options.units,
        .x = site->input[0],
        .weight = site->variable[0],
        .y = site->output,
        .first = site->node->options.first,
        .all = site->node->options.all,
    };
    return ls_layer_put_embedding_forward(site, &args, ops);
}

static ls_status embedding_backward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_embedding_backward_args args = {
        .rows = site->rows * site->node->shape.size[0],
        .tokens = site->node->options.tokens,
        .width = site->node->options.units,
        .x = site->input[0],
        .dy = site->output_gradient,
        .dweight = site->variable_gradient[0],
        .first = site->node->options.first,
    };
    return ls_layer_put_embedding_backward(site, &args, ops);
}

static ls_status positions_infer(ls_graph *graph, ls_node *node)
{
    const ls_shape *x = &graph->nodes[node->inputs[0]].shape;
    if (x->rank != 2)
        return ls_layer_refuse_input("positions", "a sequence of vectors, [positions, values]");
    node->shape = *x;
    const ls_variable weight = {.rank = 2,
                                .shape = {x->size[0], x->size[1]},
                                .initializer = LS_INITIALIZER_NORMAL,
                                .deviation = node->options.deviation};
    return ls_graph_variable(graph, node, "weight", &weight);
}

/* A run of consecutive positions of all rows. */
typedef struct run {
    int64_t first, count; /* elements of one row's vectors: in the weight, and how many */
    int64_t at;           /* element of x, which has rows x count */
} run;

enum { RUNS = 2 };

/* All positions; or the blocks that are here (graph_context.h). Returns how many. */
static int runs_of(const ls_layer_site *site, run out[RUNS])
{
    const ls_graph_blocks *blocks = &site->graph->blocks;
    const int64_t width = site->node->shape.size[1];
    out[0] = (run){.count = ls_shape_elements(&site->node->shape)};
    for (int b = 0; b < RUNS && blocks->whole; b++)
        out[b] = (run){.first = blocks->first[b] * width,
                       .count = blocks->count[b] * width,
                       .at = b ? site->rows * out[0].count : 0};
    return blocks->whole ? RUNS : 1;
}

static void *at(const ls_layer_site *site, const void *memory, int64_t element)
{
    return (char *)memory + (size_t)element * site->kernels->table->real_bytes;
}

static ls_status positions_forward(const ls_layer_site *site, ls_op_list *ops)
{
    run runs[RUNS];
    const int count = runs_of(site, runs);
    for (int b = 0; b < count; b++) {
        const ls_positions_forward_args args = {
            .rows = site->rows,
            .count = runs[b].count,
            .x = at(site, site->input[0], runs[b].at),
            .weight = at(site, site->variable[0], runs[b].first),
            .y = at(site, site->output, runs[b].at),
        };
        LS_TRY(ls_layer_put_positions_forward(site, &args, ops));
    }
    return LS_OK;
}

/* Positions that are elsewhere have no gradient here. */
static ls_status clear_others(const ls_layer_site *site, const run *runs, int count,
                              ls_op_list *ops)
{
    const int64_t all = site->graph->blocks.whole * site->node->shape.size[1];
    for (int64_t b = 0, end = 0; b <= count && all; b++) {
        const ls_fill_args zeros = {.count = (b < count ? runs[b].first : all) - end,
                                    .y = at(site, site->variable_gradient[0], end)};
        if (zeros.count)
            LS_TRY(ls_layer_put_fill(site, &zeros, ops));
        end = b < count ? runs[b].first + runs[b].count : all;
    }
    return LS_OK;
}

static ls_status positions_backward(const ls_layer_site *site, ls_op_list *ops)
{
    run runs[RUNS];
    const int count = runs_of(site, runs);
    const ls_add_args copy = {.count = site->rows * ls_shape_elements(&site->node->shape),
                              .a = site->output_gradient,
                              .y = site->input_gradient[0]};
    for (int b = 0; b < count; b++) {
        const ls_positions_backward_args args = {
            .rows = site->rows,
            .count = runs[b].count,
            .dy = at(site, site->output_gradient, runs[b].at),
            .dweight = at(site, site->variable_gradient[0], runs[b].first),
        };
        LS_TRY(ls_layer_put_positions_backward(site, &args, ops));
    }
    LS_TRY(clear_others(site, runs, count, ops));
    return copy.y ? ls_layer_put_add(site, &copy, ops) : LS_OK;
}

const ls_layer ls_layer_embedding = {
    .name = "embedding",
    .help = "tokens become vectors: y = weight[x]",
    .inputs = 1,
    .takes_tokens = true,
    .reads = LS_READS_INPUT,
    .infer = embedding_infer,
    .forward = embedding_forward,
    .backward = embedding_backward,
};

const ls_layer ls_layer_positions = {
    .name = "positions",
    .help = "each position's own vector is added: y = x + weight",
    .inputs = 1,
    .infer = positions_infer,
    .forward = positions_forward,
    .backward = positions_backward,
};
