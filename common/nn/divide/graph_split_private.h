/* SPDX-License-Identifier: MIT */
/* Building a split graph (graph_split.h), shared by its files: pairs and all else (graph_split.c),
 * the vocabulary (graph_split_vocabulary.c), blocks of positions (graph_split_sequence.c). */
#pragma once

#include "common/nn/divide/graph_split.h"
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
    int slice; /**< of nodes appended now, from 1; 0 if none */
    ls_split_vocabulary has;
    bool splits_vocabulary;
    int embedding[LS_SPLITS], logits[LS_SPLITS]; /**< nodes here, of each slice */
    bool *in_blocks;          /**< [nodes of the whole] whether its output is in blocks; or NULL */
    int (*blocks)[LS_SPLITS]; /**< [nodes of the whole] nodes here that have them */
    int shared; /**< whose variables nodes appended now share; -1 means as in the whole */
} ls_split_builder;

static inline bool ls_split_is(const ls_node *node, const char *layer)
{
    return strcmp(node->layer->name, layer) == 0;
}

/** Appends a node made of node n's layer, named after it, with the given options and inputs. */
ls_status ls_split_append(ls_split_builder *b, int n, const ls_layer_options *options,
                          const int *inputs, int *out);

/** Appends a fork, a join or another meeting of slices, which has node n's name, and a shape. */
ls_status ls_split_append_meeting(ls_split_builder *b, const ls_layer *layer, int n,
                                  const ls_shape *shape, const int *inputs, int count, int *out);

/** Notes variables here from number `from` on, which are like the whole's. */
ls_status ls_split_note_variables(const ls_split_builder *b, size_t from, const int *like);

/** Which part of the whole's variable is variable v of a node here: its slab, and its first
 * element, moved. */
ls_slab *ls_split_slab_of(const ls_split_builder *b, const ls_node *node, int v);
void ls_split_move_slab(const ls_split_builder *b, const ls_node *node, int v, size_t elements);

/** The last node of the pair that node n begins; -1 if it begins none. */
int ls_split_pair_end(const ls_graph *graph, int n);

/** Whether the model has an embedding whose weight only the last layer before the loss shares. */
bool ls_split_find_vocabulary(const ls_graph *graph, ls_split_vocabulary *out);

/** LS_CODE_USAGE if it cannot be split so often. */
ls_status ls_split_check_vocabulary(const ls_graph *graph, int64_t splits, const char *option);

/** Appends the slices of one of its nodes, if it is one. */
bool ls_split_is_vocabulary(const ls_split_builder *b, int n);
ls_status ls_split_append_vocabulary(ls_split_builder *b, int n);

/** Appends the blocks of whole node n, of a sequence here; each adds a bias, variable *bias of the
 * whole, unless that is NULL. */
ls_status ls_split_append_blocks(ls_split_builder *b, int n, int sequence, const int *bias);

/** Puts the blocks of node `of` together, for node n. */
ls_status ls_split_gather_blocks(ls_split_builder *b, int of, int n, int *out);

/** Appends the blocks of a node of one layer, if its inputs are in blocks. */
bool ls_split_goes_in_blocks(const ls_split_builder *b, int n);
ls_status ls_split_append_in_blocks(ls_split_builder *b, int n);

/** What node n has as an input: the node here that has all of whole node `of`. */
static inline ls_status ls_split_take(ls_split_builder *b, int of, int n, int *out)
{
    *out = b->part->local[of];
    return b->in_blocks && b->in_blocks[of] ? ls_split_gather_blocks(b, of, n, out) : LS_OK;
}
