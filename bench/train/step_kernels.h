/* SPDX-License-Identifier: MIT */
/* Which kernel each operation of a step got. */
#ifndef LS_BENCH_TRAIN_STEP_KERNELS_H
#define LS_BENCH_TRAIN_STEP_KERNELS_H

#include "impl/strategy.h"

#include <jansson.h>

/** {operation: kernel, ...}, owned by the caller. */
json_t *ls_step_kernels(const ls_run *run);

#endif
