/* SPDX-License-Identifier: MIT */
/* Batch statistics of a case; see sync_bn.h. */
#include "bench/sync_bn.h"

static bool has_statistics(const ls_plan_of_case *plan)
{
    const ls_variables *variables = &plan->model->graph->variables;
    for (size_t i = 0; i < variables->count; i++)
        if (variables->items[i].keep != 0)
            return true;
    return false;
}

/* Statistics of the whole batch where it goes in parts, one way or another. */
static ls_status check_meeting(const ls_plan_of_case *plan, bool parts)
{
    const ls_job *job = &plan->job;
    const char *name = plan->strategy->name;
    if (plan->strategy->staged && plan->config->microbatches > 1)
        return ls_fail(LS_CODE_USAGE, "option", "--sync-bn",
                       "%s goes through the batch in micro-batches, of which none has all "
                       "statistics; --pipeline-microbatches 1 works, and --sync-bn no",
                       name);
    if (!plan->strategy->meets && parts)
        return ls_fail(LS_CODE_USAGE, "option", "--sync-bn",
                       "%s has no way to add statistics up in a step; single, towers, mirrored "
                       "work",
                       name);
    if (plan->strategy->holds_variables && job->towers_apart && parts)
        return ls_fail(LS_CODE_USAGE, "option", "--sync-bn",
                       "statistics are added up where gradients are computed; "
                       "--colocate-gradients yes works");
    if (!job->capture && plan->all_devices > 1)
        return ls_fail(LS_CODE_USAGE, "option", "--sync-bn",
                       "replicas that wait for each other within a step take it as a program; "
                       "--capture yes works");
    if (plan->devices[0].kind == LS_DEVICE_GPU && plan->all_devices > 1)
        return ls_fail(LS_CODE_USAGE, "option", "--sync-bn",
                       "this version adds statistics up on CPU devices alone; --sync-bn no works");
    return LS_OK;
}

ls_status ls_sync_bn_check(const ls_plan_of_case *plan)
{
    const ls_job *job = &plan->job;
    const int parts = ls_job_parts(job);
    if (!has_statistics(plan))
        return LS_OK;
    if (job->sync_statistics)
        return check_meeting(plan, job->exact || parts > 1);
    if (!job->exact)
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "option", "--reduce exact",
                   "%s normalises by statistics of the batch, and each shard would have its own; "
                   "--sync-bn works, and --reduce fast",
                   plan->model->name);
}

bool ls_sync_bn_is_own(const ls_plan_of_case *plan)
{
    return has_statistics(plan) && !plan->job.sync_statistics && ls_job_parts(&plan->job) > 1;
}
