/* SPDX-License-Identifier: MIT */
/*
 * A net of convolutions by the cuda table, without a GPU (kernel_emulated.h), against the reference
 * table: its weights are packed before each pass, whoever puts it, in whole or node by node, and
 * again when they have changed. Within 1e-4 of the largest.
 */
#define FIXTURE_OPEN  open_emulated
#define FIXTURE_CLOSE close_emulated
#include "common/kernel/tests/kernel_emulated.h"

#include "common/nn/net.h"

enum { ROWS = 3, SIDE = 6, CLASSES = 5, TABLES = 2 };

typedef enum pass { WHOLE, HALVES, PREDICT, PASSES } pass;

typedef struct side {
    ls_net *net;
    float *parameters, *gradients;
    double loss;
} side;

/* Two convolutions with a bn each, the second by strides of 2. */
static ls_graph *open_graph(void)
{
    ls_graph *graph;
    int node;
    must(ls_graph_open(&graph));
    const ls_layer_options input = {.shape = {.rank = 3, .size = {3, SIDE, SIDE}}};
    const ls_layer_options dense = {.units = CLASSES};
    must(ls_graph_add(graph, "input", NULL, -1, &input, &node));
    must(ls_graph_add(graph, "channels_last", (int[]){node, -1}, -1, NULL, &node));
    for (int i = 0; i < 2; i++) {
        const ls_layer_options conv = {
            .units = 4 + 2 * i, .no_bias = true, .window = {3, 3, 1 + i, true}, .centred = true};
        must(ls_graph_add(graph, "conv", (int[]){node, -1}, -1, &conv, &node));
        must(ls_graph_add(graph, "bn", (int[]){node, -1}, -1, NULL, &node));
        must(ls_graph_add(graph, "relu", (int[]){node, -1}, -1, NULL, &node));
    }
    must(ls_graph_add(graph, "global_mean_pool", (int[]){node, -1}, -1, NULL, &node));
    must(ls_graph_add(graph, "dense", (int[]){node, -1}, -1, &dense, &node));
    must(ls_graph_add(graph, "softmax_cross_entropy", (int[]){node, -1}, -1, NULL, &node));
    return graph;
}

static void open_side(side *s, const ls_graph *graph, ls_kernels *kernels, bool together)
{
    const int64_t count = (int64_t)graph->variables.elements;
    s->parameters = randoms(count, 1), s->gradients = randoms(count, 2);
    for (size_t i = 0; i < graph->variables.count; i++) /* no variance is negative */
        for (size_t e = 0; e < graph->variables.items[i].count; e++)
            if (graph->variables.items[i].keep != 0)
                s->parameters[graph->variables.items[i].offset + e] += 1;
    const ls_net_options options = {.graph = graph,
                                    .kernels = kernels,
                                    .rows = ROWS,
                                    .divisor = ROWS,
                                    .parameters = s->parameters,
                                    .gradients = s->gradients,
                                    .loss = &s->loss,
                                    .together = together};
    must(ls_net_open(&options, &s->net));
    float *x = randoms(ROWS * 3 * SIDE * SIDE, 3);
    memcpy(ls_net_input(s->net, 0), x, ROWS * 3 * SIDE * SIDE * sizeof *x);
    memcpy(ls_net_target(s->net), (const int32_t[ROWS]){1, 4, 0}, ROWS * sizeof(int32_t));
    free(x);
}

static void put_pass(side *s, pass which, int nodes, ls_queue *queue)
{
    if (which == PREDICT)
        must(ls_net_predict(s->net, queue));
    if (which == WHOLE) {
        must(ls_net_forward(s->net, queue));
        must(ls_net_backward(s->net, queue, NULL, NULL));
    }
    for (int i = 0; i < 4 * nodes && which == HALVES; i++) {
        const bool backward = i >= 2 * nodes;
        const int n = i / 2 % nodes;
        must(ls_net_node_half(s->net, backward ? nodes - 1 - n : n, backward, i & 1, queue));
    }
    must(ls_queue_sync(queue));
}

static void close_to(const char *what, const float *got, const float *want, int64_t count)
{
    float largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fabsf(want[i]) > largest ? fabsf(want[i]) : largest;
    assert_true(largest > 0);
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-4f * largest))
            fail_msg("%s: element %lld is %g, not %g", what, (long long)i, (double)got[i],
                     (double)want[i]);
}

static void check_pass(fixture *f, pass which)
{
    ls_graph *graph = open_graph();
    const int64_t count = (int64_t)graph->variables.elements;
    side sides[TABLES];
    for (int k = 0; k < TABLES; k++)
        open_side(&sides[k], graph, k ? f->reference : f->cpu, which == HALVES);
    for (int round = 0; round < 2; round++) {
        for (int k = 0; k < TABLES; k++) {
            put_pass(&sides[k], which, graph->count, f->queue);
            for (int64_t i = 0; i < count && !round; i++)
                sides[k].parameters[i] *= i % 3 ? 0.5f : 2;
        }
        close_to("output", ls_net_output(sides[0].net), ls_net_output(sides[1].net),
                 ROWS * CLASSES);
        if (which != PREDICT)
            close_to("gradients", sides[0].gradients, sides[1].gradients, count);
    }
    for (int k = 0; k < TABLES; k++) {
        ls_net_close(sides[k].net);
        free(sides[k].parameters), free(sides[k].gradients);
    }
    ls_graph_close(graph);
}

static void test_packed(void **state)
{
    for (int which = WHOLE; which < PASSES; which++)
        check_pass(*state, (pass)which);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_packed)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
