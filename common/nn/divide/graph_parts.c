/* SPDX-License-Identifier: MIT */
/* Parts of a placed graph; see graph_parts.h. */
#include "common/nn/divide/graph_parts.h"

#include "common/base/grow.h"
#include "common/nn/layer.h"

#include <stdlib.h>
#include <string.h>

int ls_graph_slice(const ls_graph *graph, size_t variable)
{
    for (int n = 0; n < graph->count; n++)
        for (int v = 0; v < graph->nodes[n].variable_count; v++)
            if (graph->nodes[n].variables[v] == (int)variable)
                return graph->nodes[n].slice;
    return 0;
}

/* Visits elements `some` of a slab; number `at` of the range is the first of them. */
static void each_of_slab(const ls_slab *slab, ls_range some, size_t at, size_t whole,
                         ls_graph_part_visit *visit, void *context)
{
    const size_t end = some.first + some.count;
    for (size_t i = some.first, count; i < end; i += count, at += count) {
        const size_t range = i / slab->width, in = i % slab->width;
        count = slab->width - in < end - i ? slab->width - in : end - i;
        visit(context, at,
              whole + range / slab->ranges * slab->row_stride +
                  range % slab->ranges * slab->range_stride + in,
              count);
    }
}

static void each_of_variable(const ls_graph_part *part, size_t v, ls_range range,
                             ls_graph_part_of of, ls_graph_part_visit *visit, void *context)
{
    const ls_variable *variable = &part->graph->variables.items[v];
    const ls_range both = ls_range_common(range, (ls_range){variable->offset, variable->count});
    const ls_slab all = {.rows = 1, .ranges = 1, .width = variable->count};
    if (both.count && (of == LS_ALL_OF || ls_graph_slice(part->graph, v)))
        each_of_slab(part->slabs ? &part->slabs[v] : &all,
                     (ls_range){both.first - variable->offset, both.count},
                     both.first - range.first, part->whole[v], visit, context);
}

void ls_graph_part_each(const ls_graph_part *part, ls_range range, ls_graph_part_of of,
                        ls_graph_part_visit *visit, void *context)
{
    if (!part) {
        visit(context, 0, range.first, range.count);
        return;
    }
    for (size_t v = 0; v < part->graph->variables.count; v++)
        each_of_variable(part, v, range, of, visit, context);
}

/* Elements of a part that the model has in a range, and what is to be done with them. */
typedef struct chosen {
    ls_range within;
    float *host, *model; /* copied; `host` NULL if nothing is */
    bool back;
    size_t begin, end; /* where they are in the range of the part */
} chosen;

static void choose(void *context, size_t at, size_t model, size_t count)
{
    chosen *c = context;
    const ls_range both = ls_range_common(c->within, (ls_range){model, count});
    at += both.first - model;
    if (both.count && c->host) {
        float *in_part = c->host + at, *in_model = c->model + (both.first - c->within.first);
        memcpy(c->back ? in_part : in_model, c->back ? in_model : in_part,
               both.count * sizeof *in_part);
    } else if (both.count) {
        c->begin = c->begin < at ? c->begin : at;
        c->end = at + both.count;
    }
}

/* A variable's elements are in the model's order, so its elements in a range are next to each
 * other. */
bool ls_graph_part_next(const ls_graph_part *part, ls_range range, ls_range within, size_t *v,
                        ls_range *out)
{
    const size_t count = part ? part->graph->variables.count : 1;
    *out = (ls_range){0};
    while (*v < count && !out->count) {
        chosen c = {.within = within, .begin = SIZE_MAX};
        if (part)
            each_of_variable(part, (*v)++, range, LS_ALL_OF, choose, &c);
        else
            choose(&c, (*v)++, range.first, range.count);
        if (c.begin < c.end)
            *out = (ls_range){range.first + c.begin, c.end - c.begin};
    }
    return out->count;
}

void ls_graph_part_copy(const ls_graph_part *part, ls_range range, float *values, ls_range within,
                        float *model, bool back)
{
    chosen c = {.within = within, .host = values, .model = model, .back = back};
    ls_graph_part_each(part, range, LS_ALL_OF, choose, &c);
}

ls_status ls_graph_part_note(ls_graph_part *part, size_t v, size_t whole, ls_slab slab, size_t at)
{
    LS_TRY(ls_grow("split", &part->whole, v, sizeof *part->whole));
    LS_TRY(ls_grow("split", &part->slabs, v, sizeof *part->slabs));
    LS_TRY(ls_grow("split", &part->at, v, sizeof *part->at));
    part->whole[v] = whole;
    part->slabs[v] = slab;
    part->at[v] = at;
    return LS_OK;
}

/* ---- What the whole graph says --------------------------------------------------------------- */

static bool is_input(const ls_node *node)
{
    return node->layer->role == LS_LAYER_INPUT;
}

/* What of a node follows from all that use it: gathered once, since graphs that are split over many
 * places have some 10,000 nodes. */
typedef struct node_uses {
    bool exported; /* a node on another place takes its output */
    bool copied;   /* of an owner of shared variables: several places use them */
} node_uses;

static node_uses *find_uses(const ls_graph *whole, const int *place)
{
    node_uses *uses = calloc((size_t)whole->count + 1, sizeof *uses);
    for (int user = 0; uses && user < whole->count; user++) {
        const ls_node *node = &whole->nodes[user];
        for (int i = 0; i < node->input_count; i++)
            uses[node->inputs[i]].exported |= place[node->inputs[i]] != place[user];
        if (node->shares >= 0)
            uses[node->shares].copied |= place[node->shares] != place[user];
    }
    return uses;
}

/* Whether node n needs its own copy of shared variables, since several places use them. */
static bool has_copy(const ls_graph *whole, const node_uses *uses, int n)
{
    return whole->nodes[n].shares >= 0 && uses[whole->nodes[n].shares].copied;
}

/* Gradients of one output are added in reverse order of its uses. So uses on other places, which
 * add there, must be the last ones, and all on one place. */
static ls_status check_order(const ls_graph *whole, const int *place)
{
    int *elsewhere, wrong = whole->count;
    LS_TRY(ls_allocate("parts", &elsewhere, (size_t)whole->count + 1, sizeof *elsewhere));
    memset(elsewhere, 0xff, (size_t)whole->count * sizeof *elsewhere); /* -1 */
    for (int user = 0; user < whole->count; user++)
        for (int i = 0; i < whole->nodes[user].input_count; i++) {
            const int n = whole->nodes[user].inputs[i], at = place[user];
            if (is_input(&whole->nodes[n]) || at == elsewhere[n] ||
                (elsewhere[n] < 0 && at == place[n]))
                continue;
            wrong = elsewhere[n] >= 0 && n < wrong ? n : wrong;
            elsewhere[n] = at;
        }
    free(elsewhere);
    char name[LS_NODE_NAME];
    return wrong == whole->count
               ? LS_OK
               : ls_fail(
                     LS_CODE_USAGE, "placement", ls_graph_node_name(whole, wrong, name),
                     "this layer's output is used on two other devices, or on another device and "
                     "later on its own device; place all layers that use it on one device");
}

/* ---- Building a part ------------------------------------------------------------------------- */

typedef struct builder {
    ls_graph_parts *out;
    const ls_graph *whole;
    const node_uses *uses;
    int number; /* of the place */
    ls_graph_part *part;
} builder;

static ls_status append_node(builder *b, int n, const ls_node *node)
{
    ls_graph *graph = b->part->graph;
    LS_TRY(ls_grow("parts", &graph->nodes, (size_t)graph->count, sizeof *node));
    graph->nodes[graph->count] = *node;
    b->part->local[n] = graph->count++;
    return LS_OK;
}

/* Adds a border for an input of node `user` from another place. */
static ls_status append_border(builder *b, int n, int user)
{
    const ls_node *from = &b->whole->nodes[n];
    const bool gradient = ls_graph_wants_gradient(b->whole, n);
    const ls_node node = {.layer = &ls_layer_border,
                          .options = {.input = -1},
                          .shares = -1,
                          .shape = from->shape,
                          .slice = from->slice,
                          .border_gradient = gradient};
    LS_TRY(ls_grow("parts", &b->out->borders, b->out->border_count, sizeof(ls_border)));
    b->out->borders[b->out->border_count++] =
        (ls_border){.node = n,
                    .from = b->out->place[n],
                    .to = b->number,
                    .first_use = user,
                    .gradient = gradient,
                    .samples = (size_t)ls_shape_elements(&from->shape)};
    return append_node(b, n, &node);
}

/* Adds the node's inputs, or borders for inputs on other places. */
static ls_status append_inputs(builder *b, int n)
{
    const ls_node *node = &b->whole->nodes[n];
    for (int i = 0; i < node->input_count; i++) {
        int m = node->inputs[i];
        if (b->part->local[m] >= 0)
            continue;
        LS_TRY(is_input(&b->whole->nodes[m]) ? append_node(b, m, &b->whole->nodes[m])
                                             : append_border(b, m, n));
    }
    return LS_OK;
}

/* A node of this place; its variables are added later. */
static ls_status append_own(builder *b, int n)
{
    ls_node node = b->whole->nodes[n];
    LS_TRY(append_inputs(b, n));
    for (int i = 0; i < node.input_count; i++)
        node.inputs[i] = b->part->local[node.inputs[i]];
    node.shares =
        node.shares >= 0 && !has_copy(b->whole, b->uses, n) ? b->part->local[node.shares] : -1;
    node.uses = 0;
    node.exported = b->uses[n].exported;
    node.copied = b->uses[n].copied || has_copy(b->whole, b->uses, n);
    LS_TRY(append_node(b, n, &node));
    const ls_node *part_node = &b->part->graph->nodes[b->part->local[n]];
    for (int i = 0; i < part_node->input_count; i++)
        b->part->graph->nodes[part_node->inputs[i]].uses++;
    return LS_OK;
}

/* Adds the variables of node n: the ones that this place owns or, in the second pass, copies. */
static ls_status append_variables(builder *b, int n, bool copies)
{
    const ls_node *whole = &b->whole->nodes[n];
    ls_node *node = &b->part->graph->nodes[b->part->local[n]];
    if (b->out->place[n] != b->number || node->shares >= 0 ||
        has_copy(b->whole, b->uses, n) != copies)
        return LS_OK;
    for (int v = 0; v < node->variable_count; v++) {
        size_t count = b->part->graph->variables.count;
        node->variables[v] = (int)count;
        const ls_variable *variable = &b->whole->variables.items[whole->variables[v]];
        b->part->whole[count] = variable->offset;
        LS_TRY(ls_variables_add(&b->part->graph->variables, variable));
    }
    return LS_OK;
}

/* Owned variables first, then copies; nodes that share variables follow their owners. */
static ls_status add_variables(builder *b)
{
    ls_graph *graph = b->part->graph;
    for (int pass = 0; pass < 2; pass++) {
        for (int n = 0; n < b->whole->count; n++)
            if (b->part->local[n] >= 0 && b->whole->nodes[n].variable_count)
                LS_TRY(append_variables(b, n, pass == 1));
        if (pass == 0)
            b->part->owned = graph->variables.elements;
    }
    for (int n = 0; n < graph->count; n++)
        if (graph->nodes[n].shares >= 0)
            memcpy(graph->nodes[n].variables, graph->nodes[graph->nodes[n].shares].variables,
                   sizeof graph->nodes[n].variables);
    return LS_OK;
}

static ls_status build_part(builder *b)
{
    const ls_graph *whole = b->whole;
    size_t n = (size_t)whole->count, variables = 0;
    for (int i = 0; i < whole->count; i++)
        variables += (size_t)whole->nodes[i].variable_count;
    LS_TRY(ls_allocate("parts", &b->part->local, n, sizeof *b->part->local));
    LS_TRY(ls_allocate("parts", &b->part->whole, variables, sizeof *b->part->whole));
    memset(b->part->local, -1, n * sizeof *b->part->local);
    LS_TRY(ls_graph_open(&b->part->graph));
    int own = 0;
    for (int i = 0; i < whole->count; i++) {
        if (b->out->place[i] != b->number || is_input(&whole->nodes[i]))
            continue;
        LS_TRY(append_own(b, i));
        own++;
    }
    if (!own)
        return ls_fail(
            LS_CODE_USAGE, "placement", "place",
            "no layer is placed on device number %d; name fewer devices, or place a layer there",
            b->number);
    return add_variables(b);
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static size_t offset_here(const ls_graph_parts *parts, int n, int v)
{
    const ls_graph_part *part = &parts->parts[parts->place[n]];
    const ls_node *node = &part->graph->nodes[part->local[n]];
    return part->graph->variables.items[node->variables[v]].offset;
}

static ls_status list_copies(ls_graph_parts *out, const node_uses *uses)
{
    const ls_graph *whole = out->whole;
    size_t most = 0;
    for (int n = 0; n < whole->count; n++)
        most += has_copy(whole, uses, n) ? (size_t)whole->nodes[n].variable_count : 0;
    LS_TRY(ls_allocate("parts", &out->copies, most, sizeof *out->copies));
    for (int n = 0; n < whole->count; n++) {
        for (int v = 0; has_copy(whole, uses, n) && v < whole->nodes[n].variable_count; v++) {
            int owner = whole->nodes[n].shares >= 0 ? whole->nodes[n].shares : n;
            out->copies[out->copy_count++] = (ls_variable_copy){
                .node = n,
                .owner = out->place[owner],
                .user = out->place[n],
                .at_owner = offset_here(out, owner, v),
                .at_user = offset_here(out, n, v),
                .count = whole->variables.items[whole->nodes[n].variables[v]].count,
            };
        }
    }
    return LS_OK;
}

ls_status ls_graph_parts_open(const ls_graph *whole, const int *place, int places,
                              ls_graph_parts *out)
{
    *out = (ls_graph_parts){.whole = whole, .place = place, .across = 1};
    LS_TRY(ls_allocate("parts", &out->parts, (size_t)places, sizeof *out->parts));
    out->count = places;
    node_uses *uses = find_uses(whole, place);
    ls_status status = uses ? check_order(whole, place) : ls_fail_memory("parts", sizeof *uses);
    for (int p = 0; p < places && !status; p++) {
        builder b = {out, whole, uses, p, &out->parts[p]};
        status = build_part(&b);
    }
    if (!status)
        status = list_copies(out, uses);
    free(uses);
    if (status)
        ls_graph_parts_close(out);
    return status;
}

ls_status ls_graph_parts_index(ls_graph_parts *parts)
{
    const size_t nodes = (size_t)(parts->whole ? parts->whole->count : 0) + 1;
    for (int end = 0; end < 2; end++)
        LS_TRY(ls_allocate("parts", &parts->border_of[end], nodes, sizeof *parts->border_of[end]));
    for (size_t i = parts->border_count; i-- > 0;) {
        ls_border *b = &parts->borders[i];
        const int of[2] = {b->node, b->first_use};
        for (int end = 0; end < 2; end++) {
            b->next[end] = parts->border_of[end][of[end]];
            parts->border_of[end][of[end]] = i + 1;
        }
    }
    return LS_OK;
}

void ls_graph_part_close(ls_graph_part *part)
{
    ls_graph_close(part->graph);
    free(part->local);
    free(part->whole);
    free(part->slabs);
    free(part->at);
    free(part->origin);
    free(part->chunk_node);
    free(part->chunk_element);
}

void ls_graph_parts_close(ls_graph_parts *parts)
{
    for (int p = 0; p < parts->count; p++)
        ls_graph_part_close(&parts->parts[p]);
    for (int p = 0; p < parts->merged_count; p++)
        ls_graph_part_close(&parts->merged[p]);
    free(parts->parts);
    free(parts->merged);
    free(parts->own_place);
    free(parts->borders);
    free(parts->border_of[0]);
    free(parts->border_of[1]);
    free(parts->copies);
    *parts = (ls_graph_parts){0};
}
