/* SPDX-License-Identifier: MIT */
/* Which cases an option concerns: what the option table points to. */
#ifndef LS_BENCH_OPTION_APPLIES_H
#define LS_BENCH_OPTION_APPLIES_H

#include "bench/option_table.h"

/** Whether the case is reduced exactly, so has micro-shards. */
bool ls_applies_exact(const ls_case *one);
bool ls_applies_augment(const ls_case *one);
bool ls_applies_convolution(const ls_case *one);
bool ls_applies_sync_bn(const ls_case *one);
bool ls_applies_local_sgd(const ls_case *one);
bool ls_applies_mirrored(const ls_case *one);
bool ls_applies_buckets(const ls_case *one); /**< exact mode reduces everything at once */
bool ls_applies_towers(const ls_case *one);
bool ls_applies_hybrid(const ls_case *one);
/** Replicas of a model that is `divided` over the devices: D of hybrid, else 1; 0: it is not. */
int ls_case_split_replicas(const ls_case *one, bool divided);
bool ls_applies_variable_device(const ls_case *one);
bool ls_applies_model_parallel(const ls_case *one);
bool ls_applies_pipeline(const ls_case *one);
bool ls_applies_link(const ls_case *one); /**< there is, or could be, more than one device */
bool ls_applies_timeout(const ls_case *one);

#endif
