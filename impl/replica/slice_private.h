/* SPDX-License-Identifier: MIT */
/* Shared by the files of slices. */
#pragma once

#include "impl/replica/slice.h"

enum { LS_SLICE_LEVELS = LS_REPLICA_LOSSES };

typedef struct ls_slice_net_at {
    size_t level;
    int chunk, slot;
    size_t loss;
    bool own; /* false if it shares another net's memory */
    ls_net *net;
} ls_slice_net_at;

/* The pieces whose gradients are exchanged together: all of the slice, or some. */
typedef struct ls_slice_exchange {
    int exchange;      /* in the order of the slice's */
    int number;        /* among exchanges with samples on some replica */
    size_t first, end; /* acts */
    size_t sums;       /* that it results in */
    bool by_node;      /* the last piece's gradients are final node by node */
} ls_slice_exchange;

/* An item of an exchange's work: a piece or, behind it, an addition to the sum on a level of the
 * stack of that on the next one. */
typedef struct ls_slice_item {
    bool adds;
    size_t level;       /* of a piece's gradients */
    int64_t of;         /* the piece's number in the batch */
    int piece;          /* in the order of execution */
    size_t slot;        /* of a piece abreast: its memory and loss */
    size_t left, right; /* items: the first piece of either sum */
} ls_slice_item;

/* The order of an exchange's work. */
typedef struct ls_slice_order {
    ls_slice_dealt dealt; /* pieces of the batch */
    ls_slice_item *items; /* [count] pieces without samples are left out */
    size_t count;
    size_t sums;                /* that it leaves; sum k is on level k of the stack */
    size_t begins[LS_SUBTREES]; /* [sums] items: the first piece of each */
} ls_slice_order;

struct ls_slice {
    ls_slice_options options;
    bool chained;                     /* pieces' gradients are added one after the other */
    ls_slice_order order;             /* of the exchange that is built */
    int piece;                        /* the first of its pieces in `work` */
    int building;                     /* number of that exchange among exchanges with samples */
    size_t loss;                      /* the first loss of that exchange */
    bool begun;                       /* an earlier exchange has samples of this slice */
    void *gradients[LS_SLICE_LEVELS]; /* [level_count] real [P] */
    size_t level_count;
    ls_slice_net_at *nets;
    size_t net_count;
    ls_net **work; /* [piece_count, chunks] each piece's nets, in the order of execution */
    int piece_count;
    ls_slice_exchange *exchanges;
    ls_act *acts;
    size_t act_count;
    double *gathered; /* synced: all replicas' sums of statistics */
};

int64_t ls_slice_piece_rows(const ls_slice *slice, int64_t piece);

/** How many samples of the batch, from number *first on, its pieces' sums are the mean of. */
uint64_t ls_slice_divisor(const ls_slice *slice, uint64_t *first);

/** Allocates gradients and loss of a level, unless it has them; levels are allocated in order. */
ls_status ls_slice_need_level(ls_slice *slice, size_t index);

/** Whether all pieces run a node before any runs the next one. */
static inline bool ls_slice_abreast(const ls_slice *slice)
{
    return slice->options.synced || slice->options.replica->windows.gradients;
}

/** Whether a level has one node's gradients at a time: of pieces abreast in fast mode, which are
 * added to level 0 before the next node's. */
static inline bool ls_slice_node_alone(const ls_slice *slice, size_t level)
{
    return level > 0 && slice->options.replica->windows.gradients && slice->chained;
}

/** [variables] where each begins in a level's gradients; NULL means as in the flat buffer. */
const size_t *ls_slice_gradients_at(const ls_slice *slice, size_t level);

/** Whether losses of exchanges are added: in fast mode, where each has one piece. */
static inline bool ls_slice_accumulates(const ls_slice *slice)
{
    return slice->chained && ls_slice_exchanges(slice->options.replica->job) > 1;
}

/** A piece's loss, among those of the exchange that is built. */
static inline size_t ls_slice_loss_at(const ls_slice *slice, const ls_slice_item *item)
{
    return ls_slice_abreast(slice) ? item->slot : item->level;
}

static inline int ls_slice_chunks(const ls_slice *slice)
{
    return ls_graph_part_chunks(slice->options.replica->part);
}

/** Finds or opens a chunk's net for `rows` rows in a slot, with the gradients of level `index`, and
 * that level's loss; of pieces abreast, in a slot of the exchange's, with loss number `slot`;
 * behind the losses of earlier exchanges. */
ls_status ls_slice_need_net(ls_slice *slice, size_t index, int64_t rows, int chunk, int slot,
                            ls_net **out);

/** The first of a chunk's slots that the exchange which is built has. Where pieces are abreast, a
 * pipeline's micro-batches are exchanges, several of them in flight. */
int ls_slice_first_slot(const ls_slice *slice, int chunk);

/** Lists the work of the exchange that is built: which pieces, added in which order. */
ls_status ls_slice_list(ls_slice *slice);

/** Appends an act without operations, to be filled in. *out is valid until the next one. */
ls_status ls_slice_append_act(ls_slice *slice, ls_act_kind kind, int piece, int node, ls_act **out);

/** Appends an act of one operation, which it owns; `made` is the status of its constructor. */
ls_status ls_slice_act_op(ls_slice *slice, ls_act_kind kind, int chunk, ls_status made, ls_op *op);

/** Appends a pass of one node by net work[piece]. */
ls_status ls_slice_act_node(ls_slice *slice, ls_act_kind kind, int piece, int node,
                            ls_net_pass pass);

/** Appends the addition of the next level's gradients to a level's, in a range that windows may not
 * cut, as an act of this kind and chunk; of one loss to another; or of all gradients and the
 * losses. */
ls_status ls_slice_add(ls_slice *slice, ls_act_kind kind, size_t level, ls_range range, int chunk);
ls_status ls_slice_add_loss(ls_slice *slice, size_t into, size_t from);
ls_status ls_slice_add_level(ls_slice *slice, size_t level);

/** Opens the memory of an exchange's pieces that are abreast; the slice's largest piece has `rows`
 * rows. */
ls_status ls_slice_open_abreast(ls_slice *slice, int64_t rows);

/** Opens memory for sums of statistics; appends their reduction between the halves of a node's
 * pass. */
ls_status ls_slice_open_statistics(ls_slice *slice);
ls_status ls_slice_meet(ls_slice *slice, int node, ls_act_kind pass);
