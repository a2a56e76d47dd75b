/* SPDX-License-Identifier: MIT */
/*
 * Play graph: steps as activities in virtual time, plain data: delays of devices, messages between
 * them, and what waits for what. The engines (engine.h) play it. Numbers of activities follow the
 * order of the program, and an order of equals can be by number.
 */
#pragma once

#include "bench/play/platform.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_PLAY_NONE = UINT32_MAX }; /**< no node */
enum { LS_PLAY_FORMULA = 2 };       /**< see ls_play_delay */

/** A delay, or a message. */
typedef struct ls_activity_node {
    double amount;   /**< ns of a delay; bytes of a message */
    int from, to;    /**< devices; a delay: the device, and -1 */
    uint32_t rounds; /**< latencies of a message; of a delay: see ls_play_delay */
    uint32_t step;   /**< that it belongs to */
    uint32_t waits;  /**< number of activities that it waits for; after ls_play_seal */
} ls_activity_node;

/** `after` waits for `before`. */
typedef struct ls_play_edge {
    uint32_t before, after;
} ls_play_edge;

/** What of an activity a trace shows: a slice of a lane. */
typedef struct ls_play_label {
    const char *name; /**< borrowed */
    int lane;         /**< -1 if not shown */
    int use;          /**< ls_time_use */
    uint32_t begin;   /**< shown from this activity's end; LS_PLAY_NONE: from its own beginning */
    int microbatch;   /**< from 1; 0 if it belongs to none */
} ls_play_label;

typedef struct ls_play_graph {
    bool labelled;           /**< activities get labels; set before the first */
    ls_play_label *labels;   /**< [count] */
    ls_activity_node *nodes; /**< [count] */
    size_t count;
    ls_play_edge *edges; /**< [edge_count] until it is sealed */
    size_t edge_count;
    size_t *first;   /**< [count + 1] where a node's followers begin; after ls_play_seal */
    uint32_t *next;  /**< [edge_count] the followers */
    size_t messages; /**< number of nodes that are messages */
    size_t played;   /**< activities: `count`, and repetitions; after ls_play_seal */
    size_t repeated; /**< the last so many nodes are repeated (ls_play_seal) */
    uint32_t steps;  /**< that these belong to */
} ls_play_graph;

/** Which repetition of the last nodes activity `number` is; 0: a node by itself, of that number. */
static inline size_t ls_play_again(const ls_play_graph *graph, size_t number)
{
    return number < graph->count ? 0 : 1 + (number - graph->count) / graph->repeated;
}

/** Activity `number` of all that are played. */
static inline ls_activity_node ls_play_activity(const ls_play_graph *graph, size_t number)
{
    const size_t again = ls_play_again(graph, number);
    ls_activity_node node = graph->nodes[number - again * graph->repeated];
    node.step += (uint32_t)again * graph->steps;
    return node;
}

/** Appends a delay that waits for `before` (LS_PLAY_NONE: for nothing). Its rounds are 0, as of one
 * that computes; 1 means that it is the network's; from LS_PLAY_FORMULA on, by formula. */
ls_status ls_play_delay(ls_play_graph *graph, uint32_t step, int device, double ns, uint32_t before,
                        uint32_t *out);

/** Adds a message of `bytes` that takes `rounds` latencies. */
ls_status ls_play_message(ls_play_graph *graph, uint32_t step, int from, int to, double bytes,
                          uint32_t rounds, uint32_t before, uint32_t *out);

/** Sets a label, if the graph has them. */
void ls_play_show(ls_play_graph *graph, uint32_t node, ls_play_label label);

/** LS_PLAY_NONE as `before` adds nothing. */
ls_status ls_play_wait(ls_play_graph *graph, uint32_t before, uint32_t after);

/** Sorts the edges by the node that is waited for, and counts waits. After it the graph is only
 * read. If `repeated`, the last nodes follow `times` more times, numbered on, with the same edges
 * to each other and to the next time's: edges to nodes from `count` on. */
ls_status ls_play_seal(ls_play_graph *graph, size_t times);

void ls_play_close(ls_play_graph *graph);
