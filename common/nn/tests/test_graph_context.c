/* SPDX-License-Identifier: MIT */
/*
 * Positions over places (graph_context.h): every position and head is at one place; and, in double
 * precision on plain C, the places' losses and gradients add up to those of the whole model, within
 * 1e-12 of the largest gradient: the same sums in another order.
 */
#include "common/nn/divide/graph_context.h"
#include "common/nn/layers.h"
#include "common/nn/model.h"
#include "common/nn/net_nodes.h"
#include "common/nn/tests/net_fixture.h"

#include <stdio.h>

static const double tolerance = 1e-12;

enum { MOST = 4 };

/* The places of a model, each with a net. */
typedef struct site {
    fixture f;
    ls_model *model;
    ls_graph *all;
    ls_graph_parts parts;
    ls_net *net[MOST];
    double *gradients[MOST];
} site;

static int token_at(int64_t row, int64_t position)
{
    return (int)((row * 7 + position * position + 3 * position) % 11);
}

static int label_at(int64_t row, int64_t position)
{
    return (int)((row + 5 * position + 2) % 11);
}

/* Fills a net's tokens and labels, of the positions of these blocks. */
static void fill(ls_net *net, const ls_graph_blocks *blocks)
{
    double *x = ls_net_input(net, 0);
    int32_t *labels = ls_net_target(net);
    for (int b = 0; b < 2; b++)
        for (int64_t row = 0; row < ROWS; row++)
            for (int64_t t = 0; t < blocks->count[b]; t++) {
                *x++ = token_at(row, blocks->first[b] + t);
                *labels++ = label_at(row, blocks->first[b] + t);
            }
}

/* Another place's passes write and read a border's gradient, and those of several deals write parts
 * of their input's: no other node has its memory. */
static void check_own(const site *s, int place, int node)
{
    const ls_graph *graph = s->parts.parts[place].graph;
    const void *own = ls_net_node_gradient(s->net[place], node);
    for (int n = 0; n < graph->count; n++)
        assert_true(n == node || ls_net_node_gradient(s->net[place], n) != own);
}

static void open_places(site *s, int places)
{
    const size_t elements = s->model->graph->variables.elements;
    must(ls_context_open(s->model->graph, places, &s->all, &s->parts));
    for (int j = 0; j < places; j++) {
        const ls_graph *graph = s->parts.parts[j].graph;
        assert_int_equal(graph->variables.elements, elements);
        s->gradients[j] = take(&s->f, LS_MEMORY_GRADIENTS, elements);
        const ls_net_options options = {.graph = graph,
                                        .kernels = s->f.kernels,
                                        .rows = ROWS,
                                        .divisor = DIVISOR,
                                        .parameters = s->f.parameters,
                                        .gradients = s->gradients[j],
                                        .loss = s->f.loss};
        must(ls_net_open(&options, &s->net[j]));
        fill(s->net[j], &graph->blocks);
    }
    for (size_t i = 0; i < s->parts.border_count; i++) {
        const ls_border *b = &s->parts.borders[i];
        check_own(s, b->from, s->parts.parts[b->from].local[b->node]);
        check_own(s, b->to, s->parts.parts[b->to].local[b->node]);
    }
    for (int j = 0; j < places; j++)
        for (int n = 0; n < s->parts.parts[j].graph->count; n++)
            if (s->parts.parts[j].graph->nodes[n].layer == &ls_layer_deal)
                check_own(s, j, s->parts.parts[j].graph->nodes[n].inputs[0]);
}

static void close_places(site *s)
{
    for (int j = 0; j < s->parts.count; j++) {
        ls_net_close(s->net[j]);
        ls_device_release(s->f.device, s->gradients[j]);
    }
    ls_graph_parts_close(&s->parts);
    ls_graph_close(s->all);
}

static void cross(const site *s, int n, bool backward)
{
    for (size_t i = 0; i < s->parts.border_count; i++) {
        const ls_border *b = &s->parts.borders[i];
        const int from = s->parts.parts[b->from].local[b->node];
        const int to = s->parts.parts[b->to].local[b->node];
        const size_t bytes = ROWS * b->samples * sizeof(double);
        if ((backward ? b->first_use : b->node) != n)
            continue;
        assert_true(b->gradient);
        if (backward)
            memcpy(ls_net_node_gradient(s->net[b->from], from),
                   ls_net_node_gradient(s->net[b->to], to), bytes);
        else
            memcpy(ls_net_node_output(s->net[b->to], to), ls_net_node_output(s->net[b->from], from),
                   bytes);
    }
}

/* Runs a pass of all places, node by node; returns the sum of their losses. */
static double run(site *s, bool backward)
{
    double loss = 0;
    for (int i = 0; i < s->all->count; i++) {
        const int n = backward ? s->all->count - 1 - i : i, j = s->parts.place[n];
        const ls_layer_role role = s->all->nodes[n].layer->role;
        if (role == LS_LAYER_INPUT)
            continue;
        must(ls_net_node_enqueue(s->net[j], s->parts.parts[j].local[n],
                                 backward ? LS_NET_BACKWARD : LS_NET_FORWARD, s->f.queue));
        must(ls_queue_sync(s->f.queue));
        loss += role == LS_LAYER_LOSS ? *s->f.loss : 0;
        cross(s, n, backward);
    }
    return loss;
}

static void check_sums(site *s, const double *whole, double loss)
{
    const ls_variables *variables = &s->model->graph->variables;
    double largest = 0;
    for (size_t i = 0; i < variables->elements; i++)
        largest = fmax(largest, fabs(whole[i]));
    assert_true(largest > 1e-3);
    if (fabs(run(s, false) - loss) > tolerance * loss)
        fail_msg("%s on %d places: another loss", s->model->name, s->parts.count);
    run(s, true);
    for (size_t i = 0; i < variables->elements; i++) {
        double sum = 0;
        for (int j = 0; j < s->parts.count; j++)
            sum += s->gradients[j][i];
        if (fabs(sum - whole[i]) > tolerance * largest)
            fail_msg("%s on %d places: %s: the gradient of element %zu is %.15g, of the whole "
                     "model %.15g",
                     s->model->name, s->parts.count, ls_variables_holding(variables, i)->name, i,
                     sum, whole[i]);
    }
}

/* `relu`: in place of gelu. */
static void check_model(const char *name, bool relu)
{
    site s = {0};
    open_device(&s.f);
    must(ls_model_open(name, &s.model));
    for (int n = 0; n < s.model->graph->count && relu; n++)
        if (s.model->graph->nodes[n].layer == &ls_layer_gelu)
            s.model->graph->nodes[n].layer = &ls_layer_relu;
    must(ls_context_check(s.model->graph, 2));
    ls_graph *empty = s.f.graph;
    s.f.graph = s.model->graph;
    open_net(&s.f, ROWS);
    const int64_t T = s.model->need.targets;
    fill(s.f.net, &(ls_graph_blocks){.whole = T, .count = {T}});
    const double loss = loss_at(&s.f);
    must(ls_net_backward(s.f.net, s.f.queue));
    must(ls_queue_sync(s.f.queue));
    for (int places = 2; places <= MOST && 2 * places <= T; places++) {
        open_places(&s, places);
        check_sums(&s, s.f.gradients, loss);
        close_places(&s);
    }
    s.f.graph = empty;
    close_all(&s.f);
    ls_model_close(s.model);
}

static void places_add_up_to_the_whole(void **state)
{
    (void)state;
    check_model("gpt:2-4-8-8-11", false);
    check_model("gpt:1-5-10-9-11", true); /* neither heads nor positions are divided evenly */
    check_model("gpt:1-4-8-11-11", false);
}

static void every_position_and_head_is_at_one_place(void **state)
{
    (void)state;
    for (int places = 1; places <= 9; places++)
        for (int64_t T = 2 * places; T < 60; T++) {
            int at[60] = {0};
            int64_t heads = 0;
            for (int j = 0; j < places; j++) {
                const ls_graph_blocks blocks = ls_context_blocks(T, j, places);
                assert_int_equal(blocks.whole, T);
                for (int b = 0; b < 2; b++)
                    for (int64_t t = 0; t < blocks.count[b]; t++)
                        at[blocks.first[b] + t]++;
                assert_true(blocks.count[0] && blocks.count[1]);
                assert_true(ls_context_heads(T, j, places) > 0);
                heads += ls_context_heads(T, j, places);
            }
            for (int64_t t = 0; t < T; t++)
                assert_int_equal(at[t], 1);
            assert_int_equal(heads, T);
        }
    const ls_graph_blocks second = ls_context_blocks(8, 1, 2);
    assert_int_equal(second.first[0], 2); /* blocks 1 and 2 of 4 */
    assert_int_equal(second.first[1], 4);
}

static void refuses(const char *name, int places, const char *says)
{
    ls_model *model;
    must(ls_model_open(name, &model));
    ls_status status = ls_context_check(model->graph, places);
    assert_int_equal(ls_status_code(status), LS_CODE_USAGE);
    if (!strstr(ls_status_text(status), says))
        fail_msg("\"%s\" does not say \"%s\"", ls_status_text(status), says);
    ls_status_free(status);
    ls_model_close(model);
}

static void what_cannot_be_divided(void **state)
{
    (void)state;
    refuses("gpt:1-4-8-20-11", 5, "at most 4");
    refuses("gpt:1-4-8-7-11", 4, "at most 3");
    refuses("mlp:8-4-3", 2, "dense0");
    refuses("cnn", 2, "conv0");
    refuses("twin-lstm:4", 2, "use --model gpt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(places_add_up_to_the_whole),
                                       cmocka_unit_test(every_position_and_head_is_at_one_place),
                                       cmocka_unit_test(what_cannot_be_divided)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
