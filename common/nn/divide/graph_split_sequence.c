/* SPDX-License-Identifier: MIT */
/* Split layers: what lies between them in blocks of positions; see graph_split.h. */
#include "common/nn/divide/graph_split_private.h"

#include "common/base/grow.h"
#include "common/comm/comm.h"

#include <stdio.h>
#include <stdlib.h>

static bool takes_blocks(const ls_node *node)
{
    return ls_split_is(node, "positions") || ls_split_is(node, "layer_norm") ||
           ls_split_is(node, "add") || ls_split_is(node, "dropout");
}

/* Whether node n is computed in blocks, or what has them puts its slices together: its last node is
 * then *end. in_blocks[of]: whether node `of` before it is. */
static bool fits_blocks(const ls_graph *g, int n, const ls_split_vocabulary *v,
                        const bool *in_blocks, int *end)
{
    const ls_node *node = &g->nodes[n];
    const int last = ls_split_pair_end(g, n);
    *end = last < 0 ? n : last;
    if (node->layer->role == LS_LAYER_INPUT || n == v->embedding || n == v->loss)
        return true;
    bool fits = last >= 0 || n == v->head || (takes_blocks(node) && node->shares < 0);
    for (int i = 0; i < node->input_count && fits; i++)
        fits = in_blocks[node->inputs[i]];
    return fits;
}

/* The first node that does not; -1 if all do. */
static int find_whole(const ls_graph *g, const ls_split_vocabulary *v, bool *in_blocks)
{
    for (int n = 0, end; n < g->count; n = end + 1) {
        if (!fits_blocks(g, n, v, in_blocks, &end))
            return n;
        in_blocks[end] = g->nodes[end].layer->role == LS_LAYER_COMPUTE && end != v->head;
    }
    return -1;
}

static ls_status check_blocks(const ls_graph *g, const ls_split_vocabulary *v)
{
    char name[LS_NODE_NAME];
    bool *in_blocks;
    LS_TRY(ls_allocate("split", &in_blocks, (size_t)g->count, sizeof *in_blocks));
    const int whole = find_whole(g, v, in_blocks);
    free(in_blocks);
    return whole < 0 ? LS_OK
                     : ls_fail(LS_CODE_USAGE, "option", "--tensor-parallel-sequence",
                               "the layer %s cannot be divided by positions; remove "
                               "--tensor-parallel-sequence, or use --model gpt",
                               ls_graph_node_name(g, whole, name));
}

ls_status ls_graph_split_check_sequence(const ls_graph *g, int64_t splits)
{
    ls_split_vocabulary v;
    if (!ls_split_find_vocabulary(g, &v))
        return ls_fail(LS_CODE_USAGE, "option", "--tensor-parallel-sequence",
                       "requires an embedding that shares its weight only with the last dense "
                       "layer, which must have no bias and precede softmax_cross_entropy; remove "
                       "--tensor-parallel-sequence, or use --model gpt");
    LS_TRY(check_blocks(g, &v));
    const int64_t T = g->nodes[v.embedding].shape.size[0];
    if (T < splits)
        return ls_fail(LS_CODE_USAGE, "option", "--tensor-parallel-sequence",
                       "%lld positions cannot be divided over %lld devices; use at most as many "
                       "devices as positions, or remove --tensor-parallel-sequence",
                       (long long)T, (long long)splits);
    return LS_OK;
}

/* The first position of block j of a sequence. */
static int64_t first_position(const ls_split_builder *b, const ls_shape *shape, int j)
{
    return (int64_t)ls_comm_share((size_t)shape->size[0], j, b->splits);
}

ls_status ls_split_append_blocks(ls_split_builder *b, int n, int sequence, const int *bias)
{
    const ls_shape whole = b->part->graph->nodes[sequence].shape;
    ls_graph *graph = b->part->graph;
    for (int j = 0; j < b->splits; j++) {
        ls_shape shape = whole;
        shape.size[0] = first_position(b, &whole, j + 1) - first_position(b, &whole, j);
        const size_t variables = graph->variables.count;
        int *out = &b->blocks[n][j];
        LS_TRY(ls_split_append_meeting(b, &ls_layer_block, n, &shape, &sequence, 1, out));
        ls_node *node = &graph->nodes[*out];
        node->block = j + 1;
        if (!bias)
            continue;
        if (j == 0) {
            LS_TRY(ls_graph_variable(graph, node, "bias", &b->whole->variables.items[*bias]));
            LS_TRY(ls_split_note_variables(b, variables, bias));
            continue;
        }
        const ls_node *owner = &graph->nodes[b->blocks[n][0]];
        node->shares = b->blocks[n][0];
        node->variable_count = owner->variable_count;
        memcpy(node->variables, owner->variables, sizeof node->variables);
    }
    b->in_blocks[n] = true;
    return LS_OK;
}

ls_status ls_split_gather_blocks(ls_split_builder *b, int of, int n, int *out)
{
    const ls_shape *whole = &b->whole->nodes[of].shape;
    return ls_split_append_meeting(b, &ls_layer_gather, n, whole, b->blocks[of], b->splits, out);
}

bool ls_split_goes_in_blocks(const ls_split_builder *b, int n)
{
    const ls_node *node = &b->whole->nodes[n];
    return b->in_blocks && takes_blocks(node) && b->in_blocks[node->inputs[0]];
}

ls_status ls_split_append_in_blocks(ls_split_builder *b, int n)
{
    const ls_node *whole = &b->whole->nodes[n];
    const bool table = ls_split_is(whole, "positions"); /* a row of it is a position's */
    for (int j = 0; j < b->splits; j++) {
        int inputs[LS_NODE_INPUTS + 1], *out = &b->blocks[n][j];
        for (int i = 0; i < whole->input_count; i++)
            inputs[i] = b->blocks[whole->inputs[i]][j];
        inputs[whole->input_count] = -1;
        b->slice = j + 1;
        b->shared = j && !table ? b->blocks[n][0] : -1;
        ls_layer_options options = whole->options;
        if (ls_split_is(whole, "dropout")) {
            options.all = ls_shape_elements(&whole->shape);
            options.first = first_position(b, &whole->shape, j) * whole->shape.size[1];
        }
        LS_TRY(ls_split_append(b, n, &options, inputs, out));
        ls_node *node = &b->part->graph->nodes[*out];
        node->block = j + 1;
        if (table) {
            const int64_t C = whole->shape.size[1], first = first_position(b, &whole->shape, j);
            *ls_split_slab_of(b, node, 0) =
                (ls_slab){.rows = 1, .ranges = 1, .width = (size_t)ls_shape_elements(&node->shape)};
            ls_split_move_slab(b, node, 0, (size_t)(first * C));
        } else {
            node->slice = 0; /* its variables belong to no slice */
        }
    }
    b->slice = 0;
    b->shared = -1;
    b->in_blocks[n] = true;
    return LS_OK;
}
