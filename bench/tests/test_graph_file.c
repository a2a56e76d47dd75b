/* SPDX-License-Identifier: MIT */
/*
 * Models from files: those that list a registered model's layers are the same graphs, with the same
 * variables; what is wrong is refused with line and column. That they train to the same bits is
 * test_rows.sh, and test_graph_file_slow.sh.
 */
#include "bench/case/graph_file.h"
#include "bench/case/profile.h"
#include "common/nn/layers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ls_status open_text(const char *text, ls_model **out)
{
    FILE *file = fopen("own.yaml", "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    ls_status status = ls_graph_file_open("graph:own.yaml", out);
    remove("own.yaml");
    return status;
}

static void must(ls_status status)
{
    if (status)
        fail_msg("%s", ls_status_text(status));
}

/* ---- The same as registered models ---------------------------------------------------------- */

static void assert_same_node(const ls_node *a, const ls_node *b)
{
    ls_layer_options x = a->options, y = b->options;
    x.input = y.input = 0; /* of the second input: its number, below */
    x.weight_decay = y.weight_decay = x.deviation = y.deviation = 0; /* of its variables */
    assert_ptr_equal(a->layer, b->layer);
    assert_int_equal(a->options.input, b->options.input);
    assert_memory_equal(&a->shape, &b->shape, sizeof a->shape);
    assert_int_equal(a->input_count, b->input_count);
    const bool turned = a->layer == &ls_layer_add && a->inputs[0] == b->inputs[1];
    for (int i = 0; i < a->input_count; i++) /* a sum is the same in either order */
        assert_int_equal(a->inputs[turned ? 1 - i : i], b->inputs[i]);
    assert_int_equal(a->shares, b->shares);
    assert_int_equal(x.units, y.units);
    assert_int_equal(x.no_bias, y.no_bias);
    assert_int_equal(x.window.stride, y.window.stride);
    assert_int_equal(x.window.same, y.window.same);
    assert_int_equal(x.centred, y.centred);
    assert_int_equal(x.global_max, y.global_max);
    assert_int_equal(x.all_states, y.all_states);
    assert_int_equal(x.last_axis, y.last_axis);
    assert_int_equal(x.input_major, y.input_major);
    assert_int_equal(x.radius, y.radius);
    assert_true(x.alpha == y.alpha);
}

static void assert_same_variable(const ls_variable *a, const ls_variable *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->shape, b->shape, sizeof a->shape);
    assert_int_equal(a->initializer, b->initializer);
    assert_int_equal(a->fan_in, b->fan_in);
    assert_int_equal(a->fan_out, b->fan_out);
    assert_true(a->deviation == b->deviation && a->decay == b->decay && a->keep == b->keep);
}

static void assert_same(const ls_model *own, const char *registered)
{
    ls_model *model;
    must(ls_model_open(registered, &model));
    const ls_graph *a = own->graph, *b = model->graph;
    assert_int_equal(a->count, b->count);
    for (int n = 0; n < a->count; n++)
        assert_same_node(&a->nodes[n], &b->nodes[n]);
    assert_int_equal(a->variables.count, b->variables.count);
    for (size_t i = 0; i < a->variables.count; i++)
        assert_same_variable(&a->variables.items[i], &b->variables.items[i]);
    assert_int_equal(own->need.classes, model->need.classes);
    assert_int_equal(own->need.targets, model->need.targets);
    assert_int_equal(own->need.inputs, model->need.inputs);
    assert_string_equal(own->need.synthetic, model->need.synthetic);
    assert_string_equal(own->family->default_data, model->family->default_data);
    assert_string_equal(own->family->default_optimizer, model->family->default_optimizer);
    assert_true(own->family->default_rate == model->family->default_rate);
    assert_int_equal(own->family->default_batch, model->family->default_batch);
    assert_int_equal(own->family->convolves, model->family->convolves);
    ls_model_close(model);
}

static void test_shipped(void **state)
{
    static const char *const pairs[][2] = {
        {"mlp", "mlp:784-128-10"}, {"cnn", "cnn"}, {"gpt", "gpt:1-2-32-64-256"}};
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[512];
        ls_model *model;
        snprintf(text, sizeof text, "graph:" LS_SOURCE_DIR "/datasets/models/%s.yaml", pairs[i][0]);
        must(ls_case_model_open(text, NULL, 0, &model));
        assert_same(model, pairs[i][1]);
        assert_non_null(strstr(ls_graph_file_text(model), "layers:"));
        assert_true(ls_graph_file_digest(model));
        ls_model_close(model);
    }
}

static void test_listed(void **state)
{
    static const char twin[] = "{data: text, optimizer: rmsprop, batch: 64, input: [[140, 256], "
                               "[140, 256]], layers: [lstm: {units: 64, from: input0}, lstm: "
                               "{units: 64, from: input1, shares: lstm0}, concat: {from: lstm0/a, "
                               "with: lstm0/b}, dense: 1, logistic_loss]}";
    static const char stack[] = "{data: text, optimizer: rmsprop, batch: 64, input: [140, 256], "
                                "layers: [lstm: {units: 64, states: all}, lstm: 64, dense: 1, "
                                "logistic_loss]}";
    static const char cifar[] =
        "{data: cifar10, optimizer: sgd, lr: 0.1, batch: 128, input: [3, 24, 24], layers: "
        "[channels_last, conv: {units: 64, window: 5, stride: 1, pad: same}, relu, max_pool: "
        "{window: [3, 3], stride: 2, pad: same}, lrn: {radius: 4, alpha: 0.00011111111111111112}, "
        "conv: {units: 64, window: 5, stride: 1, pad: same}, relu, lrn: {radius: 4, alpha: "
        "0.00011111111111111112}, max_pool: {window: 3, stride: 2, pad: same}, channels_first, "
        "dense: {units: 384, decay: 0.004}, relu, dense: {units: 192, decay: 0.004}, relu, dense: "
        "10, softmax_cross_entropy]}";
    static const char poly[] = "{data: synthetic, lr: 0.1, batch: 100, input: [1], layers: "
                               "[polynomial, dense: {units: 1, bias: no}, squared_error]}";
    static const char resnet[] =
        "{data: cifar10, optimizer: momentum:0.9, lr: 0.1, batch: 128, input: [3, 32, 32], layers: "
        "[channels_last, conv: {units: 16, window: 3, stride: 1, pad: centred, bias: no, decay: "
        "1e-4}, bn, relu, conv: {units: 16, window: 3, stride: 1, pad: centred, bias: no, decay: "
        "1e-4}, bn, relu, conv: {units: 16, window: 3, stride: 1, pad: centred, bias: no, decay: "
        "1e-4}, bn: {with: relu0}, relu, conv: {units: 32, window: 3, stride: 2, pad: centred, "
        "bias: no, decay: 1e-4}, bn, relu, shortcut: {channels: 32, stride: 2, from: relu2}, conv: "
        "{units: 32, window: 3, stride: 1, pad: centred, bias: no, decay: 1e-4, from: relu3}, bn: "
        "{with: shortcut0}, relu, conv: {units: 64, window: 3, stride: 2, pad: centred, bias: no, "
        "decay: 1e-4}, bn, relu, shortcut: {channels: 64, stride: 2, from: relu4}, conv: {units: "
        "64, window: 3, stride: 1, pad: centred, bias: no, decay: 1e-4, from: relu5}, bn: {with: "
        "shortcut1}, relu, global_mean_pool, dense: {units: 10, decay: 1e-4}, "
        "softmax_cross_entropy]}";
    static const char *const pairs[][2] = {{resnet, "resnet:8"},
                                           {twin, "twin-lstm:64"},
                                           {stack, "lstm-stack:2"},
                                           {cifar, "cifar10"},
                                           {poly, "poly"}};
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        ls_model *model;
        must(open_text(pairs[i][0], &model));
        assert_same(model, pairs[i][1]);
        ls_model_close(model);
    }
}

/* Layers that share are named after the one that has the variables, which its plain name finds. */
static void test_shared_names(void **state)
{
    static const char text[] =
        "{data: text, input: [8], layers: [embedding: {units: 12, tokens: 20, name: e}, dense: "
        "{units: 12, each_position: yes}, dense: {units: 12, each_position: yes, shares: dense0}, "
        "dense: {units: 12, each_position: yes, shares: dense0}, add: dense0, dense: {units: 20, "
        "each_position: yes, shares: e, bias: no}, softmax_cross_entropy]}";
    static const char *const names[] = {"input0",   "e",    "dense0/a", "dense0/b",
                                        "dense0/c", "add0", "e/b",      "softmax_cross_entropy0"};
    ls_model *model;
    char name[LS_NODE_NAME];
    (void)state;
    must(open_text(text, &model));
    assert_int_equal(model->graph->count, sizeof names / sizeof *names);
    for (int n = 0; n < model->graph->count; n++)
        assert_string_equal(ls_graph_node_name(model->graph, n, name), names[n]);
    assert_int_equal(model->graph->nodes[5].inputs[1], 2);
    ls_model_close(model);
}

static void test_residual(void **state)
{
    ls_model *model;
    char name[LS_NODE_NAME];
    (void)state;
    must(ls_graph_file_open("graph:" LS_SOURCE_DIR "/datasets/models/residual.yaml", &model));
    const ls_graph *graph = model->graph;
    for (int n = 0; n < graph->count; n++)
        if (strcmp(ls_graph_node_name(graph, n, name), "add1") == 0) {
            assert_string_equal(ls_graph_node_name(graph, graph->nodes[n].inputs[1], name),
                                "block1");
            ls_model_close(model);
            return;
        }
    fail_msg("there is no add1");
}

/* 2^60 ways lead from the last node to the input. */
static void test_many_ways(void **state)
{
    char *text = NULL;
    size_t size;
    ls_model *model;
    (void)state;
    FILE *stream = open_memstream(&text, &size);
    fprintf(stream, "{data: synthetic, input: [4], layers: [relu");
    for (int i = 0; i < 60; i++)
        fprintf(stream, ", relu, add: %s%d", i ? "add" : "relu", i ? i - 1 : 0);
    fprintf(stream, ", dense: 3, softmax_cross_entropy]}");
    fclose(stream);
    must(open_text(text, &model));
    assert_true(ls_graph_flops(model->graph) > 0);
    ls_model_close(model);
    free(text);
}

/* ---- Refusals ------------------------------------------------------------------------------- */

/* The text below is refused at the position, with the words. */
static void refused(const char *text, const char *at, const char *word)
{
    ls_model *model;
    char where[64];
    ls_status status = open_text(text, &model);
    if (!status)
        fail_msg("not refused: %s", text);
    const bool whole = at[strlen(at) - 1] != ':'; /* the column, too */
    snprintf(where, sizeof where, "graph: own.yaml:%s%s", at, whole ? ": " : "");
    const char *said = ls_status_text(status);
    if (ls_status_code(status) != LS_CODE_USAGE || strncmp(said, where, strlen(where)) != 0 ||
        !strstr(said, word) || !strchr(said, ';'))
        fail_msg("wanted %s%s\nsaid   %s", where, word, said);
    ls_status_free(status);
}

/* The same of a list of layers in lines of their own from line 4 on. */
static void layers_refused(const char *layers, const char *at, const char *word)
{
    char text[2048];
    snprintf(text, sizeof text, "data: synthetic\ninput: [8, 8, 2]\nlayers:\n%s", layers);
    refused(text, at, word);
}

static void test_file_refused(void **state)
{
    (void)state;
    refused("", "1:1", "is empty");
    refused("# nothing\n", "1:1", "is empty");
    refused("- relu\n", "1:1", "is not a mapping");
    refused("data: synthetic\nlayers: [relu, }\n", "2:16", "is not valid YAML");
    refused("data: synthetic\ndata: text\n", "2:1", "is not valid YAML");
    refused("data: synthetic\nlayer: [relu]\n", "2:1",
            "'layer' is not a valid key here; valid keys are data");
    refused("data: synthetic\n%YAML 1.2\n", "2:1", "this line begins with %");
    refused("%\xed: \xed\xf1", "1:1", "this line begins with %"); /* an endless loop */
    refused("? add : ? x", "1:1", "this key begins with ?");      /* a crash */
    refused("# why ? is taken\ndata: \x01", "2:7", "there is a control character here");
    refused("input: [3]\n", "1:1", "`data:` is missing; name a data set here");
    refused("# one\n---\ndata: synthetic\n...\n# two\n---\ndata: text\n", "6:1",
            "a second YAML document");
    refused("data: synthetic\n--- {}\n", "2:1", "a second YAML document");
    refused("data: synthetic\n...\ninput: [3]\n", "3:1", "a second YAML document");
    refused("data: synthetic\r---\rinput: [3]\r", "2:1", "a second YAML document");
    refused("data: synthetic\n# 5 \xb5s\nlr: 0.1\n", "2:5",
            "there is a byte here that is not UTF-8");
    refused("data: synthetic\n# \xc2\xb5\xe2\x82\xac\rlr: \xb5\n", "3:5", "is not UTF-8");
    refused("\xff\xfe"
            "d\0a\0",
            "1:1", "is not UTF-8");
    refused("\xef\xbb\xbf# one\n---\ndata: nowhere\n...\n", "3:7", "'nowhere' is not a data set");
    refused("data: nowhere\n", "1:7", "'nowhere' is not a data set; valid are: fashion-mnist");
    refused("data: *x\n", "1:", "");
    refused("data: synthetic\noptimizer: adamm\n", "2:12", "adamm");
    refused("data: synthetic\nlr: fast\n", "2:5", "lr: 'fast' is not a learning rate");
    refused("data: synthetic\nbatch: 0\n", "2:8", "batch: '0' is not a batch size");
    refused("data: synthetic\nlayers: [relu]\n", "1:7", "`input:` is missing");
    refused("data: synthetic\ninput: [0]\n", "2:9", "input: '0' is not valid; use a whole number");
    refused("data: synthetic\ninput: []\n", "2:1", "the list of sizes is empty");
    refused("data: synthetic\ninput: [1, 1, 1, 1, 1]\n", "2:21", "more than 4 sizes");
    refused("data: synthetic\ninput: [[1], [1], [1]]\n", "2:20", "more than 2 inputs");
    refused("data: synthetic\ninput: [1048576, 1048576]\n", "2:18", "is too large");
    refused("data: synthetic\ninput: [3]\n", "2:9", "`layers:` is missing");
    refused("data: synthetic\ninput: [3]\nlayers: relu\n", "3:1", "`layers:` is not a list");
}

static void test_layers_refused(void **state)
{
    (void)state;
    layers_refused("  - dense: 4\n  - rleu\n", "5:5", "'rleu' is not a layer; valid are: dense");
    layers_refused("  - input\n", "4:5", "is not a layer");
    layers_refused("  - [relu]\n", "4:6", "a layer is written as `- relu`");
    layers_refused("  - {dense: 4, name: a}\n", "4:6", "a layer is written as `- relu`");
    layers_refused("  - dense: {units: 4, unit: 3}\n", "4:23",
                   "'unit' is not a valid key here; valid keys are units, bias");
    layers_refused("  - dense: {units: 4, with: input0}\n", "4:23",
                   "'with' is not a valid key here");
    layers_refused("  - dense: four\n", "4:12", "units: 'four' is not valid; use a whole number");
    layers_refused("  - dense: {units: 4, bias: 1}\n", "4:29",
                   "bias: '1' is not valid; use yes or no");
    layers_refused("  - dense\n", "4:5",
                   "this layer needs at least one unit (input0 has shape [8,8,2]); give "
                   "`units:` of 1 or more");
    layers_refused("  - relu: 3\n", "4:11", "relu takes no options");
    layers_refused("  - conv: {units: 4, window: [3, 3, 3]}\n", "4:37", "[height, width]");
    layers_refused("  - conv: {units: 4, window: 3, pad: zero}\n", "4:38",
                   "`pad: same` or `pad: centred`");
    layers_refused("  - conv: {units: 4, window: 9}\n", "4:5",
                   "larger than the layer's input of 8 x 8");
    layers_refused("  - dense: {units: 4, name: a b}\n", "4:29", "'a b' is not a valid name");
    layers_refused("  - dense: {units: 4, name: a}\n  - dense: {units: 4, name: a}\n", "5:5",
                   "two layers are called 'a', this one and one in line 4");
    layers_refused("  - dense: {units: 4, name: dense0}\n  - relu\n  - dense: {units: 4, name: "
                   "dense0}\n",
                   "6:5", "two layers are called 'dense0'");
    layers_refused("  - embedding: {units: 4, tokens: 4, from: relu0}\n",
                   "4:", "nothing above this layer is called 'relu0'; the layers above are input0");
    layers_refused("  - relu\n  - embedding: {units: 4, tokens: 4}\n", "5:5",
                   "this one takes the layer relu0");
}

static void test_links_refused(void **state)
{
    (void)state;
    layers_refused("  - relu: {from: later}\n  - relu: {name: later}\n", "4:18",
                   "'later' is not above this layer");
    layers_refused("  - relu: {from: self, name: self}\n", "4:", "'self' is not above this layer");
    layers_refused("  - conv: {units: 4, window: 3}\n  - bn\n", "5:5",
                   "the bias of the layer conv0");
    layers_refused("  - relu\n  - add\n", "5:5",
                   "add takes two layers, but only one is given; `- add: NAME`");
    layers_refused("  - relu\n  - add: relu0\n", "5:", "add takes the layer relu0 twice");
    layers_refused("  - conv: {units: 4, window: 3}\n  - add: input0\n", "5:5",
                   "the two inputs of this layer must have the same shape (conv0 has "
                   "shape [6,6,4], input0 has shape [8,8,2]); change either input");
    layers_refused("  - dense: {units: 4, shares: relu0}\n", "4:", "called 'relu0'");
    layers_refused("  - relu\n  - dense: {units: 4, shares: relu0}\n", "5:5",
                   "this layer can share variables only with a layer of the same kind");
    layers_refused("  - relu\n  - add: [input0, relu0]\n",
                   "5:", "to name both layers, write `- add: {from");
    layers_refused("  - dense: 4\n", "4:", "the last layer, dense0, is not a loss");
    layers_refused("  - relu\n  - dense: {units: 4, from: input0}\n  - softmax_cross_entropy\n",
                   "4:5", "the output of relu0 is not used by any layer");
    layers_refused("  - dense: 4\n  - softmax_cross_entropy\n  - relu\n", "6:5",
                   "this layer comes after the loss, softmax_cross_entropy0");
    layers_refused("  - softmax_cross_entropy\n", "4:", "nothing to train");
    layers_refused("  - conv: {units: 4, window: 3}\n  - softmax_cross_entropy\n",
                   "5:", "must have one score per class");
    layers_refused("  - dense: 2\n  - squared_error\n",
                   "5:", "squared_error takes one value per sample");
    layers_refused("  - dense: 2\n  - logistic_loss\n", "5:5",
                   "the logit (dense0 has shape [2]); put `dense: 1` before the loss");
}

static void test_tokens_refused(void **state)
{
    (void)state;
    refused(
        "{data: text, input: [8], layers: [embedding: {units: 4, tokens: 9}, dense: {units: 10, "
        "each_position: yes}, softmax_cross_entropy]}",
        "1:", "with an embedding, the only input");
    refused("{data: text, input: [8], layers: [embedding: {units: 4, tokens: 9}, dense: 9, "
            "softmax_cross_entropy]}",
            "1:", "with an embedding, the only input");
}

static void test_files_refused(void **state)
{
    ls_model *model;
    (void)state;
    ls_status status = ls_graph_file_open("graph:no/such.yaml", &model);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    assert_non_null(strstr(ls_status_text(status), "no/such.yaml: cannot be read: No such file"));
    ls_status_free(status);
    for (int i = 0; i < 2; i++) {
        status = ls_graph_file_open(i ? "graph:" : "graph", &model);
        assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
        assert_non_null(
            strstr(ls_status_text(status), "graph: no file is named; use --model graph:FILE.yaml"));
        ls_status_free(status);
    }
    status = ls_graph_file_open("graph:/", &model);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    ls_status_free(status);
    status = ls_graph_file_open("graph:/dev/zero", &model);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    ls_status_free(status);
    status = ls_model_open("graph:own.yaml", &model);
    assert_non_null(strstr(ls_status_text(status), "own.yaml: a program that uses the library"));
    ls_status_free(status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped),        cmocka_unit_test(test_listed),
        cmocka_unit_test(test_shared_names),   cmocka_unit_test(test_residual),
        cmocka_unit_test(test_many_ways),      cmocka_unit_test(test_file_refused),
        cmocka_unit_test(test_layers_refused), cmocka_unit_test(test_links_refused),
        cmocka_unit_test(test_tokens_refused), cmocka_unit_test(test_files_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
