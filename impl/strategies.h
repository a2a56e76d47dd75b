/* SPDX-License-Identifier: MIT */
/* The strategies, one file each; strategies.c lists them. */
#pragma once

#include "impl/strategy.h"

extern const ls_strategy ls_strategy_single;
extern const ls_strategy ls_strategy_independent;
extern const ls_strategy ls_strategy_towers;
extern const ls_strategy ls_strategy_mirrored;
extern const ls_strategy ls_strategy_zero;
extern const ls_strategy ls_strategy_local_sgd;
extern const ls_strategy ls_strategy_gossip;
extern const ls_strategy ls_strategy_model_parallel;
extern const ls_strategy ls_strategy_pipeline;
extern const ls_strategy ls_strategy_tensor_parallel;
extern const ls_strategy ls_strategy_context_parallel;
extern const ls_strategy ls_strategy_hybrid;
extern const ls_strategy ls_strategy_ps;

/** Options that several strategies share. */
extern const ls_declared_option ls_option_variable_device;      /* strategies.c */
extern const ls_declared_option ls_option_model_parallel_place; /* model_parallel.c */
/** Number of a value of ls_option_accumulation_exchange. */
enum { LS_EXCHANGE_AUTO, LS_EXCHANGE_LAST, LS_EXCHANGE_EACH };
extern const ls_declared_option ls_option_accumulation_exchange; /* strategies.c */
extern const ls_declared_option ls_option_gradient_wire;         /* as above */
extern const ls_declared_option ls_option_zero_accumulation;     /* zero.c */
extern const ls_declared_option ls_option_pipeline_microbatches; /* pipeline.c */
extern const ls_declared_option ls_option_zero_stage;            /* zero.c */
extern const ls_declared_option ls_option_zero_reshard;          /* zero.c */
extern const ls_declared_option ls_option_zero_windows;          /* zero.c */
extern const ls_declared_option ls_option_hybrid_replicas;       /* hybrid.c */

extern const ls_declared_option ls_option_tensor_parallel_sequence; /* tensor_parallel.c */

/** The reduction order ((p0 + p1) + p2) + ..., for ls_strategy_witness.sum (strategies.c). */
ls_status ls_sum_in_order(const ls_job *job, const bool *has, int count, ls_sum_order *out);

/** The `check` of `zero` between divided replicas, whose pieces must all pass a node before any
 * passes the next one in stages 2 and 3 (zero.c). */
ls_status ls_zero_check_between(const ls_outline *outline);

/** The passes of all replicas of split layers, node by node, where few layers are whole at once
 * (windows.h): all-gathers before a node's pass, reduce-scatters behind it (tensor_parallel.c). */
void ls_split_passes_by_node(ls_step *step);
