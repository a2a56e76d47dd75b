/* SPDX-License-Identifier: MIT */
/*
 * All-reduces, expanded into what each rank sends and receives, once for each algorithm, size and
 * number of ranks. A rank's moves are one after the other; a move ends when what it sends has been
 * taken and what it receives has come and been added.
 *     messages  the exchanges that the algorithm's own `build` makes
 *     flows     of `ring`: one move for a rank, with the sum of its bytes, and a latency for each
 * of its messages. With equal links and ranks that begin together, that takes as long as the
 * messages, 2 (n - 1) (latency + 4 P / (n bandwidth)). Other algorithms play their messages, since
 * they have few
 *     formula   one time for all ranks, which begin together: what the all-reduce takes by itself,
 *               on ports that only its own messages share (unroll.h); for `library` NCCL's
 *               estimate (nccl_model.h)
 */
#pragma once

#include "bench/play/play_graph.h"
#include "bench/predict/virtual.h"

typedef enum ls_expansion { LS_EXPAND_FLOWS, LS_EXPAND_MESSAGES, LS_EXPAND_FORMULA } ls_expansion;

extern const char *const ls_expansion_words[]; /**< in this order, NULL-terminated */

/** What a rank sends and receives at once; elements of 4 bytes. */
typedef struct ls_move {
    int to, from;                      /**< ranks; -1 if none */
    bool bytes;                        /**< counts are bytes, not float32 numbers */
    size_t sent, received, added;      /**< elements */
    double summed;                     /**< elements that it adds by itself, before */
    uint32_t sent_rounds, came_rounds; /**< messages that make up each of both */
} ls_move;

static inline ls_move ls_move_of(const ls_exchange *x)
{
    return (ls_move){.to = x->to,
                     .from = x->from,
                     .bytes = x->bytes,
                     .sent = x->send_count,
                     .received = x->receive_count,
                     .added = x->add ? x->receive_count : 0,
                     .sent_rounds = x->to >= 0,
                     .came_rounds = x->from >= 0};
}

/** What all-reduces take and exchange that are alike. */
typedef struct ls_expanded {
    const ls_allreduce *algorithm; /**< NULL means NCCL's, whose moves nobody knows */
    ls_virtual_comm what;          /**< one of them */
    size_t *first;                 /**< [size + 1] where a rank's moves begin */
    ls_move *moves;
    ls_play_graph alone; /**< by formula: the all-reduce by itself, sealed */
    ls_traffic sent;     /**< in it */
    double ns;           /**< that it takes */
} ls_expanded;

typedef struct ls_expansions {
    ls_expansion level;
    int devices_per_host; /**< by which hosts must be alike; 0 if unimportant */
    ls_expanded **items;  /**< [count] */
    size_t count;
} ls_expansions;

/** The number of the expansion of an all-reduce of `algorithm` that an operation stands for. */
ls_status ls_expand(ls_expansions *list, const ls_allreduce *algorithm, const ls_virtual_comm *what,
                    size_t *number);

void ls_expansions_close(ls_expansions *list);
