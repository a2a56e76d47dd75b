/* SPDX-License-Identifier: MIT */
/*
 * Slice: a replica's part of a batch, from gathering it to its gradient.
 *
 * With n replicas and a batch of B samples, the slice of replica d is
 *
 *     fast    samples floor(d B / n) to floor((d+1) B / n) - 1, as one piece, or as m pieces
 *             (micro-batches), which are summed in order
 *     exact   shards floor(d S' / n) to floor((d+1) S' / n) - 1 of S' = min(S, B), where shard s is
 *             samples floor(s B / S') to floor((s+1) B / S') - 1
 *
 * Every piece's loss and gradient is scaled by 1 / B, or, if a replica's gradient is applied alone
 * (asynchronous servers, local SGD), by 1 / samples of its slice. In exact mode each shard is a
 * piece, and shards are reduced in a fixed binary tree: sum(s, s+1) = shard s; sum(lo, hi) =
 * sum(lo, mid) + sum(mid, hi), mid = lo + the largest power of two below hi - lo. A replica
 * computes its *finished subtrees*: the largest subtrees whose shards are all its own.
 */
#pragma once

#include "common/comm/comm.h"
#include "impl/replica/replica.h"

typedef struct ls_slice ls_slice;

typedef struct ls_slice_options {
    ls_replica *replica;
    int64_t batch;       /**< B */
    int number, count;   /**< d and n */
    int pieces;          /**< fast mode: number of micro-batches; 0 means one */
    int64_t divisor;     /**< samples that divide each piece's sums; 0: batch's, or own samples */
    int64_t divided;     /**< where `divisor` is given: the first of its samples in the batch */
    const int *slots;    /**< [chunks] pieces in flight at once, each with memory; 0, NULL: one */
    ls_slice *memory_of; /**< shares its memory, of pieces at least as large; or NULL */
    bool synced;         /**< whole batch's statistics: pieces run node by node, all in memory */
    bool unsummed;       /**< synced: the pieces' gradients are not summed here */
    ls_comm *comm;       /**< synced: of all replicas; NULL if this slice is the whole batch */
} ls_slice_options;

/** What an act does: an injected delay; gathers; runs a pass, or, where sums over places come
 * between its halves (graph_split.h), the first or second; adds two gradients, then their losses;
 * flips a bit (an injected fault). */
typedef enum ls_act_kind {
    LS_ACT_DELAY,
    LS_ACT_FEED,
    LS_ACT_FORWARD,
    LS_ACT_BACKWARD,
    LS_ACT_FORWARD_REST,
    LS_ACT_BACKWARD_REST,
    LS_ACT_AGAIN, /**< a node's repeated forward pass, in halves as others */
    LS_ACT_AGAIN_REST,
    LS_ACT_WEIGHTS, /**< a node's weight pass */
    LS_ACT_SUM,
    LS_ACT_SUM_WEIGHTS, /**< sum of what weight passes make */
    LS_ACT_LOSS,
    LS_ACT_FAULT
} ls_act_kind;

/** An act: one item of a slice's work, in order. */
typedef struct ls_act {
    ls_act_kind kind;
    int piece;                             /**< which it belongs to, or follows */
    int chunk;                             /**< of the replica's part (graph_parts.h) */
    int node;                              /**< of a pass */
    const ls_op_list *lists[LS_NET_LISTS]; /**< the operations, in order; NULL if none */
    ls_op_list own;                        /**< operations that belong to no net */
    ls_range final;                        /**< elements whose gradients are final after it */
} ls_act;

ls_status ls_slice_open(const ls_slice_options *options, ls_slice **out);

/** Traffic of batch statistics in one step, summed over the `count` replicas. */
ls_traffic ls_slice_statistics_formula(const ls_job *job, int64_t batch, int count);

/** Before the replica closes. Takes NULL. */
void ls_slice_close(ls_slice *slice);

/** Enqueues all acts on the replica's queue. */
ls_status ls_slice_enqueue(ls_slice *slice);

/** The slice's acts [*count], in order. Gradients are final after the last act, or, if the slice is
 * one piece, after the backward pass of their node. */
const ls_act *ls_slice_acts(const ls_slice *slice, size_t *count);

/** The net of a piece, of chunk 0; NULL if there is none. */
ls_net *ls_slice_piece_net(const ls_slice *slice, int piece);

/** The net of the chunk that has a node of the replica's graph. */
ls_net *ls_slice_node_net(const ls_slice *slice, int piece, int node);

/** The nets of all chunks of a piece that it has. */
ls_net *const *ls_slice_piece_nets(const ls_slice *slice, int piece);

/** Number of sums of gradients that an exchange has: in fast mode 1 (an empty slice: 0), in exact
 * mode one for each finished subtree, in order. */
size_t ls_slice_sums(const ls_slice *slice, int exchange);

/** The acts [*first, *end) up to an exchange of gradients. */
void ls_slice_exchange_acts(const ls_slice *slice, int exchange, size_t *first, size_t *end);

/** How many exchanges of gradients a slice has: one, or one for each piece. */
int ls_slice_exchanges(const ls_job *job);

/** Exchanges whose sums a slice keeps apart until all are folded: in fast mode they become one. */
int ls_slice_kept(const ls_job *job);

/** Number of pieces of a batch: its shards or, in fast mode, `each` (0 means 1) of `count` slices.
 */
int64_t ls_slice_pieces(const ls_job *job, int64_t batch, int count, int each);

/** Which pieces replica d of n has for an exchange: returns a part's number among n times the
 * exchanges. Shards are dealt to groups first, then to exchanges, then to members, so that a member
 * that adds up has few sums; other pieces to replicas, then to exchanges. */
int ls_slice_number(const ls_job *job, int d, int exchange);

/** Samples of replica d of `count` for an exchange. */
int64_t ls_slice_samples(const ls_job *job, int64_t batch, int d, int count, int exchange);

/** Whether any of `count` replicas has samples for an exchange. A tail batch may be too small for
 * all exchanges. */
bool ls_slice_has_exchange(const ls_job *job, int64_t batch, int count, int exchange);

/** Sum number `index`, real [P], and its part of the loss. Number 0 is the replica's own buffer. */
void *ls_slice_gradients(const ls_slice *slice, size_t index);
double *ls_slice_loss(const ls_slice *slice, size_t index);

/** Pieces [first, last) of the `all` of a batch. */
typedef struct ls_slice_dealt {
    int64_t all, first, last;
} ls_slice_dealt;

/** The pieces of an exchange of a slice with the given options. Reads batch, number, count and
 * pieces. */
ls_slice_dealt ls_slice_deal(const ls_job *job, const ls_slice_options *options, int exchange);

/** Rows of the largest piece of a slice with the given options; 0 if it is empty. Reads batch,
 * number, count and pieces. */
int64_t ls_slice_rows(const ls_job *job, const ls_slice_options *options);

/** Number of sums of slice `number` of `count`, of a batch of this size. */
size_t ls_slice_count_sums(const ls_job *job, int64_t batch, int number, int count);

/** As above, of all exchanges together. */
size_t ls_slice_count_kept(const ls_job *job, int64_t batch, int number, int count);

/**
 * The loss of a step from its partial sums; parts[d][k] is sum k of replica d. In fast mode there
 * is one each, summed in the order of the replicas; in exact mode one for each finished subtree,
 * summed up the tree.
 */
double ls_slice_loss_sum(const ls_job *job, int64_t batch, const double *const *parts, int count);

/**
 * The additions that reduce all replicas' sums to one gradient, the result of the last one. In fast
 * mode ((s0 + s1) + s2) + ...; in exact mode the rest of the tree. The sums of all replicas are
 * numbered in order. Owned by the caller (free).
 */
ls_status ls_slice_tree(const ls_job *job, int64_t batch, int count, ls_addition **out,
                        size_t *out_count);

/** Adds this slice's memory besides the replica's buffers to the formula of its device. */
void ls_slice_memory(const ls_slice *slice, ls_memory_formula *formula);

/** Part d of n: its begin, floor(d * total / n), and its size. */
int64_t ls_slice_begin(int64_t total, int64_t d, int64_t n);
int64_t ls_slice_share(int64_t total, int64_t d, int64_t n);
