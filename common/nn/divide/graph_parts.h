/* SPDX-License-Identifier: MIT */
/*
 * Parts: a placed graph cut at its borders, so that each place has its own graph. If a node uses
 * the output of a node on another place, a *border* node represents that: an input that is filled
 * with the output once it is computed, and whose gradient is sent back. Inputs from the data set
 * exist on every place that uses them. Variables that nodes of several places share have one owner,
 * the place of the first use; every other use has its own copy, whose gradient is sent to the
 * owner.
 */
#pragma once

#include "common/nn/graph.h"

#include <stdbool.h>

/** Elements of a variable: `rows` times `ranges` ranges of `width`, so many elements apart. */
typedef struct ls_slab {
    size_t rows, row_stride, ranges, range_stride, width;
} ls_slab;

/** One place's part. */
typedef struct ls_graph_part {
    ls_graph *graph;
    int *local;     /**< [nodes of the whole] index here, of node or border; else -1 */
    size_t *whole;  /**< [variables here] offset of it, or of its original, in the whole's */
    ls_slab *slabs; /**< [variables here] elements of the original; NULL means all of them */
    /* A split graph (graph_split.h), or a place's part of one: */
    const ls_graph *split; /**< that graph; NULL means neither */
    size_t *at;            /**< [variables here] offset in its flat buffer */
    int *origin;           /**< [nodes here] of that graph: the node that it is made of */
    size_t owned;          /**< elements of the variables that it owns, which are first */
    /* If it is several parts, chunks, together (ls_graph_parts_merge): */
    int chunks;            /**< how many; 0 if it is one */
    int *chunk_node;       /**< [chunks + 1] where each one's nodes begin */
    size_t *chunk_element; /**< [chunks + 1] where the variables that each one owns begin */
} ls_graph_part;

/** The output of a node that another place uses, too. */
typedef struct ls_border {
    int node;       /**< number in the whole graph */
    int from, to;   /**< places */
    int first_use;  /**< first node on `to` that uses it: index in the whole graph */
    bool gradient;  /**< its gradient is sent back */
    size_t samples; /**< elements of one sample */
    size_t next[2]; /**< next border of equal `node`, of equal `first_use`, from 1; or 0 */
} ls_border;

/** A copy of a variable that another place owns. Offsets count in the places' flat buffers. */
typedef struct ls_variable_copy {
    int node;               /**< that uses it: number in the whole graph */
    int owner, user;        /**< places; equal if one place has several uses */
    size_t at_owner, count; /**< elements */
    size_t at_user;
} ls_variable_copy;

typedef struct ls_graph_parts {
    const ls_graph *whole;
    const int *place; /**< [nodes of the whole] the first that has it */
    int *own_place;   /**< as `place`, if it belongs to the parts; else NULL */
    int count;        /**< parts; without `merged`, of as many places */
    int across;       /**< consecutive places that share nodes without a slice; 1 if unshared */
    ls_graph_part *parts;
    ls_border *borders; /**< in order of their nodes, then of places */
    size_t border_count;
    size_t *border_of[2];     /**< [nodes] first border of this `node`, `first_use`, from 1; or 0 */
    ls_variable_copy *copies; /**< in order of their nodes */
    size_t copy_count;
    ls_graph_part *merged; /**< [merged_count] what a place has, if that is several parts; else
                                NULL */
    int merged_count;
} ls_graph_parts;

/**
 * Cuts a graph whose node n is on place[n], from 0 to places - 1. Borrows both. LS_CODE_USAGE if a
 * place has no node, or if the gradients of an output would be added in another order than in the
 * whole graph: its uses on other places must come after its uses on its own place, and be on one
 * place.
 */
ls_status ls_graph_parts_open(const ls_graph *whole, const int *place, int places,
                              ls_graph_parts *out);

/** Lists each node's borders, which must be complete. */
ls_status ls_graph_parts_index(ls_graph_parts *parts);

/** Puts parts onto fewer places, which divide their number: part q is a chunk of place q mod
 * places. Copies' offsets then count in the places' flat buffers. */
ls_status ls_graph_parts_merge(ls_graph_parts *parts, int places);

/** How many places there are, and what one has. */
static inline int ls_graph_parts_places(const ls_graph_parts *parts)
{
    return parts->merged ? parts->merged_count : parts->count;
}
static inline const ls_graph_part *ls_graph_parts_at(const ls_graph_parts *parts, int place)
{
    return parts->merged ? &parts->merged[place] : &parts->parts[place];
}

/** A place's chunks (`part` NULL means the whole model); the nodes of chunk c; which chunk has a
 * node. */
static inline int ls_graph_part_chunks(const ls_graph_part *part)
{
    return part && part->chunks > 1 ? part->chunks : 1;
}
ls_range ls_graph_part_nodes(const ls_graph_part *part, const ls_graph *graph, int chunk);
int ls_graph_part_chunk(const ls_graph_part *part, int node);

/** Number, in the graph that the part's place has, of a node of the whole or of its border in a
 * part; -1 if it has neither. */
int ls_graph_parts_local(const ls_graph_parts *parts, int part, int node);

/** Zero-filled ones hold nothing. */
void ls_graph_part_close(ls_graph_part *part);
void ls_graph_parts_close(ls_graph_parts *parts);

/** Elements of a part's range that are next to each other in the model, too: number `at` of the
 * range is the model's element `model`. */
typedef void ls_graph_part_visit(void *context, size_t at, size_t model, size_t count);

/** The number, from 1, of the slice that a variable belongs to, so that one place has it;
 * 0 means of none. */
int ls_graph_slice(const ls_graph *graph, size_t variable);

/** Which variables: all, or only ones of slices (the others are on several places). */
typedef enum ls_graph_part_of { LS_ALL_OF, LS_IN_SLICES } ls_graph_part_of;

/** Visits elements `range` of the part's flat buffer, in order. NULL if the part is the whole
 * model.
 */
void ls_graph_part_each(const ls_graph_part *part, ls_range range, ls_graph_part_of of,
                        ls_graph_part_visit *visit, void *context);

/** The elements of a part's `range` that the model has in `within`, by variables: sets *out to the
 * elements of the next variable that has some, from number *v on, and *v behind it; false if there
 * are no more. */
bool ls_graph_part_next(const ls_graph_part *part, ls_range range, ls_range within, size_t *v,
                        ls_range *out);

/** Copies elements `range` of the part's flat buffer, one after the other at `values`, to where the
 * model has them, but only to its elements `within`, which are at `model`; `back`: the other way.
 */
void ls_graph_part_copy(const ls_graph_part *part, ls_range range, float *values, ls_range within,
                        float *model, bool back);

/** Whether a part has a node of the whole. */
static inline bool ls_graph_parts_have(const ls_graph_parts *parts, int part, int node)
{
    const ls_node *whole_node = &parts->whole->nodes[node];
    const bool shared = parts->across > 1 && !whole_node->slice && !whole_node->block;
    return shared ? parts->place[node] / parts->across == part / parts->across
                  : parts->place[node] == part;
}

/** Notes where variable number v of a part, its last one, is in the whole and in the split graph.
 */
ls_status ls_graph_part_note(ls_graph_part *part, size_t v, size_t whole, ls_slab slab, size_t at);
