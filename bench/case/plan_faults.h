/* SPDX-License-Identifier: MIT */
/* Faults on purpose (--inject), checked against the plan that they are for. */
#pragma once

#include "bench/case/case_plan.h"

/** Checks the case's faults, and finds which replicas a straggler delays. The plan's steps, devices
 *  and job are known. LS_CODE_USAGE, saying why and what would work. */
ls_status ls_plan_place_faults(const ls_workplace *place, ls_plan_of_case *plan);
