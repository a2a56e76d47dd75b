/* SPDX-License-Identifier: MIT */
/*
 * model-parallel: one model divided over the devices by layer or branch. Nothing is replicated:
 * each device holds the variables of its own nodes, and activations and their gradients cross
 * borders.
 *
 *     gather, forward and backward node by node, each on its device (divided_step.c);
 *     every device updates what it owns
 *
 * Order of summation: that of `single`, in fast mode as in exact mode.
 */
#include "impl/divided.h"
#include "impl/strategies.h"

/* It runs anywhere; how the model is cut is looked at with that (places.h). */
static ls_status check(const ls_outline *outline)
{
    (void)outline;
    return LS_OK;
}

static ls_status open_run(const ls_strategy *strategy, const ls_job *job, ls_run **out)
{
    return ls_divided_start(strategy, job, false, out);
}

const ls_strategy ls_strategy_model_parallel = {
    .name = "model-parallel",
    .help = "one model divided over the devices by layer or branch",
    .equivalent = true,
    .divided = true,
    .check = check,
    .open = open_run,
    .load = ls_divided_load,
    .step = ls_replicated_step,
    .sync = ls_divided_sync,
    .mark = ls_replicated_mark,
    .records = ls_replicated_records,
    .gather = ls_divided_gather,
    .evaluate = ls_divided_evaluate,
    .describe = ls_replicated_describe,
    .profile = ls_replicated_profile,
    .times = ls_replicated_times,
    .each_op = ls_replicated_each,
    .memory = ls_divided_memory,
    .traffic = ls_divided_traffic,
    .sum = ls_sum_in_order,
    .close = ls_divided_close,
};
