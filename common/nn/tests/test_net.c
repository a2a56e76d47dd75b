/* SPDX-License-Identifier: MIT */
/*
 * Nets: every layer's gradient against central differences in double precision, sharing, fan-out,
 * fusing, ranges that become final, memory.
 */
#include "common/nn/net.h"

#include "common/base/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Central differences with step h are wrong by about h^2 and by rounding over h. */
static const double step_size = 1e-5;
static const double gradient_tolerance = 1e-7; /* times max(1, |gradient|) */

enum { ROWS = 5, DIVISOR = 7 };

typedef struct fixture {
    ls_machine *machine;
    ls_device *device;
    ls_queue *queue;
    ls_kernels *kernels;
    ls_graph *graph;
    ls_net *net;
    double *parameters, *gradients, *loss; /* device memory of a CPU */
} fixture;

static void must(ls_status status)
{
    if (status)
        print_error("%s\n", ls_status_text(status));
    assert_null(status);
}

static void open_device(fixture *f)
{
    const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = 0, .logical = -1};
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_kernel_table *table;
    memset(f, 0, sizeof *f);
    must(ls_machine_open(&(ls_machine_options){0}, &f->machine));
    must(ls_device_open(f->machine, &name, &policy, &f->device));
    must(ls_queue_open(f->device, "test", &f->queue));
    must(ls_kernel_table_find("reference64", &table));
    must(table->open(f->device, &f->kernels));
    must(ls_graph_open(&f->graph));
}

static double *take(fixture *f, ls_memory_use use, size_t count)
{
    void *memory;
    must(ls_device_allocate(f->device, use, count * sizeof(double), &memory));
    return memory;
}

static void open_net(fixture *f, int64_t rows)
{
    size_t elements = f->graph->variables.elements;
    float *initial = calloc(elements + 1, sizeof *initial);
    f->parameters = take(f, LS_MEMORY_PARAMETERS, elements);
    f->gradients = take(f, LS_MEMORY_GRADIENTS, elements);
    f->loss = take(f, LS_MEMORY_WORKSPACE, 1);
    ls_random_fill(ls_random_stream(3, "parameters"), 0, elements, -1, 1, initial);
    for (size_t i = 0; i < elements; i++)
        f->parameters[i] = (double)initial[i];
    free(initial);
    const ls_net_options options = {.graph = f->graph,
                                    .kernels = f->kernels,
                                    .rows = rows,
                                    .divisor = DIVISOR,
                                    .parameters = f->parameters,
                                    .gradients = f->gradients,
                                    .loss = f->loss};
    must(ls_net_open(&options, &f->net));
}

static void close_all(fixture *f)
{
    ls_net_close(f->net);
    ls_device_release(f->device, f->parameters);
    ls_device_release(f->device, f->gradients);
    ls_device_release(f->device, f->loss);
    f->kernels->table->close(f->kernels);
    ls_queue_close(f->queue);
    ls_device_close(f->device);
    ls_graph_close(f->graph);
    ls_machine_close(f->machine);
}

static void fill_inputs(fixture *f, int64_t width)
{
    float *host = calloc((size_t)(ROWS * width), sizeof *host);
    double *x = ls_net_input(f->net, 0);
    ls_random_fill(ls_random_stream(4, "inputs"), 0, (uint64_t)(ROWS * width), -1, 1, host);
    for (int64_t i = 0; i < ROWS * width; i++)
        x[i] = (double)host[i];
    free(host);
}

static double loss_at(fixture *f)
{
    must(ls_net_forward(f->net, f->queue));
    must(ls_queue_sync(f->queue));
    return *f->loss;
}

static void check_gradients(fixture *f)
{
    size_t elements = f->graph->variables.elements;
    double *gradients = calloc(elements, sizeof *gradients);
    must(ls_net_forward(f->net, f->queue));
    must(ls_net_backward(f->net, f->queue, NULL, NULL));
    must(ls_queue_sync(f->queue));
    memcpy(gradients, f->gradients, elements * sizeof *gradients);
    double largest = 0;
    for (size_t i = 0; i < elements; i++) {
        double keep = f->parameters[i];
        f->parameters[i] = keep + step_size;
        double above = loss_at(f);
        f->parameters[i] = keep - step_size;
        double below = loss_at(f);
        f->parameters[i] = keep;
        double expected = (above - below) / (2 * step_size);
        if (fabs(gradients[i] - expected) > gradient_tolerance * fmax(1, fabs(expected)))
            fail_msg("%s: gradient %zu is %.12g, central difference %.12g",
                     ls_variables_holding(&f->graph->variables, i)->name, i, gradients[i],
                     expected);
        largest = fmax(largest, fabs(gradients[i]));
    }
    assert_true(largest > 1e-3); /* not all zero */
    free(gradients);
}

static int add(fixture *f, const char *layer, int input, int shares, int64_t units)
{
    const ls_layer_options options = {.units = units};
    int node;
    must(ls_graph_add(f->graph, layer, (int[]){input, -1}, shares, &options, &node));
    return node;
}

static int add_input(fixture *f, int64_t width)
{
    const ls_layer_options options = {.shape = {.rank = 1, .size = {width}}};
    int node;
    must(ls_graph_add(f->graph, "input", NULL, -1, &options, &node));
    return node;
}

static void fill_labels(fixture *f, int classes)
{
    int32_t *labels = ls_net_target(f->net);
    for (int i = 0; i < ROWS; i++)
        labels[i] = (i * 3 + 1) % classes;
}

static void fill_targets(fixture *f, int64_t width)
{
    double *target = ls_net_target(f->net);
    for (int64_t i = 0; i < ROWS * width; i++)
        target[i] = 0.3 * (double)i - 1;
}

static void perceptron(void **state)
{
    fixture f;
    (void)state;
    open_device(&f);
    int x = add_input(&f, 6);
    int hidden = add(&f, "relu", add(&f, "dense", x, -1, 9), -1, 0);
    int second = add(&f, "relu", add(&f, "dense", hidden, -1, 4), -1, 0);
    add(&f, "softmax_cross_entropy", add(&f, "dense", second, -1, 3), -1, 0);
    open_net(&f, ROWS);
    fill_inputs(&f, 6);
    fill_labels(&f, 3);
    check_gradients(&f);
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

typedef struct ranges {
    size_t first[8], count[8];
    int n;
} ranges;

static ls_status note_range(void *context, size_t first, size_t count)
{
    ranges *r = context;
    r->first[r->n] = first;
    r->count[r->n++] = count;
    return LS_OK;
}

/* Last layer first; every element once; a shared layer when its first use is done. */
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
    must(ls_net_backward(f.net, f.queue, note_range, &r));
    must(ls_queue_sync(f.queue));
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
    must(ls_net_backward(f.net, f.queue, NULL, NULL));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perceptron),
        cmocka_unit_test(polynomial),
        cmocka_unit_test(shared_variables),
        cmocka_unit_test(residual),
        cmocka_unit_test(activations_match_formula),
        cmocka_unit_test(ranges_become_final),
        cmocka_unit_test(no_rows_give_no_gradient),
        cmocka_unit_test(refused_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
