/* SPDX-License-Identifier: MIT */
/*
 * Chunks: several parts of a model on one place; see ls_graph_parts_merge. The place's graph has
 * the parts' nodes one part after the other, without edges between them: what passes from one to
 * another goes over border nodes. Variables that parts own come first, part by part, then copies.
 */
#include "common/nn/divide/graph_parts.h"

#include "common/base/grow.h"
#include "common/nn/layer.h"

#include <stdlib.h>
#include <string.h>

ls_range ls_graph_part_nodes(const ls_graph_part *part, const ls_graph *graph, int chunk)
{
    if (!part || part->chunks < 2)
        return (ls_range){0, (size_t)graph->count};
    const int first = part->chunk_node[chunk];
    return (ls_range){(size_t)first, (size_t)(part->chunk_node[chunk + 1] - first)};
}

int ls_graph_part_chunk(const ls_graph_part *part, int node)
{
    int chunk = ls_graph_part_chunks(part) - 1;
    while (chunk && node < part->chunk_node[chunk])
        chunk--;
    return chunk;
}

int ls_graph_parts_local(const ls_graph_parts *parts, int part, int node)
{
    const int local = parts->parts[part].local[node];
    const int places = ls_graph_parts_places(parts);
    return local < 0 || !parts->merged
               ? local
               : parts->merged[part % places].chunk_node[part / places] + local;
}

/* ---- Merging --------------------------------------------------------------------------------- */

typedef struct merger {
    const ls_graph_parts *parts;
    int place, places;
    ls_graph_part *out;
    int **variable; /* [chunks] [variables of the part] number in the place's graph */
} merger;

static const ls_graph_part *chunk_of(const merger *m, int chunk)
{
    return &m->parts->parts[chunk * m->places + m->place];
}

static ls_status add_variable(merger *m, int chunk, size_t v)
{
    const ls_graph_part *from = chunk_of(m, chunk);
    ls_variables *all = &m->out->graph->variables;
    const ls_slab whole = {.rows = 1, .ranges = 1, .width = from->graph->variables.items[v].count};
    m->variable[chunk][v] = (int)all->count;
    if (from->at)
        LS_TRY(ls_graph_part_note(m->out, all->count, from->whole[v],
                                  from->slabs ? from->slabs[v] : whole, from->at[v]));
    else {
        LS_TRY(ls_grow("parts", &m->out->whole, all->count, sizeof *m->out->whole));
        m->out->whole[all->count] = from->whole[v];
    }
    return ls_variables_add(all, &from->graph->variables.items[v]);
}

/* Variables that chunks own, then their copies. */
static ls_status add_variables(merger *m)
{
    ls_graph_part *out = m->out;
    for (int copies = 0; copies < 2; copies++) {
        for (int c = 0; c < out->chunks; c++) {
            const ls_graph_part *from = chunk_of(m, c);
            if (!copies)
                out->chunk_element[c] = out->graph->variables.elements;
            for (size_t v = 0; v < from->graph->variables.count; v++)
                if ((from->graph->variables.items[v].offset >= from->owned) == copies)
                    LS_TRY(add_variable(m, c, v));
        }
        if (!copies)
            out->owned = out->chunk_element[out->chunks] = out->graph->variables.elements;
    }
    return LS_OK;
}

static ls_status add_node(merger *m, int chunk, int n)
{
    const ls_graph_part *from = chunk_of(m, chunk);
    ls_graph *graph = m->out->graph;
    const int first = m->out->chunk_node[chunk];
    ls_node node = from->graph->nodes[n];
    for (int i = 0; i < node.input_count; i++)
        node.inputs[i] += first;
    for (int v = 0; v < node.variable_count; v++)
        node.variables[v] = m->variable[chunk][node.variables[v]];
    node.shares += node.shares >= 0 ? first : 0;
    LS_TRY(ls_grow("parts", &graph->nodes, (size_t)graph->count, sizeof node));
    if (from->origin) {
        LS_TRY(ls_grow("parts", &m->out->origin, (size_t)graph->count, sizeof *m->out->origin));
        m->out->origin[graph->count] = from->origin[n];
    }
    graph->nodes[graph->count++] = node;
    return LS_OK;
}

static ls_status merge_place(merger *m)
{
    ls_graph_part *out = m->out;
    const ls_graph_part *first = chunk_of(m, 0);
    const size_t nodes = (size_t)m->parts->whole->count, chunks = (size_t)out->chunks;
    LS_TRY(ls_graph_open(&out->graph));
    LS_TRY(ls_allocate("parts", &out->local, nodes, sizeof *out->local));
    LS_TRY(ls_allocate("parts", &out->chunk_node, chunks + 1, sizeof *out->chunk_node));
    LS_TRY(ls_allocate("parts", &out->chunk_element, chunks + 1, sizeof *out->chunk_element));
    out->graph->slices = first->graph->slices;
    out->split = first->split;
    for (int c = 0; c < out->chunks; c++)
        LS_TRY(ls_allocate("parts", &m->variable[c], chunk_of(m, c)->graph->variables.count + 1,
                           sizeof *m->variable[c]));
    LS_TRY(add_variables(m));
    for (int c = 0; c < out->chunks; c++) {
        const ls_graph *graph = chunk_of(m, c)->graph;
        out->graph->slices.alike &= graph->slices.alike;
        for (int n = 0; n < graph->count; n++)
            LS_TRY(add_node(m, c, n));
        out->chunk_node[c + 1] = out->graph->count;
    }
    for (size_t n = 0; n < nodes; n++) {
        out->local[n] = -1;
        for (int c = 0; c < out->chunks; c++)
            if (ls_graph_parts_have(m->parts, c * m->places + m->place, (int)n))
                out->local[n] = out->chunk_node[c] + chunk_of(m, c)->local[n];
    }
    return LS_OK;
}

/* Translates offset `at` in a part's flat buffer into its place's flat buffer. */
static size_t moved(const ls_graph_parts *parts, int **variable, int part, size_t at)
{
    const ls_variables *from = &parts->parts[part].graph->variables;
    const ls_variables *to = &parts->merged[part % parts->merged_count].graph->variables;
    const size_t v = (size_t)(ls_variables_holding(from, at) - from->items);
    return to->items[variable[part][v]].offset + at - from->items[v].offset;
}

ls_status ls_graph_parts_merge(ls_graph_parts *parts, int places)
{
    const int chunks = parts->count / places;
    int **variable;
    ls_status status =
        ls_allocate("parts", &variable, (size_t)parts->count + (size_t)chunks, sizeof *variable);
    if (!status)
        status = ls_allocate("parts", &parts->merged, (size_t)places, sizeof *parts->merged);
    for (int p = 0; p < places && !status; p++) {
        merger m = {parts, p, places, &parts->merged[p], variable + parts->count};
        parts->merged_count++;
        m.out->chunks = chunks;
        status = merge_place(&m);
        for (int c = 0; c < chunks; c++) {
            variable[c * places + p] = m.variable[c];
            m.variable[c] = NULL;
        }
    }
    for (size_t i = 0; i < parts->copy_count && !status; i++) {
        ls_variable_copy *c = &parts->copies[i];
        c->at_owner = moved(parts, variable, c->owner, c->at_owner);
        c->at_user = moved(parts, variable, c->user, c->at_user);
    }
    for (int p = 0; variable && p < parts->count; p++)
        free(variable[p]);
    free(variable);
    return status;
}
