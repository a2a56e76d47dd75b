/* SPDX-License-Identifier: MIT */
/*
 * Causal attention of H heads (the formulas: kernel_transformer.h): q, k and v [T,3C], of a dense
 * layer, become y [T,C]; position p attends to positions 0 to p. No variables. Kept: for each head
 * and position the logarithm of softmax's sum.
 */
#include "common/nn/layers.h"

static ls_attention_shape shape_of(const ls_node *node, int64_t rows)
{
    return (ls_attention_shape){.rows = rows,
                                .steps = node->shape.size[0],
                                .heads = node->options.units,
                                .width = node->shape.size[1]};
}

static ls_status infer(ls_graph *graph, ls_node *node)
{
    const ls_shape *x = &graph->nodes[node->inputs[0]].shape;
    const int64_t heads = node->options.units;
    if (x->rank != 2 || x->size[1] % 3 || ls_shape_elements(x) < 1)
        return ls_fail(
            LS_CODE_USAGE, "graph", "attention",
            "this layer needs queries, keys and values of the same width: [positions, 3 x width]; "
            "put before it a dense layer of 3 x width units with `each_position: yes`");
    node->shape = (ls_shape){.rank = 2, .size = {x->size[0], x->size[1] / 3}};
    if (heads < 1 || node->shape.size[1] % heads)
        return ls_fail(LS_CODE_USAGE, "graph", "attention",
                       "%lld heads do not evenly divide %lld, the width of the queries, keys and "
                       "values; use a number of heads that divides it",
                       (long long)heads, (long long)node->shape.size[1]);
    return LS_OK;
}

static size_t kept_bytes(const ls_graph *graph, const ls_node *node, int64_t rows,
                         size_t real_bytes)
{
    (void)graph;
    return (size_t)(rows * node->options.units * node->shape.size[0]) * real_bytes;
}

static bool takes_stored(const ls_graph *graph, const ls_node *node, const ls_kernels *kernels)
{
    (void)graph;
    return node->shape.size[1] / node->options.units <= kernels->attends_bf16;
}

static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_attention_forward_args args = {.shape = shape_of(site->node, site->rows),
                                            .qkv = site->input[0],
                                            .y = site->output,
                                            .sums = site->kept,
                                            .stored = site->stored};
    return ls_layer_put_attention_forward(site, &args, ops);
}

static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_attention_backward_args args = {.shape = shape_of(site->node, site->rows),
                                             .qkv = site->input[0],
                                             .y = site->output,
                                             .dy = site->output_gradient,
                                             .sums = site->kept,
                                             .dqkv = site->input_gradient[0],
                                             .stored = site->stored};
    return args.dqkv ? ls_layer_put_attention_backward(site, &args, ops) : LS_OK;
}

/* For a query only the keys up to it count: half of T^2, and half of T. */
static double flops(const ls_graph *graph, const ls_node *node, double *input_gradient)
{
    const ls_attention_shape s = shape_of(node, 1);
    const double product = (double)s.width * (double)s.steps * (double)(s.steps + 1);
    (void)graph;
    *input_gradient = 4 * product;
    return 2 * product;
}

/* Two products forward and four backward, for each sample and head. Half of them are counted: their
 * sizes count complete rows of scores, and causality uses half of a row. */
static int products(const ls_graph *graph, const ls_node *node, int64_t rows, bool inputs_too,
                    ls_layer_product out[LS_LAYER_PRODUCTS])
{
    const ls_attention_shape s = shape_of(node, rows);
    const int64_t T = s.steps, d = s.width / s.heads, times = (s.rows * s.heads + 1) / 2;
    (void)graph;
    out[0] = (ls_layer_product){"scores", false, false, true, T, T, d, times};
    out[1] = (ls_layer_product){"values", false, false, false, T, d, T, times};
    out[2] = (ls_layer_product){"dshares", true, false, true, T, T, d, times};
    out[3] = (ls_layer_product){"dq", true, false, false, T, d, T, times};
    out[4] = (ls_layer_product){"dk", true, true, false, T, d, T, times};
    out[5] = (ls_layer_product){"dv", true, true, false, T, d, T, times};
    return inputs_too ? 6 : 2;
}

const ls_layer ls_layer_attention = {
    .name = "attention",
    .help = "causal attention of several heads: softmax(q k^T / sqrt(d)) v",
    .inputs = 1,
    .reads = LS_READS_INPUT | LS_READS_OUTPUT,
    .infer = infer,
    .kept_bytes = kept_bytes,
    .takes_stored = takes_stored,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .products = products,
};
