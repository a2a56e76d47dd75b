/* SPDX-License-Identifier: MIT */
/* Play graphs; see play_graph.h. */
#include "bench/play/play_graph.h"

#include "common/base/grow.h"

#include <stdlib.h>

static ls_status append(ls_play_graph *g, const ls_activity_node *node, uint32_t before,
                        uint32_t *out)
{
    if (g->count >= LS_PLAY_NONE)
        return ls_fail(LS_CODE_USAGE, "predict", "activities",
                       "the simulation has more than 4 billion activities (computations and "
                       "messages); use fewer --steps or --devices");
    LS_TRY(ls_grow("activities", &g->nodes, g->count, sizeof *node));
    if (g->labelled) {
        LS_TRY(ls_grow("activities", &g->labels, g->count, sizeof *g->labels));
        g->labels[g->count] = (ls_play_label){.lane = -1, .begin = LS_PLAY_NONE};
    }
    g->nodes[g->count] = *node;
    *out = (uint32_t)g->count++;
    return ls_play_wait(g, before, *out);
}

ls_status ls_play_delay(ls_play_graph *g, uint32_t step, int device, double ns, uint32_t before,
                        uint32_t *out)
{
    return append(g, &(ls_activity_node){.amount = ns, .from = device, .to = -1, .step = step},
                  before, out);
}

ls_status ls_play_message(ls_play_graph *g, uint32_t step, int from, int to, double bytes,
                          uint32_t rounds, uint32_t before, uint32_t *out)
{
    g->messages++;
    return append(g,
                  &(ls_activity_node){
                      .amount = bytes, .from = from, .to = to, .rounds = rounds, .step = step},
                  before, out);
}

void ls_play_show(ls_play_graph *g, uint32_t node, ls_play_label label)
{
    if (g->labelled)
        g->labels[node] = label;
}

ls_status ls_play_wait(ls_play_graph *g, uint32_t before, uint32_t after)
{
    if (before == LS_PLAY_NONE)
        return LS_OK;
    LS_TRY(ls_grow("activities", &g->edges, g->edge_count, sizeof *g->edges));
    g->edges[g->edge_count++] = (ls_play_edge){before, after};
    return LS_OK;
}

ls_status ls_play_seal(ls_play_graph *g, size_t times)
{
    g->played = g->count + times * g->repeated;
    LS_TRY(ls_allocate("activities", &g->first, g->count + 2, sizeof *g->first));
    LS_TRY(ls_allocate("activities", &g->next, g->edge_count + 1, sizeof *g->next));
    for (size_t e = 0; e < g->edge_count; e++) {
        g->first[g->edges[e].before + 2]++;
        if (g->edges[e].after < g->count)
            g->nodes[g->edges[e].after].waits++;
    }
    for (size_t n = 2; n < g->count + 2; n++)
        g->first[n] += g->first[n - 1];
    for (size_t e = 0; e < g->edge_count; e++) /* in the order in which they were added */
        g->next[g->first[g->edges[e].before + 1]++] = g->edges[e].after;
    free(g->edges);
    g->edges = NULL;
    return LS_OK;
}

void ls_play_close(ls_play_graph *g)
{
    free(g->labels);
    free(g->nodes);
    free(g->edges);
    free(g->first);
    free(g->next);
    *g = (ls_play_graph){0};
}
