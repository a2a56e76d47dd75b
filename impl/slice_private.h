/* SPDX-License-Identifier: MIT */
/* What the files of the slice share: slice.c and slice_together.c. */
#ifndef LS_IMPL_SLICE_PRIVATE_H
#define LS_IMPL_SLICE_PRIVATE_H

#include "impl/slice.h"

/** A piece goes through its net; a part without a net is a sum of two pieces or sums. */
typedef struct ls_slice_part {
    ls_net *net;
    ls_op_list ops;  /**< the gathering, or the addition of gradients */
    ls_op_list loss; /**< the addition of losses */
} ls_slice_part;

enum { LS_SLICE_LEVELS = LS_REPLICA_LOSSES };

typedef struct ls_slice_level {
    void *gradients; /* real [P] */
    double *loss;    /* [1] */
} ls_slice_level;

typedef struct ls_slice_net_at {
    size_t level;
    int slot;
    bool own; /* its memory is its own */
    ls_net *net;
} ls_slice_net_at;

struct ls_slice {
    ls_slice_options options;
    int64_t pieces;      /* S', or 1 */
    int64_t first, last; /* pieces [first, last) of them are this replica's */
    ls_slice_level levels[LS_SLICE_LEVELS];
    size_t level_count; /* that have buffers */
    size_t own_levels;  /* of those, the last ones that were allocated here */
    ls_slice_net_at *nets;
    size_t net_count;
    ls_slice_part *parts;
    size_t part_count;
    int64_t piece_count; /* parts with nets */
    size_t sums;
    ls_op_list flip;  /* a fault on purpose, or none */
    ls_op_list delay; /* a straggler on purpose, or none */
    ls_act *acts;
    size_t act_count, act_capacity;
    /* together: */
    ls_op_list *met[2]; /* [nodes] forward, backward: what adds the statistics' sums up */
    double *gathered;   /* those of all replicas */
    size_t gathered_bytes;
};

/** lo + the largest power of two below hi - lo. */
int64_t ls_slice_middle(int64_t lo, int64_t hi);

/** Rows of a piece. */
int64_t ls_slice_piece_rows(const ls_slice *slice, int64_t piece);

/** Gradients and loss of a level: taken at the first call, one after the other. */
ls_status ls_slice_need_level(ls_slice *slice, size_t index);

/** The net for pieces of `rows`, at work in a slot, whose gradients go to a level. */
ls_status ls_slice_need_net(ls_slice *slice, size_t index, int64_t rows, int slot, ls_net **out);

/** Appends the part of a piece: its gathering, and its net. */
ls_status ls_slice_build_piece(ls_slice *slice, int64_t piece, size_t index, int slot);

/** Appends the part that adds level `right` to level `left`: gradients and losses. */
ls_status ls_slice_build_sum(ls_slice *slice, size_t left, size_t right);

/** Builds a slice whose pieces go together, the largest of them of `rows`. */
ls_status ls_slice_build_together(ls_slice *slice, int64_t rows);

/** Its acts but for delay and fault. */
ls_status ls_slice_act_together(ls_slice *slice);

/** Lists the acts, when all parts are made. */
ls_status ls_slice_build_acts(ls_slice *slice);

/** Appends an act. */
ls_status ls_slice_act(ls_slice *slice, const ls_act *act);

/** Appends those of a sum of parts, after piece number `piece`. */
ls_status ls_slice_act_sum(ls_slice *slice, const ls_slice_part *sum, int piece);

/** Appends what the net of a piece does with a node. */
ls_status ls_slice_act_node(ls_slice *slice, const ls_act *act, const ls_net *net,
                            ls_net_pass pass);

#endif
