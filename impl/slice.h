/* SPDX-License-Identifier: MIT */
/*
 * Slice: a replica's part of a batch, from gathering it to its gradient.
 *
 * Of n replicas, number d takes, of a batch of B samples,
 *
 *     fast    samples floor(d B / n) to floor((d+1) B / n) - 1, in one piece, or in m pieces
 *             (micro-batches), which are added in order
 *     exact   shards floor(d S' / n) to floor((d+1) S' / n) - 1 of S' = min(S, B), where shard s is
 *             samples floor(s B / S') to floor((s+1) B / S') - 1
 *
 * Every piece's loss and gradient is scaled by 1 / B; where a replica's gradient is applied alone
 * (asynchronous servers, local SGD), by 1 / samples of its slice. In exact mode each shard goes
 * forward and backward alone, and shards are added over a fixed binary tree: sum(s, s+1) = shard s;
 * sum(lo, hi) = sum(lo, mid) + sum(mid, hi), mid = lo + the largest power of two below hi - lo. A
 * replica computes its *finished subtrees*: each node of the tree whose shards are all its own,
 * while its parent's are not.
 */
#pragma once

#include "common/comm/comm.h"
#include "impl/replica.h"

typedef struct ls_slice ls_slice;

typedef struct ls_slice_options {
    ls_replica *replica;
    int64_t batch;       /**< B of the steps it is for */
    int number, count;   /**< d and n */
    int pieces;          /**< fast mode: micro-batches that it is cut into; 0: one */
    int slots;           /**< pieces at work at once, each with memory of its own; 0: one */
    ls_slice *memory_of; /**< NULL, or a slice of pieces at least as large, whose memory it
                              shares */
    bool synced;   /**< batch statistics of the whole batch: all pieces go through a node before
                        any goes on, each with memory and gradients of its own, and sums over
                        samples are added up in the order of gradients */
    bool apart;    /**< synced: the pieces' gradients are not added up here */
    ls_comm *comm; /**< synced: of all replicas; NULL: this slice is the whole batch */
} ls_slice_options;

/** What an act does: delays (a straggler on purpose), gathers, passes; adds two gradients, and then
 * their losses; flips a bit (a fault on purpose). */
typedef enum ls_act_kind {
    LS_ACT_DELAY,
    LS_ACT_FEED,
    LS_ACT_FORWARD,
    LS_ACT_BACKWARD,
    LS_ACT_SUM,
    LS_ACT_LOSS,
    LS_ACT_FAULT
} ls_act_kind;

/** An act: one of the things that a slice does, in order. */
typedef struct ls_act {
    ls_act_kind kind;
    int piece;                             /**< that it belongs to, or follows */
    int node;                              /**< that a pass is at */
    const ls_op_list *lists[LS_NET_LISTS]; /**< the operations, in order; NULL: none */
    ls_op_list own;                        /**< those of the operations that belong to no net */
    ls_range final;                        /**< elements whose gradients it makes final */
} ls_act;

ls_status ls_slice_open(const ls_slice_options *options, ls_slice **out);

/** Traffic of batch statistics in one step, summed over the `count` replicas. */
ls_traffic ls_slice_statistics_formula(const ls_job *job, int64_t batch, int count);

/** Before the replica closes. Takes NULL. */
void ls_slice_close(ls_slice *slice);

/** Enqueues all acts on the replica's queue. */
ls_status ls_slice_enqueue(ls_slice *slice);

/** The slice's acts, in order: *count. Gradients are final after the last act; where the slice is
 * one piece, after each node. */
const ls_act *ls_slice_acts(const ls_slice *slice, size_t *count);

/** The net of a piece; NULL: there is none. That of the first is for evaluation, too: of the first
 * replica it has as many rows as that of `single`'s slice in exact mode, so outputs have the same
 * bits. */
ls_net *ls_slice_piece_net(const ls_slice *slice, int piece);

/** How many sums of gradients it leaves: in fast mode 1 (an empty slice: 0), in exact mode one for
 * each finished subtree, in order. */
size_t ls_slice_sums(const ls_slice *slice);

/** Sum number `index`, real [P], and its part of the loss. Number 0 is the replica's own buffer. */
void *ls_slice_gradients(const ls_slice *slice, size_t index);
double *ls_slice_loss(const ls_slice *slice, size_t index);

/** Rows of the largest piece of a slice with these options (of which batch, number, count and
 * pieces are read); 0: it is empty. */
int64_t ls_slice_rows(const ls_job *job, const ls_slice_options *options);

/** How many sums slice `number` of `count` has, of a batch of this size. */
size_t ls_slice_count_sums(const ls_job *job, int64_t batch, int number, int count);

/**
 * The loss of a step from its parts; parts[d][k] is part k of replica d. In fast mode there is one
 * part each, added in the order of the replicas; in exact mode those of the finished subtrees, up
 * the tree.
 */
double ls_slice_loss_sum(const ls_job *job, int64_t batch, const double *const *parts, int count);

/** sums[left] = sums[left] + sums[right], with the sums of all replicas numbered in order. */
typedef struct ls_tree_sum {
    size_t left, right;
} ls_tree_sum;

/**
 * The additions that make one gradient of all replicas' sums, in order; the last one leaves it. In
 * fast mode ((s0 + s1) + s2) + ...; in exact mode the rest of the tree. Owned by the caller (free).
 */
ls_status ls_slice_tree(const ls_job *job, int64_t batch, int count, ls_tree_sum **out,
                        size_t *out_count);

/** Adds to the formula of the replica's device what this slice holds besides the replica's buffers,
 * as which sums of gradients are taken. */
void ls_slice_memory(const ls_slice *slice, ls_memory_formula *formula);

/** Part d of n: where it begins, floor(d * total / n), and how much it has. */
int64_t ls_slice_begin(int64_t total, int64_t d, int64_t n);
int64_t ls_slice_share(int64_t total, int64_t d, int64_t n);
