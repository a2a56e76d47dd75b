/* SPDX-License-Identifier: MIT */
/* Batch statistics: over which samples a case's batch normalisation takes them. */
#pragma once

#include "bench/case/case_plan.h"

/** LS_CODE_USAGE where the job's mode needs statistics of the whole batch, and its strategy with so
 * many replicas and devices (of all ranks) cannot have them. */
ls_status ls_sync_bn_check(const ls_job *job, const ls_strategy *strategy, const ls_model *model,
                           int64_t replicas, int64_t devices);

/** Likewise, where the devices are of kinds that cannot. */
ls_status ls_sync_bn_check_devices(const ls_plan_of_case *plan);

/** Whether parts of the batch have statistics of their own. Such a case does not compute what
 * `single` does, so the oracle is its only judge. */
bool ls_sync_bn_is_own(const ls_plan_of_case *plan);
