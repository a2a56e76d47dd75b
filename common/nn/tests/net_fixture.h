/* SPDX-License-Identifier: MIT */
/* What tests of nets share: a net in double on the reference table, its gradients against central
 * differences, and inputs to work on. */
#pragma once

#include "common/base/tests/must.h"
#include "common/nn/net.h"

#include "common/base/random/philox.h"

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

static inline void open_device(fixture *f)
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

static inline double *take(fixture *f, ls_memory_use use, size_t count)
{
    void *memory;
    must(ls_device_allocate(f->device, use, count * sizeof(double), &memory));
    return memory;
}

/* Opens f->net on the fixture's parameters and gradients; `whole`: a net whose memory it uses, or
 * NULL. */
static inline void open_net_in(fixture *f, int64_t rows, ls_net *whole)
{
    const ls_net_options options = {.graph = f->graph,
                                    .kernels = f->kernels,
                                    .rows = rows,
                                    .divisor = DIVISOR,
                                    .parameters = f->parameters,
                                    .gradients = f->gradients,
                                    .loss = f->loss,
                                    .memory_of = whole};
    must(ls_net_open(&options, &f->net));
}

static inline void open_net(fixture *f, int64_t rows)
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
    open_net_in(f, rows, NULL);
}

static inline void close_all(fixture *f)
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

static inline void fill_inputs(fixture *f, int64_t width)
{
    float *host = calloc((size_t)(ROWS * width), sizeof *host);
    double *x = ls_net_input(f->net, 0);
    ls_random_fill(ls_random_stream(4, "inputs"), 0, (uint64_t)(ROWS * width), -1, 1, host);
    for (int64_t i = 0; i < ROWS * width; i++)
        x[i] = (double)host[i];
    free(host);
}

static inline double loss_at(fixture *f)
{
    must(ls_net_forward(f->net, f->queue));
    must(ls_queue_sync(f->queue));
    return *f->loss;
}

static inline void check_gradients(fixture *f)
{
    size_t elements = f->graph->variables.elements;
    double *gradients = calloc(elements, sizeof *gradients);
    must(ls_net_forward(f->net, f->queue));
    must(ls_net_backward(f->net, f->queue));
    must(ls_queue_sync(f->queue));
    memcpy(gradients, f->gradients, elements * sizeof *gradients);
    double largest = 0;
    for (size_t i = 0; i < elements; i++) {
        if (ls_variables_holding(&f->graph->variables, i)->keep != 0) /* a statistic has none */
            continue;
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

static inline int add_with(fixture *f, const char *layer, int input,
                           const ls_layer_options *options)
{
    int node;
    must(ls_graph_add(f->graph, layer, (int[]){input, -1}, -1, options, &node));
    return node;
}

static inline void refused(fixture *f, const char *layer, const int *inputs, int shares,
                           const ls_layer_options *options, const char *says)
{
    int node;
    ls_status status = ls_graph_add(f->graph, layer, inputs, shares, options, &node);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    if (!strstr(ls_status_text(status), says))
        fail_msg("\"%s\" does not say \"%s\"", ls_status_text(status), says);
    ls_status_free(status);
}

static inline int add(fixture *f, const char *layer, int input, int shares, int64_t units)
{
    const ls_layer_options options = {.units = units};
    int node;
    must(ls_graph_add(f->graph, layer, (int[]){input, -1}, shares, &options, &node));
    return node;
}

static inline int add_input(fixture *f, int64_t width)
{
    const ls_layer_options options = {.shape = {.rank = 1, .size = {width}}};
    int node;
    must(ls_graph_add(f->graph, "input", NULL, -1, &options, &node));
    return node;
}

static inline void fill_labels(fixture *f, int classes)
{
    int32_t *labels = ls_net_target(f->net);
    for (int i = 0; i < ROWS; i++)
        labels[i] = (i * 3 + 1) % classes;
}

/* The gradients of a net that ends in classes, for inputs so wide. */
static inline void check_classes(fixture *f, int64_t width, int classes)
{
    open_net(f, ROWS);
    fill_inputs(f, width);
    fill_labels(f, classes);
    check_gradients(f);
}

static inline void fill_targets(fixture *f, int64_t width)
{
    double *target = ls_net_target(f->net);
    for (int64_t i = 0; i < ROWS * width; i++)
        target[i] = 0.3 * (double)i - 1;
}

/* Activations and kept memory: the ledger equals the formula. */
static inline void check_memory(fixture *f)
{
    assert_int_equal(ls_device_ledger(f->device).in_use[LS_MEMORY_ACTIVATIONS],
                     ls_net_activation_bytes(f->graph, sizeof(double), ROWS));
}
