/* SPDX-License-Identifier: MIT */
/* The strategies, one file each; strategies.c lists them. */
#ifndef LS_IMPL_STRATEGIES_H
#define LS_IMPL_STRATEGIES_H

#include "impl/strategy.h"

extern const ls_strategy ls_strategy_single;
extern const ls_strategy ls_strategy_independent;
extern const ls_strategy ls_strategy_towers;
extern const ls_strategy ls_strategy_mirrored;
extern const ls_strategy ls_strategy_model_parallel;
extern const ls_strategy ls_strategy_pipeline;
extern const ls_strategy ls_strategy_hybrid;
extern const ls_strategy ls_strategy_ps;

#endif
