/* SPDX-License-Identifier: MIT */
/* Layers of transformers: gradients against central differences in double precision (tolerance in
 * net_fixture.h), a tied head, names of variables, what is refused. */
#include "common/nn/divide/graph_split.h"
#include "common/nn/net_nodes.h"
#include "common/nn/tests/net_fixture.h"

enum { T = 5, C = 6, V = 7 };

static int add_tokens(fixture *f)
{
    const ls_layer_options input = {.shape = {.rank = 1, .size = {T}}};
    int node;
    must(ls_graph_add(f->graph, "input", NULL, -1, &input, &node));
    return node;
}

static int add_embedding(fixture *f, int input)
{
    return add_with(f, "embedding", input,
                    &(ls_layer_options){.units = C, .tokens = V, .deviation = 0.02, .name = "wte"});
}

/* A head that shares the embedding's weight, and the loss. */
static void add_tied_end(fixture *f, int node, int embedding)
{
    const ls_layer_options head = {.units = V, .no_bias = true, .last_axis = true};
    must(ls_graph_add(f->graph, "dense", (int[]){node, -1}, embedding, &head, &node));
    assert_int_equal(f->graph->nodes[node].shape.size[0], T);
    assert_int_equal(f->graph->nodes[node].shape.size[1], V);
    add(f, "softmax_cross_entropy", node, -1, 0);
    assert_int_equal(ls_graph_targets(f->graph), T);
}

/* Opens the net for tokens and a target at each, and checks gradients and memory. */
static void check_tokens(fixture *f)
{
    open_net(f, ROWS);
    double *x = ls_net_input(f->net, 0);
    int32_t *labels = ls_net_target(f->net);
    for (int i = 0; i < ROWS * T; i++) {
        x[i] = i * i % V;
        labels[i] = (3 * i + 1) % V;
    }
    check_gradients(f);
    assert_int_equal(ls_device_ledger(f->device).in_use[LS_MEMORY_ACTIVATIONS],
                     ls_net_activation_bytes(f->graph, sizeof(double), ROWS));
}

static void embedding_tied(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const int embedding = add_embedding(&f, add_tokens(&f));
    const ls_layer_options positions = {.deviation = 0.02, .name = "wpe"};
    add_tied_end(&f, add_with(&f, "positions", embedding, &positions), embedding);
    assert_int_equal(f.graph->variables.count, 2);
    assert_string_equal(f.graph->variables.items[0].name, "wte.weight");
    assert_string_equal(f.graph->variables.items[1].name, "wpe.weight");
    assert_int_equal(f.graph->variables.items[1].count, T * C);
    check_tokens(&f);
    close_all(&f);
}

static void layer_norm_and_gelu(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const int embedding = add_embedding(&f, add_tokens(&f));
    int node = add_with(&f, "layer_norm", embedding, &(ls_layer_options){0});
    assert_string_equal(f.graph->variables.items[1].name, "layer_norm0.weight");
    node = add_with(&f, "gelu", node, &(ls_layer_options){0});
    add_tied_end(&f, node, embedding);
    check_tokens(&f);
    close_all(&f);
}

/* What a residual branch's first layer adds to the gradient behind its sum needs no memory and no
 * operation of its own. */
static void residual_branch(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const int embedding = add_embedding(&f, add_tokens(&f));
    const int norm = add_with(&f, "layer_norm", embedding, &(ls_layer_options){0});
    const int branch = add_with(&f, "gelu", norm, &(ls_layer_options){0});
    int sum;
    must(ls_graph_add(f.graph, "add", (int[]){embedding, branch, -1}, -1, NULL, &sum));
    add_tied_end(&f, sum, embedding);
    check_tokens(&f);
    assert_int_equal(ls_net_node_ops(f.net, sum, true)->count, 0);
    assert_int_equal(ls_net_node_ops(f.net, norm, true)->count, 1);
    assert_int_equal(ls_net_node_ops(f.net, branch, true)->count, 1);
    close_all(&f);
}

/* Backward has forward's mask: the gradient of what is dropped is 0. */
static void dropout_of_half(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const int embedding = add_embedding(&f, add_tokens(&f));
    int node = add_with(&f, "dropout", embedding, &(ls_layer_options){.rate = 0.5});
    node = add_with(&f, "layer_norm", node, &(ls_layer_options){0});
    node = add_with(&f, "dropout", node, &(ls_layer_options){.rate = 0.25, .name = "second"});
    add_tied_end(&f, node, embedding);
    check_tokens(&f);
    close_all(&f);
}

/* Dense layers of every position with weights [in,out], around the attention of two heads. */
static void attention_of_two_heads(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const int embedding = add_embedding(&f, add_tokens(&f));
    const ls_layer_options qkv = {
        .units = 3 * C, .last_axis = true, .input_major = true, .deviation = 0.02};
    int node = add_with(&f, "dense", embedding, &qkv);
    assert_int_equal(f.graph->variables.items[1].shape[0], C);
    assert_int_equal(f.graph->variables.items[1].shape[1], 3 * C);
    node = add_with(&f, "attention", node, &(ls_layer_options){.units = 2});
    double input_gradient;
    const ls_node *attention = &f.graph->nodes[node];
    assert_true(attention->layer->flops(f.graph, attention, &input_gradient) ==
                2.0 * 2 * C * (T * (T + 1) / 2));
    add_tied_end(&f, node, embedding);
    check_tokens(&f);
    close_all(&f);
}

/* In three slices of the vocabulary, of a pair, and its heads: an embedding, attention, an MLP. */
static void check_slices(bool sequence)
{
    enum { SLICES = 3 };
    fixture f;
    ls_graph_part split;
    open_device(&f);
    const int embedding = add_embedding(&f, add_tokens(&f));
    const ls_layer_options qkv = {
        .units = 3 * C, .last_axis = true, .input_major = true, .deviation = 0.02};
    const ls_layer_options out = {.units = C, .last_axis = true, .input_major = true};
    int node = add_with(&f, "layer_norm", embedding, &(ls_layer_options){0});
    node = add_with(&f, "dense", node, &qkv);
    node = add_with(&f, "attention", node, &(ls_layer_options){.units = SLICES});
    node = add_with(&f, "dense", node, &out);
    add_tied_end(&f, add_with(&f, "layer_norm", node, &(ls_layer_options){0}), embedding);
    must(ls_graph_split_check(f.graph, SLICES, "--micro-splits"));
    must(ls_graph_split(f.graph, SLICES, sequence, NULL, &split));
    ls_graph *whole = f.graph;
    assert_int_equal(split.graph->variables.elements, whole->variables.elements);
    assert_string_equal(split.graph->variables.items[2].name, "wte[2].weight");
    assert_int_equal(split.whole[2], 4 * C); /* tokens 4 to 6 */
    f.graph = split.graph;
    check_tokens(&f);
    f.graph = whole;
    close_all(&f);
    ls_graph_part_close(&split);
}

static void in_slices(void **state)
{
    (void)state;
    check_slices(false);
}

static void in_blocks(void **state)
{
    (void)state;
    check_slices(true);
}

/* A position does not depend on later ones. */
static void attention_is_causal(void **state)
{
    fixture f;
    double before[2 * V];
    (void)state;
    open_device(&f);
    const int embedding = add_embedding(&f, add_tokens(&f));
    const ls_layer_options qkv = {.units = 3 * C, .last_axis = true, .deviation = 0.02};
    int node = add_with(&f, "dense", embedding, &qkv);
    add_tied_end(&f, add_with(&f, "attention", node, &(ls_layer_options){.units = 1}), embedding);
    open_net(&f, ROWS);
    double *x = ls_net_input(f.net, 0);
    for (int i = 0; i < ROWS * T; i++)
        x[i] = i % V;
    const double *y = ls_net_output(f.net);
    for (int turn = 0; turn < 2; turn++) {
        must(ls_net_predict(f.net, f.queue));
        must(ls_queue_sync(f.queue));
        if (turn)
            assert_memory_equal(before, y, sizeof before); /* positions 0 and 1 */
        else
            memcpy(before, y, sizeof before);
        x[2] = V - 1 - x[2];
    }
    close_all(&f);
}

static void refused_layers(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const int tokens = add_tokens(&f), embedding = add_embedding(&f, tokens);
    refused(&f, "embedding", (int[]){embedding, -1}, -1,
            &(ls_layer_options){.units = 2, .tokens = 3}, "sequence of tokens");
    refused(&f, "embedding", (int[]){tokens, -1}, -1, &(ls_layer_options){.units = 2}, "1 or more");
    refused(&f, "positions", (int[]){tokens, -1}, -1, NULL, "sequence of vectors");
    refused(&f, "layer_norm", (int[]){tokens, -1}, -1, NULL, "sequence of vectors");
    refused(&f, "attention", (int[]){tokens, -1}, -1, &(ls_layer_options){.units = 1}, "queries");
    refused(&f, "attention", (int[]){embedding, -1}, -1, &(ls_layer_options){.units = 4},
            "4 heads do not evenly divide 2, the width of the queries, keys and values;");
    refused(&f, "dense", (int[]){tokens, -1}, -1,
            &(ls_layer_options){.units = 2, .last_axis = true}, "needs a sequence of vectors");
    refused(&f, "dense", (int[]){embedding, -1}, embedding,
            &(ls_layer_options){.units = V + 1, .no_bias = true, .last_axis = true}, "do not fit");
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_tied),      cmocka_unit_test(layer_norm_and_gelu),
        cmocka_unit_test(dropout_of_half),     cmocka_unit_test(attention_of_two_heads),
        cmocka_unit_test(in_slices),           cmocka_unit_test(in_blocks),
        cmocka_unit_test(attention_is_causal), cmocka_unit_test(residual_branch),
        cmocka_unit_test(refused_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
