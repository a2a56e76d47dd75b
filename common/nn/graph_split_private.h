/* SPDX-License-Identifier: MIT */
/* Building a split graph (graph_split.h), shared by its files: pairs and all else (graph_split.c),
 * the vocabulary (graph_split_vocabulary.c). */
#pragma once

#include "common/nn/graph_split.h"
#include "common/nn/layers.h"

#include <string.h>

/** The layers that have the vocabulary: numbers of nodes in the whole. */
typedef struct ls_split_vocabulary {
    int embedding, head, loss;
} ls_split_vocabulary;

typedef struct ls_split_builder {
    const ls_graph *whole;
    ls_graph_part *part; /**< its `local` is the node here that has the output */
    int splits;
    int slice; /**< of nodes appended now, from 1; 0: none */
    ls_split_vocabulary has;
    bool splits_vocabulary;
    int embedding[LS_SPLITS], logits[LS_SPLITS]; /**< nodes here, of each slice */
} ls_split_builder;

static inline bool ls_split_is(const ls_node *node, const char *layer)
{
    return strcmp(node->layer->name, layer) == 0;
}

/** Appends a node made of node n's layer, named after it, with these options and inputs. */
ls_status ls_split_append(ls_split_builder *b, int n, const ls_layer_options *options,
                          const int *inputs, int *out);

/** Appends a fork, a join or another meeting of slices, which has node n's name, and a shape. */
ls_status ls_split_append_meeting(ls_split_builder *b, const ls_layer *layer, int n,
                                  const ls_shape *shape, const int *inputs, int count, int *out);

/** What variable v of a node here is of the whole's: its slab, and its first element, moved. */
ls_slab *ls_split_slab_of(const ls_split_builder *b, const ls_node *node, int v);
void ls_split_move_slab(const ls_split_builder *b, const ls_node *node, int v, size_t elements);

/** Whether the model has an embedding whose weight is that of the last layer before the loss, and
 * of no other. */
bool ls_split_find_vocabulary(const ls_graph *graph, ls_split_vocabulary *out);

/** LS_CODE_USAGE if it cannot be split so often. */
ls_status ls_split_check_vocabulary(const ls_graph *graph, int64_t splits, const char *option);

/** Appends the slices of one of its nodes, if it is one. */
bool ls_split_is_vocabulary(const ls_split_builder *b, int n);
ls_status ls_split_append_vocabulary(ls_split_builder *b, int n);
