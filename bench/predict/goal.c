/* SPDX-License-Identifier: MIT */
/*
 * Export to GOAL, the language of LogGOPSim and ATLAHS (Hoefler, Siebert, Lumsdaine: Group
 * Operation Assembly Language, ICPP 2009): for each device a list of `calc NS`, `send BYTESb to
 * RANK tag TAG`, `recv ..`, and what requires what. A message is a send and a receive with a unique
 * tag; a wait for an activity of another device becomes a message of one byte. cpu 0 computes;
 * other lanes are cpu 1.
 */
#include "common/base/whole_file.h"
#include "bench/predict/predict_parts.h"

#include <math.h>
#include <stdio.h>

typedef struct goal {
    const ls_play *play;
    FILE *file;
    int device;
} goal;

/* Names of a node's lines on a device: m12s, m12r (send, receive), c12. */
static void put_name(const goal *g, size_t node, int device)
{
    const ls_activity_node *n = &g->play->graph->nodes[node];
    if (n->to < 0)
        fprintf(g->file, "c%zu", node);
    else
        fprintf(g->file, "m%zu%c", node, n->from == device ? 's' : 'r');
}

static void put_line(const goal *g, size_t node)
{
    const ls_play_graph *graph = g->play->graph;
    const ls_activity_node *n = &graph->nodes[node];
    put_name(g, node, g->device);
    if (n->to < 0)
        fprintf(g->file, ": calc %.0f cpu %d\n", ls_play_amount(g->play, n),
                graph->labels[node].use == LS_TIME_COMMUNICATION);
    else if (n->from == g->device)
        fprintf(g->file, ": send %.0fb to %d tag %zu cpu 1\n", fmax(n->amount, 1), n->to, node);
    else
        fprintf(g->file, ": recv %.0fb from %d tag %zu cpu 1\n", fmax(n->amount, 1), n->from, node);
}

/* An edge of the graph; `number` is its own. */
static void put_edge(goal *g, size_t before, size_t after, size_t number)
{
    const ls_play_graph *graph = g->play->graph;
    const ls_activity_node *a = &graph->nodes[before], *b = &graph->nodes[after];
    const size_t tag = graph->count + number;
    int from, to;
    if (!ls_activity_signal(a, b, &from, &to)) {
        if (ls_activity_is_at(a, g->device) && ls_activity_is_at(b, g->device)) {
            put_name(g, after, g->device);
            fputs(" requires ", g->file);
            put_name(g, before, g->device);
            fputc('\n', g->file);
        }
    } else if (from == g->device) {
        fprintf(g->file, "x%zus: send 1b to %d tag %zu cpu 1\nx%zus requires ", number, to, tag,
                number);
        put_name(g, before, from);
        fputc('\n', g->file);
    } else if (to == g->device) {
        fprintf(g->file, "x%zur: recv 1b from %d tag %zu cpu 1\n", number, from, tag);
        put_name(g, after, to);
        fprintf(g->file, " requires x%zur\n", number);
    }
}

static ls_status write_all(FILE *file, void *context)
{
    goal g = {.play = context, .file = file};
    const ls_play_graph *graph = g.play->graph;
    fprintf(file, "num_ranks %d\n", g.play->devices);
    for (g.device = 0; g.device < g.play->devices; g.device++) {
        fprintf(file, "\nrank %d {\n", g.device);
        for (size_t n = 0; n < graph->count; n++)
            if (ls_activity_is_at(&graph->nodes[n], g.device))
                put_line(&g, n);
        for (size_t n = 0; n < graph->count; n++)
            for (size_t e = graph->first[n]; e < graph->first[n + 1]; e++)
                put_edge(&g, n, graph->next[e], e);
        fputs("}\n", file);
    }
    return LS_OK;
}

ls_status ls_goal_write(const char *path, const ls_play *play)
{
    return ls_whole_file("option --goal", path, write_all, (void *)(size_t)play);
}
