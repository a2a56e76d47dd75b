/* SPDX-License-Identifier: MIT */
/* Graph building with shape inference; see graph.h. */
#include "common/nn/graph.h"

#include "common/base/grow.h"
#include "common/nn/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t ls_shape_elements(const ls_shape *shape)
{
    int64_t elements = 1;
    for (int i = 0; i < shape->rank; i++)
        elements *= shape->size[i];
    return elements;
}

int64_t ls_shape_positions(const ls_shape *shape)
{
    int64_t positions = 1;
    for (int i = 0; i + 1 < shape->rank; i++)
        positions *= shape->size[i];
    return positions;
}

ls_status ls_graph_open(ls_graph **out)
{
    ls_graph *graph;
    LS_TRY(ls_allocate("graph", &graph, 1, sizeof *graph));
    *out = graph;
    return LS_OK;
}

void ls_graph_close(ls_graph *graph)
{
    if (!graph)
        return;
    ls_variables_clear(&graph->variables);
    free(graph->nodes);
    free(graph);
}

/* The number of earlier nodes of this layer that own their variables. */
static int index_of_kind(const ls_graph *graph, const ls_node *node)
{
    int index = 0;
    for (const ls_node *n = graph->nodes; n < graph->nodes + graph->count && n != node; n++)
        index += n->layer == node->layer && n->shares < 0;
    return index;
}

ls_status ls_graph_variable(ls_graph *graph, ls_node *node, const char *kind,
                            const ls_variable *like)
{
    ls_variable variable = *like;
    if (node->options.name[0])
        snprintf(variable.name, sizeof variable.name, "%s.%s", node->options.name, kind);
    else
        snprintf(variable.name, sizeof variable.name, "%s%d.%s", node->layer->name,
                 index_of_kind(graph, node), kind);
    node->variables[node->variable_count++] = (int)graph->variables.count;
    return ls_variables_add(&graph->variables, &variable);
}

/* Whether two uses of a layer's variables compute alike. */
static bool same_options(const ls_layer_options *a, const ls_layer_options *b)
{
    return a->units == b->units && a->no_bias == b->no_bias &&
           a->window.height == b->window.height && a->window.width == b->window.width &&
           a->window.stride == b->window.stride && a->window.same == b->window.same &&
           a->centred == b->centred && a->global_max == b->global_max &&
           a->all_states == b->all_states && a->input_major == b->input_major;
}

/* Uses the shared node's variables instead of the new ones; both must have the same shapes. */
static ls_status share_variables(ls_graph *graph, ls_node *node)
{
    const ls_node *owner = &graph->nodes[node->shares];
    const bool tied =
        node->layer->shares_of && strcmp(node->layer->shares_of, owner->layer->name) == 0;
    if (owner->shares >= 0 || (owner->layer != node->layer && !tied) ||
        (!tied && !same_options(&owner->options, &node->options)))
        return ls_fail(LS_CODE_USAGE, "graph", node->layer->name,
                       "this layer can share variables only with a layer of the same kind and "
                       "options that has its own variables; name such a layer");
    /* Infers with a copied count of variables, so that different shapes are detected. */
    size_t before = graph->variables.count, elements = graph->variables.elements;
    LS_TRY(node->layer->infer(graph, node));
    bool same = node->variable_count == owner->variable_count;
    for (int i = 0; i < node->variable_count && same; i++) {
        const ls_variable *a = &graph->variables.items[node->variables[i]];
        const ls_variable *b = &graph->variables.items[owner->variables[i]];
        same = a->rank == b->rank && memcmp(a->shape, b->shape, sizeof a->shape) == 0;
    }
    graph->variables.count = before;
    graph->variables.elements = elements;
    if (!same)
        return ls_fail(LS_CODE_USAGE, "graph", node->layer->name,
                       "the variables to share do not fit the shape of this layer's input; share "
                       "the variables of a layer whose input has the same shape");
    memcpy(node->variables, owner->variables, sizeof node->variables);
    return LS_OK;
}

ls_status ls_graph_add_layer(ls_graph *graph, const ls_layer *layer, const int *inputs, int shares,
                             const ls_layer_options *options, int *out)
{
    LS_TRY(ls_grow("graph", &graph->nodes, (size_t)graph->count, sizeof(ls_node)));
    ls_node *node = &graph->nodes[graph->count];
    *node = (ls_node){.layer = layer, .shares = shares};
    if (options)
        node->options = *options;
    for (; inputs && inputs[node->input_count] >= 0; node->input_count++) {
        int input = inputs[node->input_count];
        if (node->input_count == LS_NODE_INPUTS || input >= graph->count)
            return ls_fail(LS_CODE_USAGE, "graph", layer->name,
                           "node %d is not earlier than this layer, or the layer has too many "
                           "inputs; give only earlier nodes, and at most %d inputs",
                           input, LS_NODE_INPUTS);
        for (int i = 0; i < node->input_count; i++)
            if (node->inputs[i] == input)
                return ls_fail(LS_CODE_USAGE, "graph", layer->name,
                               "this layer takes node %d twice; give two different nodes", input);
        node->inputs[node->input_count] = input;
    }
    const int least = layer->inputs, most = least + layer->more_inputs;
    if (node->input_count < least || node->input_count > most)
        return ls_fail(LS_CODE_USAGE, "graph", layer->name,
                       "the number of inputs is %d, but this layer needs at %s %d; give %s inputs",
                       node->input_count, node->input_count < least ? "least" : "most",
                       node->input_count < least ? least : most,
                       node->input_count < least ? "more" : "fewer");
    if (shares >= graph->count)
        return ls_fail(LS_CODE_USAGE, "graph", layer->name,
                       "the layer to share variables with (node %d) is not earlier than this "
                       "layer; name an earlier one",
                       shares);
    LS_TRY(shares >= 0 ? share_variables(graph, node) : node->layer->infer(graph, node));
    for (int i = 0; i < node->input_count; i++)
        graph->nodes[node->inputs[i]].uses++;
    *out = graph->count++;
    return LS_OK;
}

ls_status ls_graph_add(ls_graph *graph, const char *layer, const int *inputs, int shares,
                       const ls_layer_options *options, int *out)
{
    const ls_layer *found;
    LS_TRY(ls_layer_find(layer, &found));
    return ls_graph_add_layer(graph, found, inputs, shares, options, out);
}

bool ls_graph_fuses_relu(const ls_graph *graph, int n)
{
    const ls_node *node = &graph->nodes[n];
    const ls_node *before = node->input_count ? &graph->nodes[node->inputs[0]] : NULL;
    return strcmp(node->layer->name, "relu") == 0 && before->layer->fuses_relu &&
           before->uses == 1 && !before->exported;
}

const ls_node *ls_graph_input(const ls_graph *graph, int index)
{
    for (int n = 0; n < graph->count; n++)
        if (graph->nodes[n].layer->role == LS_LAYER_INPUT && graph->nodes[n].options.input == index)
            return &graph->nodes[n];
    return NULL;
}

bool ls_graph_takes_labels(const ls_graph *graph)
{
    return graph->nodes[graph->count - 1].layer->integer_target;
}

int64_t ls_graph_targets(const ls_graph *graph)
{
    return ls_shape_positions(&graph->nodes[graph->count - 1].shape);
}

bool ls_graph_wants_gradient(const ls_graph *graph, int n)
{
    bool *reached = calloc((size_t)n + 1, sizeof *reached), wanted = !reached; /* no memory: safe */
    for (int m = n; m >= 0 && !wanted; m--) { /* each once, however many ways lead to it */
        const ls_node *node = &graph->nodes[m];
        if (m < n && !reached[m])
            continue;
        wanted = node->variable_count || node->border_gradient;
        for (int i = 0; i < node->input_count; i++)
            reached[node->inputs[i]] = true;
    }
    free(reached);
    return wanted;
}

const char *ls_graph_node_name(const ls_graph *graph, int n, char text[LS_NODE_NAME])
{
    const ls_node *node = &graph->nodes[n];
    int owner = node->shares >= 0 ? node->shares : n, uses = 0, use = 0;
    for (int other = owner; other < graph->count; other++) {
        if (other != owner && graph->nodes[other].shares != owner)
            continue;
        use = other == n ? uses : use;
        uses++;
    }
    const bool named = *node->options.name;
    const ls_node *owning = &graph->nodes[owner];
    const char *name = owning->options.name; /* the variables' name */
    int used = named   ? snprintf(text, LS_NODE_NAME, "%s", node->options.name)
               : *name ? snprintf(text, LS_NODE_NAME, "%.28s", name)
                       : snprintf(text, LS_NODE_NAME, "%.28s%d", owning->layer->name,
                                  index_of_kind(graph, owning));
    if (uses > 1 && used > 0 && !named)
        snprintf(text + used, LS_NODE_NAME - (size_t)used, "/%c", 'a' + use % 26);
    return text;
}

double ls_graph_node_flops(const ls_graph *graph, int n)
{
    const ls_node *node = &graph->nodes[n];
    double input_gradient = 0;
    if (!node->layer->flops)
        return 0;
    double flops = node->layer->flops(graph, node, &input_gradient);
    return ls_graph_wants_gradient(graph, node->inputs[0]) ? flops + input_gradient : flops;
}

double ls_graph_flops(const ls_graph *graph)
{
    double flops = 0;
    for (int n = 0; n < graph->count; n++)
        flops += ls_graph_node_flops(graph, n);
    return flops;
}

/* ---- Units ----------------------------------------------------------------------------------- */

void ls_graph_end_block(ls_graph *graph, int first)
{
    const int before = first ? graph->nodes[first - 1].options.unit : 0;
    for (int n = first; n < graph->count; n++)
        graph->nodes[n].options.unit = before + 1;
}

void ls_graph_number_units(ls_graph *graph)
{
    int unit = 0;
    for (int n = 0; n < graph->count; n++)
        if (graph->nodes[n].options.unit)
            return;
    for (int n = 0; n < graph->count; n++) {
        ls_node *node = &graph->nodes[n];
        unit += node->variable_count > 0;
        node->options.unit = node->layer->role == LS_LAYER_COMPUTE ? unit : 0;
    }
}
