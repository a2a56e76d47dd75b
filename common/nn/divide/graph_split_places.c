/* SPDX-License-Identifier: MIT */
/* Split graphs over places: cut by nodes, by slices, or both; see graph_split.h. */
#include "common/base/grow.h"
#include "common/comm/comm.h"
#include "common/nn/divide/graph_split.h"

#include <stdlib.h>
#include <string.h>

/* Notes where a place's variables, cut from the split graph, are in the whole. */
static ls_status note_cut(const ls_graph_part *split, ls_graph_part *out)
{
    const ls_variables *all = &split->graph->variables;
    const size_t count = out->graph->variables.count;
    LS_TRY(ls_allocate("split", &out->slabs, count, sizeof *out->slabs));
    LS_TRY(ls_allocate("split", &out->at, count, sizeof *out->at));
    for (size_t v = 0; v < count; v++) {
        const size_t variable = (size_t)(ls_variables_holding(all, out->whole[v]) - all->items);
        out->at[v] = out->whole[v];
        out->whole[v] = split->whole[variable];
        out->slabs[v] = split->slabs[variable];
    }
    out->split = split->graph;
    out->graph->slices = split->graph->slices;
    return LS_OK;
}

ls_status ls_graph_split_cut(const ls_graph_part *split, const int *place, int places,
                             ls_graph_parts *out)
{
    const int count = split->graph->count;
    int *own;
    LS_TRY(ls_allocate("split", &own, (size_t)count, sizeof *own));
    for (int n = 0; n < count; n++)
        own[n] = place[split->origin[n]];
    ls_status status = ls_graph_parts_open(split->graph, own, places, out);
    out->own_place = own;
    for (int p = 0; p < places && !status; p++)
        status = note_cut(split, &out->parts[p]);
    return status;
}

/* Whether a place, number j of the places that share a stage, has a node of the stage. */
static bool has_slice(const ls_graph_parts *out, const ls_node *node, int j)
{
    const size_t splits = (size_t)out->whole->slices.splits;
    const int slice = (node->slice ? node->slice : node->block) - 1;
    return slice < 0 || (slice >= (int)ls_comm_share(splits, j, out->across) &&
                         slice < (int)ls_comm_share(splits, j + 1, out->across));
}

/* A place while it is built from its stage: numbers here of the stage's nodes and variables; -1 if
 * they are elsewhere. */
typedef struct site {
    const ls_graph_part *stage;
    ls_graph_part *out;
    int *node, *variable;
} site;

/* Copies a node of the stage, with its inputs that are here. */
static ls_status copy_node(const site *s, int n)
{
    const ls_node *whole = &s->stage->graph->nodes[n];
    ls_graph *graph = s->out->graph;
    LS_TRY(ls_grow("split", &graph->nodes, (size_t)graph->count, sizeof(ls_node)));
    ls_node *node = &graph->nodes[graph->count];
    *node = *whole;
    node->uses = node->input_count = 0;
    for (int i = 0; i < whole->input_count; i++)
        if (s->node[whole->inputs[i]] >= 0) {
            node->inputs[node->input_count++] = s->node[whole->inputs[i]];
            graph->nodes[node->inputs[node->input_count - 1]].uses++;
        }
    node->shares = whole->shares >= 0 ? s->node[whole->shares] : -1;
    s->node[n] = graph->count++;
    return LS_OK;
}

/* Copies the stage's variables that the copied nodes have, in its order: its own come first. */
static ls_status copy_variables(const site *s)
{
    const ls_graph_part *stage = s->stage;
    ls_variables *variables = &s->out->graph->variables;
    for (int n = 0; n < stage->graph->count; n++)
        for (int v = 0; v < stage->graph->nodes[n].variable_count && s->node[n] >= 0; v++)
            s->variable[stage->graph->nodes[n].variables[v]] = 0;
    for (size_t v = 0; v < stage->graph->variables.count; v++) {
        const ls_variable *variable = &stage->graph->variables.items[v];
        if (s->variable[v] < 0)
            continue;
        s->variable[v] = (int)variables->count;
        LS_TRY(ls_graph_part_note(s->out, variables->count, stage->whole[v], stage->slabs[v],
                                  stage->at[v]));
        LS_TRY(ls_variables_add(variables, variable));
        s->out->owned += variable->offset < stage->owned ? variable->count : 0;
    }
    for (int n = 0; n < stage->graph->count; n++)
        for (int v = 0; v < stage->graph->nodes[n].variable_count && s->node[n] >= 0; v++)
            s->out->graph->nodes[s->node[n]].variables[v] =
                s->variable[stage->graph->nodes[n].variables[v]];
    return LS_OK;
}

/* `local`: numbers in the stage of the split graph's nodes; NULL means the same. */
static ls_status build_place(const site *s, const int *local, const ls_graph_parts *parts,
                             int place)
{
    ls_graph_part *out = s->out;
    LS_TRY(ls_graph_open(&out->graph));
    LS_TRY(ls_allocate("split", &out->local, (size_t)parts->whole->count, sizeof *out->local));
    for (int n = 0; n < s->stage->graph->count; n++)
        if (has_slice(parts, &s->stage->graph->nodes[n], place % parts->across))
            LS_TRY(copy_node(s, n));
    LS_TRY(copy_variables(s));
    for (int n = 0; n < parts->whole->count; n++) {
        const int in_stage = local ? local[n] : n;
        out->local[n] = in_stage >= 0 ? s->node[in_stage] : -1;
    }
    out->split = parts->whole;
    out->graph->slices = parts->whole->slices;
    out->graph->slices.place = place % parts->across;
    out->graph->slices.places = parts->across;
    return LS_OK;
}

/* Values cross from stage to stage between places of equal numbers. */
static ls_status copy_crossings(const ls_graph_parts *cut, const site *sites, ls_graph_parts *out)
{
    const int t = out->across;
    LS_TRY(ls_allocate("split", &out->borders, cut->border_count * (size_t)t, sizeof(ls_border)));
    LS_TRY(
        ls_allocate("split", &out->copies, cut->copy_count * (size_t)t, sizeof(ls_variable_copy)));
    for (size_t i = 0; i < cut->border_count * (size_t)t; i++) {
        ls_border *b = &out->borders[out->border_count++];
        *b = cut->borders[i / (size_t)t];
        b->from = b->from * t + (int)(i % (size_t)t);
        b->to = b->to * t + (int)(i % (size_t)t);
    }
    for (size_t i = 0; i < cut->copy_count * (size_t)t; i++) {
        const ls_variable_copy *copy = &cut->copies[i / (size_t)t];
        if (!has_slice(out, &out->whole->nodes[copy->node], (int)(i % (size_t)t)))
            continue;
        ls_variable_copy *c = &out->copies[out->copy_count++];
        *c = *copy;
        const ls_variables *owns = &cut->parts[c->owner].graph->variables;
        const ls_variables *uses = &cut->parts[c->user].graph->variables;
        const size_t own = (size_t)(ls_variables_holding(owns, c->at_owner) - owns->items);
        const size_t use = (size_t)(ls_variables_holding(uses, c->at_user) - uses->items);
        c->owner = c->owner * t + (int)(i % (size_t)t);
        c->user = c->user * t + (int)(i % (size_t)t);
        c->at_owner =
            out->parts[c->owner].graph->variables.items[sites[c->owner].variable[own]].offset;
        c->at_user =
            out->parts[c->user].graph->variables.items[sites[c->user].variable[use]].offset;
    }
    return LS_OK;
}

/* Builds all places; with several stages from their parts, else from the split graph. */
static ls_status build_places(const ls_graph_part *split, const ls_graph_parts *cut, site *sites,
                              ls_graph_parts *out)
{
    for (int p = 0; p < out->count; p++) {
        const ls_graph_part *stage = cut->count ? &cut->parts[p / out->across] : split;
        const size_t nodes = (size_t)stage->graph->count;
        sites[p] = (site){.stage = stage, .out = &out->parts[p]};
        LS_TRY(ls_allocate("split", &sites[p].node, nodes, sizeof(int)));
        LS_TRY(
            ls_allocate("split", &sites[p].variable, stage->graph->variables.count, sizeof(int)));
        memset(sites[p].node, -1, nodes * sizeof(int));
        memset(sites[p].variable, -1, stage->graph->variables.count * sizeof(int));
        LS_TRY(build_place(&sites[p], cut->count ? stage->local : NULL, out, p));
    }
    return copy_crossings(cut, sites, out);
}

/* Whether places of one stage have variables of equal sizes. */
static bool are_alike(const ls_graph_part *places, int count)
{
    const ls_variables *first = &places->graph->variables;
    for (int p = 1; p < count; p++) {
        const ls_variables *variables = &places[p].graph->variables;
        if (variables->count != first->count || places[p].owned != places->owned)
            return false;
        for (size_t v = 0; v < first->count; v++)
            if (variables->items[v].count != first->items[v].count)
                return false;
    }
    return true;
}

ls_status ls_graph_split_places(const ls_graph_part *split, const int *stage, int stages,
                                int across, ls_graph_parts *out)
{
    const ls_graph *graph = split->graph;
    ls_graph_parts cut = {0};
    site *sites = NULL;
    *out = (ls_graph_parts){.whole = graph, .across = across};
    ls_status status =
        ls_allocate("split", &out->own_place, (size_t)graph->count, sizeof *out->own_place);
    if (!status)
        status = ls_allocate("split", &out->parts, (size_t)(stages * across), sizeof *out->parts);
    if (!status)
        status = ls_allocate("split", &sites, (size_t)(stages * across), sizeof *sites);
    out->place = out->own_place;
    out->count = status ? 0 : stages * across;
    if (!status && stages > 1)
        status = ls_graph_split_cut(split, stage, stages, &cut);
    for (int n = 0; n < graph->count && !status; n++) {
        out->own_place[n] = stages > 1 ? cut.place[n] * across : 0;
        while (!has_slice(out, &graph->nodes[n], out->own_place[n] % across))
            out->own_place[n]++;
    }
    if (!status)
        status = build_places(split, &cut, sites, out);
    for (int p = 0; p < out->count && !status; p++)
        out->parts[p].graph->slices.alike = are_alike(&out->parts[p / across * across], across);
    for (int p = 0; p < out->count && sites; p++) {
        free(sites[p].node);
        free(sites[p].variable);
    }
    free(sites);
    ls_graph_parts_close(&cut);
    return status;
}
