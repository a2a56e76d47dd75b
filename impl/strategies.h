/* SPDX-License-Identifier: MIT */
/* The strategies, one file each. */
#pragma once

#include "impl/strategy.h"

/** All of them, in the order of lists: ls_strategy_NAME is in strategies/NAME.c. */
#define LS_STRATEGIES(X)                                                                           \
    X(single)                                                                                      \
    X(independent)                                                                                 \
    X(towers)                                                                                      \
    X(mirrored)                                                                                    \
    X(zero)                                                                                        \
    X(local_sgd)                                                                                   \
    X(gossip)                                                                                      \
    X(model_parallel)                                                                              \
    X(pipeline)                                                                                    \
    X(tensor_parallel)                                                                             \
    X(context_parallel)                                                                            \
    X(hybrid)                                                                                      \
    X(ps)

#define LS_DECLARE(name) extern const ls_strategy ls_strategy_##name;
LS_STRATEGIES(LS_DECLARE)

#define OPTION(name, ...) extern const ls_declared_option ls_option_##name;
#include "impl/strategies/options.def"

/** Number of a value of ls_option_accumulation_exchange. */
enum { LS_EXCHANGE_AUTO, LS_EXCHANGE_LAST, LS_EXCHANGE_EACH };

/** The reduction order ((p0 + p1) + p2) + ..., for ls_strategy_witness.sum
 * (verbs/group_sum.c). */
ls_status ls_sum_in_order(const ls_job *job, const bool *has, int count, ls_sum_order *out);

/** Every replica's passes and update by its own gradient, if it has samples (independent.c). */
void ls_train_alone(ls_step *step);

/** Passes of a divided replica, piece by piece: forward over all nodes, and back
 * (model_parallel.c). */
void ls_pass_nodes(ls_step *step, int replica);

/** The step of `ps` if servers serve requests as they arrive (ps_arrival.c). */
void ls_ps_arrival_build(ls_step *step);
