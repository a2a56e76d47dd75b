/* SPDX-License-Identifier: MIT */
/* Layers of images and sequences: gradients against central differences in double precision
 * (tolerance in net_fixture.h), what they keep, what they refuse. */
#include "common/nn/layers/layer_window.h"
#include "common/nn/net_nodes.h"
#include "common/nn/tests/net_fixture.h"

static int add_image(fixture *f, int64_t height, int64_t width, int64_t channels)
{
    const ls_layer_options options = {.shape = {.rank = 3, .size = {height, width, channels}}};
    int node;
    must(ls_graph_add(f->graph, "input", NULL, -1, &options, &node));
    return node;
}

static void conv_global_max(void **state)
{
    (void)state;
    for (int same = 0; same < 2; same++) {
        fixture f;
        open_device(&f);
        const ls_layer_options conv = {
            .units = 4, .window = {3, 2, same ? 2 : 1, same}, .global_max = true};
        int image = add_image(&f, 6, 5, 2);
        int hidden = add(&f, "relu", add_with(&f, "conv", image, &conv), -1, 0);
        add(&f, "softmax_cross_entropy", add(&f, "dense", hidden, -1, 3), -1, 0);
        assert_string_equal(f.graph->variables.items[0].name, "conv0.weight");
        assert_int_equal(f.graph->variables.items[0].count, 4 * 2 * 3 * 2);
        check_classes(&f, 6 * 5 * 2, 3);
        check_memory(&f);
        close_all(&f);
    }
}

/* The tutorial's layers, smaller: strides, SAME and VALID padding, pools before and after LRN, both
 * orders of axes, a ReLU's mask in pool and LRN. */
static void image_layers(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        fixture f;
        open_device(&f);
        const bool same = way & 1;
        const ls_layer_options conv = {.units = 4, .window = {3, 2, same ? 1 : 2, same}};
        const ls_layer_options pool = {.window = {3, 2, 2, same}};
        const ls_layer_options lrn = {.radius = 2, .alpha = 0.7};
        int node =
            add_with(&f, "conv", add(&f, "channels_last", add_image(&f, 2, 9, 8), -1, 0), &conv);
        node = add(&f, "relu", node, -1, 0);
        if (way & 2)
            node = add_with(&f, "lrn", add_with(&f, "max_pool", node, &pool), &lrn);
        else
            node = add_with(&f, "max_pool", add_with(&f, "lrn", node, &lrn), &pool);
        const ls_layer_options second = {.units = 3, .window = {2, 2, 1, true}, .no_bias = true};
        node = add(&f, "channels_first", add_with(&f, "conv", node, &second), -1, 0);
        add(&f, "softmax_cross_entropy", add(&f, "dense", node, -1, 3), -1, 0);
        assert_string_equal(f.graph->variables.items[2].name, "conv1.weight");
        check_classes(&f, 2 * 9 * 8, 3);
        check_memory(&f);
        close_all(&f);
    }
}

/* A pool over the whole image after a convolution equals the convolution with global_max. */
static void global_pools_agree(void **state)
{
    (void)state;
    double gradients[2][64], loss[2];
    for (int fused = 0; fused < 2; fused++) {
        fixture f;
        open_device(&f);
        const ls_layer_options conv = {.units = 4, .window = {3, 3, 1, false}, .global_max = fused};
        int node = add(&f, "relu", add_with(&f, "conv", add_image(&f, 6, 5, 1), &conv), -1, 0);
        if (!fused)
            node = add(&f, "global_max_pool", node, -1, 0);
        assert_int_equal(f.graph->nodes[node].shape.size[0], 4);
        add(&f, "softmax_cross_entropy", add(&f, "dense", node, -1, 3), -1, 0);
        check_classes(&f, 30, 3);
        check_memory(&f);
        must(ls_net_forward(f.net, f.queue));
        must(ls_net_backward(f.net, f.queue));
        must(ls_queue_sync(f.queue));
        assert_true(f.graph->variables.elements <= 64);
        memcpy(gradients[fused], f.gradients, f.graph->variables.elements * sizeof(double));
        loss[fused] = *f.loss;
        close_all(&f);
    }
    assert_true(fabs(loss[0] - loss[1]) < 1e-15);
    for (int i = 0; i < 4 * 9 + 4 + 12 + 3; i++)
        assert_true(fabs(gradients[0][i] - gradients[1][i]) < 1e-15);
}

/* Positions and padding as in tf.nn's documentation of padding: before and after, an odd one
 * after. */
static void windows_lie_as_tensorflows(void **state)
{
    /* in, window, stride, positions of SAME, padding before, positions of VALID */
    static const int64_t cases[][6] = {{24, 3, 2, 12, 0, 11}, {24, 5, 1, 24, 2, 20},
                                       {6, 4, 1, 6, 1, 3},    {5, 2, 2, 3, 0, 2},
                                       {13, 6, 5, 3, 1, 2},   {28, 3, 1, 28, 1, 26}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t *c = cases[i];
        const ls_shape image = {.rank = 3, .size = {c[0], c[0], 1}};
        ls_window w;
        must(ls_layer_windows("conv", &image, &(ls_layer_window){c[1], c[1], c[2], true}, &w));
        assert_int_equal(w.out_height, c[3]);
        assert_int_equal(w.out_width, c[3]);
        assert_int_equal(w.top, c[4]);
        assert_int_equal(w.left, c[4]);
        must(ls_layer_windows("conv", &image, &(ls_layer_window){c[1], c[1], c[2], false}, &w));
        assert_int_equal(w.out_height, c[5]);
        assert_int_equal(w.left, 0);
    }
}

static int add_sequence(fixture *f, int number, int64_t steps, int64_t inputs)
{
    const ls_layer_options options = {.input = number,
                                      .shape = {.rank = 2, .size = {steps, inputs}}};
    int node;
    must(ls_graph_add(f->graph, "input", NULL, -1, &options, &node));
    return node;
}

/* All states feed a second LSTM, so that gradients reach inputs and every state. */
static void lstm_stack(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const ls_layer_options all = {.units = 4, .all_states = true}, last = {.units = 3};
    int node = add_with(&f, "lstm", add_sequence(&f, 0, 6, 5), &all);
    node = add_with(&f, "lstm", node, &last);
    assert_string_equal(f.graph->variables.items[4].name, "lstm1.weight_hh");
    add(&f, "logistic_loss", add(&f, "dense", node, -1, 1), -1, 0);
    check_classes(&f, 30, 2);
    check_memory(&f);
    close_all(&f);
}

/* Two inputs through one shared LSTM: the variables' gradient is the sum of both uses. */
static void lstm_twins(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const ls_layer_options lstm = {.units = 4};
    int x0 = add_sequence(&f, 0, 5, 3), x1 = add_sequence(&f, 1, 5, 3), second, both;
    int first = add_with(&f, "lstm", x0, &lstm);
    must(ls_graph_add(f.graph, "lstm", (int[]){x1, -1}, first, &lstm, &second));
    must(ls_graph_add(f.graph, "concat", (int[]){first, second, -1}, -1, NULL, &both));
    assert_int_equal(f.graph->nodes[both].shape.size[0], 8);
    add(&f, "logistic_loss", add(&f, "dense", both, -1, 1), -1, 0);
    assert_int_equal(f.graph->variables.count, 5);
    open_net(&f, ROWS);
    fill_inputs(&f, 15);
    double *x = ls_net_input(f.net, 1);
    for (int i = 0; i < ROWS * 15; i++)
        x[i] = sin(i);
    fill_labels(&f, 2);
    check_gradients(&f);
    check_memory(&f);
    close_all(&f);
}

/* A net in another net's memory, including kept memory, computes what one with its own does. */
static void borrowed_memory(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    int node = add_with(&f, "lstm", add_sequence(&f, 0, 4, 3), &(ls_layer_options){.units = 2});
    add(&f, "logistic_loss", add(&f, "dense", node, -1, 1), -1, 0);
    open_net(&f, ROWS);
    ls_net *whole = f.net;
    open_net_in(&f, 2, whole);
    assert_int_equal(ls_net_rows(f.net), 2);
    check_memory(&f);
    double *x = ls_net_input(f.net, 0);
    for (int i = 0; i < 2 * 12; i++)
        x[i] = sin(i);
    fill_labels(&f, 2);
    check_gradients(&f);
    ls_net_close(f.net);
    f.net = whole;
    close_all(&f);
}

/* What a layer keeps is listed among what backward reads of forward. */
static void kept_is_listed(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const ls_layer_options conv = {.units = 4, .window = {3, 3, 1, false}, .global_max = true};
    int hidden = add(&f, "relu", add_with(&f, "conv", add_image(&f, 4, 4, 1), &conv), -1, 0);
    add(&f, "softmax_cross_entropy", add(&f, "dense", hidden, -1, 3), -1, 0);
    open_net(&f, ROWS);
    void *memory;
    size_t bytes, count = 0, places = 0;
    for (; ls_net_kept(f.net, count, &memory, &bytes); count++)
        places += bytes == ROWS * 4 * sizeof(int32_t);
    assert_int_equal(count, 4); /* image, hidden, places, gradient of the logits */
    assert_int_equal(places, 1);
    close_all(&f);
}

/* The input of a layer without variables, whose backward pass there is none of, is not read again.
 */
static void what_nothing_reads_is_not_listed(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const int squares = add(&f, "polynomial", add_input(&f, 1), -1, 0);
    add(&f, "squared_error", add(&f, "dense", squares, -1, 1), -1, 0);
    open_net(&f, ROWS);
    void *memory;
    size_t bytes;
    assert_true(ls_net_kept(f.net, 0, &memory, &bytes));
    assert_ptr_equal(memory, ls_net_node_output(f.net, squares));
    assert_true(ls_net_kept(f.net, 1, &memory, &bytes)); /* the loss's gradient */
    assert_false(ls_net_kept(f.net, 2, &memory, &bytes));
    close_all(&f);
}

static void refused_layers(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    int image = add_image(&f, 4, 4, 1), flat = add_input(&f, 4);
    refused(&f, "conv", (int[]){image, -1}, -1, &(ls_layer_options){.units = 2}, "needs a window");
    refused(&f, "conv", (int[]){image, -1}, -1, &(ls_layer_options){.window = {3, 3, 1, false}},
            "one unit");
    refused(&f, "conv", (int[]){flat, -1}, -1,
            &(ls_layer_options){.units = 2, .window = {3, 3, 1, false}}, "needs an image");
    refused(&f, "conv", (int[]){image, -1}, -1,
            &(ls_layer_options){.units = 2, .window = {5, 3, 1, false}},
            "larger than the layer's input");
    refused(&f, "lrn", (int[]){flat, -1}, -1, &(ls_layer_options){.radius = 4, .alpha = 1},
            "needs an image");
    refused(&f, "lrn", (int[]){image, -1}, -1, &(ls_layer_options){.alpha = 1}, "radius");
    refused(&f, "max_pool", (int[]){image, -1}, -1, &(ls_layer_options){.window = {5, 5, 1, false}},
            "larger");
    refused(&f, "global_max_pool", (int[]){flat, -1}, -1, NULL, "needs an image");
    refused(&f, "channels_first", (int[]){flat, -1}, -1, NULL, "needs an image");
    refused(&f, "lstm", (int[]){flat, -1}, -1, &(ls_layer_options){.units = 2},
            "needs a sequence of vectors, [steps, values]");
    refused(&f, "lstm", (int[]){add_sequence(&f, 0, 3, 4), -1}, -1, &(ls_layer_options){0},
            "units");
    refused(&f, "logistic_loss", (int[]){flat, -1}, -1, NULL,
            "the input of this loss must be one value per sample");
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_global_max),
        cmocka_unit_test(image_layers),
        cmocka_unit_test(global_pools_agree),
        cmocka_unit_test(windows_lie_as_tensorflows),
        cmocka_unit_test(lstm_stack),
        cmocka_unit_test(lstm_twins),
        cmocka_unit_test(borrowed_memory),
        cmocka_unit_test(kept_is_listed),
        cmocka_unit_test(what_nothing_reads_is_not_listed),
        cmocka_unit_test(refused_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
