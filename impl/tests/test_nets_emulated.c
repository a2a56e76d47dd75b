/* SPDX-License-Identifier: MIT */
/*
 * A net of convolutions by the cuda table, without a GPU (kernel_emulated.h), against the reference
 * table: its weights are packed before each pass, whoever puts it, in whole or node by node, and
 * again when they have changed. Within 1e-4 of the largest.
 *
 * And LSTMs that are joined in pairs where passes are put in whole: the bits of a net that joins
 * none, in fewer launches, and no gradient is said to be final before it is.
 */
#define FIXTURE_OPEN  open_emulated
#define FIXTURE_CLOSE close_emulated
#include "common/kernel/cuda/tests/kernel_emulated.h"

#include "common/nn/net.h"
#include "common/nn/net_nodes.h"

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

static void open_side(side *s, const ls_graph *graph, ls_kernels *kernels, bool synced)
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
                                    .synced = synced};
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
        must(ls_net_backward(s->net, queue));
    }
    const ls_net_pass halves[] = {LS_NET_FORWARD_HALF, LS_NET_FORWARD_REST, LS_NET_BACKWARD_HALF,
                                  LS_NET_BACKWARD_REST};
    for (int i = 0; i < 4 * nodes && which == HALVES; i++) {
        const bool backward = i >= 2 * nodes;
        const int n = i / 2 % nodes;
        must(ls_net_node_put(s->net, backward ? nodes - 1 - n : n, halves[2 * backward + i % 2],
                             queue));
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

/* ---- Pairs of LSTMs -------------------------------------------------------------------------- */

enum { STEPS = 4, VALUES = 6, UNITS = VALUES, BRANCHES = 3 };

uint64_t gpu_emulated_launches(bool only);

/* Two LSTMs of one shape, one after the other, and three side by side that read the states: the
 * third with the second's variables, or where they are shared, both with the first's. */
static ls_graph *open_branches(bool shared)
{
    ls_graph *graph;
    int x, h[BRANCHES], node;
    const ls_layer_options input = {.shape = {.rank = 2, .size = {STEPS, VALUES}}};
    const ls_layer_options all = {.units = UNITS, .all_states = true}, last = {.units = UNITS};
    const ls_layer_options dense = {.units = 1};
    must(ls_graph_open(&graph));
    must(ls_graph_add(graph, "input", NULL, -1, &input, &x));
    for (int i = 0; i < 2; i++)
        must(ls_graph_add(graph, "lstm", (int[]){x, -1}, -1, &all, &x));
    for (int i = 0; i < BRANCHES; i++)
        must(ls_graph_add(graph, "lstm", (int[]){x, -1}, i > !shared ? h[!shared] : -1, &last,
                          &h[i]));
    must(ls_graph_add(graph, "concat", (int[]){h[0], h[1], -1}, -1, NULL, &node));
    must(ls_graph_add(graph, "concat", (int[]){node, h[2], -1}, -1, NULL, &node));
    must(ls_graph_add(graph, "dense", (int[]){node, -1}, -1, &dense, &node));
    must(ls_graph_add(graph, "logistic_loss", (int[]){node, -1}, -1, NULL, &node));
    return graph;
}

/* The backward pass; said = gradients when they were said to be final. */
static void put_backward(const side *s, ls_queue *queue, int nodes, float *said)
{
    for (int n = nodes; n-- > 0;) {
        size_t first, count;
        must(ls_net_node_put(s->net, n, LS_NET_BACKWARD, queue));
        if (!ls_net_node_final(s->net, n, &first, &count))
            continue;
        must(ls_queue_sync(queue));
        memcpy(said + first, s->gradients + first, count * sizeof *said);
    }
}

/* The launches of a forward and a backward pass. */
static uint64_t pass_branches(fixture *f, const ls_graph *graph, bool whole, side *s)
{
    const int64_t count = (int64_t)graph->variables.elements;
    s->parameters = randoms(count, 1), s->gradients = randoms(count, 2);
    float *said = randoms(count, 4);
    const ls_net_options options = {.graph = graph,
                                    .kernels = f->cpu,
                                    .rows = ROWS,
                                    .divisor = ROWS,
                                    .parameters = s->parameters,
                                    .gradients = s->gradients,
                                    .loss = &s->loss,
                                    .whole = whole};
    must(ls_net_open(&options, &s->net));
    float *x = randoms(ROWS * STEPS * VALUES, 3);
    memcpy(ls_net_input(s->net, 0), x, ROWS * STEPS * VALUES * sizeof *x);
    memcpy(ls_net_target(s->net), (const int32_t[ROWS]){1, 0, 0}, ROWS * sizeof(int32_t));
    const uint64_t before = gpu_emulated_launches(false);
    must(ls_net_forward(s->net, f->queue));
    put_backward(s, f->queue, graph->count, said);
    must(ls_queue_sync(f->queue));
    const uint64_t launches = gpu_emulated_launches(false) - before;
    same_bits("final", said, s->gradients, (size_t)count * sizeof *x);
    free(x), free(said);
    return launches;
}

static void test_pairs(void **state)
{
    for (int shared = 0; shared < 2; shared++) {
        ls_graph *graph = open_branches(shared);
        const size_t count = graph->variables.elements;
        side apart, whole;
        const uint64_t more = pass_branches(*state, graph, false, &apart);
        assert_int_equal(pass_branches(*state, graph, true, &whole), more - 2);
        same_bits("outputs", ls_net_output(whole.net), ls_net_output(apart.net),
                  ROWS * sizeof(float));
        same_bits("gradients", whole.gradients, apart.gradients, count * sizeof(float));
        assert_true(whole.loss == apart.loss && apart.loss > 0);
        ls_net_close(apart.net), ls_net_close(whole.net);
        free(apart.parameters), free(apart.gradients);
        free(whole.parameters), free(whole.gradients);
        ls_graph_close(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_packed), cmocka_unit_test(test_pairs)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
