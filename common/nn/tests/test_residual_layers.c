/* SPDX-License-Identifier: MIT */
/* Layers of residual networks: gradients against central differences in double precision (tolerance
 * in net_fixture.h), moving statistics, evaluation, what they refuse. */
#include "common/nn/model.h"
#include "common/nn/net_nodes.h"
#include "common/nn/tests/net_fixture.h"

enum { SIDE = 5, CHANNELS = 2, IMAGE = SIDE * SIDE * CHANNELS };

static int add_image(fixture *f)
{
    const ls_layer_options options = {.shape = {.rank = 3, .size = {SIDE, SIDE, CHANNELS}}};
    int node;
    must(ls_graph_add(f->graph, "input", NULL, -1, &options, &node));
    return node;
}

static int add_bn(fixture *f, int input, int shortcut)
{
    int node;
    must(ls_graph_add(f->graph, "bn", (int[]){input, shortcut, -1}, -1, NULL, &node));
    return node;
}

/* way 1: a ReLU after the first bn; 2: one after the second; 4: with a shortcut and a stride. */
static void build_block(fixture *f, int way)
{
    const int64_t stride = way & 4 ? 2 : 1;
    const ls_layer_options first = {
        .units = 4, .no_bias = true, .window = {3, 3, 1, true}, .centred = true};
    const ls_layer_options second = {
        .units = 6, .no_bias = true, .window = {3, 3, stride, true}, .centred = true};
    int node = add_bn(f, add_with(f, "conv", add_image(f), &first), -1);
    if (way & 1)
        node = add(f, "relu", node, -1, 0);
    const ls_layer_options options = {.units = 6, .window = {.stride = stride}};
    int shortcut = way & 4 ? add_with(f, "shortcut", node, &options) : -1;
    node = add_bn(f, add_with(f, "conv", node, &second), shortcut);
    if (way & 2)
        node = add(f, "relu", node, -1, 0);
    node = add(f, "global_mean_pool", node, -1, 0);
    add(f, "softmax_cross_entropy", add(f, "dense", node, -1, 3), -1, 0);
}

static void blocks(void **state)
{
    (void)state;
    for (int way = 0; way < 8; way++) {
        fixture f;
        open_device(&f);
        build_block(&f, way);
        assert_string_equal(f.graph->variables.items[6].name, "bn1.weight");
        check_classes(&f, IMAGE, 3);
        assert_int_equal(ls_device_ledger(f.device).in_use[LS_MEMORY_ACTIVATIONS],
                         ls_net_activation_bytes(f.graph, sizeof(double), ROWS));
        close_all(&f);
    }
}

/* The shortcut is the block's input, whose gradient has two parts: as in a model. */
static void whole_model(void **state)
{
    (void)state;
    ls_model *model;
    must(ls_model_open("resnet:8", &model));
    const ls_variables *variables = &model->graph->variables;
    size_t convolutions = 0, decaying = 0, statistics = 0;
    for (size_t i = 0; i < variables->count; i++) {
        convolutions += strncmp(variables->items[i].name, "conv", 4) == 0;
        decaying += variables->items[i].decay != 0;
        statistics += variables->items[i].keep != 0;
    }
    assert_int_equal(convolutions, 7);
    assert_int_equal(decaying, 8);
    assert_int_equal(statistics, 14);
    assert_int_equal(variables->items[0].count, 16 * 3 * 3 * 3);
    ls_model_close(model);
    must(ls_model_open("resnet:20", &model));
    /* He et al. report 0.27 M. */
    assert_int_equal(model->graph->variables.elements, 269722 + 2 * (7 * 16 + 6 * 32 + 6 * 64));
    ls_model_close(model);
    ls_status status = ls_model_open("resnet:21", &model);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    ls_status_free(status);
}

/* An identity shortcut: its gradient is dy's plus the block's. */
static void identity_shortcut(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const ls_layer_options conv = {
        .units = 3, .no_bias = true, .window = {3, 3, 1, true}, .centred = true};
    int node = add(&f, "relu", add_bn(&f, add_with(&f, "conv", add_image(&f), &conv), -1), -1, 0);
    for (int block = 0; block < 2; block++) {
        int before = node;
        node = add(&f, "relu", add_bn(&f, add_with(&f, "conv", node, &conv), -1), -1, 0);
        node = add(&f, "relu", add_bn(&f, add_with(&f, "conv", node, &conv), before), -1, 0);
    }
    node = add(&f, "global_mean_pool", node, -1, 0);
    add(&f, "softmax_cross_entropy", add(&f, "dense", node, -1, 3), -1, 0);
    check_classes(&f, IMAGE, 3);
    close_all(&f);
}

/* The place of the moving statistics' gradient holds this part's share of the batch's statistics;
 * evaluation uses the moving ones. */
static void statistics(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    int image = add_image(&f);
    int node = add(&f, "global_mean_pool", add_bn(&f, image, -1), -1, 0);
    add(&f, "squared_error", node, -1, 0);
    open_net(&f, ROWS);
    fill_inputs(&f, IMAGE);
    fill_targets(&f, CHANNELS);
    must(ls_net_forward(f.net, f.queue));
    must(ls_net_backward(f.net, f.queue));
    must(ls_queue_sync(f.queue));
    const double *x = ls_net_input(f.net, 0);
    const double count = ROWS * SIDE * SIDE, share = (double)ROWS / DIVISOR;
    for (int c = 0; c < CHANNELS; c++) {
        double mean = 0, squares = 0;
        for (int p = 0; p < ROWS * SIDE * SIDE; p++)
            mean += x[p * CHANNELS + c] / count;
        for (int p = 0; p < ROWS * SIDE * SIDE; p++)
            squares += pow(x[p * CHANNELS + c] - mean, 2);
        assert_true(fabs(f.gradients[2 * CHANNELS + c] - share * mean) < 1e-12);
        assert_true(fabs(f.gradients[3 * CHANNELS + c] - share * squares / (count - 1)) < 1e-12);
    }
    for (int c = 0; c < CHANNELS; c++) { /* weight, bias, mean, variance */
        f.parameters[c] = 3;
        f.parameters[CHANNELS + c] = 0.5;
        f.parameters[2 * CHANNELS + c] = 0.25;
        f.parameters[3 * CHANNELS + c] = 4;
    }
    must(ls_net_predict(f.net, f.queue));
    must(ls_queue_sync(f.queue));
    double mean = 0;
    for (int p = 0; p < SIDE * SIDE; p++)
        mean += x[p * CHANNELS] / (SIDE * SIDE);
    const double want = 3 * (mean - 0.25) / sqrt(4 + 1e-5) + 0.5;
    assert_true(fabs(((const double *)ls_net_output(f.net))[0] - want) < 1e-12);
    close_all(&f);
}

static void refused_layers(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const ls_layer_options halves = {.units = 4, .window = {.stride = 2}};
    int image = add_image(&f), flat = add_input(&f, 4), bn = add_bn(&f, image, -1);
    int small = add_with(&f, "shortcut", image, &halves);
    refused(&f, "bn", (int[]){flat, -1}, -1, NULL, "needs an image");
    refused(&f, "bn", (int[]){image, small, -1}, -1, NULL, "must have the same shape");
    refused(&f, "bn", (int[]){image, -1}, bn, NULL, "moving statistics");
    refused(&f, "bn", (int[]){image, small, flat, -1}, -1, NULL,
            "number of inputs is 3, but this layer needs at most 2");
    refused(&f, "shortcut", (int[]){flat, -1}, -1, &halves, "needs an image");
    refused(&f, "shortcut", (int[]){small, -1}, -1,
            &(ls_layer_options){.units = 3, .window = {.stride = 1}}, "as many channels");
    refused(&f, "global_mean_pool", (int[]){flat, -1}, -1, NULL, "needs an image");
    refused(&f, "conv", (int[]){image, -1}, -1,
            &(ls_layer_options){.units = 3, .window = {2, 3, 1, true}, .centred = true},
            "a window of odd height");
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks),         cmocka_unit_test(identity_shortcut),
        cmocka_unit_test(statistics),     cmocka_unit_test(whole_model),
        cmocka_unit_test(refused_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
