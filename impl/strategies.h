/* SPDX-License-Identifier: MIT */
/* The strategies, one file each; strategies.c lists them. */
#ifndef LS_IMPL_STRATEGIES_H
#define LS_IMPL_STRATEGIES_H

#include "impl/strategy.h"

extern const ls_strategy ls_strategy_single;
extern const ls_strategy ls_strategy_independent;
extern const ls_strategy ls_strategy_towers;
extern const ls_strategy ls_strategy_mirrored;
extern const ls_strategy ls_strategy_local_sgd;
extern const ls_strategy ls_strategy_model_parallel;
extern const ls_strategy ls_strategy_pipeline;
extern const ls_strategy ls_strategy_hybrid;
extern const ls_strategy ls_strategy_ps;

/** What `ps` says where servers do not wait for all workers: ps_async.c, ps_backup.c. */
void ls_ps_async_build(ls_step *step);
void ls_ps_backup_build(ls_step *step);

#endif
