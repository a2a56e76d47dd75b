/* SPDX-License-Identifier: MIT */
/*
 * Nets: gradients against central differences in double precision, sharing, fan-out, fusing, ranges
 * that become final, memory. Layers of images and sequences: test_layers.c.
 */
#include "common/nn/choices.h"
#include "common/nn/net_nodes.h"
#include "common/nn/repeat.h"
#include "common/nn/tests/net_fixture.h"

static void perceptron(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    int x = add_input(&f, 6);
    int hidden = add(&f, "relu", add(&f, "dense", x, -1, 9), -1, 0);
    int second = add(&f, "relu", add(&f, "dense", hidden, -1, 4), -1, 0);
    add(&f, "softmax_cross_entropy", add(&f, "dense", second, -1, 3), -1, 0);
    check_classes(&f, 6, 3);
    assert_string_equal(f.graph->variables.items[3].name, "dense1.bias");
    close_all(&f);
}

static void polynomial(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    int features = add(&f, "polynomial", add_input(&f, 1), -1, 0);
    const ls_layer_options dense = {.units = 1, .no_bias = true};
    int node;
    must(ls_graph_add(f.graph, "dense", (int[]){features, -1}, -1, &dense, &node));
    add(&f, "squared_error", node, -1, 0);
    open_net(&f, ROWS);
    fill_inputs(&f, 1);
    fill_targets(&f, 1);
    check_gradients(&f);
    close_all(&f);
}

/* One layer used three times in a row: its gradient is the sum of three. */
static void shared_variables(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    int first = add(&f, "dense", add_input(&f, 5), -1, 5);
    int second = add(&f, "dense", add(&f, "relu", first, -1, 0), first, 5);
    int third = add(&f, "dense", second, first, 5);
    add(&f, "squared_error", third, -1, 0);
    assert_int_equal(f.graph->variables.count, 2);
    open_net(&f, ROWS);
    fill_inputs(&f, 5);
    fill_targets(&f, 5);
    check_gradients(&f);
    assert_int_equal(ls_device_ledger(f.device).in_use[LS_MEMORY_WORKSPACE],
                     sizeof(double) + ls_net_shared_bytes(f.graph, sizeof(double)));
    close_all(&f);
}

/* A residual connection: an output used twice, and a ReLU that cannot be fused. */
static void residual(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    int first = add(&f, "dense", add_input(&f, 4), -1, 6);
    int relu = add(&f, "relu", first, -1, 0);
    int second = add(&f, "dense", relu, -1, 6);
    int sum;
    must(ls_graph_add(f.graph, "add", (int[]){second, first, -1}, -1, NULL, &sum));
    add(&f, "squared_error", add(&f, "relu", sum, -1, 0), -1, 0);
    open_net(&f, ROWS);
    fill_inputs(&f, 4);
    fill_targets(&f, 6);
    check_gradients(&f);
    close_all(&f);
}

static void activations_match_formula(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    int hidden = add(&f, "relu", add(&f, "dense", add_input(&f, 6), -1, 9), -1, 0);
    add(&f, "softmax_cross_entropy", add(&f, "dense", hidden, -1, 3), -1, 0);
    open_net(&f, ROWS);
    /* x, hidden and its gradient, logits and theirs, labels */
    size_t expected = ROWS * ((6 + 2 * 9 + 2 * 3) * sizeof(double) + sizeof(int32_t));
    assert_int_equal(ls_net_activation_bytes(f.graph, sizeof(double), ROWS), expected);
    assert_int_equal(ls_device_ledger(f.device).in_use[LS_MEMORY_ACTIVATIONS], expected);
    close_all(&f);
}

/* Of gradients of one size three are in use at a time: the sum's, which its inputs have, too, of a
 * node between them, and what is added to the first. */
static void gradients_pass_their_memory_on(void **state)
{
    fixture f;
    int sum;
    (void)state;
    open_device(&f);
    const int first = add(&f, "dense", add_input(&f, 6), -1, 9);
    const int last = add(&f, "dense", add(&f, "dense", first, -1, 9), -1, 9);
    must(ls_graph_add(f.graph, "add", (int[]){last, first, -1}, -1, NULL, &sum));
    add(&f, "squared_error", add(&f, "dense", sum, -1, 3), -1, 0);
    open_net(&f, ROWS);
    fill_inputs(&f, 6);
    fill_targets(&f, 3);
    check_gradients(&f);
    /* x, four outputs, result and its gradient, target; three gradients */
    const size_t expected = ROWS * (6 + 4 * 9 + 2 * 3 + 3 + 3 * 9) * sizeof(double);
    assert_int_equal(ls_device_ledger(f.device).in_use[LS_MEMORY_ACTIVATIONS], expected);
    assert_int_equal(ls_net_activation_bytes(f.graph, sizeof(double), ROWS), expected);
    close_all(&f);
}

/* Sums whose inputs' gradients must not all be in one memory: another use of an input adds to it
 * before a third node, which has its gradient from a later sum, reads it, or is the third node. */
static void sums_hand_gradients_on(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        fixture f;
        int sum, total;
        open_device(&f);
        const int first = add(&f, "dense", add_input(&f, 6), -1, 9);
        const int early = way & 1 ? add(&f, "dense", first, -1, 9) : -1;
        const int second = add(&f, "dense", first, -1, 9);
        const int branch = add(&f, "dense", second, -1, 9);
        const int late = way & 1 ? early : add(&f, "dense", first, -1, 9);
        const int of_sum[] = {way & 2 ? first : branch, way & 2 ? branch : first, -1};
        must(ls_graph_add(f.graph, "add", of_sum, -1, NULL, &sum));
        must(ls_graph_add(f.graph, "add", (int[]){sum, late, -1}, -1, NULL, &total));
        add(&f, "squared_error", add(&f, "dense", total, -1, 3), -1, 0);
        open_net(&f, ROWS);
        fill_inputs(&f, 6);
        fill_targets(&f, 3);
        check_gradients(&f);
        const void *of_total = ls_net_node_gradient(f.net, total);
        assert_ptr_equal(ls_net_node_gradient(f.net, sum), of_total);
        assert_ptr_equal(ls_net_node_gradient(f.net, branch), of_total);
        assert_ptr_not_equal(ls_net_node_gradient(f.net, first), of_total);
        check_memory(&f);
        ls_net *whole = f.net;
        open_net_in(&f, 2, whole); /* of fewer rows, in the same memory: what it hands on, too */
        assert_ptr_equal(ls_net_node_gradient(f.net, branch), of_total);
        check_gradients(&f);
        check_memory(&f);
        ls_net_close(f.net);
        f.net = whole;
        close_all(&f);
    }
}

typedef struct ranges {
    size_t first[8], count[8];
    int n;
} ranges;

/* Last layer first; every element once; a shared layer after the backward pass of its first use. */
static void ranges_become_final(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    int first = add(&f, "dense", add_input(&f, 4), -1, 4);
    int second = add(&f, "dense", first, -1, 4);
    int again = add(&f, "dense", second, first, 4);
    add(&f, "squared_error", add(&f, "dense", again, -1, 2), -1, 0);
    open_net(&f, ROWS);
    ranges r = {.n = 0};
    for (int n = f.graph->count; n-- > 0;)
        r.n += ls_net_node_final(f.net, n, &r.first[r.n], &r.count[r.n]);
    assert_int_equal(r.n, 3);
    assert_int_equal(r.first[0], 40);
    assert_int_equal(r.count[0], 10);
    assert_int_equal(r.first[1], 20);
    assert_int_equal(r.first[2], 0);
    assert_int_equal(r.count[0] + r.count[1] + r.count[2], f.graph->variables.elements);
    close_all(&f);
}

static void no_rows_give_no_gradient(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    int hidden = add(&f, "relu", add(&f, "dense", add_input(&f, 6), -1, 9), -1, 0);
    add(&f, "softmax_cross_entropy", add(&f, "dense", hidden, -1, 3), -1, 0);
    open_net(&f, 0);
    f.gradients[0] = 5;
    must(ls_net_forward(f.net, f.queue));
    must(ls_net_backward(f.net, f.queue));
    must(ls_queue_sync(f.queue));
    assert_true(*f.loss == 0);
    for (size_t i = 0; i < f.graph->variables.elements; i++)
        assert_true(f.gradients[i] == 0);
    close_all(&f);
}

static void refused_graphs(void **state)
{
    ls_graph *graph;
    ls_status status;
    int x, node;
    (void)state;
    must(ls_graph_open(&graph));
    const ls_layer_options input = {.shape = {.rank = 1, .size = {4}}};
    must(ls_graph_add(graph, "input", NULL, -1, &input, &x));
    status = ls_graph_add(graph, "densest", (int[]){x, -1}, -1, NULL, &node);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    assert_non_null(strstr(ls_status_text(status), "softmax_cross_entropy")); /* lists names */
    ls_status_free(status);
    status = ls_graph_add(graph, "dense", (int[]){x, -1}, -1, NULL, &node); /* no units */
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    ls_status_free(status);
    status = ls_graph_add(graph, "relu", (int[]){7, -1}, -1, NULL, &node); /* no such node */
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    ls_status_free(status);
    ls_graph_close(graph);
}

/* A part of a model may have fewer nodes than the model has units. */
static void more_units_than_nodes(void **state)
{
    ls_layer_options options = {.shape = {.rank = 1, .size = {4}}, .unit = 700};
    ls_repeat part[2] = {{.unit = 700}, {.unit = 700}}, *repeats;
    ls_graph *graph;
    int node;
    (void)state;
    must(ls_repeats_bound(part, 2));
    assert_int_equal(part[1].first, 0);
    assert_int_equal(part[0].last, 1);
    must(ls_graph_open(&graph));
    must(ls_graph_add(graph, "input", NULL, -1, &options, &node));
    must(ls_repeats_open(graph, NULL, 1, LS_REPEAT_FULL, false, &repeats));
    assert_int_equal(repeats[0].unit, 1);
    free(repeats);
    ls_graph_close(graph);
}

/* A table that lacks an operation of a layer is refused, in one line that names both. */
static void lacking_table(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    const ls_layer_options input = {.shape = {.rank = 3, .size = {4, 4, 1}}};
    const ls_layer_options conv = {.units = 2, .window = {3, 3, 1, false}, .global_max = true};
    int node;
    must(ls_graph_add(f.graph, "input", NULL, -1, &input, &node));
    must(ls_graph_add(f.graph, "conv", (int[]){node, -1}, -1, &conv, &node));
    add(&f, "softmax_cross_entropy", node, -1, 0);
    ls_kernel_table lacking = *f.kernels->table;
    lacking.name = "lacking";
    lacking.conv_max_forward = NULL;
    ls_kernels kernels = {.table = &lacking, .device = f.device};
    const ls_net_options options = {.graph = f.graph, .kernels = &kernels, .rows = 1, .divisor = 1};
    ls_status status = ls_net_open(&options, &f.net);
    assert_int_equal(ls_status_code(status), LS_CODE_MISSING);
    assert_non_null(strstr(ls_status_text(status),
                           "lacking: these kernels have no operation conv_max_forward"));
    assert_non_null(strstr(ls_status_text(status), "conv needs"));
    ls_status_free(status);
    close_all(&f);
}

static void run_passes(fixture *f)
{
    fill_inputs(f, 6);
    fill_labels(f, 3);
    must(ls_net_forward(f->net, f->queue));
    must(ls_net_backward(f->net, f->queue));
    must(ls_queue_sync(f->queue));
}

/* A second net compares each node's values with noted ones, and goes on with these. */
static void values_are_compared_and_taken_over(void **state)
{
    static const char *const worst[] = {"output of dense0", "gradient of dense0"};
    fixture f;
    ls_choices choices = {.rows = ROWS};
    (void)state;
    open_device(&f);
    const int hidden = add(&f, "dense", add_input(&f, 6), -1, 9);
    add(&f, "softmax_cross_entropy", add(&f, "dense", hidden, -1, 3), -1, 0);
    open_net(&f, ROWS);
    ls_net_close(f.net);
    const ls_net_options options = {.graph = f.graph,
                                    .kernels = f.kernels,
                                    .rows = ROWS,
                                    .divisor = DIVISOR,
                                    .parameters = f.parameters,
                                    .gradients = f.gradients,
                                    .loss = f.loss,
                                    .choices = &choices};
    must(ls_net_open(&options, &f.net));
    run_passes(&f);
    ls_net_close(f.net);
    const double weight = *f.gradients;
    must(ls_net_open(&options, &f.net)); /* takes over */
    run_passes(&f);
    assert_true(choices.distance < 1e-12); /* gradients are noted times the divisor */
    assert_true(fabs(*f.gradients - weight) < 1e-12);
    for (int gradient = 0; gradient < 2; gradient++) {
        double *noted = choices.node[hidden].value[gradient], squares = 0;
        for (int i = 0; i < ROWS * 9; i++)
            squares += noted[i] * noted[i];
        choices.distance = 0;
        *noted += 10;
        run_passes(&f);
        *noted -= 10;
        assert_true(fabs(choices.distance * sqrt(squares) - 10) < 1e-6);
        assert_string_equal(choices.worst, worst[gradient]);
    }
    assert_true(fabs(*f.gradients - weight) > 1e-3); /* dense0's, by the changed gradient */
    ls_choices_close(&choices);
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perceptron),
        cmocka_unit_test(polynomial),
        cmocka_unit_test(shared_variables),
        cmocka_unit_test(residual),
        cmocka_unit_test(activations_match_formula),
        cmocka_unit_test(gradients_pass_their_memory_on),
        cmocka_unit_test(sums_hand_gradients_on),
        cmocka_unit_test(ranges_become_final),
        cmocka_unit_test(no_rows_give_no_gradient),
        cmocka_unit_test(refused_graphs),
        cmocka_unit_test(more_units_than_nodes),
        cmocka_unit_test(lacking_table),
        cmocka_unit_test(values_are_compared_and_taken_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
