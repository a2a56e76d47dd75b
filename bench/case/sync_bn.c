/* SPDX-License-Identifier: MIT */
/* Batch statistics of a case; see case_plan.h. */
#include "bench/case/case_plan.h"

static bool has_statistics(const ls_model *model)
{
    const ls_variables *variables = &model->graph->variables;
    for (size_t i = 0; i < variables->count; i++)
        if (variables->items[i].keep != 0)
            return true;
    return false;
}

/* Refuses statistics of the whole batch if its parts cannot sum them. */
static ls_status check_meeting(const ls_job *job, const ls_strategy *strategy, bool parts,
                               int64_t devices)
{
    const char *name = strategy->name;
    if (job->accumulation.pieces > 1)
        return ls_fail(LS_CODE_USAGE, "option", "--sync-bn",
                       "--gradient-accumulation-steps computes pieces of a batch one after the "
                       "other, so no piece has the statistics of the whole batch; use "
                       "--gradient-accumulation-steps 1 or --sync-bn no");
    if (!ls_strategy_replicates(strategy) && job->division.microbatches > 1)
        return ls_fail(
            LS_CODE_USAGE, "option", "--sync-bn",
            "--strategy %s divides the batch into micro-batches, none of which has the statistics "
            "of the whole batch; use --pipeline-microbatches 1 or --sync-bn no",
            name);
    if (!ls_strategy_syncs(strategy, &job->options) && parts)
        return ls_fail(LS_CODE_USAGE, "option", "--sync-bn",
                       "--strategy %s cannot sum the replicas' batch statistics within a step; use "
                       "--sync-bn no, or --strategy single, towers or mirrored",
                       name);
    if (job->division.backward_held && parts)
        return ls_fail(
            LS_CODE_USAGE, "option", "--sync-bn",
            "cannot be used with --colocate-gradients no, since batch statistics are summed on the "
            "devices that compute the gradients; use --colocate-gradients yes");
    if (!job->kernels.capture && devices > 1)
        return ls_fail(LS_CODE_USAGE, "option", "--sync-bn",
                       "replicas exchange statistics within a step, which does not work with "
                       "--capture no; use --capture yes or --sync-bn no");
    return LS_OK;
}

ls_status ls_sync_bn_check(const ls_job *job, const ls_strategy *strategy, const ls_model *model,
                           int64_t replicas, int64_t devices)
{
    const bool exact = job->exact.on, pieces = ls_job_pieces(job) > 1;
    if (!has_statistics(model))
        return LS_OK;
    if (job->exchange.sync_statistics)
        return check_meeting(job, strategy, exact || replicas > 1 || pieces, devices);
    if (!exact)
        return LS_OK;
    return ls_fail(
        LS_CODE_USAGE, "option", "--reduce exact",
        "the model %s has batch normalisation, but --reduce exact computes the batch in parts, "
        "each "
        "with separate statistics; use --sync-bn yes (statistics of the whole batch) or --reduce "
        "fast",
        model->name);
}

ls_status ls_sync_bn_check_devices(const ls_plan_of_case *plan)
{
    if (has_statistics(plan->model) && plan->job.exchange.sync_statistics &&
        plan->all_devices > 1 && plan->devices[0].kind == LS_DEVICE_GPU)
        return ls_fail(LS_CODE_USAGE, "option", "--sync-bn",
                       "this version sums batch statistics on CPU devices only; use --sync-bn no, "
                       "or CPU devices");
    return LS_OK;
}

bool ls_sync_bn_is_own(const ls_plan_of_case *plan)
{
    return has_statistics(plan->model) && !plan->job.exchange.sync_statistics &&
           ls_job_parts(&plan->job) > 1;
}
