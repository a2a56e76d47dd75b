/* SPDX-License-Identifier: MIT */
/* Positions over places; see graph_context.h. */
#include "common/nn/divide/graph_context.h"

#include "common/base/grow.h"
#include "common/nn/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Begin of part i of n. */
static int64_t begin_of(int64_t all, int64_t i, int64_t n)
{
    return all * i / n;
}

ls_graph_blocks ls_context_blocks(int64_t positions, int j, int places)
{
    const int64_t at[] = {j, 2 * (int64_t)places - 1 - j}, blocks = 2 * (int64_t)places;
    ls_graph_blocks out = {.whole = positions};
    for (int b = 0; b < 2; b++) {
        out.first[b] = begin_of(positions, at[b], blocks);
        out.count[b] = begin_of(positions, at[b] + 1, blocks) - out.first[b];
    }
    return out;
}

int64_t ls_context_positions(int64_t positions, int j, int places)
{
    const ls_graph_blocks blocks = ls_context_blocks(positions, j, places);
    return blocks.count[0] + blocks.count[1];
}

int64_t ls_context_heads(int64_t heads, int j, int places)
{
    return begin_of(heads, j + 1, places) - begin_of(heads, j, places);
}

/* ---- What can be divided --------------------------------------------------------------------- */

static bool is(const ls_node *node, const char *layer)
{
    return strcmp(node->layer->name, layer) == 0;
}

/* Whether a node computes each position alone, or is an attention. */
static bool takes_positions(const ls_node *node)
{
    static const char *const alone[] = {"embedding", "positions", "layer_norm", "relu",
                                        "gelu",      "add",       "attention",  "dropout"};
    const ls_shape *shape = &node->shape;
    if (node->layer->role == LS_LAYER_INPUT)
        return true; /* its users tell */
    if (node->layer->role == LS_LAYER_LOSS)
        return node->layer->integer_target && shape->rank == 2;
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        if (is(node, alone[i]))
            return shape->rank == 2;
    return is(node, "dense") && node->options.last_axis && shape->rank == 2;
}

ls_status ls_context_check(const ls_graph *g, int64_t places)
{
    char name[LS_NODE_NAME];
    for (int n = 0; n < g->count; n++)
        if (!takes_positions(&g->nodes[n]))
            return ls_fail(LS_CODE_USAGE, "strategy", "context-parallel",
                           "context-parallel divides the positions of sequences, but the layer %s "
                           "does not compute each position separately; use --model gpt",
                           ls_graph_node_name(g, n, name));
    for (int n = 0; n < g->count; n++) {
        const ls_node *node = &g->nodes[n];
        if (is(node, "attention") && places > node->options.units)
            return ls_fail(LS_CODE_USAGE, "option", "--devices",
                           "each of the %lld devices needs a head of the layer %s, which has only "
                           "%lld heads; use at most %lld devices",
                           (long long)places, ls_graph_node_name(g, n, name),
                           (long long)node->options.units, (long long)node->options.units);
    }
    const int64_t positions = g->nodes[g->count - 1].shape.size[0];
    if (places > LS_CONTEXT_PLACES)
        return ls_fail(LS_CODE_USAGE, "option", "--devices",
                       "%lld devices are too many for the positions of a sequence; use at most %d",
                       (long long)places, LS_CONTEXT_PLACES);
    if (2 * places > positions)
        return ls_fail(
            LS_CODE_USAGE, "option", "--devices",
            "each of %lld devices needs two separate parts of a sequence, but a sequence has only "
            "%lld positions; use at most %lld devices",
            (long long)places, (long long)positions, (long long)(positions / 2));
    return LS_OK;
}

/* ---- Building -------------------------------------------------------------------------------- */

typedef struct builder {
    const ls_graph *whole;
    ls_graph *all;
    int places;
    int *at;    /* [nodes of the whole, places] node here with that place's output */
    int *place; /* [nodes here] */
} builder;

static int *node_at(const builder *b, int n, int j)
{
    return &b->at[n * b->places + j];
}

/* Appends a node with the given inputs. */
static ls_status append(builder *b, const ls_node *like, int place, const int *inputs, int count,
                        int *out)
{
    ls_graph *g = b->all;
    LS_TRY(ls_grow("context", &g->nodes, (size_t)g->count, sizeof(ls_node)));
    LS_TRY(ls_grow("context", &b->place, (size_t)g->count, sizeof *b->place));
    ls_node *node = &g->nodes[g->count];
    *node = *like;
    node->uses = 0;
    node->input_count = count;
    for (int i = 0; i < count; i++) {
        node->inputs[i] = inputs[i];
        g->nodes[inputs[i]].uses++;
    }
    b->place[g->count] = place;
    *out = g->count++;
    return LS_OK;
}

/* Node n of place j: with its positions and separate variables. */
static ls_status append_alone(builder *b, int n, int j)
{
    const ls_node *whole = &b->whole->nodes[n];
    ls_node node = *whole;
    char name[LS_NODE_NAME];
    int inputs[LS_NODE_INPUTS];
    for (int i = 0; i < whole->input_count; i++)
        inputs[i] = *node_at(b, whole->inputs[i], j);
    node.shape.size[0] = ls_context_positions(whole->shape.size[0], j, b->places);
    if (whole->layer->role == LS_LAYER_INPUT)
        node.options.shape = node.shape;
    else
        snprintf(node.options.name, sizeof node.options.name, "%.27s",
                 ls_graph_node_name(b->whole, n, name));
    const ls_node *owner =
        whole->shares >= 0 ? &b->all->nodes[*node_at(b, whole->shares, j)] : NULL;
    if (owner) {
        node.shares = *node_at(b, whole->shares, j);
        memcpy(node.variables, owner->variables, sizeof node.variables);
    }
    for (int v = 0; v < whole->variable_count && !owner; v++) {
        node.variables[v] = (int)b->all->variables.count;
        LS_TRY(
            ls_variables_add(&b->all->variables, &b->whole->variables.items[whole->variables[v]]));
    }
    return append(b, &node, j, inputs, whole->input_count, node_at(b, n, j));
}

/* A node that deals to place `to`, or collects at place j. */
static ls_node exchange_node(const builder *b, int n, const ls_layer *layer, bool heads)
{
    const ls_node *attention = &b->whole->nodes[n];
    return (ls_node){.layer = layer,
                     .shares = -1,
                     .shape = attention->shape,
                     .options.unit = attention->options.unit,
                     .options.exchange = {.places = b->places,
                                          .heads = heads ? attention->options.units : 0,
                                          .ranges = 1}};
}

/*
 * Appends deals from every place to every other one, then a collect at each. from[j]: the node at
 * place j. First whole heads are dealt, three ranges of them, and positions collected; `back`: the
 * other way round.
 */
static ls_status append_exchange(builder *b, int n, bool back, const int *from, int *out)
{
    const ls_node *attention = &b->whole->nodes[n];
    const int64_t T = attention->shape.size[0], H = attention->options.units;
    const int64_t each = attention->shape.size[1] / H; /* channels of a head */
    const int c = b->places, ranges = back ? 1 : 3;
    int dealt[LS_CONTEXT_PLACES][LS_CONTEXT_PLACES];
    char name[LS_NODE_NAME];
    ls_graph_node_name(b->whole, n, name);
    for (int i = 0; i < c; i++)
        for (int j = 0; j < c; j++) {
            ls_node deal = exchange_node(b, n, &ls_layer_deal, !back);
            deal.options.exchange.place = j;
            deal.options.exchange.ranges = ranges;
            deal.shape.size[0] = ls_context_positions(T, back ? j : i, c);
            deal.shape.size[1] = ranges * each * ls_context_heads(H, back ? i : j, c);
            snprintf(deal.options.name, sizeof deal.options.name, "%.14s, %s", name,
                     back ? "positions" : "heads");
            LS_TRY(append(b, &deal, i, &from[i], 1, &dealt[j][i]));
        }
    for (int j = 0; j < c; j++) {
        ls_node collect = exchange_node(b, n, &ls_layer_collect, back);
        collect.shape.size[0] = back ? ls_context_positions(T, j, c) : T;
        collect.shape.size[1] = back ? each * H : ranges * each * ls_context_heads(H, j, c);
        snprintf(collect.options.name, sizeof collect.options.name, "%.14s, %s", name,
                 back ? "output" : "input");
        LS_TRY(append(b, &collect, j, dealt[j], c, &out[j]));
    }
    return LS_OK;
}

static ls_status append_attention(builder *b, int n)
{
    const ls_node *whole = &b->whole->nodes[n];
    const int64_t H = whole->options.units, each = whole->shape.size[1] / H;
    int from[LS_CONTEXT_PLACES], at[LS_CONTEXT_PLACES];
    char name[LS_NODE_NAME];
    LS_TRY(append_exchange(b, n, false, node_at(b, whole->inputs[0], 0), at));
    for (int j = 0; j < b->places; j++) {
        ls_node node = *whole;
        node.options.units = ls_context_heads(H, j, b->places);
        node.shape.size[1] = each * node.options.units;
        snprintf(node.options.name, sizeof node.options.name, "%.27s",
                 ls_graph_node_name(b->whole, n, name));
        LS_TRY(append(b, &node, j, &at[j], 1, &from[j]));
    }
    return append_exchange(b, n, true, from, node_at(b, n, 0));
}

ls_status ls_context_open(const ls_graph *whole, int places, ls_graph **all, ls_graph_parts *out)
{
    builder b = {.whole = whole, .places = places};
    *out = (ls_graph_parts){0};
    *all = NULL;
    ls_status status = ls_graph_open(&b.all);
    *all = b.all;
    if (!status)
        status = ls_allocate("context", &b.at, (size_t)whole->count * (size_t)places, sizeof *b.at);
    for (int n = 0; n < whole->count && !status; n++) {
        if (is(&whole->nodes[n], "attention") && places > 1)
            status = append_attention(&b, n);
        else
            for (int j = 0; j < places && !status; j++)
                status = append_alone(&b, n, j);
    }
    if (!status)
        status = ls_graph_parts_open(b.all, b.place, places, out);
    if (status)
        free(b.place);
    else
        out->own_place = b.place;
    free(b.at);
    for (int j = 0; j < places && !status; j++) {
        /* Notes that a place has all variables, and which positions it has. */
        ls_graph_part *part = &out->parts[j];
        for (size_t v = 0; v < part->graph->variables.count; v++)
            part->whole[v] = whole->variables.items[v].offset;
        if (out->count > 1)
            part->graph->blocks =
                ls_context_blocks(whole->nodes[whole->count - 1].shape.size[0], j, out->count);
    }
    return status;
}
