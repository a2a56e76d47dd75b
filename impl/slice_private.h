/* SPDX-License-Identifier: MIT */
/* What the files of the slice share: slice.c and slice_synced.c. */
#pragma once

#include "impl/slice.h"

enum { LS_SLICE_LEVELS = LS_REPLICA_LOSSES };

typedef struct ls_slice_level {
    void *gradients; /* real [P] */
    double *loss;    /* [1] */
} ls_slice_level;

typedef struct ls_slice_net_at {
    size_t level;
    int slot;
    bool own; /* it does not share memory */
    ls_net *net;
} ls_slice_net_at;

struct ls_slice {
    ls_slice_options options;
    int64_t pieces;      /* of the whole batch: S', or n x m */
    int64_t first, last; /* pieces [first, last) of them are this replica's */
    ls_slice_level levels[LS_SLICE_LEVELS];
    size_t level_count; /* levels that have buffers */
    ls_slice_net_at *nets;
    size_t net_count;
    ls_net **work; /* [piece_count] the pieces' nets, in the order of work */
    int piece_count;
    size_t sums;
    ls_act *acts;
    size_t act_count;
    double *gathered; /* synced: sums of statistics of all replicas */
};

/** lo + the largest power of two below hi - lo. */
int64_t ls_slice_middle(int64_t lo, int64_t hi);

/** Rows of a piece. */
int64_t ls_slice_piece_rows(const ls_slice *slice, int64_t piece);

/** Allocates gradients and loss of a level, where it has none; levels are asked for in order. */
ls_status ls_slice_need_level(ls_slice *slice, size_t index);

/** Finds or opens the net for pieces of `rows` in a slot, whose gradients go to a level. */
ls_status ls_slice_need_net(ls_slice *slice, size_t index, int64_t rows, int slot, ls_net **out);

/** Appends an act, whose operations the caller fills in. *out is valid until the next one. */
ls_status ls_slice_act(ls_slice *slice, ls_act_kind kind, int piece, int node, ls_act **out);

/** Appends a pass of one node, by the net work[piece]. */
ls_status ls_slice_act_node(ls_slice *slice, ls_act_kind kind, int piece, int node,
                            ls_net_pass pass);

/** Appends the gathering of the next piece into a net whose gradients go to level `index`. */
ls_status ls_slice_feed(ls_slice *slice, int64_t piece, size_t index, int slot);

/** Appends into = into + from, of two levels' gradients and losses. */
ls_status ls_slice_build_sum(ls_slice *slice, size_t into, size_t from);

/** Builds a `synced` slice, whose largest piece has `rows`. */
ls_status ls_slice_build_synced(ls_slice *slice, int64_t rows);
