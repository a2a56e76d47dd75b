/* SPDX-License-Identifier: MIT */
/*
 * Split layers: a graph in which pairs of dense layers, and what has the vocabulary, are computed
 * in Z slices (tensor parallelism: Shoeybi et al., "Megatron-LM", arXiv 1909.08053). From a pair,
 * and from what is between its layers (ReLU, GELU, attention), slice s has the first layer's
 * outputs floor(s O / Z) to floor((s + 1) O / Z) - 1, for attention the outputs of whole heads, and
 * the second layer's inputs from them. The second layer's output is a sum over the slices, then its
 * bias is added, once:
 *
 *     x ---- fork ---- [dense, ReLU, dense without bias] of each slice ---- join ---- y
 *
 * A `join` sums outputs, and gives its gradient to each slice; a `fork` gives its input to each
 * slice, and sums gradients. Both sum up exact mode's tree, whose leaves are the slices, so it does
 * not matter which place has which; a place has `parts` of a sum, and others have the rest. Other
 * nodes are as in the whole.
 *
 * If an embedding shares its weight with the last dense layer, before the loss, slice s has rows
 * floor(s V / Z) to floor((s + 1) V / Z) - 1: it gives their tokens' vectors, and -0.0 for other
 * tokens, to a join; and it has their logits, after a fork. The loss (layer_split_loss.c) needs
 * three numbers of each slice and position, not the logits.
 *
 * With `sequence` (Korthikanti et al., arXiv 2205.05198) what lies between pairs is computed in Z
 * blocks of positions, floor(s T / Z) to floor((s + 1) T / Z) - 1, which share norms' variables and
 * biases: a join's sum goes to `block` nodes, and a `gather` before each fork puts blocks together
 * (layer_sequence.c). A place needs its block of a join's sum alone, so a reduce-scatter and, at
 * the gather, an all-gather take the place of the all-reduce; backward is the mirror image.
 */
#pragma once

#include "common/nn/divide/graph_parts.h"

enum { LS_SPLITS = LS_NODE_INPUTS }; /**< most slices */

/** LS_CODE_USAGE if the graph has no pair of layers, or one, or the vocabulary, cannot be split so
 * often. `option` is
 * whose number it is, `--devices`. */
ls_status ls_graph_split_check(const ls_graph *whole, int64_t splits, const char *option);

/** As above, for ls_graph_split with `sequence`: every layer between the embedding and the loss is
 * in blocks of positions, or in a pair. */
ls_status ls_graph_split_check_sequence(const ls_graph *whole, int64_t splits);

/** The graph with its pairs split; a copy of it if `splits` is 1. `order`, `sequence`: as in
 * ls_graph_slices. Close it (ls_graph_part_close) also on failure. */
ls_status ls_graph_split(const ls_graph *whole, int splits, bool sequence,
                         const ls_allreduce *order, ls_graph_part *out);

/** What each of `places` has of a split graph whose whole has node n on place[n]: as if it were not
 * split (graph_parts.h). Borrows `split`. Close it also on failure. */
ls_status ls_graph_split_cut(const ls_graph_part *split, const int *place, int places,
                             ls_graph_parts *out);

/** Gives all nodes of a pair, and the nodes between them, the stage of the first one; and the layer
 * before the loss the loss's stage, if slices have logits. */
void ls_graph_split_stages(const ls_graph *whole, int *stage);

/** What each place has of a split graph, whose whole has node n in stage[n] of `stages` (NULL if
 * there is one). `across` consecutive places have a stage: each has the nodes of its slices, and
 * all nodes that have no slice. Borrows `split`. Close it also on failure. */
ls_status ls_graph_split_places(const ls_graph_part *split, const int *stage, int stages,
                                int across, ls_graph_parts *out);
