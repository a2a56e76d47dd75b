/* SPDX-License-Identifier: MIT */
/*
 * Compares layers with the reference; see micro.h. Outputs and their gradients are compared
 * as the gate compares rounding (common/nn/choices.h). The reference is slow and takes few samples;
 * the rows repeat them, and divide by their own number, so that gradients of variables are equal.
 * An element is wrong if it differs by more than `tolerance` times the sum of its magnitude and the
 * root mean square of its tensor.
 */
#include "bench/micro/micro.h"

#include "common/base/grow.h"
#include "common/base/random/philox.h"
#include "common/nn/choices.h"
#include "common/nn/net_nodes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double tolerance = 2e-4;
static const double most_flops = 1e9; /* of the reference */

/* ---- Samples --------------------------------------------------------------------------------- */

/* How many tokens the input has, which an embedding reads; 0 if it has real numbers. */
static int64_t tokens_of(const ls_graph *graph, int input)
{
    int64_t tokens = 0;
    for (int n = 0; n < graph->count; n++)
        if (graph->nodes[n].input_count && graph->nodes[n].inputs[0] == input)
            tokens = graph->nodes[n].options.tokens ? graph->nodes[n].options.tokens : tokens;
    return tokens;
}

/* Writes `rows` rows of `width` words that repeat the first `samples`: whole numbers below `below`,
 * or random reals. */
static ls_status write_rows(const ls_micro_net *side, void *to, int64_t rows, int64_t samples,
                            int64_t width, int64_t below, bool integers)
{
    ls_auto float *host = NULL;
    LS_TRY(ls_allocate("layers", &host, (size_t)(rows * width) + 1, sizeof *host));
    ls_random_fill(ls_random_stream((uint64_t)below + 1, "layers"), 0, (uint64_t)(samples * width),
                   -0.5f, 0.5f, host);
    for (int64_t i = 0; i < samples * width && below; i++) {
        const int32_t whole = (int32_t)(i * 7 % below);
        if (integers)
            memcpy(&host[i], &whole, sizeof whole);
        else
            host[i] = (float)whole;
    }
    for (int64_t r = samples; r < rows; r++)
        memcpy(host + r * width, host + r % samples * width, (size_t)width * sizeof *host);
    return ls_queue_write(side->bench.queue, to, host, (size_t)(rows * width) * sizeof *host);
}

static ls_status write_samples(const ls_micro_net *side, const ls_graph *graph, int64_t rows,
                               int64_t samples)
{
    const ls_node *loss = &graph->nodes[graph->count - 1];
    const int64_t width = ls_shape_elements(&loss->shape),
                  labels = ls_shape_positions(&loss->shape);
    const int64_t classes = width / labels > 1 ? width / labels : 2;
    for (int n = 0; n < graph->count; n++)
        if (graph->nodes[n].layer->role == LS_LAYER_INPUT)
            LS_TRY(write_rows(side, ls_net_input(side->net, graph->nodes[n].options.input), rows,
                              samples, ls_shape_elements(&graph->nodes[n].shape),
                              tokens_of(graph, n), false));
    return loss->layer->integer_target
               ? write_rows(side, ls_net_target(side->net), rows, samples, labels, classes, true)
               : write_rows(side, ls_net_target(side->net), rows, samples, width, 0, false);
}

/* ---- A side ---------------------------------------------------------------------------------- */

/* The first values of seed 1; variables that begin with equal elements are changed a little, so
 * that errors show. */
static ls_status write_values(const ls_micro_net *side, const ls_variables *variables)
{
    ls_auto float *values = NULL;
    LS_TRY(ls_allocate("layers", &values, 2 * variables->elements + 1, sizeof *values));
    float *moved = values + variables->elements;
    ls_variables_initialize(variables, 1, values);
    ls_random_fill(ls_random_stream(8, "layers"), 0, variables->elements, -0.2f, 0.2f, moved);
    for (size_t v = 0; v < variables->count; v++) {
        const ls_variable *one = &variables->items[v];
        for (size_t i = one->offset; i < one->offset + one->count; i++)
            values[i] += one->initializer == LS_INITIALIZER_GLOROT_UNIFORM ? 0 : moved[i];
    }
    return ls_queue_write(side->bench.queue, side->flat[0], values,
                          variables->elements * sizeof *values);
}

static ls_net_options options_of(const ls_micro_net *side, const ls_graph *graph, int64_t rows)
{
    return (ls_net_options){.graph = graph,
                            .kernels = side->bench.kernels,
                            .rows = rows,
                            .divisor = (uint64_t)rows,
                            .parameters = side->flat[0],
                            .gradients = side->flat[1],
                            .loss = side->loss};
}

/* Opens the net, whose bench is open, and runs it. */
static ls_status run_side(const ls_graph *graph, int64_t rows, int64_t samples, ls_choices *choices,
                          ls_micro_net *side)
{
    const size_t bytes = graph->variables.elements * sizeof(float);
    LS_TRY(ls_bench_take(&side->bench, bytes, &side->flat[0]));
    LS_TRY(ls_bench_take(&side->bench, bytes, &side->flat[1]));
    LS_TRY(ls_bench_take(&side->bench, sizeof(double), &side->loss));
    ls_net_options options = options_of(side, graph, rows);
    options.choices = choices;
    LS_TRY(ls_net_open(&options, &side->net));
    LS_TRY(write_values(side, &graph->variables));
    LS_TRY(write_samples(side, graph, rows, samples));
    LS_TRY(ls_net_forward(side->net, side->bench.queue));
    LS_TRY(ls_net_backward(side->net, side->bench.queue));
    return ls_queue_sync(side->bench.queue);
}

static void close_side(ls_micro_net *side)
{
    ls_net_close(side->net);
    ls_bench_close(&side->bench);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* A fused ReLU is part of the layer before it. */
static int owner_of(const ls_net *net, const ls_graph *graph, int n)
{
    const ls_node *node = &graph->nodes[n];
    const bool fused =
        strcmp(node->layer->name, "relu") == 0 && !ls_net_node_ops(net, n, false)->count;
    return fused ? node->inputs[0] : n;
}

/* Elements of a variable's gradient that are wrong; batch normalisation's moving statistics, which
 * depend on the number of rows, are left out. */
static uint64_t count_wrong(const ls_variable *v, const float *fast, const float *reference)
{
    double squares = 0;
    uint64_t wrong = 0;
    for (size_t i = v->offset; i < v->offset + v->count; i++)
        squares += (double)reference[i] * reference[i];
    const double rms = sqrt(squares / fmax((double)v->count, 1));
    for (size_t i = v->offset; i < v->offset + v->count && v->keep == 0; i++)
        wrong += !(fabs((double)fast[i] - (double)reference[i]) <=
                   tolerance * (fabs((double)reference[i]) + rms)); /* NaN is wrong */
    return wrong;
}

/* What each pass computed wrongly: its own results, and of a node's gradient who computes it. */
static void assign_wrong(const ls_micro_judge *judge, const ls_graph *graph,
                         const ls_choices *choices, const float *fast, const float *reference)
{
    const ls_net *net = judge->timed;
    for (int n = 0; n < graph->count; n++) {
        const ls_node *node = &graph->nodes[n];
        const int owner = owner_of(net, graph, n);
        judge->wrong[owner][0] += choices->node[n].wrong[0];
        for (int i = 0; i < node->input_count; i++)
            judge->wrong[owner][node->layer->role != LS_LAYER_LOSS] +=
                choices->node[node->inputs[i]].wrong[1];
        for (int v = 0; v < node->variable_count; v++)
            judge->wrong[owner][1] +=
                count_wrong(&graph->variables.items[node->variables[v]], fast, reference);
    }
}

static ls_status compare(const ls_micro *m, const ls_micro_net *reference,
                         const ls_choices *choices, ls_micro_judge *judge)
{
    const ls_graph *graph = m->model->graph;
    const size_t elements = graph->variables.elements;
    ls_auto float *gradients = NULL;
    double loss[2];
    LS_TRY(ls_allocate("layers", &gradients, 2 * elements + 1, sizeof *gradients));
    LS_TRY(ls_allocate("layers", &judge->wrong, (size_t)graph->count, sizeof *judge->wrong));
    for (int i = 0; i < 2; i++) {
        const ls_micro_net *side = i ? reference : &judge->fast;
        LS_TRY(ls_queue_read(side->bench.queue, gradients + (size_t)i * elements, side->flat[1],
                             elements * sizeof *gradients));
        LS_TRY(ls_queue_read(side->bench.queue, &loss[i], side->loss, sizeof loss[i]));
    }
    assign_wrong(judge, graph, choices, gradients, gradients + elements);
    judge->wrong[graph->count - 1][0] +=
        !(fabs(loss[0] - loss[1]) <= tolerance * (fabs(loss[1]) + 1));
    return LS_OK;
}

/* How many samples the reference computes in time, so that the rows repeat each as often. */
static int64_t samples_of(const ls_micro *m)
{
    const double most = fmax(most_flops / (ls_graph_flops(m->model->graph) + 1), 1);
    int64_t samples = (double)m->batch < most ? m->batch : (int64_t)most;
    while (m->batch % samples)
        samples--;
    return samples;
}

/* Compares with the reference on the machine's first CPU device. */
static ls_status judge_on(ls_device *device, const ls_micro *m, int64_t samples,
                          ls_choices *choices, ls_micro_judge *judge)
{
    const ls_kernel_table *table = NULL;
    ls_closing(close_side) ls_micro_net reference = {0};
    LS_TRY(ls_kernel_table_find("reference", &table));
    LS_TRY(ls_bench_open(device, LS_MATH_FLOAT32, table, &reference.bench));
    LS_TRY(run_side(m->model->graph, samples, samples, choices, &reference));
    return compare(m, &reference, choices, judge);
}

ls_status ls_micro_judge_open(const ls_micro *m, ls_micro_judge *out)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {.kind = LS_DEVICE_CPU};
    const ls_graph *graph = m->model->graph;
    const int64_t samples = samples_of(m);
    ls_closing(ls_choices_close) ls_choices choices = {.rows = samples, .tolerance = tolerance};
    ls_device *device;
    *out = (ls_micro_judge){0};
    LS_TRY(ls_bench_open(m->device, LS_MATH_FLOAT32, NULL, &out->fast.bench));
    out->fast.bench.kernels->convolution = m->bench.kernels->convolution;
    LS_TRY(run_side(graph, m->batch, samples, &choices, &out->fast));
    ls_net_options options = options_of(&out->fast, graph, m->batch);
    options.memory_of = out->fast.net;
    LS_TRY(ls_net_open(&options, &out->timed));
    LS_TRY(ls_device_open(m->machine, &name, &policy, &device));
    const ls_status status = judge_on(device, m, samples, &choices, out);
    ls_device_close(device);
    return status;
}

void ls_micro_judge_close(ls_micro_judge *judge)
{
    ls_net_close(judge->timed);
    close_side(&judge->fast);
    free(judge->wrong);
}
