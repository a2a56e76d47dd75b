/* SPDX-License-Identifier: MIT */
/*
 * Context: a model of sequences whose positions are divided over c places (context parallelism;
 * Jacobs et al., "DeepSpeed Ulysses", arXiv 2309.14509). The T positions are cut into 2c blocks,
 * block b positions floor(b T / 2c) to floor((b + 1) T / 2c) - 1; place j has blocks j and
 * 2c - 1 - j, so that causal attention would be balanced, and all variables. Every layer but
 * attention computes each position alone. For attention, each place needs whole sequences of some
 * heads: place j has heads floor(j H / c) to floor((j + 1) H / c) - 1. So an attention becomes
 *
 *     q, k, v ---- deal ----> collect ---- attention ---- deal ----> collect ---- y
 *     [T_i, 3C]    [T_i, 3C_j]  [T, 3C_j]    [T, C_j]      [T_i, C_j]  [T_i, C]
 *      of place i   to place j      at place j               to place i    at place i
 *
 * A `deal` takes a part of its input, for one place; what it deals to another place is sent there;
 * a `collect` puts the parts of all places together. Both only copy.
 *
 * In memory, a place's sequences lie block by block: the first block of all rows, [B, T_b, ..],
 * then the second. A collected sequence, [B, T, ..], is in order. A single place has the unchanged
 * model.
 */
#pragma once

#include "common/nn/divide/graph_parts.h"

enum { LS_CONTEXT_PLACES = LS_NODE_INPUTS }; /**< most places */

/** The blocks of place j of `places`, of T positions. */
ls_graph_blocks ls_context_blocks(int64_t positions, int j, int places);

/** Positions of place j; a place's heads, of so many. */
int64_t ls_context_positions(int64_t positions, int j, int places);
int64_t ls_context_heads(int64_t heads, int j, int places);

/** LS_CODE_USAGE if the model has a layer that needs other positions and is not an attention, or
 * fewer heads than places, or fewer positions than blocks. */
ls_status ls_context_check(const ls_graph *whole, int64_t places);

/** The graph of all places together, each with separate variables, and each place's part of it
 * (graph_parts.h), with variables in the order of `whole`. `out->whole` is *all, which the caller
 * owns (ls_graph_close), also on failure. */
ls_status ls_context_open(const ls_graph *whole, int places, ls_graph **all, ls_graph_parts *out);
