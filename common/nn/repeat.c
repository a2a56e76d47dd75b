/* SPDX-License-Identifier: MIT */
/* Which nodes are repeated, and what they drop; see repeat.h. */
#include "common/nn/repeat.h"

#include "common/base/grow.h"
#include "common/nn/layers.h"

#include <stdlib.h>

typedef struct finder {
    const ls_graph *graph;
    const int *place;
    int across, drops;
    bool weights_apart; /* weight passes are */
    int *last;          /* [units + 1] last node of each of the model's units */
    ls_repeat *out;
} finder;

/* Number of the model's units; a part of it may have fewer nodes. */
static int units_of(const ls_graph *graph)
{
    int units = 0;
    for (int n = 0; n < graph->count; n++)
        units = graph->nodes[n].options.unit > units ? graph->nodes[n].options.unit : units;
    return units;
}

static int stage_of(const finder *f, int n)
{
    return f->place ? f->place[n] / f->across : 0;
}

/* Joins N units each. Slices of layers that are split belong to one, up to their sum. */
static void number_units(const finder *f)
{
    const int most = f->drops > 1 ? f->drops : 1;
    int unit = 0, joined = 0, of = 0, stage = -1, reach = -1;
    for (int n = 0; n < f->graph->count; n++)
        f->last[f->graph->nodes[n].options.unit] = n;
    for (int n = 0; n < f->graph->count; n++) {
        const int node_unit = f->graph->nodes[n].options.unit;
        if (!node_unit)
            continue;
        const bool moved = stage_of(f, n) != stage;
        if (moved || (node_unit != of && n > reach)) {
            joined = moved || joined == most ? 0 : joined;
            unit += joined == 0;
            joined++;
        }
        of = node_unit;
        stage = stage_of(f, n);
        if (f->graph->slices.splits && f->last[node_unit] > reach)
            reach = f->last[node_unit];
        f->out[n].unit = unit;
    }
}

/* How many of a node's inputs, from the first on, have its memory: one, or none. Over several
 * places a sum of slices has at each place the memory of that place's slice. */
static int aliases(const finder *f, int n)
{
    const ls_node *node = &f->graph->nodes[n];
    if (node->layer == &ls_layer_join)
        return f->across > 1 ? node->input_count : 1;
    return node->layer == &ls_layer_fork || ls_graph_fuses_relu(f->graph, n);
}

static bool keeps(const ls_graph *graph, int n)
{
    const ls_node *node = &graph->nodes[n];
    return node->layer->kept_bytes && node->layer->kept_bytes(graph, node, 1, sizeof(float));
}

/* Sets what is dropped: outputs that only their unit uses. With blocks of positions a unit also
 * keeps what it gathers first: gathering that again would take a message more than its sums. */
static void drop_outputs(const finder *f)
{
    const ls_graph *graph = f->graph;
    int gathered = 0; /* the last unit that gathers */
    for (int n = 0; n < graph->count; n++) {
        const ls_layer *layer = graph->nodes[n].layer;
        const bool norm = layer == &ls_layer_gelu || layer == &ls_layer_layer_norm;
        const bool all = f->out[n].unit && f->drops != LS_REPEAT_NORMS;
        const bool with_input = aliases(f, n) && f->out[graph->nodes[n].inputs[0]].drops_output;
        const bool first = layer == &ls_layer_gather && f->out[n].unit > gathered;
        gathered = first ? f->out[n].unit : gathered;
        f->out[n].drops_output = f->out[n].unit && !first && (all || norm || with_input);
        f->out[n].drops_kept = all && !layer->again && keeps(graph, n);
        if (!f->weights_apart || !layer->backward_weights)
            continue;
        f->out[n].drops_kept = false;
        for (int i = 0; i < graph->nodes[n].input_count; i++)
            f->out[graph->nodes[n].inputs[i]].drops_output = false;
    }
    for (int n = 0; n < graph->count; n++)
        for (int i = 0; i < graph->nodes[n].input_count; i++) {
            ls_repeat *input = &f->out[graph->nodes[n].inputs[i]];
            input->drops_output &= input->unit == f->out[n].unit;
        }
    for (int n = graph->count; n-- > 0;) /* memory of several nodes is kept if one of them is */
        for (int i = 0; i < aliases(f, n); i++)
            f->out[graph->nodes[n].inputs[i]].drops_output &= f->out[n].drops_output;
    for (int n = 0; n < graph->count; n++)
        if (aliases(f, n))
            f->out[n].drops_output = f->out[graph->nodes[n].inputs[0]].drops_output;
}

/* Repeats what computes again what backward reads, itself or for a node that is repeated. */
static void find_again(const finder *f)
{
    for (int n = f->graph->count; n-- > 0;) {
        const ls_node *node = &f->graph->nodes[n];
        ls_repeat *repeat = &f->out[n];
        repeat->again |= node->layer->reads & LS_READS_OUTPUT;
        repeat->again = (repeat->again && repeat->drops_output) || repeat->drops_kept;
        for (int i = 0; i < node->input_count; i++)
            f->out[node->inputs[i]].again |= repeat->again || node->layer->reads & LS_READS_INPUT;
    }
}

ls_status ls_repeats_bound(ls_repeat *repeats, int count)
{
    int *last, units = 0; /* the model's: a part may have fewer nodes */
    for (int n = 0; n < count; n++)
        units = repeats[n].unit > units ? repeats[n].unit : units;
    LS_TRY(ls_allocate("repeat", &last, (size_t)units + 1, sizeof *last));
    for (int n = 0; n < count; n++)
        last[repeats[n].unit] = n;
    for (int n = 0; n < count; n++)
        repeats[n].last = last[repeats[n].unit];
    for (int n = count; n-- > 0;)
        last[repeats[n].unit] = n;
    for (int n = 0; n < count; n++)
        repeats[n].first = last[repeats[n].unit];
    free(last);
    return LS_OK;
}

ls_status ls_repeats_open(const ls_graph *graph, const int *place, int across, int drops,
                          bool weights_apart, ls_repeat **out)
{
    finder f = {.graph = graph,
                .place = place,
                .across = across,
                .drops = drops,
                .weights_apart = weights_apart};
    const size_t count = (size_t)graph->count;
    *out = NULL;
    if (drops == LS_REPEAT_NONE)
        return LS_OK;
    LS_TRY(ls_allocate("repeat", &f.last, (size_t)units_of(graph) + 1, sizeof *f.last));
    ls_status status = ls_allocate("repeat", &f.out, count, sizeof *f.out);
    if (!status) {
        number_units(&f);
        drop_outputs(&f);
        find_again(&f);
        status = ls_repeats_bound(f.out, graph->count);
    }
    free(f.last);
    *out = f.out;
    return status;
}

int ls_repeats_units(const ls_graph *graph, const ls_repeat *repeats)
{
    int units = 0;
    for (int n = 0; repeats && n < graph->count; n++)
        units = repeats[n].unit > units ? repeats[n].unit : units;
    return units;
}

ls_status ls_repeats_check(const ls_graph *graph, int drops)
{
    const int units = units_of(graph);
    bool norms = false;
    for (int n = 0; n < graph->count; n++)
        norms |= graph->nodes[n].options.unit && graph->nodes[n].layer == &ls_layer_layer_norm;
    if (drops == LS_REPEAT_NORMS && !norms)
        return ls_fail(LS_CODE_USAGE, "option", "--recompute",
                       "'mlp' drops the outputs of gelu and layer norms, which the model does not "
                       "have; use --recompute full, or a number of blocks");
    return drops <= units ? LS_OK
                          : ls_fail(LS_CODE_USAGE, "option", "--recompute",
                                    "%d is more than the model's number of blocks of layers, %d; "
                                    "use --recompute full, or fewer blocks (at least 2)",
                                    drops, units);
}
