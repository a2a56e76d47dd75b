/* SPDX-License-Identifier: MIT */
/*
 * Repeated forward passes (activation recomputation; Chen et al., "Training Deep Nets with
 * Sublinear Memory Cost", arXiv 1604.06174): a *unit* is a range of a graph's nodes whose inner
 * outputs are dropped in the forward pass, and computed again before the unit's backward pass, into
 * a window: memory that units take in turns. What nodes outside of the unit use is kept.
 *
 * In models with blocks (gpt, resnet) each block is a unit; else a layer with variables and what
 * follows. A change of device ends a unit.
 */
#pragma once

#include "common/nn/graph.h"

/** What is dropped: nothing; gelu's and layer norms' outputs; or N: all but every N-th unit's
 * input.
 */
enum { LS_REPEAT_NORMS = -1, LS_REPEAT_NONE, LS_REPEAT_FULL };

/** How a node takes part. */
typedef struct ls_repeat {
    int unit;          /**< number, from 1, of its unit; 0 if it is in none */
    bool again;        /**< its forward pass is repeated: backward reads what it computes */
    bool drops_output; /**< its output is in the window */
    bool drops_kept;   /**< what its layer keeps besides (kept_bytes) is, too */
    int first, last;   /**< the unit's nodes are among [first, last] */
} ls_repeat;

/**
 * Sets *out [nodes], to be freed, for a graph whose node n is on place[n] / across (NULL if all are
 * on one device). NULL if `drops` is LS_REPEAT_NONE. `weights_apart`: what weight passes read is
 * not dropped.
 */
ls_status ls_repeats_open(const ls_graph *graph, const int *place, int across, int drops,
                          bool weights_apart, ls_repeat **out);

/** Sets `first` and `last` of `count` nodes. */
ls_status ls_repeats_bound(ls_repeat *repeats, int count);

/** Number of units; 0 if `repeats` is NULL. */
int ls_repeats_units(const ls_graph *graph, const ls_repeat *repeats);

/** LS_CODE_USAGE if a model on one device has fewer units than N, or nothing that is dropped. */
ls_status ls_repeats_check(const ls_graph *graph, int drops);
