/* SPDX-License-Identifier: MIT */
/* Facts of a resolved case; see case_plan.h. */
#include "bench/case/case_plan.h"

#include "bench/case/case_facts.h"
#include "impl/strategies.h"

bool ls_plan_has_variable_device(const ls_plan_of_case *plan)
{
    return ls_case_has(plan->config, &ls_option_variable_device);
}

bool ls_plan_mixes_kinds(const ls_plan_of_case *plan)
{
    return ls_plan_has_variable_device(plan) && plan->variable_device.kind != plan->devices->kind;
}

bool ls_plan_can_hang(const ls_plan_of_case *plan)
{
    bool cpus = plan->variable_device.kind == LS_DEVICE_CPU || !ls_plan_has_variable_device(plan);
    for (size_t i = 0; i < plan->device_count; i++)
        cpus &= plan->devices[i].kind == LS_DEVICE_CPU;
    return cpus && plan->all_devices > 1 && !plan->job.comm;
}
