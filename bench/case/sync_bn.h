/* SPDX-License-Identifier: MIT */
/* Batch statistics: of which samples a case's batch normalisation takes them, and what follows. */
#pragma once

#include "bench/case/case_plan.h"

/** LS_CODE_USAGE where the job's mode needs statistics of the whole batch and its strategy, of so
 *  many replicas and devices over all ranks, has others. */
ls_status ls_sync_bn_check(const ls_job *job, const ls_strategy *strategy, const ls_model *model,
                           int64_t replicas, int64_t devices);

/** The same of where the devices are. */
ls_status ls_sync_bn_check_devices(const ls_plan_of_case *plan);

/** Whether parts of the batch have statistics of their own: then no such case computes what
 *  `single` does, and its oracle alone judges. */
bool ls_sync_bn_is_own(const ls_plan_of_case *plan);
