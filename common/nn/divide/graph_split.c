/* SPDX-License-Identifier: MIT */
/* Split layers; see graph_split.h. */
#include "common/nn/divide/graph_split_private.h"

#include "common/base/grow.h"
#include "common/comm/comm.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- Pairs ----------------------------------------------------------------------------------- */

enum { INNER_MOST = 4 }; /* most layers between the two of a pair */

/* Two dense layers and what is between them: numbers of nodes in the whole. */
typedef struct pair {
    int first, last;
    int inner[INNER_MOST], count;
    int64_t heads; /* of an attention between them; 0 if there is none */
} pair;

/* Whether a node is a dense layer with unshared variables. */
static bool is_lone_dense(const ls_graph *g, int n)
{
    bool lone = ls_split_is(&g->nodes[n], "dense") && g->nodes[n].shares < 0;
    for (int other = n + 1; other < g->count && lone; other++)
        lone = g->nodes[other].shares != n;
    return lone;
}

/* The node after node n, if it alone takes the output of n, and nothing else; -1 if it does not. */
static int only_user(const ls_graph *g, int n)
{
    const ls_node *user = &g->nodes[n + 1];
    return n + 1 < g->count && g->nodes[n].uses == 1 && user->input_count == 1 &&
                   user->inputs[0] == n
               ? n + 1
               : -1;
}

/* Whether a pair begins with node n. */
static bool find_pair(const ls_graph *g, int n, pair *out)
{
    *out = (pair){.first = n};
    if (!is_lone_dense(g, n))
        return false;
    for (int at = only_user(g, n); at >= 0; at = only_user(g, at)) {
        const ls_node *node = &g->nodes[at];
        out->last = at;
        if (ls_split_is(node, "dense"))
            return is_lone_dense(g, at) &&
                   node->options.last_axis == g->nodes[n].options.last_axis &&
                   g->nodes[at].shape.rank == g->nodes[n].shape.rank;
        const bool attends = ls_split_is(node, "attention");
        if (out->count == INNER_MOST ||
            !(attends || ls_split_is(node, "relu") || ls_split_is(node, "gelu") ||
              (ls_split_is(node, "dropout") && node->shape.rank == 1)) ||
            (attends && out->heads))
            return false;
        out->heads = attends ? node->options.units : out->heads;
        out->inner[out->count++] = at;
    }
    return false;
}

int ls_split_pair_end(const ls_graph *g, int n)
{
    pair p;
    return find_pair(g, n, &p) ? p.last : -1;
}

/* What is divided evenly: heads, or the first layer's outputs. */
static int64_t units_of(const ls_graph *g, const pair *p)
{
    return p->heads ? p->heads : g->nodes[p->first].options.units;
}

ls_status ls_graph_split_check(const ls_graph *g, int64_t splits, const char *option)
{
    int pairs = 0;
    if (splits > LS_SPLITS)
        return ls_fail(
            LS_CODE_USAGE, "option", option,
            "%lld parts of a layer are too many; change %s so that a layer has at most %d parts",
            (long long)splits, option, (int)LS_SPLITS);
    for (int n = 0; n < g->count; n++) {
        pair p;
        char name[LS_NODE_NAME];
        if (!find_pair(g, n, &p))
            continue;
        pairs++;
        n = p.last;
        if (units_of(g, &p) < splits)
            return ls_fail(LS_CODE_USAGE, "option", option,
                           "the layer %s has %lld %s, which cannot be split into %lld parts; "
                           "change %s so that a layer has at most %lld parts",
                           ls_graph_node_name(g, p.first, name), (long long)units_of(g, &p),
                           p.heads ? "heads" : "columns", (long long)splits, option,
                           (long long)units_of(g, &p));
    }
    LS_TRY(ls_split_check_vocabulary(g, splits, option));
    return pairs ? LS_OK
                 : ls_fail(LS_CODE_USAGE, "option", option,
                           "the model has no pair of dense layers that can be split (with only "
                           "relu, gelu, dropout or attention between the two); use --model mlp, "
                           "cifar10 or gpt");
}

/* ---- Building the split graph ---------------------------------------------------------------- */

/* Notes variables from number `from` on, which are like the variables of the whole's node. */
ls_status ls_split_note_variables(const ls_split_builder *b, size_t from, const int *like)
{
    const ls_variables *variables = &b->part->graph->variables;
    for (size_t v = from; v < variables->count; v++) {
        const ls_variable *variable = &b->whole->variables.items[like[v - from]];
        LS_TRY(ls_graph_part_note(b->part, v, variable->offset,
                                  (ls_slab){.rows = 1, .ranges = 1, .width = variable->count},
                                  variables->items[v].offset));
    }
    return LS_OK;
}

static ls_status note_origin(const ls_split_builder *b, int node, int origin)
{
    LS_TRY(ls_grow("split", &b->part->origin, (size_t)node, sizeof *b->part->origin));
    b->part->origin[node] = origin;
    return LS_OK;
}

/* Appends a node made of node n's layer, named after it, with the given options and inputs. */
ls_status ls_split_append(ls_split_builder *b, int n, const ls_layer_options *options,
                          const int *inputs, int *out)
{
    const ls_node *node = &b->whole->nodes[n];
    ls_graph *graph = b->part->graph;
    const size_t variables = graph->variables.count;
    ls_layer_options named = *options;
    char name[LS_NODE_NAME];
    ls_graph_node_name(b->whole, n, name);
    if (b->slice && !ls_split_is(node, "dropout")) /* whose stream is the whole node's name */
        snprintf(named.name, sizeof named.name, "%.20s[%d]", name, (uint8_t)(b->slice - 1));
    else if (node->layer->role == LS_LAYER_COMPUTE)
        snprintf(named.name, sizeof named.name, "%.27s", name);
    const bool shares_slice = b->slice && node->shares >= 0;
    LS_TRY(ls_graph_add(graph, node->layer->name, inputs,
                        b->shared >= 0      ? b->shared
                        : shares_slice      ? b->embedding[b->slice - 1]
                        : node->shares >= 0 ? b->part->local[node->shares]
                                            : -1,
                        &named, out));
    graph->nodes[*out].slice = b->slice;
    LS_TRY(note_origin(b, *out, n));
    return ls_split_note_variables(b, variables, node->variables);
}

/* Appends a fork or a join, which has node n's name and shape. */
ls_status ls_split_append_meeting(ls_split_builder *b, const ls_layer *layer, int n,
                                  const ls_shape *shape, const int *inputs, int count, int *out)
{
    ls_graph *graph = b->part->graph;
    char name[LS_NODE_NAME];
    LS_TRY(ls_grow("split", &graph->nodes, (size_t)graph->count, sizeof(ls_node)));
    ls_node *node = &graph->nodes[graph->count];
    *node = (ls_node){.layer = layer, .shares = -1, .shape = *shape, .input_count = count};
    node->options.unit = b->whole->nodes[n].options.unit;
    snprintf(node->options.name, sizeof node->options.name, "%.27s",
             ls_graph_node_name(b->whole, n, name));
    for (int i = 0; i < count; i++) {
        node->inputs[i] = inputs[i];
        graph->nodes[inputs[i]].uses++;
    }
    *out = graph->count++;
    return note_origin(b, *out, n);
}

ls_slab *ls_split_slab_of(const ls_split_builder *b, const ls_node *node, int v)
{
    return &b->part->slabs[node->variables[v]];
}

/* The first element of a slab in the whole. */
void ls_split_move_slab(const ls_split_builder *b, const ls_node *node, int v, size_t elements)
{
    b->part->whole[node->variables[v]] += elements;
}

/* Columns (outputs) first to first + count - 1 of each of `ranges` equal parts of a dense layer. */
static void cut_outputs(const ls_split_builder *b, int n, int part_node, size_t first, size_t count,
                        size_t ranges)
{
    const ls_node *whole = &b->whole->nodes[n], *node = &b->part->graph->nodes[part_node];
    const ls_variable *weight = &b->whole->variables.items[whole->variables[0]];
    const size_t outputs = (size_t)whole->options.units, inputs = weight->count / outputs;
    const bool turned = whole->options.input_major;
    const size_t each = turned ? 1 : inputs; /* elements from one output to the next */
    *ls_split_slab_of(b, node, 0) = (ls_slab){.rows = turned ? inputs : 1,
                                              .row_stride = outputs,
                                              .ranges = ranges,
                                              .range_stride = outputs / ranges * each,
                                              .width = count * each};
    ls_split_move_slab(b, node, 0, first * each);
    if (node->variable_count < 2)
        return;
    *ls_split_slab_of(b, node, 1) =
        (ls_slab){.rows = 1, .ranges = ranges, .range_stride = outputs / ranges, .width = count};
    ls_split_move_slab(b, node, 1, first);
}

/* Inputs first to first + count - 1 of a dense layer. */
static void cut_inputs(const ls_split_builder *b, int n, int part_node, size_t first, size_t count)
{
    const ls_node *whole = &b->whole->nodes[n], *node = &b->part->graph->nodes[part_node];
    const ls_variable *weight = &b->whole->variables.items[whole->variables[0]];
    const size_t outputs = (size_t)whole->options.units, inputs = weight->count / outputs;
    const bool turned = whole->options.input_major;
    *ls_split_slab_of(b, node, 0) = (ls_slab){.rows = turned ? 1 : outputs,
                                              .row_stride = inputs,
                                              .ranges = 1,
                                              .width = count * (turned ? outputs : 1)};
    ls_split_move_slab(b, node, 0, first * (turned ? outputs : 1));
}

/* One slice of a pair, from node `x` on; sets *out to its partial product. */
static ls_status append_slice(ls_split_builder *b, const pair *p, int x, int s, int *out)
{
    const ls_node *first = &b->whole->nodes[p->first], *last = &b->whole->nodes[p->last];
    const int64_t units = units_of(b->whole, p), ranges = p->heads ? 3 : 1;
    const int64_t begin = (int64_t)ls_comm_share((size_t)units, s, b->splits);
    const int64_t own = (int64_t)ls_comm_share((size_t)units, s + 1, b->splits) - begin;
    const int64_t each = first->options.units / ranges / units; /* columns of a unit */
    ls_layer_options columns = first->options, rows = last->options;
    int node;
    b->slice = s + 1;
    columns.units = own * each * ranges;
    LS_TRY(ls_split_append(b, p->first, &columns, (int[]){x, -1}, &node));
    cut_outputs(b, p->first, node, (size_t)(begin * each), (size_t)(own * each), (size_t)ranges);
    for (int i = 0; i < p->count; i++) {
        ls_layer_options inner = b->whole->nodes[p->inner[i]].options;
        inner.units = p->heads ? own : inner.units;
        if (ls_split_is(&b->whole->nodes[p->inner[i]], "dropout")) {
            inner.all = first->options.units;
            inner.first = begin * each;
        }
        LS_TRY(ls_split_append(b, p->inner[i], &inner, (int[]){node, -1}, &node));
    }
    rows.no_bias = true;
    LS_TRY(ls_split_append(b, p->last, &rows, (int[]){node, -1}, out));
    cut_inputs(b, p->last, *out, (size_t)(begin * each), (size_t)(own * each));
    b->slice = 0;
    return LS_OK;
}

/* The second layer's bias, of the join. */
static ls_status append_bias(ls_split_builder *b, const pair *p, int join)
{
    const ls_node *last = &b->whole->nodes[p->last];
    ls_graph *graph = b->part->graph;
    if (last->variable_count < 2)
        return LS_OK;
    const size_t variables = graph->variables.count;
    LS_TRY(ls_graph_variable(graph, &graph->nodes[join], "bias",
                             &b->whole->variables.items[last->variables[1]]));
    return ls_split_note_variables(b, variables, &last->variables[1]);
}

static ls_status append_pair(ls_split_builder *b, const pair *p)
{
    const ls_node *first = &b->whole->nodes[p->first], *last = &b->whole->nodes[p->last];
    int x, part[LS_SPLITS], join;
    LS_TRY(ls_split_take(b, first->inputs[0], p->first, &x));
    if (ls_graph_wants_gradient(b->whole, first->inputs[0])) {
        const ls_shape shape = b->part->graph->nodes[x].shape;
        LS_TRY(ls_split_append_meeting(b, &ls_layer_fork, p->first, &shape, &x, 1, &x));
    }
    for (int s = 0; s < b->splits; s++)
        LS_TRY(append_slice(b, p, x, s, &part[s]));
    LS_TRY(
        ls_split_append_meeting(b, &ls_layer_join, p->last, &last->shape, part, b->splits, &join));
    b->part->local[p->last] = join;
    if (b->in_blocks)
        return ls_split_append_blocks(b, p->last, join,
                                      last->variable_count > 1 ? &last->variables[1] : NULL);
    return append_bias(b, p, join);
}

static ls_status append_whole(ls_split_builder *b, int n)
{
    const ls_node *node = &b->whole->nodes[n];
    int inputs[LS_NODE_INPUTS + 1];
    for (int i = 0; i < node->input_count; i++)
        inputs[i] = b->part->local[node->inputs[i]];
    inputs[node->input_count] = -1;
    return ls_split_append(b, n, &node->options, inputs, &b->part->local[n]);
}

static ls_status append_all(ls_split_builder *b)
{
    for (int n = 0; n < b->whole->count; n++) {
        pair p;
        const bool splits_here = b->splits > 1 && find_pair(b->whole, n, &p);
        LS_TRY(splits_here                     ? append_pair(b, &p)
               : ls_split_is_vocabulary(b, n)  ? ls_split_append_vocabulary(b, n)
               : ls_split_goes_in_blocks(b, n) ? ls_split_append_in_blocks(b, n)
                                               : append_whole(b, n));
        n = splits_here ? p.last : n;
    }
    return LS_OK;
}

ls_status ls_graph_split(const ls_graph *whole, int splits, bool sequence,
                         const ls_allreduce *order, ls_graph_part *out)
{
    const size_t nodes = (size_t)whole->count;
    ls_split_builder b = {.whole = whole, .part = out, .splits = splits, .shared = -1};
    *out = (ls_graph_part){0};
    b.splits_vocabulary = splits > 1 && ls_split_find_vocabulary(whole, &b.has);
    LS_TRY(ls_graph_open(&out->graph));
    ls_status status = ls_allocate("split", &out->local, nodes, sizeof *out->local);
    if (!status && sequence && splits > 1)
        status = ls_allocate("split", &b.in_blocks, nodes, sizeof *b.in_blocks);
    if (!status && b.in_blocks)
        status = ls_allocate("split", &b.blocks, nodes, sizeof *b.blocks);
    if (!status)
        status = append_all(&b);
    free(b.in_blocks);
    free(b.blocks);
    LS_TRY(status);
    out->split = out->graph;
    out->graph->slices = (ls_graph_slices){
        .splits = splits, .places = 1, .sequence = sequence && splits > 1, .order = order};
    out->owned = out->graph->variables.elements;
    return LS_OK;
}

void ls_graph_split_stages(const ls_graph *g, int *stage)
{
    for (int n = 0; n < g->count; n++) {
        pair p;
        if (!find_pair(g, n, &p))
            continue;
        for (int i = 0; i < p.count; i++)
            stage[p.inner[i]] = stage[n];
        stage[p.last] = stage[n];
        n = p.last;
    }
    ls_split_vocabulary v;
    if (ls_split_find_vocabulary(g, &v))
        stage[v.head] = stage[v.loss];
}
